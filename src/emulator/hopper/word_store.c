/* st.async. A store whose block has ended still arrives. */
#include "word_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "emulator/state/machine.h"
#include "emulator/state/sanitizer.h"
#include "mbarrier.h"

/* Does the store, or only checks its rules. */
static bool run(struct block *b, const struct emu_word_store *store, bool check, char *rule)
{
    const uint32_t rank = store->block;
    emu__cluster_lock(b->cluster);
    char *to = emu__shared_map(b, store->shared, sizeof store->word, rank, rule, EMU_RULE_NBYTES);
    const void *bar =
        to ? emu__shared_map(b, store->mbarrier, 8, rank, rule, EMU_RULE_NBYTES) : NULL;
    const struct block *there = bar ? b->cluster->blocks[rank] : NULL;
    bool ok = there && emu__mbarrier_announced(b, there, bar, rule);
    if (ok && !check) {
        memcpy(to, &store->word, sizeof store->word);
        ok = emu__mbarrier_complete(there, bar, sizeof store->word, rule);
    }
    emu__cluster_unlock(b->cluster);
    return ok;
}

/* Does the store and takes it from the list. */
static void run_listed(struct block *b, unsigned i)
{
    struct emu_hopper *h = emu__hopper(b);
    char rule[EMU_RULE_NBYTES];
    const struct emu_word_store store = h->words[i];
    h->words[i] = h->words[--h->nwords];
    if (!run(b, &store, false, rule))
        emu__block_fault(b, CUDA_ERROR_LAUNCH_FAILED, rule);
}

bool emu__word_store_work(struct block *b)
{
    const struct emu_hopper *h = emu__hopper(b);
    if (h->nwords == 0)
        return false;
    run_listed(b, (unsigned)(emu__draw(&b->random) % h->nwords));
    return true;
}

void emu__word_store_end(struct block *b)
{
    while (emu__hopper(b)->nwords > 0)
        run_listed(b, 0);
}

static bool list(struct emu_hopper *h, const struct emu_word_store *store)
{
    if (h->nwords == h->words_capacity) {
        unsigned n = h->words_capacity ? h->words_capacity * 2 : 32;
        struct emu_word_store *more = realloc(h->words, n * sizeof *more);
        if (!more)
            return false;
        h->words = more;
        h->words_capacity = n;
    }
    h->words[h->nwords++] = *store;
    return true;
}

EMU_UNCHECKED void emu__word_store(uint32_t *shared, uint32_t word, uint64_t *bar, uint32_t block)
{
    struct block *b = emu__this_block;
    const struct emu_word_store store = {shared, bar, word, block};
    char rule[EMU_RULE_NBYTES];
    if ((uintptr_t)shared % sizeof word)
        emu__block_break(CUDA_ERROR_MISALIGNED_ADDRESS,
                         "a word at %p, which is not aligned to 4 bytes", (void *)shared);
    if (b->weak)
        emu__weak_pause(b);
    EMU_UNCHECKED_BEGIN();
    b->progress = true;
    bool ok = run(b, &store, b->weak, rule),
         listed = !ok || !b->weak || list(emu__hopper(b), &store);
    EMU_UNCHECKED_END();
    if (!listed)
        emu__block_break(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "no memory for a store");
    if (!ok)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED, "%s", rule);
}
