/*
 * Words and arrivals in shared memory of other blocks. They come although their block has ended.
 * The other block must not have ended.
 */
#include "remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "emulator/state/machine.h"
#include "emulator/state/sanitizer.h"
#include "mbarrier.h"

/* The places in the other block; false: `rule` says why there are none. */
static bool find(struct block *b, const struct emu_remote *r, char **word, const void **bar,
                 char *rule)
{
    *word = r->shared
                ? emu__shared_map(b, r->shared, sizeof r->word, r->block, rule, EMU_RULE_NBYTES)
                : NULL;
    if (r->shared && !*word)
        return false;
    *bar = emu__shared_map(b, r->mbarrier, sizeof *r->mbarrier, r->block, rule, EMU_RULE_NBYTES);
    return *bar != NULL;
}

/* Does it, or only checks its rules. */
static bool run(struct block *b, const struct emu_remote *r, bool check, char *rule)
{
    char *word;
    const void *bar;
    emu__cluster_lock(b->cluster);
    bool ok = find(b, r, &word, &bar, rule);
    const struct block *there = ok ? b->cluster->blocks[r->block] : NULL;
    ok = ok && emu__mbarrier_announced(b, there, bar, rule);
    if (ok && !check && word) {
        memcpy(word, &r->word, sizeof r->word);
        ok = emu__mbarrier_complete(there, bar, sizeof r->word, rule);
    } else if (ok && !check) {
        ok = emu__mbarrier_count(there, bar, rule);
    }
    emu__cluster_unlock(b->cluster);
    return ok;
}

/* Does one and takes it from the list. */
static void run_listed(struct block *b, unsigned i)
{
    struct emu_hopper *h = emu__hopper(b);
    char rule[EMU_RULE_NBYTES];
    const struct emu_remote r = h->remotes[i];
    h->remotes[i] = h->remotes[--h->nremotes];
    if (!run(b, &r, false, rule))
        emu__block_fault(b, CUDA_ERROR_LAUNCH_FAILED, rule);
}

bool emu__remote_work(struct block *b)
{
    const struct emu_hopper *h = emu__hopper(b);
    if (h->nremotes == 0)
        return false;
    run_listed(b, (unsigned)(emu__draw(&b->random) % h->nremotes));
    return true;
}

void emu__remote_end(struct block *b)
{
    while (emu__hopper(b)->nremotes > 0)
        run_listed(b, 0);
}

static bool list(struct emu_hopper *h, const struct emu_remote *r)
{
    if (h->nremotes == h->remotes_capacity) {
        unsigned n = h->remotes_capacity ? h->remotes_capacity * 2 : 32;
        struct emu_remote *more = realloc(h->remotes, n * sizeof *more);
        if (!more)
            return false;
        h->remotes = more;
        h->remotes_capacity = n;
    }
    h->remotes[h->nremotes++] = *r;
    return true;
}

/* Does it, or in weakly ordered memory leaves it for later. */
EMU_UNCHECKED static void begin(const struct emu_remote *r)
{
    struct block *b = emu__this_block;
    char rule[EMU_RULE_NBYTES];
    if (b->weak)
        emu__weak_pause(b);
    EMU_UNCHECKED_BEGIN();
    b->progress = true;
    bool ok = run(b, r, b->weak, rule), listed = !ok || !b->weak || list(emu__hopper(b), r);
    EMU_UNCHECKED_END();
    if (!listed)
        emu__block_break(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "no memory for what comes later");
    if (!ok)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED, "%s", rule);
}

EMU_UNCHECKED void emu__remote_store(uint32_t *shared, uint32_t word, uint64_t *bar, uint32_t block)
{
    const struct emu_remote r = {shared, bar, word, block};
    if ((uintptr_t)shared % sizeof word)
        emu__block_break(CUDA_ERROR_MISALIGNED_ADDRESS,
                         "a word at %p, which is not aligned to 4 bytes", (void *)shared);
    begin(&r);
}

EMU_UNCHECKED void emu__remote_arrive(uint64_t *bar, uint32_t block)
{
    const struct emu_remote r = {.mbarrier = bar, .block = block};
    begin(&r);
}
