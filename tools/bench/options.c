/* The command line of symm-bench. */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "driver.h"
#include "operation.h"
#include "text.h"

static const char tool[] = "symm-bench";

static void print_help(void)
{
    printf(
        "# Usage: symm-bench OPERATION [option...]\n"
        "#\n"
        "# Measures, and with --check verifies, an operation (%s) in every variant. Start\n"
        "# it on several ranks with symm-run, torchrun --no-python, mpirun or srun.\n"
        "#\n"
        "#   --algo LIST|all      variants: auto one_shot two_shot multimem multimem_one_shot\n"
        "#                        low_latency copy_engine (auto)\n"
        "#   --dtype TYPE         %s (bf16)\n"
        "#   --min-bytes N        from this size of a rank's buffer (1K)\n"
        "#   --max-bytes N        to this one (64M; on the emulated driver 1M)\n"
        "#   --factor N           each so many times the one before (4)\n"
        "#   --sizes LIST         these sizes instead: 1K,96K,4M\n"
        "#   --iters N            measured repetitions (50; emulated 3)\n"
        "#   --warmup N           repetitions before them (5; emulated 1)\n"
        "#   --graph              replay a CUDA graph of the operations of a repetition\n"
        "#   --in-place           output over input\n"
        "#   --memory KIND        symmetric, or plain device memory, which goes through staging\n"
        "#   --check              verify every element on fresh random data\n"
        "#   --seed N             of that data (random)\n"
        "#   --peer nccl          measure NCCL too: SYMM_NCCL_LIBRARY, else libnccl.so.2\n"
        "#   --json FILE          write everything as JSON\n"
        "#   --csv FILE           write the table as CSV\n"
        "#   --driver DRIVER      auto, cuda or emulated (auto: cuda where it runs)\n"
        "#   --timeout S          limit of each wait for other ranks (SYMM_TIMEOUT_MS)\n"
        "#   -h, --help\n"
        "#       --version\n"
        "#\n"
        "# Columns: bytes of a rank's buffer; time_us and p95_us, the median and the 95th "
        "percentile\n"
        "# over the repetitions of the time of one operation, on the slowest rank; algbw, bytes "
        "over\n"
        "# time, and busbw, what crosses each link, in GB/s (10^9); wrong, elements with another "
        "value\n"
        "# than they may have. One pair of buffers is used again and again: small ones stay in "
        "caches.\n"
        "#\n"
        "# Exit code: 0 all right; 1 wrong or failed; 2 wrong usage.\n",
        operation_names, element_names);
}

enum {
    OPT_ALGO = 256,
    OPT_DTYPE,
    OPT_MIN,
    OPT_MAX,
    OPT_FACTOR,
    OPT_SIZES,
    OPT_ITERS,
    OPT_WARMUP,
    OPT_GRAPH,
    OPT_IN_PLACE,
    OPT_MEMORY,
    OPT_CHECK,
    OPT_SEED,
    OPT_PEER,
    OPT_JSON,
    OPT_CSV,
    OPT_DRIVER,
    OPT_TIMEOUT,
    OPT_VERSION
};

static const struct option long_options[] = {
    {"algo", required_argument, NULL, OPT_ALGO},
    {"dtype", required_argument, NULL, OPT_DTYPE},
    {"min-bytes", required_argument, NULL, OPT_MIN},
    {"max-bytes", required_argument, NULL, OPT_MAX},
    {"factor", required_argument, NULL, OPT_FACTOR},
    {"sizes", required_argument, NULL, OPT_SIZES},
    {"iters", required_argument, NULL, OPT_ITERS},
    {"warmup", required_argument, NULL, OPT_WARMUP},
    {"graph", no_argument, NULL, OPT_GRAPH},
    {"in-place", no_argument, NULL, OPT_IN_PLACE},
    {"memory", required_argument, NULL, OPT_MEMORY},
    {"check", no_argument, NULL, OPT_CHECK},
    {"seed", required_argument, NULL, OPT_SEED},
    {"peer", required_argument, NULL, OPT_PEER},
    {"json", required_argument, NULL, OPT_JSON},
    {"csv", required_argument, NULL, OPT_CSV},
    {"driver", required_argument, NULL, OPT_DRIVER},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, OPT_VERSION},
    {0},
};

static bool parse_seed(const char *text, struct bench_options *o)
{
    char *end = NULL;

    o->seed = strtoull(text, &end, 0);
    o->has_seed = end != text && !*end;
    return o->has_seed;
}

static bool parse_memory(const char *text, struct bench_options *o)
{
    o->plain_memory = strcmp(text, "plain") == 0;
    return o->plain_memory || strcmp(text, "symmetric") == 0;
}

static bool parse_timeout(const char *text, struct bench_options *o)
{
    double seconds;

    if (!text_seconds(text, &seconds) || seconds > 1e6)
        return false;
    o->timeout_ms = (int)(seconds * 1000);
    return o->timeout_ms > 0;
}

/* Takes one option in. Returns NULL, or what its value should have been. */
static const char *take(struct bench_options *o, int c, const char *value)
{
    static const char bytes[] = "not a number of bytes like 4096, 64K or 1M";

    switch (c) {
    case OPT_ALGO:
        o->algos = value;
        return NULL;
    case OPT_DTYPE:
        return (o->element = element_find(value)) ? NULL : "not one of bf16, fp16, fp32";
    case OPT_MIN:
        return text_bytes(value, &o->min_bytes) && o->min_bytes ? NULL : bytes;
    case OPT_MAX:
        return text_bytes(value, &o->max_bytes) && o->max_bytes ? NULL : bytes;
    case OPT_FACTOR:
        return text_int(value, 2, 1 << 20, &o->factor) ? NULL : "not a number from 2";
    case OPT_SIZES:
        o->sizes = value;
        return NULL;
    case OPT_ITERS:
        return text_int(value, 1, 1000000, &o->iters) ? NULL : "not a number from 1";
    case OPT_WARMUP:
        return text_int(value, 0, 1000000, &o->warmup) ? NULL : "not a number from 0";
    case OPT_GRAPH:
        o->graph = true;
        return NULL;
    case OPT_IN_PLACE:
        o->in_place = true;
        return NULL;
    case OPT_MEMORY:
        return parse_memory(value, o) ? NULL : "neither symmetric nor plain";
    case OPT_CHECK:
        o->check = true;
        return NULL;
    case OPT_SEED:
        return parse_seed(value, o) ? NULL : "not a number";
    case OPT_PEER:
        o->nccl = !strcmp(value, "nccl");
        return o->nccl ? NULL : "the only peer is nccl";
    case OPT_JSON:
        o->json = value;
        return NULL;
    case OPT_CSV:
        o->csv = value;
        return NULL;
    case OPT_DRIVER:
        o->driver = value;
        return driver_is_choice(value) ? NULL : "not auto, cuda or emulated";
    default:
        return parse_timeout(value, o) ? NULL : "not a number of seconds above 0";
    }
}

static const char *name_of(int c)
{
    const struct option *option = long_options;

    while (option->name && option->val != c)
        option++;
    return option->name ? option->name : "?";
}

static bool is_variant(const struct operation *operation, const char *name)
{
    const struct variant *v = operation->variants;

    while (v->name && strcmp(v->name, name) != 0)
        v++;
    return v->name != NULL;
}

/* What can only be judged when all options are known. */
static int check_lists(const struct bench_options *o)
{
    char item[64];
    uint64_t nbytes;
    const char *list = strcmp(o->algos, "all") == 0 ? "" : o->algos;
    bool any = !*list && *o->algos;

    while (text_next(&list, item, sizeof item)) {
        any = true;
        if (!is_variant(o->operation, item))
            return text_usage_error(tool, "--algo %s: %s has no variant of that name", item,
                                    o->operation->name);
    }
    if (!any)
        return text_usage_error(tool, "--algo: an empty list");
    for (list = o->sizes; list && text_next(&list, item, sizeof item);) {
        if (!text_bytes(item, &nbytes))
            return text_usage_error(tool, "--sizes %s: not a number of bytes like 4096, 64K or 1M",
                                    item);
    }
    if (o->sizes && !*o->sizes)
        return text_usage_error(tool, "--sizes: an empty list");
    if (o->max_bytes && o->max_bytes < o->min_bytes)
        return text_usage_error(tool, "--max-bytes is less than --min-bytes");
    return -1;
}

int bench_options_parse(int argc, char **argv, struct bench_options *out)
{
    struct bench_options o = {.driver = "auto",
                              .algos = "auto",
                              .element = element_find("bf16"),
                              .min_bytes = 1 << 10,
                              .factor = 4,
                              .iters = -1,
                              .warmup = -1};
    int c;

    opterr = 0;
    while ((c = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (c == 'h' || c == OPT_VERSION) {
            if (c == 'h')
                print_help();
            else
                text_version(tool);
            return 0;
        }
        if (c == ':' || c == '?')
            return text_bad_option(tool, argv, c);
        const char *wrong = take(&o, c, optarg);
        if (wrong)
            return text_usage_error(tool, "--%s %s: %s", name_of(c), optarg, wrong);
    }
    if (optind == argc)
        return text_usage_error(tool, "the operation is missing: %s", operation_names);
    o.operation = operation_find(argv[optind]);
    if (!o.operation)
        return text_usage_error(tool, "%s: no such operation; there is %s", argv[optind],
                                operation_names);
    if (optind + 1 < argc)
        return text_usage_error(tool, "%s: one operation at a time", argv[optind + 1]);
    *out = o;
    return check_lists(out);
}

bool bench_options_size(const struct bench_options *o, int index, uint64_t *out)
{
    uint64_t nbytes = o->min_bytes;
    char item[64];

    if (o->sizes) {
        const char *list = o->sizes;

        for (int i = 0; i <= index; i++) {
            if (!text_next(&list, item, sizeof item) || !text_bytes(item, &nbytes))
                return false;
        }
    } else {
        for (int i = 0; i < index && nbytes <= o->max_bytes; i++)
            nbytes *= (uint64_t)o->factor;
        if (nbytes > o->max_bytes)
            return false;
    }
    *out = nbytes / o->element->nbytes * o->element->nbytes;
    return true;
}
