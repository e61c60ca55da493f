/*
 * symm-bench tune: measures which algorithm is the fastest, and writes SYMM_TUNING_FILE. All ranks
 * see the times of the slowest rank, so that they decide alike; rank 0 writes.
 */
#include "tune.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "collective_measure.h"
#include "common/driver.h"
#include "common/progress.h"
#include "crossover.h"

enum {
    NOPS = 20,     /* of a repetition */
    NOPS_LONG = 4, /* of large sizes */
    LONG_NBYTES = 16 << 20,
    MAX_PATH = 4096
};

static const struct report_column columns[] = {
    {"bytes", 11, REPORT_COUNT},  {"operation", 14, REPORT_WORD}, {"dtype", 11, REPORT_WORD},
    {"memory", 9, REPORT_WORD},   {"algo", 20, REPORT_WORD},      {"ranks", 5, REPORT_COUNT},
    {"time_us", 11, REPORT_REAL}, {"p95_us", 11, REPORT_REAL},    {"taken", 5, REPORT_FLAG},
    {"hosts", 5, REPORT_COUNT}, /* where there are several */
};

enum { NCOLUMNS = sizeof columns / sizeof columns[0] };

static const struct variant nccl = {.name = "forward", .nccl = true};

struct tune {
    struct session s;
    struct nccl *nccl;
    struct collective_measure measure;
    FILE *table;              /* of rank 0: what the file will have, in memory until it is whole */
    char *text;               /* its characters, */
    size_t length;            /* and their number */
    char path[MAX_PATH + 32]; /* the file's name until it has proved right, on all ranks */
    char ranks[32];           /* as rows have them: their number, or HOSTSxRANKS */
    bool pending;             /* the file exists under that name */
};

/* Fewer and smaller on the emulated driver. */
static void settle_defaults(struct tune *t)
{
    struct bench_options *o = t->s.options;

    if (o->iters < 0)
        o->iters = t->s.emulated ? 2 : 20;
    if (o->warmup < 0)
        o->warmup = t->s.emulated ? 1 : 3;
    if (o->max_bytes == 0)
        o->max_bytes = t->s.emulated ? 16 << 10 : 256 << 20;
    o->factor = 2;
    o->graph = true;
}

/* ----------------------------------------------------------------------------------- the file */

/* An operation that moves elements has one row for all types. */
static const char *dtype_of(const struct bench_options *o)
{
    return o->operation->reduces ? symm_dtype_name(o->element->dtype) : "any";
}

static const char *memory_of(const struct bench_options *o)
{
    return o->plain_memory ? "any" : "symmetric";
}

static symm_status fail_at_file(struct tune *t, const char *path, int err)
{
    snprintf(t->s.trouble, sizeof t->s.trouble, "%.300s: %s", path, strerror(err));
    return SYMM_ERROR_SYSTEM;
}

/* In the folder of the output. */
static FILE *create_file(struct tune *t)
{
    FILE *file = fopen(t->path, "wxe");

    t->pending = file != NULL;
    return file;
}

static void remove_file(struct tune *t)
{
    if (t->pending)
        unlink(t->path);
    t->pending = false;
}

/*
 * Rank 0 begins the table. It finds out first whether the file can be written. In the meantime
 * there is none, since a signal that ends the program would leave it behind. Collective.
 */
static symm_status begin_table(struct tune *t)
{
    symm_status st;
    int mine = (int)getpid(), *all = session_gather(&t->s, &mine, sizeof mine, &st);

    if (!all)
        return st;
    snprintf(t->path, sizeof t->path, "%.*s.%d", MAX_PATH, t->s.options->output, all[0]);
    free(all);
    if (strlen(t->s.options->output) >= MAX_PATH)
        return fail_at_file(t, t->s.options->output, ENAMETOOLONG);
    if (t->s.rank != 0)
        return SYMM_OK;
    FILE *file = create_file(t);
    if (!file)
        return fail_at_file(t, t->path, errno);
    fclose(file);
    remove_file(t);
    t->table = open_memstream(&t->text, &t->length);
    if (!t->table)
        return SYMM_ERROR_MEMORY;
    fprintf(t->table, "# symm-bench tune, %s ranks\nsymm-tuning 1\nmachine %s %d.%d.%d %s\n",
            t->ranks, symm_context_driver(t->s.ctx), SYMM_VERSION_MAJOR, SYMM_VERSION_MINOR,
            SYMM_VERSION_PATCH, t->s.device);
    return SYMM_OK;
}

/* Returns whether the table is whole. */
static bool end_table(struct tune *t)
{
    bool whole = t->table && !ferror(t->table);

    if (t->table && fclose(t->table) != 0)
        whole = false;
    t->table = NULL;
    return whole;
}

static symm_status write_file(struct tune *t)
{
    if (t->s.rank != 0)
        return SYMM_OK;
    if (!end_table(t))
        return SYMM_ERROR_MEMORY;
    FILE *file = create_file(t);
    if (!file)
        return fail_at_file(t, t->path, errno);
    const bool written = fwrite(t->text, 1, t->length, file) == t->length && fflush(file) == 0 &&
                         fsync(fileno(file)) == 0;
    const int err = errno;
    fclose(file);
    return written ? SYMM_OK : fail_at_file(t, t->path, err);
}

/*
 * Creates a context with the file, which fails if the file is wrong: on all ranks; of several hosts
 * on rank 0 alone, which has the file, since their ranks cannot meet at an address that is in use.
 * Collective.
 */
static symm_status load_file(struct tune *t)
{
    const bool alone = t->s.nhosts > 1;
    const symm_config config = {.timeout_ms = session_timeout_ms(t->s.options),
                                .nranks = alone ? 1 : 0,
                                .session = alone ? t->path : NULL};
    symm_context *ctx = NULL;
    char why[512];
    symm_status st;

    TRY(symm_exchange(t->s.group, NULL, 0, NULL));
    if (alone && t->s.rank != 0)
        return SYMM_OK;
    setenv("SYMM_TUNING_FILE", t->path, 1);
    st = driver_open(t->s.options->driver, &config, &ctx, why);
    unsetenv("SYMM_TUNING_FILE");
    TRY(st);
    TRY(symm_context_destroy(ctx));
    if (!alone)
        TRY(symm_exchange(t->s.group, NULL, 0, NULL));
out:
    return st;
}

/* Renames the file to its name, which replaces an older file atomically. */
static symm_status publish_file(struct tune *t)
{
    if (t->s.rank == 0 && rename(t->path, t->s.options->output) != 0)
        return fail_at_file(t, t->s.options->output, errno);
    t->pending = false;
    report_say(t->s.report, "# written: %s", t->s.options->output);
    return SYMM_OK;
}

static void clean_up(struct tune *t)
{
    end_table(t);
    free(t->text);
    remove_file(t);
}

/* ----------------------------------------------------------------------------------- measuring */

/* Opens NCCL if it is wanted. Collective. */
static symm_status open_peer(struct tune *t)
{
    char why[512];
    symm_status st = SYMM_OK;

    if (!t->s.options->nccl)
        return SYMM_OK;
    if (t->s.nhosts > 1)
        return session_refuse(&t->s, "--peer nccl is for libsymm_nccl.so, which leaves calls "
                                     "between hosts to NCCL: flat is NCCL's");
    t->nccl = session_nccl(&t->s, why, &st);
    if (st != SYMM_OK || t->nccl)
        return st;
    return session_unavailable(&t->s, &(struct unavailable){.option = "peer",
                                                            .list = t->s.options->peers,
                                                            .name = "nccl",
                                                            .shown = "nccl",
                                                            .reason = why});
}

/* As src/nccl/attach.c: NCCL's kernels need SMs of their own. 0: unknown. */
static uint32_t blocks_beside_nccl(const struct tune *t)
{
    enum { CHANNELS = 32 };
    const int sms = session_sms(&t->s), left = sms - CHANNELS;

    return (uint32_t)(left > sms / 2 ? left : sms / 2);
}

/* Leaves out auto, which this file is for, and the variant whose bits may differ between ranks. */
static void choose_variants(struct tune *t)
{
    const struct bench_options *o = t->s.options;

    t->measure.nvariants = 0;
    for (const struct variant *v = operation_variants(o->operation, t->s.nhosts > 1); v->name;
         v++) {
        if (v->algo == SYMM_ALGO_AUTO || v->algo == SYMM_ALGO_MULTIMEM_ONE_SHOT ||
            (o->plain_memory && operation_needs_symmetric(o->operation, v)) ||
            o->operation->unavailable(t->s.group, v->algo, o->element->dtype, o->op))
            continue;
        t->measure.variants[t->measure.nvariants++] = v;
    }
    if (t->nccl && o->plain_memory) {
        t->measure.variants[t->measure.nvariants++] = &nccl;
        t->measure.nccl = t->nccl;
        t->measure.max_blocks = blocks_beside_nccl(t);
    }
}

/* Nothing is known above the largest size. */
static void forward_the_rest(struct tune *t, const struct crossover *w)
{
    const struct bench_options *o = t->s.options;

    if (t->measure.nccl && t->table && t->measure.variants[w->variant] != &nccl)
        fprintf(t->table, "%s %s %s %s %" PRIu64 " forward\n", o->operation->name, t->ranks,
                dtype_of(o), memory_of(o), 2 * w->nbytes);
}

/* Prints a row for each variant, and writes a row of the file when the fastest one changes. */
static void take_size(struct tune *t, const struct collective_row *rows, struct crossover *w)
{
    const struct bench_options *o = t->s.options;
    double times[MEASURE_MAX_VARIANTS];
    uint64_t from;

    for (int v = 0; v < t->measure.nvariants; v++)
        times[v] = rows[v].time_us;
    if (crossover_take(w, rows[0].nbytes, times, t->measure.nvariants, &from) && t->table)
        fprintf(t->table, "%s %s %s %s %" PRIu64 " %s\n", o->operation->name, t->ranks, dtype_of(o),
                memory_of(o), from, t->measure.variants[w->variant]->name);
    for (int v = 0; v < t->measure.nvariants; v++)
        report_row(t->s.report,
                   (union report_value[NCOLUMNS]){{.count = rows[v].nbytes},
                                                  {.word = o->operation->name},
                                                  {.word = dtype_of(o)},
                                                  {.word = memory_of(o)},
                                                  {.word = t->measure.variants[v]->name},
                                                  {.count = (uint64_t)t->s.nranks},
                                                  {.real = rows[v].time_us},
                                                  {.real = rows[v].p95_us},
                                                  {.flag = v == w->variant},
                                                  {.count = (uint64_t)t->s.nhosts}});
}

/* Measures one operation, type and memory at all sizes. Collective. */
static symm_status tune_one(struct tune *t)
{
    struct collective_row rows[MEASURE_MAX_VARIANTS];
    struct crossover crossover = {0};
    uint64_t nbytes;
    symm_status st = SYMM_OK;

    t->measure.operation = t->s.options->operation;
    choose_variants(t);
    if (t->measure.nvariants == 0)
        return SYMM_OK;
    TRY(collective_measure_create(&t->measure, t->s.options->max_bytes));
    for (int i = 0; bench_options_size(t->s.options, i, &nbytes); i++) {
        if (t->s.rank == 0)
            progress_show("tuning %s, %s, %s memory, %" PRIu64 " bytes",
                          t->s.options->operation->name, dtype_of(t->s.options),
                          memory_of(t->s.options), nbytes);
        t->measure.nops = t->s.emulated ? 2 : nbytes < LONG_NBYTES ? NOPS : NOPS_LONG;
        TRY(measure_size(&t->measure, nbytes, (uint64_t)i, rows));
        progress_end();
        take_size(t, rows, &crossover);
    }
    forward_the_rest(t, &crossover);
out:
    collective_measure_destroy(&t->measure);
    if (st == SYMM_OK && !t->s.options->plain_memory) {
        st = symm_free(t->s.domain, t->measure.ours.in);
        if (st == SYMM_OK)
            st = symm_free(t->s.domain, t->measure.ours.out);
    }
    t->measure = (struct collective_measure){.s = t->measure.s};
    return st;
}

/* One type is enough for an operation that moves elements. */
static symm_status tune_operation(struct tune *t, const struct operation *operation)
{
    struct bench_options *o = t->s.options;
    symm_status st = SYMM_OK;

    o->operation = operation;
    for (size_t e = 0; element_at(e); e++) {
        o->element = element_at(e);
        if (!bench_options_want_dtype(o->dtypes, o->element->dtype) || o->element->moved_only)
            continue;
        TRY(tune_one(t));
        if (!operation->reduces)
            break;
    }
out:
    return st;
}

/* Rows between hosts are for any memory. */
static symm_status tune_all(struct tune *t)
{
    struct bench_options *o = t->s.options;
    symm_status st = SYMM_OK;

    for (int plain = t->s.nhosts > 1; plain < 2; plain++) {
        o->plain_memory = plain;
        for (size_t i = 0; operation_at(i); i++) {
            if (bench_options_want(o->operations, operation_at(i)->name))
                TRY(tune_operation(t, operation_at(i)));
        }
    }
out:
    return st;
}

/* ------------------------------------------------------------------------------------- the run */

static symm_status run(struct tune *t, struct bench_options *options)
{
    symm_status st;

    TRY(session_open(&t->s, options));
    if (t->s.nranks < 2)
        return session_refuse(&t->s, "one rank alone has nothing to choose: symm-run -n N "
                                     "symm-bench tune --output FILE");
    if (!t->s.width)
        return session_refuse(&t->s, "the hosts have different numbers of ranks: their calls are "
                                     "always flat");
    settle_defaults(t);
    if (t->s.nhosts > 1)
        snprintf(t->ranks, sizeof t->ranks, "%dx%d", t->s.nhosts, t->s.width);
    else
        snprintf(t->ranks, sizeof t->ranks, "%d", t->s.nranks);
    TRY(begin_table(t));
    session_introduce(&t->s, "tune");
    report_say(t->s.report, "# %d repetition%s of a graph of operations, after %d to warm up",
               options->iters, options->iters == 1 ? "" : "s", options->warmup);
    report_columns(t->s.report, columns, t->s.nhosts > 1 ? NCOLUMNS : NCOLUMNS - 1);
    TRY(open_peer(t));
    TRY(tune_all(t));
    TRY(session_measured(&t->s));
    TRY(write_file(t));
    TRY(load_file(t));
    TRY(publish_file(t));
out:
    return st;
}

int tune_run(struct bench_options *options)
{
    struct tune t = {.measure.s = &t.s, .s.options = options};
    char error[1024];

    /* Variants are called by name, and the setting may name the file that this run makes. */
    unsetenv("SYMM_TUNING_FILE");
    const symm_status st = run(&t, options);
    bool failed = session_failed(&t.s, st, nccl_error(t.nccl), error);

    progress_end();
    clean_up(&t);
    nccl_close(t.nccl, !failed);
    return !session_close(&t.s, failed ? error : NULL) || failed;
}
