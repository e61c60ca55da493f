/* Copies and puts: every byte that should be written is, and no other. */
#include <stdlib.h>
#include <string.h>
#include "device_bench.h"
#include "reference.h"

TEST_GROUP(transfers, 120);

DEVICE_TEST(transfers, copies_of_every_alignment_and_size_write_their_bytes_and_no_others,
            "test_copies", 1, device_setting.pair, .timeout_s = 100)
{
    const size_t nbytes = (size_t)TEST_COPY_JOBS * TEST_COPY_SLOT;
    const int before = (self->rank + self->nranks - 1) % self->nranks;
    char *want = malloc(nbytes), *got = malloc(nbytes), source[TEST_COPY_SOURCE];
    RANK_TRY(self, symm_alloc(b->w, sizeof source, &b->a.x));
    RANK_TRY(self, symm_alloc(b->w, nbytes, &b->a.y));
    for (int i = 0; i < TEST_MOVE_PUT_BULK * DEVICE_SHAPES; i++) {
        const uint64_t tag = 1000 + 100 * (uint64_t)i;
        b->a.mode = i / DEVICE_SHAPES;
        reference_poison(source, sizeof source, tag + (uint64_t)self->rank);
        RANK_TRY(self, symm_fill(b->a.y, 0x5a, nbytes, b->s));
        RANK_TRY(self, device_write(b, b->a.x, source, sizeof source));
        RANK_TRY(self,
                 device_run_together(b, device_rounds(4, 64), device_threads[i % DEVICE_SHAPES]));
        RANK_TRY(self, device_read(b, got, b->a.y, nbytes));
        reference_poison(source, sizeof source, tag + (uint64_t)before);
        memset(want, 0x5a, nbytes);
        for (uint32_t job = 0; job < TEST_COPY_JOBS; job++)
            memcpy(want + test_copy_to(job), source + test_copy_from(job), job % TEST_COPY_SIZES);
        for (size_t at = 0; at < nbytes; at++)
            self->report->wrong += got[at] != want[at];
        CHECK_RANK_MSG(self, self->report->wrong == 0, "mode %d, %u threads: %lld bytes wrong",
                       b->a.mode, device_threads[i % DEVICE_SHAPES],
                       (long long)self->report->wrong);
    }
out:
    free(want);
    free(got);
}

/* ---- Put with signal ---- */

enum { MOST = (1 << 20) + 16 + 5, ROOM = MOST + 2 * TEST_COPY_GUARD + 64 };

/* A put of nbytes from `from` bytes behind an aligned address to `to` bytes behind another. */
struct put {
    int mode;
    uint32_t nbytes, from, to, shared_nbytes, threads;
};

static symm_status put_once(struct device_bench *b, const struct put *p, char *want, char *got)
{
    struct rank *self = b->self;
    const uint32_t before = (uint32_t)(self->rank + self->nranks - 1) % (uint32_t)self->nranks;
    const size_t around = p->nbytes + 2 * TEST_COPY_GUARD + 64;
    b->a.mode = p->mode;
    b->a.nbytes = p->nbytes;
    b->a.rounds = p->to << 16 | p->from;
    b->a.param = (int32_t)p->shared_nbytes;
    b->a.seed++;
    RANK_TRY(self, symm_fill(b->a.y, 0x5a, ROOM, b->s));
    RANK_TRY(self, symm_fill(b->a.out, 0xa5, ROOM, b->s));
    RANK_TRY(self, symm_barrier(b->w, b->s));
    RANK_TRY(self, device_run(b, 1, p->threads));
    RANK_TRY(self, device_read(b, got, b->a.out, around));
    for (uint32_t i = 0; i < around / 4; i++) {
        const uint32_t word = test_device_word(b->a.seed, 0, before, 0, i);
        memcpy(want + 4 * i, &word, sizeof word);
    }
    memmove(want + p->to, want + p->from, p->nbytes);
    memset(want, 0x5a, p->to);
    memset(want + p->to + p->nbytes, 0x5a, around - p->to - p->nbytes);
    for (size_t at = 0; at < around; at++)
        self->report->wrong += got[at] != want[at];
    CHECK_RANK_MSG(self, self->report->wrong == 0,
                   "mode %d, %u bytes from %u to %u, %u threads, %u shared: %lld bytes wrong",
                   p->mode, p->nbytes, p->from, p->to, p->threads, p->shared_nbytes,
                   (long long)self->report->wrong);
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

DEVICE_TEST(transfers, a_put_with_signal_brings_all_bytes_and_leaves_the_others, "test_put", 2,
            device_setting.pair, .timeout_s = 100)
{
    static const struct {
        uint32_t from, to, more; /* more: bytes beyond the size */
    } alignments[] = {{16, 16, 0}, {16, 32, 0}, {16, 24, 0}, {20, 16, 0},
                      {18, 22, 0}, {17, 16, 0}, {16, 16, 5}, {23, 23, 5}};
    static const uint32_t sizes[] = {0, 16, 1 << 10, 100 << 10, (1 << 20) + 16};
    static const uint32_t shared[] = {512, 1 << 10, 1536, 16 << 10, 48 << 10};
    char *want = malloc(ROOM), *got = malloc(ROOM);
    const uint32_t nalignments = sizeof alignments / sizeof alignments[0];
    b->a.seed = (uint32_t)reference_random(940, 0);
    RANK_TRY(self, symm_alloc(b->w, ROOM, &b->a.x));
    RANK_TRY(self, symm_alloc(b->w, ROOM, &b->a.y));
    RANK_TRY(self, symm_alloc(b->w, ROOM, &b->a.out));
    for (uint32_t i = 0; i < 5 * nalignments; i++) {
        const uint32_t size = sizes[i % 5], a = i / 5 % nalignments;
        const bool falls_back =
            alignments[a].from % 16 || alignments[a].to % 16 || alignments[a].more;
        struct put p = {.nbytes = size + alignments[a].more,
                        .from = alignments[a].from,
                        .to = alignments[a].to,
                        .threads = device_threads[i % DEVICE_SHAPES]};
        for (p.mode = 0; p.mode < TEST_MOVES; p.mode++) {
            if (p.mode == TEST_MOVE_PUT_BULK) /* it does the same whatever the memory, if not */
                for (int s = falls_back ? 4 : 0; s < 5; s++) {
                    p.shared_nbytes = shared[s];
                    RANK_TRY(self, put_once(b, &p, want, got));
                }
            else if (put_once(b, &p, want, got) != SYMM_OK)
                goto out;
        }
    }
out:
    free(want);
    free(got);
}
