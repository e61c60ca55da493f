/* mbarriers, and the fences that make them visible to other blocks and to the copy unit. */
#include "mbarrier.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "emulator/state/sanitizer.h"
#include "remote.h"

#define COUNT_MAX ((1u << 20) - 1) /* of arrivals; of bytes, in both directions */
#define MARK UINT64_C(0x6d62617272696572)

/* ---- Barriers of a block ---- */

EMU_UNCHECKED static struct emu_mbarrier *find(const struct block *b, const void *at)
{
    const struct emu_hopper *h = (const struct emu_hopper *)b->units;
    for (unsigned i = 0; h && i < h->nmbarriers; i++)
        if (h->mbarriers[i].at == at)
            return &h->mbarriers[i];
    return NULL;
}

/* The same. NULL: `rule` says why it cannot be used. */
EMU_UNCHECKED static struct emu_mbarrier *get(const struct block *b, const void *at, char *rule)
{
    struct emu_mbarrier *bar = find(b, at);
    if (!bar)
        snprintf(rule, EMU_RULE_NBYTES, "the mbarrier at %p is not initialised", at);
    else if (*bar->at != MARK)
        snprintf(rule, EMU_RULE_NBYTES, "the mbarrier at %p was overwritten", at);
    return bar && *bar->at == MARK ? bar : NULL;
}

/* Ends the phase if nothing is missing. */
EMU_UNCHECKED static void step(const struct block *b, struct emu_mbarrier *bar)
{
    if (bar->pending > 0 || bar->tx != 0)
        return;
    bar->phase++;
    bar->pending = bar->expected;
    emu__cluster_event(b->cluster);
}

EMU_UNCHECKED static bool arrive(const struct block *b, struct emu_mbarrier *bar, char *rule)
{
    if (bar->pending == 0) {
        snprintf(rule, EMU_RULE_NBYTES,
                 "more arrivals than the %u expected in a phase of the mbarrier at %p",
                 bar->expected, (void *)bar->at);
        return false;
    }
    bar->pending--;
    step(b, bar);
    return true;
}

/* Adds expected bytes, which are negative if they have come. */
EMU_UNCHECKED static bool count_bytes(struct emu_mbarrier *bar, int64_t nbytes, char *rule)
{
    int64_t tx = bar->tx + nbytes;
    if (tx > (int64_t)COUNT_MAX || tx < -(int64_t)COUNT_MAX) {
        snprintf(rule, EMU_RULE_NBYTES,
                 "the tx-count of the mbarrier at %p becomes %" PRId64 ": at most %u, at least -%u",
                 (void *)bar->at, tx, COUNT_MAX, COUNT_MAX);
        return false;
    }
    bar->tx = tx;
    return true;
}

/* ---- For copies and other blocks ---- */

EMU_UNCHECKED bool emu__mbarrier_announced(const struct block *from, const struct block *to,
                                           const void *at, char *rule)
{
    const struct emu_mbarrier *bar = get(to, at, rule);
    if (!bar || from == to || bar->cluster_ready)
        return bar;
    snprintf(rule, EMU_RULE_NBYTES,
             "another block uses the mbarrier at %p, after whose init its thread has not passed "
             "fence.mbarrier_init.release.cluster",
             at);
    return false;
}

EMU_UNCHECKED bool emu__mbarrier_serves(const struct block *from, const struct block *to,
                                        const void *at, char *rule)
{
    const struct emu_mbarrier *bar = get(to, at, rule);
    if (!bar || bar->async_ready)
        return bar && emu__mbarrier_announced(from, to, at, rule);
    snprintf(rule, EMU_RULE_NBYTES,
             "a copy uses the mbarrier at %p, after whose init its thread has not passed "
             "fence.proxy.async",
             at);
    return false;
}

EMU_UNCHECKED bool emu__mbarrier_complete(const struct block *to, const void *at, uint32_t nbytes,
                                          char *rule)
{
    struct emu_mbarrier *bar = get(to, at, rule);
    if (!bar || !count_bytes(bar, -(int64_t)nbytes, rule))
        return false;
    step(to, bar);
    return true;
}

EMU_UNCHECKED bool emu__mbarrier_count(const struct block *to, const void *at, char *rule)
{
    struct emu_mbarrier *bar = get(to, at, rule);
    return bar && arrive(to, bar, rule);
}

/* ---- Operations of threads ---- */

/* Ends an operation: unlocks; a broken rule ends the thread. */
EMU_UNCHECKED static void finish(struct block *b, bool ok, const char *rule)
{
    emu__cluster_unlock(b->cluster);
    b->progress = true;
    if (!ok)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED, "%s", rule);
}

/* Whether it lies in shared memory of the block, aligned. */
EMU_UNCHECKED static bool is_place(struct block *b, const uint64_t *at, char *rule)
{
    if ((uintptr_t)at % sizeof *at) {
        snprintf(rule, EMU_RULE_NBYTES, "an mbarrier at %p, which is not aligned to 8 bytes",
                 (const void *)at);
        return false;
    }
    return emu__shared_map(b, at, sizeof *at, b->rank, rule, EMU_RULE_NBYTES) != NULL;
}

EMU_UNCHECKED static struct emu_mbarrier *add(struct emu_hopper *h)
{
    if (h->nmbarriers == h->mbarriers_capacity) {
        unsigned n = h->mbarriers_capacity ? h->mbarriers_capacity * 2 : 16;
        struct emu_mbarrier *more = realloc(h->mbarriers, n * sizeof *more);
        if (!more)
            return NULL;
        h->mbarriers = more;
        h->mbarriers_capacity = n;
    }
    return &h->mbarriers[h->nmbarriers++];
}

EMU_UNCHECKED static bool init(struct block *b, struct emu_hopper *h, uint64_t *at,
                               uint32_t arrivals, char *rule)
{
    if (!is_place(b, at, rule))
        return false;
    if (arrivals == 0 || arrivals > COUNT_MAX) {
        snprintf(rule, EMU_RULE_NBYTES, "an mbarrier of %u arrivals: 1 to %u", arrivals, COUNT_MAX);
        return false;
    }
    if (find(b, at)) {
        snprintf(rule, EMU_RULE_NBYTES, "init of the mbarrier at %p, which is initialised",
                 (void *)at);
        return false;
    }
    struct emu_mbarrier *bar = add(h);
    if (!bar) {
        snprintf(rule, EMU_RULE_NBYTES, "no memory for an mbarrier");
        return false;
    }
    *bar = (struct emu_mbarrier){.at = at,
                                 .expected = arrivals,
                                 .pending = arrivals,
                                 .thread = b->running->index,
                                 .released.mark = UINT64_C(1) << (h->nmbarriers - 1) % 64};
    *at = MARK;
    return true;
}

EMU_UNCHECKED void emu__mbarrier_init(uint64_t *bar, uint32_t arrivals)
{
    struct block *b = emu__this_block;
    struct emu_hopper *h = emu__hopper(b);
    char rule[EMU_RULE_NBYTES];
    emu__cluster_lock(b->cluster);
    finish(b, init(b, h, bar, arrivals, rule), rule);
}

EMU_UNCHECKED void emu__mbarrier_end(uint64_t *at)
{
    struct block *b = emu__this_block;
    struct emu_hopper *h = emu__hopper(b);
    char rule[EMU_RULE_NBYTES];
    emu__cluster_lock(b->cluster);
    struct emu_mbarrier *bar = get(b, at, rule);
    if (bar)
        *bar = h->mbarriers[--h->nmbarriers];
    finish(b, bar, rule);
}

EMU_UNCHECKED void emu__mbarrier_expect(uint64_t *at, uint32_t nbytes)
{
    struct block *b = emu__this_block;
    char rule[EMU_RULE_NBYTES];
    if (b->weak)
        emu__weak_pause(b);
    emu__cluster_lock(b->cluster);
    struct emu_mbarrier *bar = get(b, at, rule);
    finish(b, bar && count_bytes(bar, nbytes, rule) && arrive(b, bar, rule), rule);
}

EMU_UNCHECKED void emu__mbarrier_arrive(uint64_t *at, uint32_t block)
{
    struct block *b = emu__this_block;
    char rule[EMU_RULE_NBYTES];
    if (block != b->rank) {
        emu__remote_arrive(at, block);
        return;
    }
    if (b->weak)
        emu__weak_pause(b);
    emu__cluster_lock(b->cluster);
    struct emu_mbarrier *bar = get(b, at, rule);
    if (bar && b->weak)
        emu__weak_arrive(b, &bar->released);
    finish(b, bar && arrive(b, bar, rule), rule);
}

/* ---- Waiting ---- */

EMU_UNCHECKED static bool phase_is_over(const struct block *b, const struct cuda_thread *t)
{
    const struct emu_mbarrier *bar = find(b, t->object);
    return !bar || (bar->phase & 1) != t->value;
}

EMU_UNCHECKED static void describe_wait(const struct block *b, const struct cuda_thread *t,
                                        char *text, size_t nbytes)
{
    const struct emu_mbarrier *bar = find(b, t->object);
    snprintf(text, nbytes,
             "the phase of parity %u of the mbarrier at %p; missing are %u arrivals and %" PRId64
             " bytes",
             (unsigned)t->value, t->object, bar ? bar->pending : 0, bar ? bar->tx : 0);
}

/* Arrivals of other blocks release nothing: no kernel here passes data to other blocks this way. */
EMU_UNCHECKED static void acquire(struct block *b, const uint64_t *at)
{
    emu__cluster_lock(b->cluster);
    const struct emu_mbarrier *bar = find(b, at);
    if (bar)
        emu__weak_waited(b, &bar->released);
    emu__cluster_unlock(b->cluster);
}

EMU_UNCHECKED void emu__mbarrier_wait(uint64_t *at, uint32_t parity)
{
    struct block *b = emu__this_block;
    char rule[EMU_RULE_NBYTES];
    if (b->weak)
        emu__weak_pause(b);
    emu__cluster_lock(b->cluster);
    bool ok = get(b, at, rule) != NULL;
    if (ok && parity > 1) {
        snprintf(rule, sizeof rule, "a wait for parity %u: 0 or 1", parity);
        ok = false;
    }
    finish(b, ok, rule);
    b->running->object = at;
    b->running->value = parity;
    emu__block_await(b, phase_is_over, describe_wait);
    if (b->weak)
        acquire(b, at);
}

/* ---- Fences ---- */

EMU_UNCHECKED void emu__mbarrier_fence_async(void)
{
    struct block *b = emu__this_block;
    struct emu_hopper *h = emu__hopper(b);
    emu__cluster_lock(b->cluster);
    for (unsigned i = 0; i < h->nmbarriers; i++)
        h->mbarriers[i].async_ready |= h->mbarriers[i].thread == b->running->index;
    emu__cluster_unlock(b->cluster);
}

EMU_UNCHECKED void emu__mbarrier_fence_init(void)
{
    struct block *b = emu__this_block;
    struct emu_hopper *h = emu__hopper(b);
    emu__cluster_lock(b->cluster);
    for (unsigned i = 0; i < h->nmbarriers; i++)
        h->mbarriers[i].cluster_ready |= h->mbarriers[i].thread == b->running->index;
    emu__cluster_unlock(b->cluster);
}
