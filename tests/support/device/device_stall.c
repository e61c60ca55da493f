/* Waits that never end, ranks that bring different words, and the effects of an abort. */
#include <stdlib.h>
#include <string.h>
#include <symm/detail/wait_record.h>
#include "device_bench.h"
#include "exercise.h"
#include "reference.h"

TEST_GROUP(stalls, 120);

DEVICE_TEST(stalls, ranks_that_insist_on_different_words_are_named, "test_mismatch", 2,
            device_setting.worlds[device_setting.nworlds / 2])
{
    uint32_t agreed = ~0u;
    b->a.param = self->rank == self->nranks - 1 ? 5 : 4;
    RANK_TRY(self, device_launch(b, 2, 64));
    RANK_TRY(self, symm_copy(&agreed, b->a.tally, sizeof agreed, b->s));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "called different things",
                     symm_synchronize(b->w, b->s));
    RANK_TEXT(self, "rank ");
    CHECK_RANK_MSG(self, agreed == 0, "%u threads were told that all is well", agreed);
out:;
}

/* Rank 0 waits in a kernel, which must end; the last rank does nothing, or aborts. */
struct stall {
    int mode;
    bool aborted;
    const char *text;
};

enum { TIMEOUT_MS = 1500, WAIT_MS = 300, GRACE_MS = 3000 };

static void watch(struct rank *self, struct device_bench *b)
{
    const int64_t start = now_ms();
    while (symm_check(b->w) == SYMM_OK && now_ms() < start + 20000)
        pause_ms(5);
    CHECK_RANK(self, symm_check(b->w) != SYMM_OK);
out:
    return;
}

DEVICE_RANK(stall, "test_stall", 8)
{
    const struct stall *how = arg;
    const size_t pad_nbytes = 8 * (size_t)self->nranks * sizeof(struct symm_signal_cell);
    const size_t channel_3 = 3 * (size_t)self->nranks * sizeof(struct symm_signal_cell);
    unsigned char *before = calloc(2, pad_nbytes), *after = before + pad_nbytes;
    uint32_t tally[2] = {~0u, ~0u};
    symm_packet slot[2], zeros[2] = {{{0}}, {{0}}};
    b->a.mode = how->mode;
    b->a.param = self->nranks - 1;
    RANK_TRY(self, symm_alloc(b->w, sizeof slot, &b->a.y));
    RANK_TRY(self, symm_fill(b->a.y, 0, sizeof slot, b->s));
    RANK_TRY(self, device_read(b, before, b->a.pad, pad_nbytes));
    RANK_TRY(self, symm_exchange(b->w, NULL, 0, NULL));
    const int64_t start = now_ms();
    if (self->rank == 0) {
        const symm_status want = how->aborted ? SYMM_ERROR_PEER : SYMM_ERROR_TIMEOUT;
        RANK_TRY(self, device_launch(b, 2, 32));
        RANK_TRY(self, symm_copy(tally, b->a.tally, sizeof tally, b->s));
        RANK_TRY(self, symm_copy(after, b->a.pad, pad_nbytes, b->s));
        RANK_TRY(self, symm_copy(slot, b->a.y, sizeof slot, b->s));
        RANK_EXPECT_TEXT(self, want, how->text, symm_synchronize(b->w, b->s));
        self->report->value[0] = now_ms();
        const int64_t took = now_ms() - start;
        if (!how->aborted)
            CHECK_RANK_MSG(self, took >= TIMEOUT_MS && took < TIMEOUT_MS + GRACE_MS,
                           "it took %lld ms", (long long)took);
        CHECK_RANK_MSG(self, tally[1] == b->nthreads && tally[0] == 0,
                       "%u wrong; %u threads of %u came to their end", tally[0], tally[1],
                       b->nthreads);
        CHECK_RANK(self, memcmp(before + channel_3, after + channel_3,
                                (size_t)self->nranks * sizeof(struct symm_signal_cell)) == 0);
        self->report->wrong += memcmp(slot, zeros, sizeof slot) != 0;
    } else if (how->aborted && self->rank == self->nranks - 1) {
        pause_ms(WAIT_MS);
        self->report->value[0] = now_ms();
        symm_abort(b->w, "that is enough");
    } else {
        watch(self, b);
    }
    if (!self->report->failed[0])
        rank_note(self, SYMM_OK);
out:
    free(before);
}

static const struct stall stalls[] = {
    {TEST_STALL_SIGNAL, false, "channel 1: expected"},
    {TEST_STALL_PACKET, false, "rank 1, a packet at "},
    {TEST_STALL_GRID, false, "the blocks of its own grid, pad "},
    {TEST_STALL_SIGNAL, true, "that is enough"},
    {TEST_STALL_PACKET, true, "that is enough"},
    {TEST_STALL_GRID, true, "that is enough"},
};

TEST_LOOP(stalls, a_wait_that_nobody_ends_is_a_timeout_and_an_abort_ends_it_at_once, 0,
          sizeof stalls / sizeof stalls[0])
{
    struct rank_report reports[2];
    NEEDS_DEVICES();
    setenv("SYMM_TIMEOUT_MS", stalls[_i].aborted ? "60000" : "1500", 1);
    ranks_run(2, RANKS_AS_PROCESSES, stall, (void *)(uintptr_t)&stalls[_i], reports, 60);
    ranks_assert_ok(reports, 2);
    if (stalls[_i].aborted) {
        const int64_t took = reports[0].value[0] - reports[1].value[0];
        ck_assert_msg(took < 1000, "it ended %lld ms after the abort", (long long)took);
    }
}
