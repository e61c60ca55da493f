/* Places, plans, and calls that go wrong. */
#include "trial.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "exercise.h"
#include "reference.h"
#include "test.h"
#include "world.h"

enum { IN, OUT };

symm_status trial_open(symm_context *ctx, size_t most, struct trial_buffers *b)
{
    symm_status st = SYMM_OK;

    b->ctx = ctx;
    b->nbytes = most + 2 * TRIAL_MARGIN;
    b->got = malloc(b->nbytes);
    for (int i = 0; i < 2 && st == SYMM_OK; i++) {
        b->sent[i] = malloc(b->nbytes);
        st = symm_alloc(symm_context_world(ctx), b->nbytes, (void **)&b->symmetric[i]);
        if (st == SYMM_OK)
            st = symm_device_alloc(ctx, b->nbytes, (void **)&b->foreign[i]);
    }
    return st == SYMM_OK ? symm_stream_create(ctx, &b->stream) : st;
}

void trial_close(struct trial_buffers *b)
{
    for (int i = 0; i < 2 && b->ctx; i++) {
        symm_free(symm_context_world(b->ctx), b->symmetric[i]);
        symm_device_free(b->ctx, b->foreign[i]);
        free(b->sent[i]);
    }
    symm_stream_destroy(b->stream);
    free(b->got);
}

/* ---- One call ---- */

void trial_put(const struct trial_buffers *b, const struct collective *c, enum trial_place place,
               int rank, int nranks, char **in, char **out)
{
    const size_t size = symm_dtype_size(c->dtype), part = c->count * size;
    const bool foreign =
        place == FOREIGN || place == FOREIGN_IN_PLACE || place == FOREIGN_UNALIGNED ||
        (place == FOREIGN_ON_ODD_RANKS && rank % 2) ||
        (place == FOREIGN_ON_ONE_RANK && rank == (int)(c->round % (uint64_t)nranks));
    const size_t each = (size_t)rank * 16, odd = size * (size_t)(1 + rank);

    *in = (foreign || place == ONLY_OUT_SYMMETRIC ? b->foreign : b->symmetric)[IN] + TRIAL_MARGIN;
    *out = (foreign || place == ONLY_IN_SYMMETRIC ? b->foreign : b->symmetric)[OUT] + TRIAL_MARGIN;
    *in += place == OTHER_OFFSET_ON_EACH_RANK ? each
           : place == UNALIGNED_ALIKE         ? size
           : place == UNALIGNED_ON_EACH_RANK  ? odd
           : place == FOREIGN_UNALIGNED       ? odd
                                              : 0;
    *out += place == OTHER_OFFSET_ON_EACH_RANK ? each
            : place == UNALIGNED_ALIKE         ? 3 * size
            : place == UNALIGNED_ON_EACH_RANK  ? 2 * odd
            : place == FOREIGN_UNALIGNED       ? 5 * size
                                               : 0;
    if (place != SYMMETRIC_IN_PLACE && place != FOREIGN_IN_PLACE)
        return;
    if (c->operation == ALL_GATHER)
        *in = *out + (size_t)rank * part;
    else
        *out = *in + (c->operation == REDUCE_SCATTER ? (size_t)rank * part : 0);
}

/* A buffer with its margins, as it is sent: a pattern, and in it `nbytes` bytes of data. */
struct region {
    char *device, *host;
    size_t nbytes; /* without the margins */
};

enum { AROUND = TRIAL_MARGIN / 2 };

static symm_status send(const struct region *r, symm_stream stream)
{
    return symm_copy(r->device - AROUND, r->host, r->nbytes + 2 * AROUND, stream);
}

static symm_status fetch(symm_group *group, const struct region *r, char *got, symm_stream stream)
{
    const symm_status st = symm_copy(got, r->device - AROUND, r->nbytes + 2 * AROUND, stream);
    return st == SYMM_OK ? symm_synchronize(group, stream) : st;
}

/* Whether all is as it was sent, but for `length` bytes from `at` on. */
static bool unchanged(const struct region *r, const char *got, size_t at, size_t length)
{
    const size_t end = AROUND + at + length;
    return memcmp(got, r->host, AROUND + at) == 0 &&
           memcmp(got + end, r->host + end, r->nbytes + 2 * AROUND - end) == 0;
}

symm_status trial_call(struct rank *self, symm_group *group, const struct trial_buffers *b,
                       enum trial_place place, const struct collective *c)
{
    const int rank = symm_rank(group), n = symm_nranks(group);
    const size_t in_nbytes = collective_in_nbytes(c, n), out_nbytes = collective_out_nbytes(c, n);
    char *in, *out;

    trial_put(b, c, place, rank, n, &in, &out);
    const bool in_place = place == SYMMETRIC_IN_PLACE || place == FOREIGN_IN_PLACE;
    const bool within = in_place && c->operation == REDUCE_SCATTER; /* out within in */
    const struct region to = {within ? in : out, b->sent[OUT], within ? in_nbytes : out_nbytes},
                        from = {in, b->sent[IN], in_nbytes};
    const struct region *const data = in_place ? &to : &from;
    const size_t at = (size_t)(out - to.device);

    reference_poison(from.host, from.nbytes + 2 * AROUND, reference_random(101, c->round));
    reference_poison(to.host, to.nbytes + 2 * AROUND, reference_random(102, c->round));
    collective_fill(c, rank, n, data->host + AROUND + (in - data->device));
    RANK_TRY(self, send(&to, b->stream));
    if (!in_place)
        RANK_TRY(self, send(&from, b->stream));
    RANK_TRY(self, collective_call(c, group, in, out, b->stream));
    RANK_TRY(self, fetch(group, &to, b->got, b->stream));
    const int64_t wrong = collective_wrong(c, rank, n, b->got + AROUND + at);
    self->report->wrong += wrong;
    CHECK_RANK_MSG(self, wrong == 0, "%d wrong: place %d, %d ranks, %s", (int)wrong, (int)place, n,
                   collective_text(c));
    CHECK_RANK_MSG(self, unchanged(&to, b->got, at, out_nbytes),
                   "written around out: place %d, %d ranks, %s", (int)place, n, collective_text(c));
    if (!in_place)
        RANK_TRY(self, fetch(group, &from, b->got, b->stream));
    CHECK_RANK_MSG(self, in_place || unchanged(&from, b->got, 0, 0),
                   "in was written: place %d, %d ranks, %s", (int)place, n, collective_text(c));
    self->report->value[0]++;
    return SYMM_OK;
out:
    return self->report->status ? self->report->status : SYMM_ERROR_STATE;
}

/* ---- Plans ---- */

static size_t draw_count(uint64_t draw, size_t most)
{
    static const size_t edges[] = {0,  1,  2,  3,  4,   5,   7,   8,    9,    15,   16,   17,  31,
                                   33, 63, 64, 65, 255, 256, 257, 1000, 1023, 1024, 1025, 4099};
    const size_t nedges = sizeof edges / sizeof edges[0];
    const size_t count = draw % 4 ? edges[draw / 4 % nedges] : draw / 4 % (most + 1);
    return count <= most ? count : most;
}

static struct collective draw_call(const struct trial_plan *plan, int a, int k, uint64_t draw,
                                   uint64_t round)
{
    return (struct collective){
        .operation = plan->operation,
        .algo = plan->algos[a],
        .dtype = plan->kinds[k].dtype,
        .op = plan->kinds[k].op,
        .count = draw_count(draw >> 8, plan->most),
        .max_blocks = draw >> 48 & 3,
        .flags = round % 2 && !collective_by_switch(plan->algos[a]) ? SYMM_DETERMINISTIC : 0,
        .root = (int)(draw >> 52 & 63),
        .round = round | (plan->special ? REFERENCE_SPECIAL : 0),
    };
}

WORLD_RANK(run_plan)
{
    const struct trial_plan *plan = arg;
    const size_t n = plan->operation == ALL_REDUCE ? 1 : (size_t)self->nranks;
    struct trial_buffers b = {0};
    uint64_t round = 0;

    RANK_TRY(self, trial_open(ctx, plan->most * n * 8, &b));
    for (int a = 0; a < plan->nalgos; a++)
        for (int k = 0; k < plan->nkinds; k++) {
            struct collective c = draw_call(plan, a, k, 0, 0);
            if (collective_unavailable(&c, world))
                continue;
            self->report->value[1] |= 1 << c.algo;
            for (int i = 0; i < plan->ncounts; i++)
                for (int p = 0; p < (plan->all_places ? TRIAL_PLACES : 1); p++) {
                    const uint64_t draw = reference_random(99, ++round);
                    const int place = plan->all_places ? p : (int)(draw >> 40) % TRIAL_PLACES;
                    c = draw_call(plan, a, k, draw, round);
                    RANK_TRY(self, trial_call(self, world, &b, (enum trial_place)place, &c));
                }
        }
out:
    trial_close(&b);
}

void trial_run(int nranks, enum ranks_mode mode, const struct trial_plan *plan)
{
    struct rank_report reports[RANKS_MAX];
    ranks_run(nranks, mode, run_plan, (void *)(uintptr_t)plan, reports, 200);
    ranks_assert_ok(reports, nranks);
    for (int r = 1; r < nranks; r++) {
        ck_assert_int_eq(reports[r].value[0], reports[0].value[0]);
        ck_assert_int_eq(reports[r].value[1], reports[0].value[1]);
    }
    printf("# %d ranks: %lld calls\n", nranks, (long long)reports[0].value[0]);
    for (int a = 0; a < plan->nalgos && nranks > 1; a++)
        ck_assert(reports[0].value[1] & 1 << plan->algos[a] || !collective_built(plan->algos[a]));
}

/* ---- Calls that go wrong ---- */

enum { TRIO = 3 };

struct pair {
    const struct collective *call, *other;
    const char *part; /* of the text */
};

/* Opens buffers for both calls; from then on all ranks are there. */
static symm_status open_trio(struct rank *self, symm_context *ctx, const struct pair *pair,
                             struct trial_buffers *b)
{
    size_t most = collective_in_nbytes(pair->call, TRIO) + collective_out_nbytes(pair->call, TRIO);
    if (pair->other)
        most += collective_in_nbytes(pair->other, TRIO) + collective_out_nbytes(pair->other, TRIO);
    RANK_TRY(self, trial_open(ctx, most, b));
    RANK_TRY(self, symm_exchange(symm_context_world(ctx), NULL, 0, NULL));
out:
    return self->report->status;
}

WORLD_RANK(call_or_abort)
{
    const struct pair *pair = arg;
    struct trial_buffers b = {0};

    RANK_TRY(self, open_trio(self, ctx, pair, &b));
    if (self->rank == TRIO - 1) {
        pause_ms(200);
        self->report->value[0] = now_ms();
        symm_abort(world, "enough");
    } else {
        RANK_TRY(self, collective_call(pair->call, world, b.foreign[IN], b.foreign[OUT], b.stream));
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "enough", symm_synchronize(world, b.stream));
        self->report->value[0] = now_ms();
    }
out:
    trial_close(&b);
}

/* Until the last of the others was told, in milliseconds. */
static int64_t time_abort(const struct collective *c)
{
    struct rank_report reports[TRIO];
    struct pair pair = {c, NULL, NULL};
    int64_t last = 0;
    ranks_run(TRIO, RANKS_AS_PROCESSES, call_or_abort, &pair, reports, 60);
    ranks_assert_ok(reports, TRIO);
    for (int r = 0; r < TRIO - 1; r++) {
        const int64_t took = reports[r].value[0] - reports[TRIO - 1].value[0];
        ck_assert_msg(took >= 0, "rank %d had not waited: %s", r, collective_text(c));
        last = took > last ? took : last;
    }
    return last;
}

void trial_abort(const struct collective *c)
{
    int64_t took = INT64_MAX;
    if (!collective_built(c->algo))
        TEST_SKIP("a build without multicast");
    setenv("SYMM_CHECK", "0", 1);
    for (int attempt = 0; attempt < 3 && took >= 1000; attempt++) /* the machine may be busy */
        took = time_abort(c);
    ck_assert_msg(took < 1000, "told after %lld ms: %s", (long long)took, collective_text(c));
}

WORLD_RANK(call_differently)
{
    const struct pair *pair = arg;
    const struct collective *c = self->rank == 1 ? pair->other : pair->call;
    struct trial_buffers b = {0};

    RANK_TRY(self, open_trio(self, ctx, pair, &b));
    symm_status st = collective_call(c, world, b.foreign[IN], b.foreign[OUT], b.stream);
    if (st == SYMM_OK)
        st = symm_synchronize(world, b.stream);
    CHECK_RANK_MSG(self, st == SYMM_ERROR_MISMATCH, "%s: %s: %s", collective_text(c),
                   symm_status_name(st), symm_error_text());
    CHECK_RANK_MSG(self, strstr(symm_error_text(), pair->part), "%s", symm_error_text());
    if (!strcmp(getenv("SYMM_CHECK"), "0")) /* the kernels have met: nothing can come after that */
        CHECK_RANK(self, symm_check(world) == SYMM_ERROR_MISMATCH);
out:
    trial_close(&b);
}

void trial_mismatch(const struct collective *c, const struct collective *other, const char *part)
{
    struct pair pair = {c, other, part};
    if (!collective_built(c->algo))
        TEST_SKIP("a build without multicast");
    /* Kernels that do not even meet wait until then. */
    setenv("SYMM_TIMEOUT_MS", "3000", 1);
    ranks_run_ok(TRIO, RANKS_AS_PROCESSES, call_differently, &pair, 60);
}
