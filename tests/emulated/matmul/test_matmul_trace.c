/*
 * Traces of products: by the Hopper kernel and by the portable one, of every strategy, with SMs and
 * with copy engines as senders. A trace has each tile of D once, each chunk, and each rank that was
 * waited for; a traced run has the bits of an untraced one. The emulated devices share one clock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "emulated.h"
#include "leaks.h"
#include "matmul/product.h"
#include "matmul_bench.h"
#include "test.h"

enum { CAPACITY = 65536, CHUNKS = 64 };

/* Several tiles in each direction, and two B. */
static const struct matmul_case traced_case = {.kind = SYMM_ALL_GATHER_MATMUL,
                                               .in = SYMM_BFLOAT16,
                                               .out = SYMM_BFLOAT16,
                                               .addend = SYMM_FLOAT32,
                                               .m = 300,
                                               .k = 72,
                                               .l = 1,
                                               .nb = 2,
                                               .n = {136, 8},
                                               .contiguous = true,
                                               .traced = true};

struct trace {
    const symm_matmul_event *events;
    size_t n, dropped;
};

/* When a rank began to send each chunk to each rank; 0: it did not, or copy engines did. */
struct sent {
    uint64_t begin[SYMM_MAX_RANKS][CHUNKS];
};

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static size_t count(const struct trace *t, symm_matmul_event_kind kind)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n; i++)
        n += t->events[i].kind == kind;
    return n;
}

/* ---------------------------------------------------------------------------- what it must have */

/* Events lie within the run, in the order of their begin. */
static symm_status check_times(struct rank *self, const struct trace *t, uint64_t from, uint64_t to)
{
    for (size_t i = 0; i < t->n; i++) {
        const symm_matmul_event *e = &t->events[i];
        CHECK_RANK_MSG(self, from <= e->begin && e->begin <= e->end && e->end <= to,
                       "event %zu of kind %d is not within the run", i, e->kind);
        CHECK_RANK_MSG(self, i == 0 || e[-1].begin <= e->begin, "event %zu is out of order", i);
        CHECK_RANK(self, e->sm >= 0 && e->block >= 0 && e->thread >= 0 && e->role != 0);
    }
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

/* Every element of every D is in one tile, which has rows of the rank that is named. */
static symm_status check_tiles(struct rank *self, const struct trace *t,
                               const struct matmul_case *c)
{
    for (int p = 0; p < c->nb; p++) {
        const int32_t n = c->n[p];
        unsigned char *seen = calloc((size_t)c->l * (size_t)c->m, (size_t)n);
        size_t wrong = 0, shared = 0;

        for (const symm_matmul_event *e = t->events; e < t->events + t->n; e++)
            for (int32_t i = 0; e->kind == SYMM_MATMUL_EVENT_TILE && e->product == p && i < e->rows;
                 i++)
                for (int32_t j = 0; j < e->columns; j++)
                    seen[((int64_t)e->batch * c->m + e->row + i) * n + e->column + j]++;
        for (size_t i = 0; i < (size_t)c->l * (size_t)c->m * (size_t)n; i++)
            if (c->schedule == SYMM_SCHEDULE_STREAM_K && seen[i] == 2)
                shared++;
            else
                wrong += seen[i] != 1;
        free(seen);
        CHECK_RANK_MSG(self, wrong == 0, "d[%d]: %zu elements not in one tile", p, wrong);
        CHECK_RANK(self, c->schedule != SYMM_SCHEDULE_STREAM_K || shared > 0);
    }
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

static uint32_t chunks_of(const symm_matmul *m, int rank)
{
    const int32_t rows = symm__rows_of_rank(m->problem.m, m->problem.nranks, rank);

    return symm__chunks_of_rows((uint64_t)rows * (uint64_t)m->problem.l, m->plan.strip_rows,
                                m->plan.k_pieces);
}

/* Each chunk is sent to each other rank once, if SMs send. Notes when. */
static symm_status check_sends(struct rank *self, const struct trace *t, const symm_matmul *m,
                               struct sent *sent)
{
    const bool by_sms = m->plan.chunks > 0 && m->plan.sender == SYMM_SENDER_SMS;
    const size_t wanted = by_sms ? chunks_of(m, self->rank) * (size_t)(self->nranks - 1) : 0;

    memset(sent, 0, sizeof *sent);
    for (const symm_matmul_event *e = t->events; e < t->events + t->n; e++) {
        if (e->kind != SYMM_MATMUL_EVENT_SEND)
            continue;
        CHECK_RANK(self, e->rank != self->rank && e->rank >= 0 && e->rank < self->nranks);
        CHECK_RANK(self, e->chunk >= 0 && e->chunk < CHUNKS && e->role == SYMM_MATMUL_ROLE_SENDER);
        CHECK_RANK_MSG(self, !sent->begin[e->rank][e->chunk], "chunk %d to rank %d twice", e->chunk,
                       e->rank);
        sent->begin[e->rank][e->chunk] = e->begin;
    }
    CHECK_RANK_MSG(self, count(t, SYMM_MATMUL_EVENT_SEND) == wanted,
                   "%zu chunks sent instead of "
                   "%zu",
                   count(t, SYMM_MATMUL_EVENT_SEND), wanted);
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

/* Each chunk of each other rank is waited for, and no wait ends before the chunk is sent. */
static symm_status check_waits(struct rank *self, const struct trace *t, const symm_matmul *m,
                               const struct sent *sent)
{
    bool seen[SYMM_MAX_RANKS][CHUNKS] = {{false}};

    for (const symm_matmul_event *e = t->events; e < t->events + t->n; e++) {
        if (e->kind != SYMM_MATMUL_EVENT_WAIT_ROWS)
            continue;
        CHECK_RANK(self, e->rank != self->rank && e->rank >= 0 && e->rank < self->nranks);
        CHECK_RANK(self, e->chunk >= 0 && (uint32_t)e->chunk < chunks_of(m, e->rank));
        CHECK_RANK_MSG(self, e->end >= sent[e->rank].begin[self->rank][e->chunk],
                       "chunk %d of rank %d was seen before it was sent", e->chunk, e->rank);
        seen[e->rank][e->chunk] = true;
    }
    for (int r = 0; r < self->nranks && m->plan.chunks > 0; r++)
        for (uint32_t i = 0; r != self->rank && i < chunks_of(m, r); i++)
            CHECK_RANK_MSG(self, seen[r][i], "nobody waited for chunk %u of rank %d", i, r);
    CHECK_RANK(self, m->plan.chunks > 0 || count(t, SYMM_MATMUL_EVENT_WAIT_ROWS) == 0);
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

/* A run with transfers opens one round, and waits for each workspace once. */
static symm_status check_rounds(struct rank *self, const struct trace *t, const symm_matmul *m)
{
    const size_t rounds = m->plan.chunks > 0;
    unsigned waited = 0;

    CHECK_RANK(self, count(t, SYMM_MATMUL_EVENT_OPEN_ROUND) == rounds);
    CHECK_RANK(self,
               count(t, SYMM_MATMUL_EVENT_WAIT_WORKSPACE) == rounds * (size_t)(self->nranks - 1));
    for (const symm_matmul_event *e = t->events; e < t->events + t->n; e++)
        if (e->kind == SYMM_MATMUL_EVENT_WAIT_WORKSPACE)
            waited |= 1u << e->rank;
    CHECK_RANK(self, !rounds || waited == (((1u << self->nranks) - 1) & ~(1u << self->rank)));
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

static symm_status check_trace(struct rank *self, const struct matmul_job *job, uint64_t from)
{
    struct sent sent[SYMM_MAX_RANKS], mine;
    struct trace t;

    RANK_TRY(self, symm_matmul_trace(job->m, &t.events, &t.n, &t.dropped));
    CHECK_RANK(self, t.n > 0 && t.dropped == 0);
    RANK_TRY(self, check_times(self, &t, from, now_ns()));
    RANK_TRY(self, check_tiles(self, &t, &job->c));
    RANK_TRY(self, check_rounds(self, &t, job->m));
    RANK_TRY(self, check_sends(self, &t, job->m, &mine));
    RANK_TRY(self, symm_exchange(job->group, &mine, sizeof mine, sent));
    RANK_TRY(self, check_waits(self, &t, job->m, sent));
out:
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

/* ------------------------------------------------------------------------------------- the runs */

/* Runs the job's product and keeps what is in its memory afterwards. */
static symm_status run_and_keep(struct rank *self, struct matmul_job *job, symm_stream stream,
                                char *kept[MATMUL_REGIONS])
{
    RANK_TRY(self, matmul_job_create(self, job));
    RANK_TRY(self, matmul_job_send(self, job, 1, stream));
    RANK_TRY(self, matmul_job_run(self, job, stream));
    RANK_TRY(self, matmul_job_fetch(self, job, NULL, stream));
    for (int i = 0; i < MATMUL_REGIONS; i++) {
        kept[i] = malloc(job->nbytes[i]);
        memcpy(kept[i], job->got[i], job->nbytes[i]);
    }
    symm_matmul_destroy(job->m);
    job->m = NULL;
out:
    return self->report->status;
}

/* Traced runs have the bits of an untraced one. The trace of each replaces the one before. */
static symm_status run_traced(struct rank *self, struct matmul_bench *b,
                              const struct matmul_case *c)
{
    char *kept[MATMUL_REGIONS] = {NULL, NULL};
    struct matmul_job *job = &b->job;

    matmul_job_close(job);
    RANK_TRY(self, matmul_job_open(self, b->ctx, b->world, c, job));
    job->c.traced = false;
    RANK_TRY(self, run_and_keep(self, job, b->stream, kept));
    job->c.traced = true;
    RANK_TRY(self, matmul_job_create(self, job));
    for (int i = 0; i < 2; i++) {
        const uint64_t from = now_ns();
        RANK_TRY(self, matmul_job_send(self, job, 1, b->stream));
        RANK_TRY(self, matmul_job_run(self, job, b->stream));
        RANK_TRY(self, matmul_job_fetch(self, job, NULL, b->stream));
        for (int region = 0; region < MATMUL_REGIONS; region++)
            CHECK_RANK(self, memcmp(kept[region], job->got[region], job->nbytes[region]) == 0);
        RANK_TRY(self, check_trace(self, job, from));
    }
out:
    for (int i = 0; i < MATMUL_REGIONS; i++)
        free(kept[i]);
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

static void every_strategy(struct rank *self, struct matmul_bench *b)
{
    struct matmul_case c = traced_case;

    for (int s = SYMM_STRATEGY_FUSED; s <= SYMM_STRATEGY_UNFUSED; s++) {
        c.strategy = (symm_strategy)s;
        RANK_TRY(self, run_traced(self, b, &c));
    }
    c.kind = SYMM_MATMUL;
    c.strategy = SYMM_STRATEGY_AUTO;
    c.l = 2;
    RANK_TRY(self, run_traced(self, b, &c));
out:;
}

TEST_GROUP(traces, 250);

/* Of two and three ranks; with SMs as senders, then copy engines. */
static const char *const engine_bytes[] = {"4G", "1"};

MATMUL_TEST(traces, of_the_Hopper_kernel, 2 + _i / 2, .timeout_s = 200,
            .env = {{"SYMM_MATMUL_ENGINE_BYTES", engine_bytes[_i % 2]}}, .loop = {0, 4})
{
    every_strategy(self, b);
}

/* Two blocks have events of each tile of the last wave: here of all tiles. */
MATMUL_TEST(traces, of_shared_tiles, 2, .timeout_s = 200,
            .env = {
                {"SYMM_EMULATED_SMS", "5"}, {"SYMM_MATMUL_SPLIT", "0"}, {"SYMM_MATMUL_WGMMA", "1"}})
{
    struct matmul_case c = traced_case;

    c.schedule = SYMM_SCHEDULE_STREAM_K;
    c.kind = SYMM_MATMUL;
    c.m = 200;
    c.k = 264;
    c.nb = 1;
    c.n[0] = 192;
    RANK_TRY(self, run_traced(self, b, &c));
out:;
}

MATMUL_TEST(traces, of_the_portable_kernel, 2 + _i / 2, .timeout_s = 200,
            .env = {{"SYMM_MATMUL_ENGINE_BYTES", engine_bytes[_i % 2]}, {"SYMM_MATMUL_WGMMA", "0"}},
            .loop = {0, 4})
{
    every_strategy(self, b);
}

MATMUL_TEST(traces, in_weakly_ordered_memory, 2, .timeout_s = 200,
            .env = {{"SYMM_MATMUL_ENGINE_BYTES", "4G"},
                    {"SYMM_EMULATED_WEAK", "1"},
                    {"SYMM_EMULATED_BLOCK", "32"}})
{
    struct matmul_case c = traced_case;

    c.m = 40;
    c.k = 64;
    for (int s = SYMM_STRATEGY_FUSED; s <= SYMM_STRATEGY_PIPELINED; s++) {
        c.strategy = (symm_strategy)s;
        RANK_TRY(self, run_traced(self, b, &c));
    }
out:;
}

/* A graph records its last replay. */
MATMUL_TEST(traces, of_a_graph, 2, .env = {{"SYMM_MATMUL_ENGINE_BYTES", "4G"}})
{
    symm_graph graph = NULL;
    struct matmul_case c = traced_case;
    uint64_t from = 0;

    c.strategy = SYMM_STRATEGY_FUSED;
    RANK_TRY(self, matmul_bench_change(self, b, &c));
    RANK_TRY(self, symm_graph_begin(b->stream));
    RANK_TRY(self, matmul_job_run(self, &b->job, b->stream));
    RANK_TRY(self, symm_graph_end(b->stream, &graph));
    for (int i = 0; i < 3; i++) {
        from = now_ns();
        RANK_TRY(self, symm_graph_launch(graph, b->stream));
        RANK_TRY(self, symm_synchronize(b->world, b->stream));
    }
    RANK_TRY(self, check_trace(self, &b->job, from));
out:
    symm_graph_destroy(graph);
}

/* ----------------------------------------------------------------------------------- its limits */

/* One tile a batch. The first CAPACITY events are kept, the others counted. */
MATMUL_TEST(traces, events_without_room_are_counted, 1, .env = {{"SYMM_MATMUL_WGMMA", "0"}})
{
    struct matmul_case c = {.kind = SYMM_MATMUL,
                            .in = SYMM_BFLOAT16,
                            .out = SYMM_FLOAT32,
                            .addend = SYMM_FLOAT32,
                            .m = 1,
                            .k = 1,
                            .l = CAPACITY + 1234,
                            .nb = 1,
                            .n = {1},
                            .contiguous = true,
                            .traced = true};
    struct trace t;

    RANK_TRY(self, matmul_bench_change(self, b, &c));
    RANK_TRY(self, symm_matmul_trace(b->job.m, &t.events, &t.n, &t.dropped));
    CHECK_RANK_MSG(self, t.n == CAPACITY && t.dropped == 1234, "%zu events, %zu dropped", t.n,
                   t.dropped);
out:;
}

static symm_status nobody_knows(struct rank *self, struct matmul_bench *b, const char *part,
                                symm_matmul *m, bool events, bool nevents, bool ndropped)
{
    struct trace t;
    char who[24];

    snprintf(who, sizeof who, "(on rank %d)", self->rank);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, part,
                     symm_matmul_trace(m, events ? &t.events : NULL, nevents ? &t.n : NULL,
                                       ndropped ? &t.dropped : NULL));
    RANK_TEXT(self, "symm_matmul_trace: ");
    if (m)
        RANK_TEXT(self, who);
    return matmul_bench_works(self, b);
out:
    return SYMM_ERROR_STATE;
}

MATMUL_TEST(traces, wrong_calls_are_named, 2)
{
    struct matmul_case c = traced_case;
    symm_graph graph = NULL;
    struct trace t = {NULL, 1, 1};

    c.m = 40;
    RANK_TRY(self, nobody_knows(self, b, "m is NULL", NULL, true, true, true));
    RANK_TRY(self, nobody_knows(self, b, "m was created with flags 0, without SYMM_MATMUL_TRACE",
                                b->job.m, true, true, true));
    RANK_TRY(self, matmul_bench_change(self, b, &c));
    RANK_TRY(self, nobody_knows(self, b, "events is NULL", b->job.m, false, true, true));
    RANK_TRY(self, nobody_knows(self, b, "ndropped is NULL", b->job.m, true, true, false));
    RANK_TRY(self, nobody_knows(self, b, "nevents is NULL", b->job.m, true, false, true));
    RANK_TRY(self, symm_graph_begin(b->stream));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_STATE, "symm_matmul_trace: ",
                     symm_matmul_trace(b->job.m, &t.events, &t.n, &t.dropped));
    RANK_TRY(self, symm_graph_end(b->stream, &graph));
    symm_matmul_destroy(b->job.m);
    RANK_TRY(self, matmul_job_create(self, &b->job));
    RANK_TRY(self, symm_matmul_trace(b->job.m, &t.events, &t.n, &t.dropped));
    CHECK_RANK(self, t.n == 0 && t.dropped == 0); /* it has not run */
out:
    symm_graph_destroy(graph);
}

/* Ranks need not agree whether they trace. */
MATMUL_TEST(traces, of_one_rank_alone, 3)
{
    struct matmul_case c = traced_case;
    struct trace t;

    c.m = 60;
    c.strategy = SYMM_STRATEGY_FUSED;
    c.traced = self->rank == 1;
    RANK_TRY(self, matmul_bench_change(self, b, &c));
    if (c.traced) {
        RANK_TRY(self, symm_matmul_trace(b->job.m, &t.events, &t.n, &t.dropped));
        CHECK_RANK(self, count(&t, SYMM_MATMUL_EVENT_TILE) > 0);
    }
out:;
}

/* -------------------------------------------------------------------------------- what it costs */

enum { IMAGES = 3 };

/* Untraced products load no traced image and have no memory for events; traced ones load once. */
MATMUL_TEST(traces, load_their_kernels_when_the_first_one_is_created, 2)
{
    struct matmul_case c = traced_case;
    struct leaks untraced, traced, again;

    c.m = 40;
    leaks_take(&untraced); /* the bench has a product */
    RANK_TRY(self, matmul_bench_change(self, b, &c));
    leaks_take(&traced);
    RANK_TRY(self, matmul_bench_change(self, b, &c));
    leaks_take(&again);
    CHECK_RANK_MSG(self, traced.driver.modules == untraced.driver.modules + IMAGES, "%d, then %d",
                   (int)untraced.driver.modules, (int)traced.driver.modules);
    CHECK_RANK(self, again.driver.modules == traced.driver.modules);
    CHECK_RANK(self, again.driver.allocations == traced.driver.allocations);
out:;
}

/* Makes the k-th driver call fail in what follows. */
static symm_status arm(struct rank *self, int k)
{
    char fault[32];

    snprintf(fault, sizeof fault, "any@0#%d=999", k);
    CHECK_RANK(self, emulated_set_fault(fault));
out:
    return self->report->status;
}

/* What came of it is this status: a call that failed is named, unless it does no harm. */
static symm_status disarm(struct rank *self, symm_status st, bool *failed)
{
    const char *call = emulated_last_fault();

    *failed = call != NULL;
    CHECK_RANK_MSG(self, st == SYMM_OK || (call && st == SYMM_ERROR_DRIVER), "%s: %s: %s", call,
                   symm_status_name(st), symm_error_text());
    CHECK_RANK_MSG(self, st == SYMM_OK || strstr(symm_error_text(), call), "%s: %s", call,
                   symm_error_text());
    CHECK_RANK(self, emulated_set_fault(NULL));
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

/*
 * Every driver call of the first traced create, and of a look at its trace, fails once. Images that
 * have been loaded stay, so most calls are those for the Hopper kernel.
 */
MATMUL_TEST(traces, every_call_of_the_first_one_fails_once, 1)
{
    struct matmul_case c = traced_case;
    struct matmul_job *job = &b->job;
    struct trace t = {NULL, 0, 0};
    bool failed = true;
    int created = 0, looked = 0;

    c.kind = SYMM_MATMUL;
    c.m = 8;
    matmul_job_close(job);
    RANK_TRY(self, matmul_job_open(self, b->ctx, b->world, &c, job));
    const symm_matmul_desc desc = matmul_job_desc(job);
    for (; failed; created++) {
        symm_matmul_destroy(job->m);
        job->m = NULL;
        RANK_TRY(self, arm(self, created + 1));
        RANK_TRY(self, disarm(self, symm_matmul_create(b->world, &desc, &job->m), &failed));
    }
    RANK_TRY(self, matmul_job_works(self, job, 1, b->stream));
    for (failed = true; failed; looked++) {
        RANK_TRY(self, arm(self, looked + 1));
        RANK_TRY(self,
                 disarm(self, symm_matmul_trace(job->m, &t.events, &t.n, &t.dropped), &failed));
    }
    CHECK_RANK(self, count(&t, SYMM_MATMUL_EVENT_TILE) > 0);
    CHECK_RANK_MSG(self, created > (TEST_INSTRUMENTED ? 4 : 20) && looked > 4,
                   "only %d and %d calls failed", created - 1, looked - 1);
out:;
}

void test_setup(void)
{
    if (TEST_INSTRUMENTED) /* the Hopper kernel takes minutes there */
        setenv("SYMM_MATMUL_WGMMA", "0", 0);
}
