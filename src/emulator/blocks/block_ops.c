/*
 * The operations of running CUDA threads (symm_emulated_ops): barriers and warp exchanges, at which
 * they wait for each other, and address translation.
 */
#include "block.h"

#include <stdio.h>
#include <string.h>
#include "emulator/memory/address.h"
#include "emulator/memory/range.h"
#include "emulator/state/clock.h"
#include "emulator/state/devices.h"
#include "emulator/state/machine.h"
#include "emulator/state/sanitizer.h"

#define WARP 32u
#define EXCHANGE_NBYTES 16u

/* ---- Waiting for other threads of the block ---- */

EMU_UNCHECKED static void make_ready(struct block *b, struct cuda_thread *t)
{
    b->next[b->nnext++] = t->index;
}

EMU_UNCHECKED static void suspend(struct block *b, struct cuda_thread *t)
{
    EMU_RELEASE(&b->sync_end); /* the block may be abandoned here */
    emu__fiber_suspend(&t->carrier->fiber);
}

/* Opens the barrier: all threads that have not ended are at it. */
EMU_UNCHECKED static void open_barrier(struct block *b)
{
    b->result[b->round & 1] = b->any;
    b->any = 0;
    b->round++;
    for (unsigned i = 0; i < b->nwaiting; i++)
        b->next[b->nnext++] = b->waiting[i];
    b->nwaiting = 0;
    b->progress = true;
    if (b->weak)
        emu__weak_block_met(b);
}

EMU_UNCHECKED static int op_sync_threads(int value)
{
    struct block *b = emu__this_block;
    struct cuda_thread *t = b->running;
    if (b->weak)
        emu__weak_pause(b);
    unsigned round = b->round;
    b->any |= value != 0;
    b->progress = true;
    EMU_RELEASE(&b->sync_round[round & 1]);
    if (b->nwaiting + 1 + b->ended == b->nthreads) {
        open_barrier(b);
    } else {
        b->waiting[b->nwaiting++] = t->index;
        suspend(b, t);
    }
    EMU_ACQUIRE(&b->sync_round[round & 1]);
    int result = b->result[round & 1];
    if (b->weak)
        emu__weak_pause(b);
    return result;
}

EMU_UNCHECKED void emu__block_give_way(struct block *b)
{
    make_ready(b, b->running);
    suspend(b, b->running);
}

EMU_UNCHECKED void emu__block_await(
    struct block *b, bool (*met)(const struct block *b, const struct cuda_thread *t),
    void (*describe)(const struct block *b, const struct cuda_thread *t, char *text, size_t nbytes))
{
    struct cuda_thread *t = b->running;
    emu__cluster_lock(b->cluster);
    bool already = met(b, t);
    emu__cluster_unlock(b->cluster);
    b->progress = true;
    if (already)
        return;
    t->met = met;
    t->describe = describe;
    b->parked[b->nparked++] = t->index;
    suspend(b, t);
    EMU_ACQUIRE(b->cluster);
}

EMU_UNCHECKED static void op_yield(void)
{
    struct block *b = emu__this_block;
    if (b->weak)
        emu__weak_idle(b);
    emu__block_give_way(b);
}

/* Returns the first thread of t's warp and the warp's size. */
EMU_UNCHECKED static struct cuda_thread *warp_of(struct block *b, const struct cuda_thread *t,
                                                 unsigned *nlanes)
{
    unsigned first = t->index / WARP * WARP;
    *nlanes = b->nthreads - first < WARP ? b->nthreads - first : WARP;
    return &b->threads[first];
}

EMU_UNCHECKED static bool has_ended(const struct cuda_thread *t)
{
    return t->self.block_dim.x == 0;
}

/* Gives every lane of `arrived` the contributions of all of them. */
EMU_UNCHECKED static void hand_out(struct cuda_thread *warp, uint32_t arrived, size_t nbytes)
{
    char gathered[WARP * EXCHANGE_NBYTES];
    for (uint32_t from = arrived; from; from &= from - 1) {
        unsigned lane = (unsigned)__builtin_ctz(from);
        memcpy(gathered + lane * nbytes, warp[lane].mine, nbytes);
    }
    for (uint32_t rest = arrived; rest;) {
        unsigned first = (unsigned)__builtin_ctz(rest);
        uint32_t ended = ~(rest >> first);
        unsigned run = ended ? (unsigned)__builtin_ctz(ended) : WARP;
        for (uint32_t to = arrived; to; to &= to - 1)
            memcpy((char *)warp[__builtin_ctz(to)].all + first * nbytes, gathered + first * nbytes,
                   run * nbytes);
        rest = first + run < WARP ? rest >> (first + run) << (first + run) : 0;
    }
}

/* Completes the exchange if every live lane of the mask waits in it. False: some lane does not. */
EMU_UNCHECKED static bool complete_exchange(struct block *b, struct cuda_thread *warp,
                                            unsigned nlanes, const struct cuda_thread *like,
                                            const struct cuda_thread *last)
{
    uint32_t mask = like->mask, arrived = 0;
    for (unsigned lane = 0; lane < nlanes; lane++) {
        if (!(mask >> lane & 1) || has_ended(&warp[lane]))
            continue;
        if (warp[lane].mask != mask || warp[lane].nbytes != like->nbytes)
            return false;
        arrived |= 1u << lane;
    }
    if (b->weak)
        emu__weak_warp_met(b, (unsigned)(warp - b->threads), arrived);
    EMU_ACQUIRE(warp);
    hand_out(warp, arrived, like->nbytes);
    EMU_RELEASE(warp);
    for (uint32_t rest = arrived; rest; rest &= rest - 1) {
        struct cuda_thread *t = &warp[__builtin_ctz(rest)];
        t->mask = 0;
        if (t != last)
            make_ready(b, t);
    }
    b->progress = true;
    return true;
}

EMU_UNCHECKED static void op_fault(const char *rule, const void *ptr)
{
    struct block *b = emu__this_block;
    bool misaligned = strncmp(rule, "misaligned", strlen("misaligned")) == 0;
    char text[320];
    snprintf(text, sizeof text, ptr ? "%s at %p" : "%s", rule, ptr);
    emu__block_fault(b, misaligned ? CUDA_ERROR_MISALIGNED_ADDRESS : CUDA_ERROR_ILLEGAL_ADDRESS,
                     text);
    emu__block_leave(b);
}

EMU_UNCHECKED static void op_warp_exchange(uint32_t mask, const void *mine, size_t nbytes,
                                           void *all)
{
    struct block *b = emu__this_block;
    struct cuda_thread *t = b->running;
    unsigned nlanes;
    struct cuda_thread *warp = warp_of(b, t, &nlanes);
    if (!(mask >> t->index % WARP & 1))
        op_fault("the mask of a warp function does not contain the calling thread", NULL);
    if (nbytes > EXCHANGE_NBYTES)
        op_fault("a warp exchange of more than 16 bytes", NULL);
    if (b->weak)
        emu__weak_pause(b);
    t->mask = mask;
    t->mine = mine;
    t->nbytes = nbytes;
    t->all = all;
    b->progress = true;
    EMU_RELEASE(warp);
    if (!complete_exchange(b, warp, nlanes, t, t))
        suspend(b, t);
    EMU_ACQUIRE(warp);
}

EMU_UNCHECKED void emu__block_thread_left(struct block *b, struct cuda_thread *t)
{
    unsigned nlanes;
    struct cuda_thread *warp = warp_of(b, t, &nlanes);
    t->self.block_dim.x = 0;
    b->ended++;
    b->progress = true;
    emu__cluster_thread_left(b, t);
    if (b->nwaiting > 0 && b->nwaiting + b->ended == b->nthreads)
        open_barrier(b);
    for (unsigned lane = 0; lane < nlanes; lane++)
        if (warp[lane].mask >> t->index % WARP & 1)
            complete_exchange(b, warp, nlanes, &warp[lane], NULL);
}

/* ---- Programmatic dependent launch ---- */

/* All that the grid before has written is visible, as at the start of a kernel. */
EMU_UNCHECKED static void await_grid_before(struct block *b)
{
    while (!emu__grid_over(b->grid->before))
        op_yield();
    EMU_ACQUIRE(b->grid->before);
    if (b->weak) {
        emu__weak_fence(SYMM_EMULATED_ACQUIRE);
        emu__weak_fence(SYMM_EMULATED_ASYNC_FENCE | SYMM_EMULATED_ALIAS_FENCE);
    }
}

EMU_UNCHECKED static void op_pdl(uint32_t step)
{
    struct block *b = emu__this_block;
    if (b->weak)
        emu__weak_pause(b);
    if (step == SYMM_EMULATED_PDL_RELEASE)
        emu__block_release(b);
    else if (b->grid->before)
        await_grid_before(b);
}

/* ---- Identity and addresses ---- */

EMU_UNCHECKED static void *op_dynamic_shared(size_t alignment)
{
    struct block *b = emu__this_block;
    char *at = emu__shared_get(b);
    if (b->grid->shared_nbytes == 0)
        emu__block_break(CUDA_ERROR_ILLEGAL_ADDRESS,
                         "dynamic shared memory of a launch that asks for none");
    if (!at)
        emu__block_break(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "no memory for shared memory");
    if (alignment > EMU_SHARED_ALIGNMENT || alignment == 0 || alignment & (alignment - 1))
        emu__block_break(CUDA_ERROR_MISALIGNED_ADDRESS,
                         "dynamic shared memory with the alignment %zu: at most %u", alignment,
                         EMU_SHARED_ALIGNMENT);
    return at;
}

EMU_UNCHECKED static uint64_t op_clock_ns(void)
{
    return (uint64_t)emu__now_ns();
}

EMU_UNCHECKED static const struct symm_emulated_thread *op_self(void)
{
    return &emu__this_block->running->self;
}

EMU_UNCHECKED static int op_replicas(const void *multicast, size_t nbytes, void *out[])
{
    char why[256];
    EMU_UNCHECKED_BEGIN();
    int n = emu__replicas(multicast, nbytes, out, why, sizeof why);
    EMU_UNCHECKED_END();
    if (n < 0)
        op_fault(why, NULL);
    return n;
}

/* Returns the span's slot in near[]. */
static struct near_span *near_of(struct block *b, uintptr_t at)
{
    return &b->near[(at >> NEAR_SHIFT) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - NEAR_BITS)];
}

static void remember(struct block *b, uintptr_t at, const struct emu_span *span, uint64_t layout)
{
    if (b->near_layout != layout)
        memset(b->near, 0, sizeof b->near);
    b->near_layout = layout;
    *near_of(b, at) = (struct near_span){span->start, span->nbytes, span->home};
}

/* NULL: the device has no access. */
static void *find_home(struct block *b, uintptr_t at)
{
    uint64_t layout = atomic_load_explicit(&emu__layout, memory_order_acquire);
    const struct near_span *near = near_of(b, at);
    if (b->near_layout == layout && at - near->start < near->nbytes)
        return near->home + (at - near->start);
    const struct emu_span *span = emu__span((const void *)at);
    if (!span->access)
        return NULL;
    remember(b, at, span, layout);
    return span->home + (at - span->start);
}

static void *op_home(const void *ptr)
{
    EMU_UNCHECKED_BEGIN();
    void *home = find_home(emu__this_block, (uintptr_t)ptr);
    EMU_UNCHECKED_END();
    return home ? home : emu__block_reach(ptr);
}

#define OPS(flags_)                                                                                \
    {                                                                                              \
        .abi = SYMM_EMULATED_ABI, .flags = (flags_), .self = op_self,                              \
        .sync_threads = op_sync_threads, .yield = op_yield, .warp_exchange = op_warp_exchange,     \
        .replicas = op_replicas, .home = op_home, .fault = op_fault, .read = emu__weak_read,       \
        .write = emu__weak_write, .update = emu__weak_update, .fence = emu__weak_fence,            \
        .settle = emu__weak_settle, .dynamic_shared = op_dynamic_shared, .clock_ns = op_clock_ns,  \
        .pdl = op_pdl,                                                                             \
    }

const struct symm_emulated_ops emu__block_ops[2][2] = {
    {OPS(0), OPS(SYMM_EMULATED_WEAK)},
    {OPS(SYMM_EMULATED_EARLY), OPS(SYMM_EMULATED_EARLY | SYMM_EMULATED_WEAK)}};
