/* symm-bench model: a table of src/model, with its assumptions. It needs no ranks and no device. */
#include "model.h"

#include <inttypes.h>
#include <stdio.h>
#include <symm/symm.h>
#include "bench/report/report.h"
#include "common/json_text.h"
#include "common/text.h"
#include "model/span.h"

static const struct report_column columns[] = {
    {"bytes", 11, REPORT_COUNT},  {"operation", 14, REPORT_WORD}, {"hosts", 7, REPORT_COUNT},
    {"ranks", 8, REPORT_COUNT},   {"flat_us", 11, REPORT_REAL},   {"nvls_us", 11, REPORT_REAL},
    {"hier_us", 11, REPORT_REAL}, {"auto", 12, REPORT_WORD},
};

enum { NCOLUMNS = sizeof columns / sizeof columns[0] };

static const char *const operations[SYMM_MODEL_OPERATIONS] = {
    [SYMM_MODEL_ALL_REDUCE] = "all-reduce",
    [SYMM_MODEL_ALL_GATHER] = "all-gather",
    [SYMM_MODEL_REDUCE_SCATTER] = "reduce-scatter",
};

static void introduce(struct report *r, const struct bench_options *o)
{
    const double channel = SYMM_MODEL_CHANNEL / 1e3, next = SYMM_MODEL_NEXT_NS / 1e3;
    char version[32];

    snprintf(version, sizeof version, "%d.%d.%d", SYMM_VERSION_MAJOR, SYMM_VERSION_MINOR,
             SYMM_VERSION_PATCH);
    report_head(r,
                json_pack("{s:s, s:o, s:s, s:s, s:i, s:{s:i, s:f, s:i, s:f}}", "version", version,
                          "command", json_command_line(), "operation", "model", "timings",
                          "calculated by a model, not measured", "ranks_per_host",
                          o->ranks_per_host, "constants", "channels_per_rank", SYMM_MODEL_CHANNELS,
                          "channel_gbs", channel, "blocks", SYMM_MODEL_BLOCKS, "next_us", next));
    report_say(r, "# symm-bench %s model: calculated, not measured", version);
    report_say(r,
               "# %d GPU%s on each host, joined by NVLink, each with a network card; Hopper GPUs, "
               "processors of Intel",
               o->ranks_per_host, o->ranks_per_host == 1 ? "" : "s");
    report_say(r, "# a step takes its latency, and its bytes over a bandwidth");
    report_say(r,
               "# flat_us: NCCL over all ranks, its fastest ring or tree by the model and the "
               "constants of NCCL 2.30.7: %d channels of %g GB/s for each GPU",
               SYMM_MODEL_CHANNELS, channel);
    report_say(r, "# nvls_us: the same with its trees by multicast, which auto does not count on");
    report_say(r, "# hier_us: symm inside the hosts (its costs on H200 GPUs, plain memory, no "
                  "multicast), NCCL on the rails, one after another");
    report_say(
        r,
        "# from a kernel to the next %g us; in an all-gather and a reduce-scatter one kernel "
        "puts the blocks of the ranks in order",
        next);
    report_say(r, "# auto: the form that auto takes without a tuning file: hierarchical if it is "
                  "faster by a tenth");
    report_say(r, "# not in the model: congestion, reductions in the network, pieces of the "
                  "staging memory, pipelining of the three parts");
}

static void report_call(struct report *r, const struct symm_span_model *m)
{
    report_row(r, (union report_value[NCOLUMNS]){
                      {.count = m->nbytes},
                      {.word = operations[m->operation]},
                      {.count = m->ndomains},
                      {.count = (uint64_t)m->ndomains * m->width},
                      {.real = (double)symm__flat_ns(m) / 1e3},
                      {.real = (double)symm__flat_nvls_ns(m) / 1e3},
                      {.real = (double)symm__hierarchical_ns(m) / 1e3},
                      {.word = symm__hierarchical_pays(m) ? "hierarchical" : "flat"}});
}

/* Of an operation and a size, for each number of hosts. */
static void report_size(struct report *r, const struct bench_options *o,
                        enum symm_model_operation operation, uint64_t nbytes)
{
    const char *list = o->hosts;
    char item[64];
    int hosts;

    while (text_next(&list, item, sizeof item) && text_int(item, 0, BENCH_MAX_HOSTS, &hosts))
        report_call(r, &(struct symm_span_model){operation, nbytes, (uint32_t)hosts,
                                                 (uint32_t)o->ranks_per_host});
}

int model_run(struct bench_options *options)
{
    char why[512];
    struct report *r = report_open(options, true, why);
    uint64_t nbytes;

    if (!r) {
        fprintf(stderr, "# symm-bench: %s\n", why);
        return 1;
    }
    introduce(r, options);
    report_columns(r, columns, NCOLUMNS);
    for (int op = 0; op < SYMM_MODEL_OPERATIONS; op++)
        for (int i = 0; bench_options_size(options, i, &nbytes); i++)
            report_size(r, options, (enum symm_model_operation)op, nbytes);
    return !report_close(r, NULL);
}
