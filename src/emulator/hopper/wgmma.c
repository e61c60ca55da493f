/* wgmma: issue, execution, and the accumulators that threads must not touch in between. */
#include <stdio.h>
#include <string.h>
#include "emulator/state/machine.h"
#include "emulator/state/sanitizer.h"
#include "warpgroup.h"

#define POISON 0x7fb10ad5u /* a NaN */

_Static_assert(sizeof(struct symm_emulated_wgmma) == 2 * sizeof(uint64_t) + 6 * sizeof(uint32_t),
               "it has no padding: threads' operands are compared byte by byte");

EMU_UNCHECKED static struct emu_multiplication *number(struct emu_warpgroup *g, uint64_t n)
{
    return &g->queue[n % EMU_AHEAD];
}

EMU_UNCHECKED static struct emu_warpgroup_thread *self(const struct block *b,
                                                       struct emu_warpgroup *g)
{
    return &g->threads[b->running->index % EMU_WARPGROUP];
}

/* The number of a thread's warp in its warpgroup. */
EMU_UNCHECKED static unsigned warp_of(const struct cuda_thread *t)
{
    return t->index % EMU_WARPGROUP / (EMU_WARPGROUP / EMU_GROUP_WARPS);
}

/* ---- Accumulators ---- */

/* The element of the tile that is accumulator i of a thread. */
EMU_UNCHECKED static float *element(struct emu_accumulators *d, unsigned thread, uint32_t i)
{
    unsigned row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
    return &d->tile[row][i / 4 * 8 + thread % 4 * 2 + i % 2];
}

/* The thread's accumulators belong to the unit from now on. */
EMU_UNCHECKED static void take(struct emu_accumulators *d, unsigned thread, float *from)
{
    const uint32_t poison = POISON;
    for (uint32_t i = 0; i < d->columns / 2; i++) {
        *element(d, thread, i) = from[i];
        memcpy(&from[i], &poison, sizeof poison);
    }
    d->of[thread] = from;
    d->nthreads++;
}

/* Gives them back. False: the thread has changed them meanwhile. */
EMU_UNCHECKED static bool give_back(struct emu_accumulators *d, unsigned thread)
{
    float *to = d->of[thread];
    bool untouched = true;
    for (uint32_t i = 0; i < d->columns / 2; i++) {
        uint32_t bits;
        memcpy(&bits, &to[i], sizeof bits);
        untouched = untouched && bits == POISON;
        to[i] = *element(d, thread, i);
    }
    d->of[thread] = NULL;
    if (--d->nthreads == 0)
        d->columns = 0;
    return untouched;
}

EMU_UNCHECKED static struct emu_accumulators *in_flight(struct emu_warpgroup *g, unsigned thread,
                                                        const float *d)
{
    for (int i = 0; i < EMU_ARRAYS; i++)
        if (g->arrays[i].of[thread] == d)
            return &g->arrays[i];
    return NULL;
}

/* The accumulators of a multiplication to which no other thread has come. */
EMU_UNCHECKED static struct emu_accumulators *choose(struct emu_warpgroup *g, unsigned thread,
                                                     const float *d, uint32_t columns)
{
    struct emu_accumulators *chosen = in_flight(g, thread, d);
    for (int i = 0; i < EMU_ARRAYS && !chosen; i++)
        if (g->arrays[i].columns == 0)
            chosen = &g->arrays[i];
    if (!chosen)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                         "wgmma with more than %d arrays of accumulators in flight: a limit of "
                         "the emulator",
                         EMU_ARRAYS);
    if (chosen->columns == 0)
        chosen->columns = columns;
    return chosen;
}

/* ---- Execution ---- */

/* Multiplications that are done for all warps. */
EMU_UNCHECKED static uint64_t all_done(const struct emu_warpgroup *g)
{
    uint64_t least = g->done[0];
    for (int i = 1; i < EMU_GROUP_WARPS; i++)
        least = g->done[i] < least ? g->done[i] : least;
    return least;
}

/* Does a multiplication for some warps. False: a broken rule. */
EMU_UNCHECKED static bool multiply(struct block *b, struct emu_multiplication *m,
                                   struct emu_lines rows, char *rule)
{
    struct emu_operands *operands = emu__hopper(b)->operands;
    EMU_UNCHECKED_BEGIN();
    bool ok = emu__operands_read(b, &m->how, rows, operands, rule);
    if (!m->how.add)
        memset(m->d->tile[rows.first], 0, rows.count * sizeof m->d->tile[0]);
    if (ok)
        emu__operands_multiply(operands, rows, m->how.columns, m->d->tile);
    EMU_UNCHECKED_END();
    return ok;
}

/* Does the next multiplication, the same one, of some warps. False: it breaks a rule. */
EMU_UNCHECKED static bool execute(struct block *b, struct emu_warpgroup *g, unsigned first,
                                  unsigned nwarps, char *rule)
{
    const uint32_t rows = EMU_WGMMA_ROWS / EMU_GROUP_WARPS;
    struct emu_multiplication *m = number(g, g->done[first]);
    const bool ok = multiply(b, m, (struct emu_lines){first * rows, nwarps * rows}, rule);
    for (unsigned i = first; i < first + nwarps; i++)
        g->done[i]++;
    if (all_done(g) == g->done[first])
        m->arrived = 0;
    emu__cluster_lock(b->cluster);
    emu__cluster_event(b->cluster);
    emu__cluster_unlock(b->cluster);
    return ok;
}

/* Whether all threads have come to the warp's next multiplication. */
EMU_UNCHECKED static bool is_issued(struct emu_warpgroup *g, unsigned warp)
{
    return g->done[warp] < all_done(g) + EMU_AHEAD &&
           number(g, g->done[warp])->arrived == EMU_WARPGROUP;
}

bool emu__wgmma_work(struct block *b)
{
    struct emu_hopper *h = emu__hopper(b);
    const unsigned nwarps = h->ngroups * EMU_GROUP_WARPS,
                   first = nwarps ? (unsigned)(emu__draw(&b->random) % nwarps) : 0;
    char rule[EMU_RULE_NBYTES];
    for (unsigned i = 0; i < nwarps; i++) {
        const unsigned at = (first + i) % nwarps, warp = at % EMU_GROUP_WARPS;
        struct emu_warpgroup *g = &h->groups[at / EMU_GROUP_WARPS];
        if (!is_issued(g, warp))
            continue;
        if (!execute(b, g, warp, 1, rule))
            emu__block_fault(b, CUDA_ERROR_ILLEGAL_ADDRESS, rule);
        return true;
    }
    return false;
}

/* ---- Operations of threads ---- */

EMU_UNCHECKED static void check(const struct symm_emulated_wgmma *how)
{
    char rule[EMU_RULE_NBYTES];
    if (how->columns == 0 || how->columns > EMU_WGMMA_COLUMNS || how->columns % 8)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED, "wgmma of %u columns: a multiple of 8 up to %u",
                         how->columns, EMU_WGMMA_COLUMNS);
    if (how->type > SYMM_EMULATED_WGMMA_BF16)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED, "wgmma of type %u", how->type);
    if (!emu__descriptor_valid(how->a, rule) || !emu__descriptor_valid(how->b, rule))
        emu__block_break(CUDA_ERROR_MISALIGNED_ADDRESS, "%s", rule);
}

EMU_UNCHECKED static bool has_room(const struct block *b, const struct cuda_thread *t)
{
    const struct emu_warpgroup *g = t->object;
    (void)b;
    return t->value < all_done(g) + EMU_AHEAD;
}

EMU_UNCHECKED static bool is_done(const struct block *b, const struct cuda_thread *t)
{
    const struct emu_warpgroup *g = t->object;
    (void)b;
    return g->done[warp_of(t)] >= t->value;
}

EMU_UNCHECKED static void describe(const struct block *b, const struct cuda_thread *t, char *text,
                                   size_t nbytes)
{
    const struct emu_warpgroup *g = t->object;
    (void)b;
    snprintf(text, nbytes, "wgmma, to which %u of %u threads of the warpgroup have come",
             g->queue[g->done[warp_of(t)] % EMU_AHEAD].arrived, EMU_WARPGROUP);
}

/* The accumulators of multiplication n belong to the unit, for this thread too. */
EMU_UNCHECKED static void enter(struct emu_warpgroup *g, struct emu_multiplication *m,
                                unsigned thread, float *d, uint64_t n)
{
    const struct emu_accumulators *now = in_flight(g, thread, d);
    if (now ? now != m->d : m->d->of[thread] != NULL)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                         "the threads of a warpgroup multiply into different accumulators");
    if (m->d->columns != m->how.columns)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                         "wgmma of %u columns with accumulators in flight of one of %u",
                         m->how.columns, m->d->columns);
    if (!now) {
        if (!g->threads[thread].fenced)
            emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                             "wgmma without a wgmma.fence since the thread could use the "
                             "accumulators");
        take(m->d, thread, d);
    }
    m->d->used[thread] = n + 1;
}

EMU_UNCHECKED void emu__wgmma(float *d, const struct symm_emulated_wgmma *how)
{
    struct block *b = emu__this_block;
    struct emu_warpgroup *g = emu__warpgroup(b);
    struct emu_warpgroup_thread *t = self(b, g);
    unsigned thread = b->running->index % EMU_WARPGROUP;
    char rule[EMU_RULE_NBYTES];
    check(how);
    if (b->weak)
        emu__weak_pause(b);
    b->running->object = g;
    b->running->value = t->issued;
    emu__block_await(b, has_room, describe);
    struct emu_multiplication *m = number(g, t->issued);
    if (m->arrived == 0)
        *m = (struct emu_multiplication){.how = *how, .d = choose(g, thread, d, how->columns)};
    if (memcmp(&m->how, how, sizeof *how) != 0)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                         "the threads of a warpgroup come to different wgmma instructions");
    enter(g, m, thread, d, t->issued);
    t->issued++;
    if (++m->arrived == EMU_WARPGROUP && !b->weak && !execute(b, g, 0, EMU_GROUP_WARPS, rule))
        emu__block_break(CUDA_ERROR_ILLEGAL_ADDRESS, "%s", rule);
}

EMU_UNCHECKED void emu__wgmma_fence(void)
{
    struct block *b = emu__this_block;
    self(b, emu__warpgroup(b))->fenced = true;
}

EMU_UNCHECKED void emu__wgmma_commit(void)
{
    struct block *b = emu__this_block;
    struct emu_warpgroup *g = emu__warpgroup(b);
    struct emu_warpgroup_thread *t = self(b, g);
    if (t->committed - t->retired == EMU_COMMITTED)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                         "wgmma.commit_group with %d groups that no wait has retired: a limit of "
                         "the emulator",
                         EMU_COMMITTED);
    t->ends[t->committed++ % EMU_COMMITTED] = t->issued;
}

EMU_UNCHECKED void emu__wgmma_wait(uint32_t pending)
{
    struct block *b = emu__this_block;
    struct emu_warpgroup *g = emu__warpgroup(b);
    struct emu_warpgroup_thread *t = self(b, g);
    unsigned thread = b->running->index % EMU_WARPGROUP;
    if (b->weak)
        emu__weak_pause(b);
    if (t->committed - t->retired <= pending)
        return;
    t->retired = t->committed - pending;
    const uint64_t end = t->ends[(t->retired - 1) % EMU_COMMITTED];
    b->running->object = g;
    b->running->value = end;
    emu__block_await(b, is_done, describe);
    for (int i = 0; i < EMU_ARRAYS; i++) {
        struct emu_accumulators *d = &g->arrays[i];
        if (!d->of[thread] || d->used[thread] > end)
            continue;
        t->fenced = false;
        if (!give_back(d, thread))
            emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                             "a thread has changed accumulators of a wgmma in flight");
    }
}
