#include "named_barrier.h"

#include <stdio.h>
#include <string.h>
#include "emulator/state/machine.h"
#include "emulator/state/sanitizer.h"

#define WARP 32u

void emu__named_barriers_clear(struct emu_hopper *h)
{
    memset(h->named, 0, sizeof h->named);
}

EMU_UNCHECKED static bool is_open(const struct block *b, const struct cuda_thread *t)
{
    const struct emu_named_barrier *bar = t->object;
    (void)b;
    return bar->rounds != t->value;
}

EMU_UNCHECKED static void describe(const struct block *b, const struct cuda_thread *t, char *text,
                                   size_t nbytes)
{
    const struct emu_hopper *h = (const struct emu_hopper *)b->units;
    const struct emu_named_barrier *bar = t->object;
    snprintf(text, nbytes, "bar.sync %u, to which %u of %u threads have come in whole warps",
             (unsigned)(bar - h->named), bar->arrived, bar->nthreads);
}

EMU_UNCHECKED static void check(const struct emu_hopper *h, uint32_t number, uint32_t nthreads)
{
    if (number == 0 || number >= EMU_NAMED_BARRIERS)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                         "bar.sync %u: barriers 1 to %u have numbers, 0 is __syncthreads()", number,
                         EMU_NAMED_BARRIERS - 1);
    if (nthreads == 0 || nthreads % WARP)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED, "bar.sync of %u threads: whole warps", nthreads);
    const struct emu_named_barrier *bar = &h->named[number];
    if (bar->nthreads && bar->nthreads != nthreads)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                         "bar.sync %u of %u threads, to which others have come as one of %u",
                         number, nthreads, bar->nthreads);
}

/* The running thread has come. Its warp counts when all of its threads have, and as a full one. */
EMU_UNCHECKED static void arrive(const struct block *b, struct emu_named_barrier *bar)
{
    const unsigned warp = b->running->index / WARP, n = b->nthreads - warp * WARP;
    bar->lanes[warp] |= 1u << b->running->index % WARP;
    if (bar->lanes[warp] != (n < WARP ? (1u << n) - 1 : ~0u))
        return;
    bar->lanes[warp] = 0;
    bar->arrived += WARP;
}

/* Orders shared memory, which is never late here. Of global memory it orders nothing. */
EMU_UNCHECKED void emu__bar_sync(uint32_t number, uint32_t nthreads)
{
    struct block *b = emu__this_block;
    struct emu_hopper *h = emu__hopper(b);
    if (b->weak)
        emu__weak_pause(b);
    check(h, number, nthreads);
    struct emu_named_barrier *bar = &h->named[number];
    const uint64_t round = bar->rounds;
    bar->nthreads = nthreads;
    arrive(b, bar);
    if (bar->arrived == nthreads) {
        bar->arrived = bar->nthreads = 0;
        bar->rounds++;
        emu__cluster_lock(b->cluster);
        emu__cluster_event(b->cluster);
        emu__cluster_unlock(b->cluster);
    }
    b->running->object = bar;
    b->running->value = round;
    emu__block_await(b, is_open, describe);
}
