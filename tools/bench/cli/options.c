/* The command line of symm-bench. */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/measure/p2p_args.h"
#include "common/driver.h"
#include "common/text.h"
#include "option_table.h"
#include "options_check.h"

static const char tool[] = "symm-bench";

enum { MAX_EXTENT = 1 << 24 };

/* -------------------------------------------------------------------------------------- parsing */

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

static const char *parse_timing(enum bench_timing timing, struct bench_options *o)
{
    if (o->timing != TIMING_STREAM && o->timing != timing)
        return "--chain and --isolated exclude each other";
    o->timing = timing;
    return NULL;
}

static bool parse_roofline(const char *text, struct bench_options *o)
{
    double peak;

    o->roofline = text;
    return strcmp(text, "measured") == 0 || (text_real(text, &peak) && peak > 0);
}

static bool parse_suite(const char *text, struct bench_options *o)
{
    o->suite = strcmp(text, "llama") == 0;
    return o->suite;
}

/* Where the value of an option goes that is taken as it is; NULL: it is another one. */
static const char **text_of(struct bench_options *o, int c)
{
    switch (c) {
    case OPT_ALGO:
        return &o->algos;
    case OPT_HOW:
        return &o->hows;
    case OPT_PATTERN:
        return &o->patterns;
    case OPT_BLOCKS:
        return &o->blocks;
    case OPT_SIZES:
        return &o->sizes;
    case OPT_PEER:
        return &o->peers;
    case OPT_STRATEGY:
        return &o->strategies;
    case OPT_OPERATIONS:
        return &o->operations;
    case OPT_DTYPES:
        return &o->dtypes;
    case OPT_JSON:
        return &o->json;
    case OPT_CSV:
        return &o->csv;
    case OPT_PLOT:
        return &o->plot;
    case 'o':
        return &o->output;
    default:
        return NULL;
    }
}

/* What an option without a value turns on; NULL: it is another one. */
static bool *flag_of(struct bench_options *o, int c)
{
    switch (c) {
    case OPT_GRAPH:
        return &o->graph;
    case OPT_IN_PLACE:
        return &o->in_place;
    case OPT_CHECK:
        return &o->check;
    default:
        return NULL;
    }
}

/* The same as take(), of those that only products have. */
static const char *take_of_product(struct bench_options *o, int c, const char *value)
{
    int *const extent = c == 'm' ? &o->m : c == 'n' ? &o->n : c == 'k' ? &o->k : &o->l;

    switch (c) {
    case OPT_SUITE:
        return parse_suite(value, o) ? NULL : "the only suite is llama";
    case OPT_ALPHA:
        return text_real(value, &o->alpha) ? NULL : "not a number";
    case OPT_BETA:
        return text_real(value, &o->beta) ? NULL : "not a number";
    case OPT_EPS:
        return text_real(value, &o->eps) && o->eps > 0 ? NULL : "not a number above 0";
    case OPT_ROOFLINE:
        return parse_roofline(value, o) ? NULL : "neither measured nor a number of TFLOP/s above 0";
    default:
        return text_int(value, 1, MAX_EXTENT, extent) ? NULL : "not a number from 1 to 2^24";
    }
}

/* The same, of how much is to be measured. */
static const char *take_of_range(struct bench_options *o, int c, const char *value)
{
    static const char bytes[] = "not a number of bytes like 4096, 64K or 1M";

    switch (c) {
    case OPT_MIN:
        return text_bytes(value, &o->min_bytes) && o->min_bytes ? NULL : bytes;
    case OPT_MAX:
        return text_bytes(value, &o->max_bytes) && o->max_bytes ? NULL : bytes;
    case OPT_FACTOR:
        return text_int(value, 2, 1 << 20, &o->factor) ? NULL : "not a number from 2 to 2^20";
    case OPT_ITERS:
        return text_int(value, 1, 1000000, &o->iters) ? NULL : "not a number from 1 to 1000000";
    case OPT_WARMUP:
        return text_int(value, 0, 1000000, &o->warmup) ? NULL : "not a number from 0 to 1000000";
    case OPT_SECONDS:
        return text_seconds(value, &o->seconds) ? NULL : "not a number of seconds above 0";
    default:
        return take_of_product(o, c, value);
    }
}

/* Takes one option in. Returns NULL, or what its value should have been. */
static const char *take(struct bench_options *o, int c, const char *value)
{
    if (text_of(o, c)) {
        *text_of(o, c) = value;
        return NULL;
    }
    if (flag_of(o, c)) {
        *flag_of(o, c) = true;
        return NULL;
    }
    switch (c) {
    case OPT_THREADS:
        return text_int(value, 1, P2P_THREADS_MAX, &o->threads) ? NULL
                                                                : "not a number from 1 to 512";
    case OPT_DTYPE:
        o->element = element_find(value);
        return o->element ? NULL : "not one of " ELEMENT_NAMES;
    case OPT_OP:
        return redop_find(value, &o->op) ? NULL : "not one of sum, avg, min, max";
    case OPT_CHAIN:
        return parse_timing(TIMING_CHAIN, o);
    case OPT_ISOLATED:
        return parse_timing(TIMING_ISOLATED, o);
    case OPT_MEMORY:
        return parse_memory(value, o) ? NULL : "neither symmetric nor plain";
    case OPT_SEED:
        return parse_seed(value, o) ? NULL : "not a number";
    case OPT_FLOOR:
        return text_seconds(value, &o->floor_gbs) ? NULL : "not a number of GB/s above 0";
    case OPT_DRIVER:
        o->driver = value;
        return driver_is_choice(value) ? NULL : "not auto, cuda or emulated";
    case OPT_TIMEOUT:
        return parse_timeout(value, o) ? NULL : "not a number of seconds above 0";
    default:
        return take_of_range(o, c, value);
    }
}

/* ----------------------------------------------------------------------------- the command line */

static const char other_commands[] = "matmul, all-gather-matmul, p2p, stress, tune and plot";

/* Takes the words that are no options: the command, and what it is about. */
static int take_words(struct bench_options *o, char *const *words, int nwords)
{
    static const struct {
        const char *name;
        enum bench_command command;
    } commands[] = {{"matmul", BENCH_PRODUCT}, {"all-gather-matmul", BENCH_GATHERED_PRODUCT},
                    {"p2p", BENCH_P2P},        {"stress", BENCH_STRESS},
                    {"tune", BENCH_TUNE},      {"plot", BENCH_PLOT}};

    if (nwords == 0)
        return text_usage_error(tool, "the command is missing: %s, %s", OPERATION_NAMES,
                                other_commands);
    o->operation = operation_find(words[0]);
    o->command = o->operation ? BENCH_OPERATION : 0;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(words[0], commands[i].name) == 0)
            o->command = commands[i].command;
    }
    if (!o->command)
        return text_usage_error(tool, "%s: no such command; there is %s, %s", words[0],
                                OPERATION_NAMES, other_commands);
    if (o->command == BENCH_PLOT) {
        o->files = words + 1;
        o->nfiles = nwords - 1;
        return -1;
    }
    if (nwords > 1)
        return text_usage_error(tool, "%s: a second command, after %s", words[1], words[0]);
    return -1;
}

/* The first option given that the command, or its operation, has not; NULL: none. */
static const char *foreign(const struct bench_options *o, const bool *given)
{
    for (int i = 0; i < NSETTINGS; i++) {
        if (given[i] && !setting_is_for(settings[i].name, o->command, o->operation))
            return settings[i].name;
    }
    return NULL;
}

/* Reads all options; given[i]: settings[i] was there. */
static int take_options(int argc, char **argv, struct bench_options *o, bool *given)
{
    struct option options[NSETTINGS + 1] = {{0}};
    int c, index;

    for (int i = 0; i < NSETTINGS; i++)
        options[i] = (struct option){.name = settings[i].name,
                                     .has_arg = settings[i].value ? required_argument : no_argument,
                                     .val = settings[i].id};
    opterr = 0;
    while (index = -1, (c = getopt_long(argc, argv, ":ho:m:n:k:l:", options, &index)) != -1) {
        if (c == ':' || c == '?')
            return text_bad_option(tool, argv, c, options);
        /* By the name it has been given, if any. */
        const int i = index >= 0 ? index : setting_find(c);
        given[i] = true;
        if (c == 'h' || c == OPT_VERSION)
            continue;
        const char *wrong = take(o, c, optarg);
        if (wrong)
            return text_usage_error(tool, "--%s%s%s: %s", settings[i].name, optarg ? " " : "",
                                    optarg ? optarg : "", wrong);
    }
    return -1;
}

/* What follows from all options together, where nothing was said. */
static void settle(struct bench_options *o)
{
    if (o->operation)
        o->granule = o->element->nbytes;
    if (!o->algos)
        o->algos = o->command == BENCH_STRESS ? "all" : "auto";
    if (!o->operations)
        o->operations = "all";
    if (!o->dtypes)
        o->dtypes = "bf16,fp16,fp32";
    if (!o->min_bytes)
        o->min_bytes = o->command == BENCH_P2P ? 4 << 10 : 1 << 10;
    if (!o->strategies)
        o->strategies = "all";
    o->nccl =
        o->peers ? bench_options_want(o->peers, "nccl") : o->command == BENCH_GATHERED_PRODUCT;
    o->cublas = o->peers ? bench_options_want(o->peers, "cublas") : options_are_of_product(o);
}

int bench_options_parse(int argc, char **argv, struct bench_options *out)
{
    struct bench_options o = {.driver = "auto",
                              .element = element_find("bf16"),
                              .granule = 16,
                              .factor = 4,
                              .iters = -1,
                              .warmup = -1,
                              .alpha = 1,
                              .seconds = 10};
    bool given[NSETTINGS] = {false};
    int code = take_options(argc, argv, &o, given);

    if (code >= 0)
        return code;
    if (given[setting_find(OPT_VERSION)]) {
        text_version(tool);
        return 0;
    }
    bool help = given[setting_find('h')];
    code = help && optind == argc ? -1 : take_words(&o, argv + optind, argc - optind);
    if (code < 0 && help) {
        setting_help(o.command, o.operation, argv[optind]);
        return 0;
    }
    if (code < 0 && foreign(&o, given))
        return text_usage_error(tool, "--%s: %s has no such option", foreign(&o, given),
                                argv[optind]);
    if (code >= 0)
        return code;
    settle(&o);
    code = options_check(&o);
    *out = o;
    return code;
}

/* --------------------------------------------------------------------------------------- lists */

bool bench_options_want(const char *list, const char *item)
{
    return strcmp(list, "all") == 0 || bench_options_name(list, item);
}

bool bench_options_name(const char *list, const char *item)
{
    char each[64];

    if (!list || strcmp(list, "all") == 0)
        return false;
    while (text_next(&list, each, sizeof each)) {
        if (strcmp(each, item) == 0)
            return true;
    }
    return false;
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
    *out = nbytes / o->granule * o->granule;
    return true;
}
