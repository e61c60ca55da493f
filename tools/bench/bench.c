/* symm-bench: measures and verifies operations in all their variants. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include "driver.h"
#include "measure.h"
#include "report.h"
#include "standard.h"
#include "text.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        st = (call);                                                                               \
        if (st != SYMM_OK)                                                                         \
            goto out;                                                                              \
    } while (0)

enum { MAX_VARIANTS = 16 };

static const struct variant nccl_variant = {.name = "nccl", .nccl = true};

struct bench {
    struct bench_options options;
    struct measure measure;
    struct report *report;
    const struct variant *variants[MAX_VARIANTS]; /* those that run here */
    int nvariants;
    bool emulated;
    char device[256], why[512], trouble[512]; /* trouble: an error that is not symm's own */
    int64_t wrong;
};

/* The defaults that depend on the driver: an emulated operation takes as long as thousands of real
 * ones. */
static void settle_defaults(struct bench *b)
{
    struct bench_options *o = &b->options;

    b->measure.nops = b->emulated ? 2 : 20;
    if (o->iters < 0)
        o->iters = b->emulated ? 3 : 50;
    if (o->warmup < 0)
        o->warmup = b->emulated ? 1 : 5;
    if (o->max_bytes == 0) {
        o->max_bytes = (uint64_t)(b->emulated ? 1 : 64) << 20;
        if (o->max_bytes < o->min_bytes)
            o->max_bytes = o->min_bytes;
    }
    sums_threads((int)sysconf(_SC_NPROCESSORS_ONLN) / symm_nranks(b->measure.group));
}

static void name_device(struct bench *b)
{
    union {
        void *symbol;
        int (*call)(int *device);
    } get_device;
    union {
        void *symbol;
        int (*call)(char *name, int capacity, int device);
    } get_name;
    int device;

    get_device.symbol = symm_context_driver_symbol(b->measure.ctx, "cuCtxGetDevice");
    get_name.symbol = symm_context_driver_symbol(b->measure.ctx, "cuDeviceGetName");
    if (!get_device.symbol || !get_name.symbol || get_device.call(&device) != 0 ||
        get_name.call(b->device, (int)sizeof b->device, device) != 0)
        snprintf(b->device, sizeof b->device, "unknown device");
}

/* Rank 0's seed is everyone's. Collective. */
static symm_status agree_on_seed(struct bench *b)
{
    uint64_t mine = b->options.seed, all[SYMM_MAX_RANKS];

    if (!b->options.has_seed && getrandom(&mine, sizeof mine, 0) != (ssize_t)sizeof mine)
        mine = (uint64_t)getpid();
    symm_status st = symm_exchange(b->measure.group, &mine, sizeof mine, all);
    if (st == SYMM_OK)
        b->measure.seed = all[0];
    return st;
}

/* Opens the report; only rank 0 can fail, but all ranks learn of it. Collective. */
static symm_status open_report(struct bench *b)
{
    int failed, all[SYMM_MAX_RANKS];

    b->report = report_open(&b->options, symm_rank(b->measure.group) == 0, b->trouble);
    failed = !b->report;
    symm_status st = symm_exchange(b->measure.group, &failed, sizeof failed, all);
    for (int r = 0; st == SYMM_OK && r < symm_nranks(b->measure.group); r++) {
        if (all[r]) {
            st = SYMM_ERROR_SYSTEM;
            if (!failed)
                snprintf(b->trouble, sizeof b->trouble, "rank %d cannot write its report", r);
        }
    }
    return st;
}

static bool is_wanted(const struct bench *b, const char *name)
{
    const char *list = b->options.algos;
    char item[64];

    if (strcmp(list, "all") == 0)
        return true;
    while (text_next(&list, item, sizeof item)) {
        if (strcmp(item, name) == 0)
            return true;
    }
    return false;
}

/* Sorts the variants into those to be measured and those that cannot run. */
static void choose_variants(struct bench *b)
{
    const struct operation *operation = b->options.operation;

    for (const struct variant *v = operation->variants; v->name; v++) {
        if (!is_wanted(b, v->name))
            continue;
        const char *reason = operation->unavailable(b->measure.group, v, b->options.element);
        if (reason)
            report_unavailable(b->report, v->name, reason);
        else
            b->variants[b->nvariants++] = v;
    }
    if (!b->options.nccl)
        return;
    if (b->measure.nccl)
        b->variants[b->nvariants++] = &nccl_variant;
    else
        report_unavailable(b->report, nccl_variant.name, b->why);
}

static symm_status open_peer(struct bench *b)
{
    symm_status st = SYMM_OK;

    if (!b->options.nccl)
        return SYMM_OK;
    if (b->emulated)
        snprintf(b->why, sizeof b->why, "it needs GPUs, and this is the emulated driver");
    else
        b->measure.nccl = nccl_open(b->measure.group, b->why, &st);
    return st;
}

static symm_status measure_all(struct bench *b)
{
    struct report_row row;
    uint64_t nbytes, most = 0, use = 0;
    symm_status st;

    for (int i = 0; bench_options_size(&b->options, i, &nbytes); i++)
        most = nbytes > most ? nbytes : most;
    TRY(measure_create(&b->measure, most));
    for (int i = 0; bench_options_size(&b->options, i, &nbytes); i++) {
        for (int v = 0; v < b->nvariants; v++) {
            TRY(measure_row(&b->measure, b->variants[v], nbytes, use++, &row));
            report_row(b->report, &row);
            b->wrong += row.wrong > 0 ? row.wrong : 0;
        }
    }
out:
    return st;
}

static symm_status run(struct bench *b)
{
    char why_driver[512];
    symm_config config = {.timeout_ms = b->options.timeout_ms};
    symm_status st;

    TRY(driver_open(b->options.driver, &config, &b->measure.ctx, why_driver));
    b->measure.group = symm_context_world(b->measure.ctx);
    b->measure.options = &b->options;
    b->emulated = driver_is_emulated(b->measure.ctx);
    settle_defaults(b);
    name_device(b);
    TRY(agree_on_seed(b));
    TRY(open_report(b));
    TRY(open_peer(b));
    report_about(b->report, &(struct report_about){
                                .options = &b->options,
                                .driver = symm_context_driver(b->measure.ctx),
                                .why_driver = why_driver,
                                .device = b->device,
                                .nccl = b->measure.nccl ? nccl_version(b->measure.nccl) : NULL,
                                .emulated = b->emulated,
                                .nranks = symm_nranks(b->measure.group),
                                .nops = b->measure.nops,
                                .seed = b->measure.seed});
    choose_variants(b);
    report_columns(b->report);
    TRY(measure_all(b));
out:
    return st;
}

/* What failed, in one line: NCCL's own words, those of this tool, or symm's. */
static void describe(const struct bench *b, symm_status st, char out[1024])
{
    const char *nccl = nccl_error(b->measure.nccl);

    snprintf(out, 1024, "%s: %s%s", symm_status_name(st), nccl ? "nccl: " : "",
             nccl            ? nccl
             : b->trouble[0] ? b->trouble
                             : symm_error_text());
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    char error[1024];

    standard_files_keep();
    int code = bench_options_parse(argc, argv, &b.options);

    if (code >= 0)
        return code;
    b.measure.options = &b.options;
    symm_status st = run(&b);
    if (st != SYMM_OK) {
        describe(&b, st, error);
        if (b.measure.ctx) {
            fprintf(stderr, "# rank %d: %s\n", symm_rank(b.measure.group), error);
            /* A failure of this rank alone must not leave the others waiting. */
            symm_abort(b.measure.group, error);
        } else {
            fprintf(stderr, "# symm-bench: %s\n", error);
        }
    }
    bool written = report_close(b.report, st == SYMM_OK ? NULL : error);
    nccl_close(b.measure.nccl, st == SYMM_OK);
    measure_destroy(&b.measure);
    symm_status destroyed = symm_context_destroy(b.measure.ctx);
    if (st == SYMM_OK && destroyed != SYMM_OK)
        fprintf(stderr, "# symm-bench: %s: %s\n", symm_status_name(destroyed), symm_error_text());
    return st != SYMM_OK || destroyed != SYMM_OK || b.wrong > 0 || !written;
}
