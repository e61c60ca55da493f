/*
 * Unfused products with plain sums over ranks: a reduce-scatter or an all-reduce of the library
 * follows the product, with the launches that a call of that collective has. Sums that are not
 * plain, even on one rank only, are made by the collecting kernel on all ranks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/collectives.h>
#include <unistd.h>
#include "matmul_plan.h"
#include "test.h"
#include "trace.h"
#include "world.h"

enum { LAUNCHES = 32, NAME = 32, SCRATCH_NBYTES = 1 << 20, TRIO = 3 };

/* ------------------------------------------------------------------------------------- launches */

/* The kernels that a rank has launched, as the trace names them. */
struct launches {
    int n;
    char name[LAUNCHES][NAME];
};

/* A run creates nothing. */
static bool note_launch(void *arg, const char *line)
{
    struct launches *all = arg;

    if (strstr(line, "cuStreamCreate") == line || strstr(line, "cuEventCreate") == line)
        return false;
    if (strstr(line, "cuLaunchKernelEx") != line)
        return true;
    return all->n < LAUNCHES &&
           sscanf(line, "cuLaunchKernelEx(function=%31[^,]", all->name[all->n++]) == 1;
}

/* The launches of the collectives that would make the sums of a job, on zeros. */
static symm_status launch_collectives(struct rank *self, const struct matmul_job *job,
                                      symm_algo algo, struct launches *out)
{
    const symm_options options = {.algo = algo, .flags = job->c.any_order ? 0 : SYMM_DETERMINISTIC};
    const bool scatters = job->c.kind == SYMM_MATMUL_REDUCE_SCATTER;
    char *scratch = NULL;
    long at = 0;

    *out = (struct launches){.n = 0};
    RANK_TRY(self, symm_device_alloc(job->ctx, 2 * SCRATCH_NBYTES, (void **)&scratch));
    RANK_TRY(self, symm_fill(scratch, 0, 2 * SCRATCH_NBYTES, NULL));
    CHECK_RANK(self, trace_read(self->rank, &at, NULL, NULL));
    for (int i = 0; i < job->c.nb; i++) {
        const size_t all = (size_t)job->c.l * (size_t)job->c.m * (size_t)job->c.n[i];
        CHECK_RANK(self, 4 * all <= SCRATCH_NBYTES);
        RANK_TRY(self, (scatters ? symm_reduce_scatter
                                 : symm_all_reduce)(job->group, scratch, scratch + SCRATCH_NBYTES,
                                                    scatters ? all / (size_t)self->nranks : all,
                                                    job->c.out, SYMM_SUM, &options, NULL));
    }
    RANK_TRY(self, symm_synchronize(job->group, NULL));
    CHECK_RANK(self, trace_read(self->rank, &at, note_launch, out));
out:
    if (scratch)
        symm_device_free(job->ctx, scratch);
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

/* Runs the job's product. Behind it are the collectives' launches, or one of another kernel. */
static symm_status run_as(struct rank *self, struct matmul_job *job, bool by_collectives,
                          symm_stream stream)
{
    struct launches got = {.n = 0}, want;
    bool same = true;
    long at = 0;

    RANK_TRY(self, symm_synchronize(job->group, stream));
    CHECK_RANK(self, trace_read(self->rank, &at, NULL, NULL));
    RANK_TRY(self, matmul_job_run(self, job, stream));
    CHECK_RANK(self, trace_read(self->rank, &at, note_launch, &got));
    RANK_TRY(self, launch_collectives(self, job, SYMM_ALGO_AUTO, &want));
    for (int i = 0; i < want.n && 1 + i < LAUNCHES; i++)
        same = same && strcmp(got.name[1 + i], want.name[i]) == 0;
    CHECK_RANK_MSG(self, same == by_collectives && got.n == (same ? 1 + want.n : 2),
                   "%s, %d launches, of the collectives %d: %s",
                   same ? "by collectives" : "by another kernel", got.n, want.n,
                   matmul_text(&job->c));
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

/* ----------------------------------------------------------------------------------- plain sums */

static const float factors[] = {1, -2, 0, 0.3f};
enum { NFACTORS = sizeof factors / sizeof *factors };

/* The i-th case. Rows of an all-reduce need not be as many on each rank. */
static struct matmul_case plain_case(int i, int nranks)
{
    static const symm_dtype types[] = {SYMM_BFLOAT16, SYMM_FLOAT16, SYMM_FLOAT32};
    const bool scatters = i % 2;

    return (struct matmul_case){
        .kind = scatters ? SYMM_MATMUL_REDUCE_SCATTER : SYMM_MATMUL_ALL_REDUCE,
        .strategy = SYMM_STRATEGY_UNFUSED,
        .in = i / 2 % 2 ? SYMM_FLOAT16 : SYMM_BFLOAT16,
        .out = types[i % 3],
        .m = scatters ? nranks * (1 + i % 5) : 1 + 12 * (i % 4),
        .k = 24,
        .l = scatters ? 1 : 1 + i / 4 % 3,
        .nb = 1 + i / 3 % 3,
        .n = {1 + 20 * (i % 3), 8, 33},
        .alpha = i % 7 ? &factors[i / 2 % NFACTORS] : NULL,
        .contiguous = true,
        .foreign = i / 6 % 2,
        .symmetric = i / 6 % 2 == 0,
        .layout = (uint64_t)i,
    };
}

static int64_t elements_of(const symm_tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i];
    return n;
}

/* The strides of a dense d [l, rows, columns] with contiguous columns; batches between or not. */
static void store_by_columns(symm_tensor *t, bool batches_between)
{
    const int last = t->ndim - 1;
    const int64_t l = t->ndim == 3 ? t->shape[0] : 1, rows = t->shape[last - 1],
                  columns = t->shape[last];

    t->strides[last - 1] = 1;
    t->strides[last] = batches_between ? l * rows : rows;
    if (t->ndim == 3)
        t->strides[0] = batches_between ? rows : rows * columns;
}

/* Opens a plain case; all d of some all-reduces are by columns. */
static symm_status open_plain(struct rank *self, symm_context *ctx, int i, struct matmul_job *job)
{
    const struct matmul_case c = plain_case(i, self->nranks);

    RANK_TRY(self, matmul_job_open(self, ctx, symm_context_world(ctx), &c, job));
    for (int which = 0; which < c.nb && c.kind == SYMM_MATMUL_ALL_REDUCE; which++)
        if ((i / 2 + which) % 2)
            store_by_columns(&job->o.d[which].t, i / 4 % 2);
out:
    return self->report->status;
}

/* With alpha 0, a and b may be anything: here they are NaNs. */
static symm_status spoil_factors(struct rank *self, struct matmul_job *job, symm_stream stream)
{
    for (int i = -1; i < job->c.nb && matmul_alpha(&job->c) == 0; i++) {
        const struct matmul_operand *x = i < 0 ? &job->o.a : &job->o.b[i];
        const size_t nbytes = 2 * (size_t)elements_of(&x->t);
        memset(job->sent[x->region] + x->at, 0xff, nbytes);
        RANK_TRY(self, symm_copy(job->device[x->region] + x->at, job->sent[x->region] + x->at,
                                 nbytes, stream));
    }
out:
    return self->report->status;
}

static symm_status send(struct rank *self, struct matmul_job *job, uint64_t round,
                        symm_stream stream)
{
    RANK_TRY(self, matmul_job_send(self, job, round, stream));
    RANK_TRY(self, spoil_factors(self, job, stream));
out:
    return self->report->status;
}

static symm_status look(struct rank *self, struct matmul_job *job, symm_stream stream)
{
    RANK_TRY(self, matmul_job_fetch(self, job, NULL, stream));
    RANK_TRY(self, matmul_job_look(self, job));
out:
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

/* A graph of one run, replayed twice with other data. */
static symm_status replay(struct rank *self, struct matmul_job *job, symm_stream stream)
{
    symm_graph graph = NULL;

    RANK_TRY(self, symm_graph_begin(stream));
    RANK_TRY(self, matmul_job_run(self, job, stream));
    RANK_TRY(self, symm_graph_end(stream, &graph));
    for (uint64_t round = 3; round < 5; round++) {
        RANK_TRY(self, send(self, job, round, stream));
        RANK_TRY(self, symm_graph_launch(graph, stream));
        RANK_TRY(self, look(self, job, stream));
    }
out:
    symm_graph_destroy(graph);
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

/* A run, two runs without a pause, and replays. */
static symm_status run_plain(struct rank *self, symm_context *ctx, int i, symm_stream stream)
{
    struct matmul_job job = {0};

    RANK_TRY(self, open_plain(self, ctx, i, &job));
    RANK_TRY(self, matmul_job_create(self, &job));
    CHECK_RANK(self, symm_matmul_strategy(job.m) == SYMM_STRATEGY_UNFUSED);
    RANK_TRY(self, send(self, &job, 1, stream));
    RANK_TRY(self, run_as(self, &job, true, stream));
    RANK_TRY(self, look(self, &job, stream));
    RANK_TRY(self, send(self, &job, 2, stream));
    RANK_TRY(self, matmul_job_run(self, &job, stream));
    RANK_TRY(self, matmul_job_run(self, &job, stream));
    RANK_TRY(self, look(self, &job, stream));
    RANK_TRY(self, replay(self, &job, stream));
out:
    matmul_job_close(&job);
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

/* Cases from *arg on. */
enum { NCASES = 12 };

static void run_plains(struct rank *self, void *arg)
{
    const int first = *(const int *)arg;
    symm_context *ctx = NULL;
    symm_stream stream = NULL;

    RANK_TRY(self, rank_join(self, &ctx));
    RANK_TRY(self, symm_stream_create(ctx, &stream));
    for (int i = first; i < first + NCASES; i++)
        RANK_TRY(self, run_plain(self, ctx, i, stream));
out:
    symm_stream_destroy(stream);
    symm_context_destroy(ctx);
}

static void run_traced(int nranks, enum ranks_mode mode, rank_fn fn, void *arg)
{
    trace_begin();
    ranks_run_ok(nranks, mode, fn, arg, 120);
    trace_end();
}

TEST_GROUP(sums, 250);

TEST_LOOP(sums, collectives_make_plain_sums_in_every_world, 2, 9)
{
    run_traced(_i, RANKS_AS_PROCESSES, run_plains, &(int){NCASES * (_i - 2)});
}

TEST_LOOP(sums, ranks_may_be_threads, 2, 5)
{
    run_traced(_i, RANKS_AS_THREADS, run_plains, &(int){NCASES * _i});
}

TEST_LOOP(sums, weakly_ordered_memory_makes_no_difference, 0, 2)
{
    if (TEST_TSAN)
        TEST_SKIP("under ThreadSanitizer memory is as strong as this machine's");
    matmul_weaken_memory(_i);
    run_traced(TRIO, RANKS_AS_PROCESSES, run_plains, &(int){200 + NCASES * _i});
}

/* ------------------------------------------------------------------------------ by copy engines */

WORLD_RANK(run_by_engines)
{
    for (int i = 1; i < 6; i += 2) /* reduce-scatters */
        RANK_TRY(self, run_plain(self, ctx, i, s));
out:;
}

/* A row of a tuning table says so. */
TEST(sums, copy_engines_may_make_them)
{
    static const char rows[] = "symm-tuning 1\nreduce-scatter 3 any any 0 copy_engine\n";
    char path[] = "/tmp/symm-tuning-XXXXXX";
    const int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, rows, sizeof rows - 1), sizeof rows - 1);
    close(fd);
    setenv("SYMM_TUNING_FILE", path, 1);
    run_traced(TRIO, RANKS_AS_PROCESSES, run_by_engines, NULL);
    unlink(path);
}

/* -------------------------------------------------------------------------------- on the switch */

/* Sums of 512 KiB, of which the switch adds as many in an all-reduce. *arg: in any order. */
WORLD_RANK(run_beside_switch)
{
    struct matmul_case c = plain_case(0, self->nranks);
    struct matmul_job job = {0};
    struct launches sums, by_switch;

    c.out = SYMM_FLOAT32;
    c.m = 64;
    c.n[0] = 2048;
    c.k = 4;
    c.any_order = *(const bool *)arg;
    RANK_TRY(self, matmul_job_open(self, ctx, world, &c, &job));
    CHECK_RANK(self, !symm_all_reduce_unavailable(world, SYMM_ALGO_MULTIMEM, c.out, SYMM_SUM));
    RANK_TRY(self, matmul_job_create(self, &job));
    RANK_TRY(self, send(self, &job, 1, s));
    RANK_TRY(self, run_as(self, &job, true, s));
    RANK_TRY(self, look(self, &job, s));
    RANK_TRY(self, launch_collectives(self, &job, SYMM_ALGO_AUTO, &sums));
    job.c.any_order = true;
    RANK_TRY(self, launch_collectives(self, &job, SYMM_ALGO_MULTIMEM, &by_switch));
    CHECK_RANK(self, (strcmp(sums.name[0], by_switch.name[0]) == 0) == c.any_order);
out:
    matmul_job_close(&job);
}

TEST_LOOP(sums, the_switch_adds_only_in_any_order, 0, 2)
{
    if (!SYMM_MULTICAST)
        TEST_SKIP("this build has no multicast");
    setenv("SYMM_MULTICAST", "1", 1);
    run_traced(4, RANKS_AS_PROCESSES, run_beside_switch, &(bool){_i});
}

/* ---------------------------------------------------------------------- sums that are not plain */

/* What keeps the collectives from making the sums. */
enum obstacle {
    BIAS_OF_ONE,       /* on rank 1 only */
    ACTIVATION_OF_ONE, /* the same */
    C_OF_ONE,
    ORDER_OF_ONE,    /* its d is by columns */
    BATCHES_INSIDE,  /* its d has neither contiguous rows nor columns */
    ORDER_OF_SHARES, /* all d of a reduce-scatter are by columns */
    BATCHES_OF_SHARES,
    RAGGED_SHARES,
    OTHER_PARTIALS,
    SAME_BITS,
    OBSTACLES
};

static struct matmul_case case_with(enum obstacle obstacle, bool odd)
{
    const bool reduces_all =
        obstacle == C_OF_ONE || obstacle == ORDER_OF_ONE || obstacle == BATCHES_INSIDE;
    struct matmul_case c = {
        .kind = reduces_all ? SYMM_MATMUL_ALL_REDUCE : SYMM_MATMUL_REDUCE_SCATTER,
        .strategy = SYMM_STRATEGY_UNFUSED,
        .in = SYMM_BFLOAT16,
        .out = SYMM_BFLOAT16,
        .addend = SYMM_FLOAT32,
        .m = TRIO * 4,
        .k = 40,
        .l = obstacle == BATCHES_INSIDE || obstacle == BATCHES_OF_SHARES ? 2 : 1,
        .nb = 1,
        .n = {16},
        .alpha = &factors[3],
        .contiguous = true,
        .foreign = true,
        .has_bias = obstacle == BIAS_OF_ONE && odd,
        .has_c = obstacle == C_OF_ONE && odd,
        .activation = obstacle == ACTIVATION_OF_ONE && odd ? SYMM_GELU : SYMM_NONE,
        .partial = obstacle == OTHER_PARTIALS ? SYMM_FLOAT32 : 0,
        .same_bits = obstacle == SAME_BITS,
        .layout = obstacle,
    };

    if (obstacle == RAGGED_SHARES)
        c.m++;
    return c;
}

/* Dense, from the outermost dimension: rows, columns, batches. */
static void store_batches_inside(symm_tensor *t)
{
    t->strides[0] = 1;
    t->strides[1] = t->shape[0] * t->shape[2];
    t->strides[2] = t->shape[0];
}

WORLD_RANK(run_with_obstacles)
{
    const bool odd = self->rank == 1;
    struct matmul_job job = {0};

    for (int i = 0; i < OBSTACLES; i++) {
        const struct matmul_case c = case_with((enum obstacle)i, odd);
        RANK_TRY(self, matmul_job_open(self, ctx, world, &c, &job));
        if ((i == ORDER_OF_ONE && odd) || i == ORDER_OF_SHARES)
            store_by_columns(&job.o.d[0].t, false);
        if (i == BATCHES_INSIDE && odd)
            store_batches_inside(&job.o.d[0].t);
        RANK_TRY(self, matmul_job_create(self, &job));
        RANK_TRY(self, send(self, &job, 1, s));
        RANK_TRY(self, run_as(self, &job, false, s));
        RANK_TRY(self, look(self, &job, s));
        matmul_job_close(&job);
    }
out:
    matmul_job_close(&job);
}

TEST(sums, others_have_a_kernel_of_their_own)
{
    run_traced(TRIO, RANKS_AS_PROCESSES, run_with_obstacles, NULL);
}
