/* The command line of symm-bench. */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "driver.h"
#include "p2p.h"
#include "p2p_args.h"
#include "text.h"

static const char tool[] = "symm-bench";

enum {
    OPT_ALGO = 256,
    OPT_HOW,
    OPT_PATTERN,
    OPT_BLOCKS,
    OPT_THREADS,
    OPT_DTYPE,
    OPT_MIN,
    OPT_MAX,
    OPT_FACTOR,
    OPT_SIZES,
    OPT_ITERS,
    OPT_WARMUP,
    OPT_GRAPH,
    OPT_IN_PLACE,
    OPT_CHAIN,
    OPT_ISOLATED,
    OPT_MEMORY,
    OPT_CHECK,
    OPT_SECONDS,
    OPT_SEED,
    OPT_PEER,
    OPT_JSON,
    OPT_CSV,
    OPT_PLOT,
    OPT_FLOOR,
    OPT_DRIVER,
    OPT_TIMEOUT,
    OPT_VERSION
};

enum {
    ALL = BENCH_OPERATION | BENCH_P2P | BENCH_STRESS | BENCH_PLOT,
    RANKS = BENCH_OPERATION | BENCH_P2P | BENCH_STRESS, /* what runs on ranks */
    TIMED = BENCH_OPERATION | BENCH_P2P
};

/* Every option, of which commands it is one, and its help. */
static const struct {
    const char *name;
    int id;
    const char *value; /* NULL: it has none */
    int commands;      /* bits */
    const char *help;
} settings[] = {
    {"algo", OPT_ALGO, "LIST|all", BENCH_OPERATION | BENCH_STRESS,
     "variants: auto one_shot two_shot multimem multimem_one_shot\n"
     "low_latency copy_engine (auto; stress: all)"},
    {"how", OPT_HOW, "LIST|all", BENCH_P2P, "ways to move: " P2P_HOWS "\n(all)"},
    {"pattern", OPT_PATTERN, "LIST|all", BENCH_P2P, "who moves: " P2P_PATTERNS " (all)"},
    {"blocks", OPT_BLOCKS, "LIST", BENCH_P2P, "blocks of a kernel (4,16,64; emulated 1,4)"},
    {"threads", OPT_THREADS, "N", BENCH_P2P, "of a block that loads or stores (512; emulated 32)"},
    {"dtype", OPT_DTYPE, "TYPE", BENCH_OPERATION, "bf16, fp16 or fp32 (bf16)"},
    {"min-bytes", OPT_MIN, "N", TIMED, "from this size of a rank's buffer (1K; p2p 4K)"},
    {"max-bytes", OPT_MAX, "N", RANKS,
     "to this one (64M, emulated 1M; p2p 256M, emulated 64K;\nstress 16M, emulated 64K)"},
    {"factor", OPT_FACTOR, "N", TIMED, "each so many times the one before (4)"},
    {"sizes", OPT_SIZES, "LIST", TIMED, "these sizes instead: 1K,96K,4M"},
    {"iters", OPT_ITERS, "N", TIMED, "measured repetitions (50; emulated 3)"},
    {"warmup", OPT_WARMUP, "N", TIMED, "repetitions before them (5; emulated 1)"},
    {"graph", OPT_GRAPH, NULL, BENCH_OPERATION,
     "replay a CUDA graph of the operations of a repetition"},
    {"in-place", OPT_IN_PLACE, NULL, BENCH_OPERATION, "output over input"},
    {"chain", OPT_CHAIN, NULL, BENCH_OPERATION,
     "each call's input is the last one's output; each repetition\n"
     "begins with fresh data"},
    {"isolated", OPT_ISOLATED, NULL, BENCH_OPERATION,
     "a barrier of the streams before each call, the time of which\n"
     "is measured alongside and subtracted"},
    {"memory", OPT_MEMORY, "KIND", BENCH_OPERATION,
     "symmetric, or plain device memory, which goes through staging"},
    {"check", OPT_CHECK, NULL, BENCH_OPERATION, "verify every element on fresh random data"},
    {"seconds", OPT_SECONDS, "S", BENCH_STRESS, "go on for so long (10)"},
    {"seed", OPT_SEED, "N", RANKS, "of the data, and of all that stress chooses (random)"},
    {"peer", OPT_PEER, "nccl", BENCH_OPERATION,
     "measure NCCL too, with plain and with symmetric-window memory:\n"
     "SYMM_NCCL_LIBRARY, else libnccl.so.2"},
    {"json", OPT_JSON, "FILE", TIMED, "write everything as JSON"},
    {"csv", OPT_CSV, "FILE", TIMED, "write the table as CSV"},
    {"plot", OPT_PLOT, "FILE.svg", BENCH_OPERATION,
     "draw latency and bus bandwidth (needs gnuplot)"},
    {"output", 'o', "FILE.svg", BENCH_PLOT, "the picture; this must be there"},
    {"floor", OPT_FLOOR, "GB/s", BENCH_OPERATION | BENCH_PLOT,
     "of a link, for the line that nothing can be better than (395)"},
    {"driver", OPT_DRIVER, "DRIVER", RANKS, "auto, cuda or emulated (auto: cuda where it runs)"},
    {"timeout", OPT_TIMEOUT, "S", RANKS, "limit of each wait for other ranks (SYMM_TIMEOUT_MS)"},
    {"help", 'h', NULL, ALL, "this text"},
    {"version", OPT_VERSION, NULL, ALL, "the version"},
};

enum { NSETTINGS = sizeof settings / sizeof settings[0] };

/* ----------------------------------------------------------------------------------------- help */

static const char timed_columns[] =
    "# time_us and p95_us are the median and the 95th percentile over the repetitions of the time "
    "of\n"
    "# one operation, on the slowest rank; wrong counts what has another value than it may have.\n";

static void print_commands(void)
{
    printf(
        "# Usage: symm-bench OPERATION|p2p|stress [option...]\n"
        "#        symm-bench plot FILE.json -o FILE.svg [--floor GB/s]\n"
        "#\n"
        "# Start it on several ranks with symm-run, torchrun --no-python, mpirun or srun.\n"
        "#\n"
        "#   OPERATION   measures, and with --check verifies, it in every variant: %s\n"
        "#   p2p         bandwidth between ranks by every way to move bytes, latency of signals\n"
        "#   stress      random calls of everything, each result checked\n"
        "#   plot        draws the JSON of an OPERATION\n"
        "#\n"
        "# symm-bench COMMAND --help shows the options of a command. Exit code: 0 all right;\n"
        "# 1 wrong or failed; 2 wrong usage.\n",
        operation_names);
}

static void print_about(enum bench_command command)
{
    if (command == BENCH_OPERATION)
        printf(
            "# Columns: bytes of a rank's buffer; algbw, bytes over time, and busbw, what crosses\n"
            "# each link, in GB/s (10^9).\n%s"
            "# One pair of buffers is used again and again: small ones stay in caches. Variants "
            "and\n"
            "# peers take turns at each repetition, on the same data.\n",
            timed_columns);
    if (command == BENCH_P2P)
        printf(
            "# Columns: bytes that each moving rank moves, in equal parts if to several; gbs, "
            "these\n"
            "# over time, in GB/s (10^9). signal and packet are the latency of one way: half a "
            "round\n"
            "# trip of ranks 0 and 1.\n%s"
            "# Patterns: pair, rank 0 with rank 1; pair_both, and rank 1 with rank 0 at the same\n"
            "# time; ring, each with the next; ring_both, each with both neighbours; all, each "
            "with\n"
            "# all others. All in CUDA graphs; every word is checked before it is timed.\n",
            timed_columns);
    if (command == BENCH_STRESS)
        printf("# Calls of random operations, variants, types, counts, memory and alignment, by "
               "several\n"
               "# groups on several streams at once, with ranks that are late, eagerly and in "
               "graphs.\n"
               "# All follows from the seed. It ends at the first wrong result, which it "
               "describes.\n");
}

static void print_help(enum bench_command command)
{
    printf("# Options:\n");
    for (int i = 0; i < NSETTINGS; i++) {
        char head[64];
        const char *help = settings[i].help;

        if (!(settings[i].commands & (int)command))
            continue;
        snprintf(head, sizeof head, "--%s%s%s", settings[i].name, settings[i].value ? " " : "",
                 settings[i].value ? settings[i].value : "");
        do {
            int length = (int)strcspn(help, "\n");

            printf("#   %-20s %.*s\n", head, length, help);
            help += length + (help[length] == '\n');
            head[0] = 0;
        } while (*help);
    }
    printf("#\n");
    print_about(command);
}

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

/* Takes one option in. Returns NULL, or what its value should have been. */
static const char *take(struct bench_options *o, int c, const char *value)
{
    static const char bytes[] = "not a number of bytes like 4096, 64K or 1M";

    switch (c) {
    case OPT_ALGO:
        o->algos = value;
        return NULL;
    case OPT_HOW:
        o->hows = value;
        return NULL;
    case OPT_PATTERN:
        o->patterns = value;
        return NULL;
    case OPT_BLOCKS:
        o->blocks = value;
        return NULL;
    case OPT_THREADS:
        return text_int(value, 1, P2P_THREADS_MAX, &o->threads) ? NULL : "not a number to 512";
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
    case OPT_CHAIN:
        return parse_timing(TIMING_CHAIN, o);
    case OPT_ISOLATED:
        return parse_timing(TIMING_ISOLATED, o);
    case OPT_MEMORY:
        return parse_memory(value, o) ? NULL : "neither symmetric nor plain";
    case OPT_CHECK:
        o->check = true;
        return NULL;
    case OPT_SECONDS:
        return text_seconds(value, &o->seconds) ? NULL : "not a number of seconds above 0";
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
    case OPT_PLOT:
    case 'o':
        o->plot = value;
        return NULL;
    case OPT_FLOOR:
        return text_seconds(value, &o->floor_gbs) ? NULL : "not a number of GB/s above 0";
    case OPT_DRIVER:
        o->driver = value;
        return driver_is_choice(value) ? NULL : "not auto, cuda or emulated";
    default:
        return parse_timeout(value, o) ? NULL : "not a number of seconds above 0";
    }
}

static const char *name_of(int c)
{
    int i = 0;

    while (i < NSETTINGS - 1 && settings[i].id != c)
        i++;
    return settings[i].name;
}

/* ------------------------------------------------------------- what all options together must be */

static bool is_variant(const struct operation *operation, const char *name)
{
    const struct variant *v = operation->variants;

    while (v->name && strcmp(v->name, name) != 0)
        v++;
    return v->name != NULL;
}

static bool is_any_variant(const char *name)
{
    for (size_t i = 0; operation_at(i); i++) {
        if (is_variant(operation_at(i), name))
            return true;
    }
    return false;
}

static bool is_algo(const struct bench_options *o, const char *item)
{
    return o->operation ? is_variant(o->operation, item) : is_any_variant(item);
}

static bool is_how(const struct bench_options *o, const char *item)
{
    (void)o;
    return p2p_is_how(item);
}

static bool is_pattern(const struct bench_options *o, const char *item)
{
    (void)o;
    return p2p_is_pattern(item);
}

static bool is_size(const struct bench_options *o, const char *item)
{
    uint64_t nbytes;

    (void)o;
    return text_bytes(item, &nbytes);
}

static bool is_number(const struct bench_options *o, const char *item)
{
    int n;

    (void)o;
    return text_int(item, 1, 1 << 16, &n);
}

/* Returns -1 when every item of the list is one of what there is. */
static int check_list(const struct bench_options *o, const char *option, const char *list,
                      bool (*is_right)(const struct bench_options *, const char *),
                      const char *what)
{
    char item[64];

    if (!list || (strcmp(list, "all") == 0 && is_right != is_size && is_right != is_number))
        return -1;
    if (!*list)
        return text_usage_error(tool, "--%s: an empty list", option);
    while (text_next(&list, item, sizeof item)) {
        if (!is_right(o, item))
            return text_usage_error(tool, "--%s %s: %s", option, item, what);
    }
    return -1;
}

/* What can only be judged when all options are known. */
static int check_lists(const struct bench_options *o)
{
    const struct {
        const char *option, *list;
        bool (*is_right)(const struct bench_options *, const char *);
        const char *what;
    } lists[] = {
        {"algo", o->algos, is_algo, "there is no variant of that name"},
        {"how", o->hows, is_how, "not one of " P2P_HOWS},
        {"pattern", o->patterns, is_pattern, "not one of " P2P_PATTERNS},
        {"blocks", o->blocks, is_number, "not a number from 1"},
        {"sizes", o->sizes, is_size, "not a number of bytes like 4096, 64K or 1M"},
    };

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        int code = check_list(o, lists[i].option, lists[i].list, lists[i].is_right, lists[i].what);
        if (code >= 0)
            return code;
    }
    if (o->max_bytes && o->max_bytes < o->min_bytes)
        return text_usage_error(tool, "--max-bytes is less than --min-bytes");
    if (o->command == BENCH_PLOT && !o->file)
        return text_usage_error(tool, "plot: the JSON file is missing");
    if (o->command == BENCH_PLOT && !o->plot)
        return text_usage_error(tool, "plot: -o FILE.svg is missing");
    return -1;
}

/* Takes the words that are no options: the command, and what it is about. */
static int take_words(struct bench_options *o, char *const *words, int nwords)
{
    static const struct {
        const char *name;
        enum bench_command command;
    } commands[] = {{"p2p", BENCH_P2P}, {"stress", BENCH_STRESS}, {"plot", BENCH_PLOT}};

    if (nwords == 0)
        return text_usage_error(tool, "the operation is missing: %s, p2p, stress or plot",
                                operation_names);
    o->operation = operation_find(words[0]);
    o->command = o->operation ? BENCH_OPERATION : 0;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(words[0], commands[i].name) == 0)
            o->command = commands[i].command;
    }
    if (!o->command)
        return text_usage_error(tool, "%s: no such operation; there is %s, p2p, stress and plot",
                                words[0], operation_names);
    if (o->command == BENCH_PLOT && nwords > 1) {
        o->file = words[1];
        words++;
        nwords--;
    }
    if (nwords > 1)
        return text_usage_error(tool, "%s: one at a time", words[1]);
    return -1;
}

/* The first option given that the command has not; NULL: none. */
static const char *foreign(enum bench_command command, const bool *given)
{
    for (int i = 0; i < NSETTINGS; i++) {
        if (given[i] && !(settings[i].commands & (int)command))
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
    while ((c = getopt_long(argc, argv, ":ho:", options, NULL)) != -1) {
        if (c == ':' || c == '?')
            return text_bad_option(tool, argv, c);
        for (index = 0; index < NSETTINGS - 1 && settings[index].id != c; index++)
            ;
        given[index] = true;
        if (c == 'h' || c == OPT_VERSION)
            continue;
        const char *wrong = take(o, c, optarg);
        if (wrong)
            return text_usage_error(tool, "--%s%s%s: %s", name_of(c), optarg ? " " : "",
                                    optarg ? optarg : "", wrong);
    }
    return -1;
}

int bench_options_parse(int argc, char **argv, struct bench_options *out)
{
    struct bench_options o = {.driver = "auto",
                              .element = element_find("bf16"),
                              .granule = 16,
                              .factor = 4,
                              .iters = -1,
                              .warmup = -1,
                              .floor_gbs = 395,
                              .seconds = 10};
    bool given[NSETTINGS] = {false};
    int code = take_options(argc, argv, &o, given);

    if (code >= 0)
        return code;
    if (given[NSETTINGS - 1]) {
        text_version(tool);
        return 0;
    }
    if (given[NSETTINGS - 2] && optind == argc) {
        print_commands();
        return 0;
    }
    code = take_words(&o, argv + optind, argc - optind);
    if (code < 0 && given[NSETTINGS - 2]) {
        print_help(o.command);
        return 0;
    }
    if (code < 0 && foreign(o.command, given))
        return text_usage_error(tool, "--%s: %s has no such option", foreign(o.command, given),
                                argv[optind]);
    if (code >= 0)
        return code;
    if (o.operation)
        o.granule = o.element->nbytes;
    if (!o.algos)
        o.algos = o.command == BENCH_STRESS ? "all" : "auto";
    if (!o.min_bytes)
        o.min_bytes = o.command == BENCH_P2P ? 4 << 10 : 1 << 10;
    code = check_lists(&o);
    *out = o;
    return code;
}

/* --------------------------------------------------------------------------------------- lists */

bool bench_options_want(const char *list, const char *item)
{
    char each[64];

    if (strcmp(list, "all") == 0)
        return true;
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
