/* The command line of symm-bench: parsed by the table of options. */
#include "options.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "common/text.h"
#include "help.h"
#include "option_table.h"

static const char tool[] = "symm-bench";

enum { MAX_OPTIONS = 64, PAST_LETTERS = 256 };

/* -------------------------------------------------------------------------------------- parsing */

/* Options of one field are one option to getopt_long(): --iter is not ambiguous. */
static void make_getopt(struct option long_options[MAX_OPTIONS], char letters[MAX_OPTIONS])
{
    *letters++ = ':';
    for (int i = 0; option_table[i].name; i++) {
        const struct option_row *row = &option_table[i];

        long_options[i] = (struct option){.name = row->name,
                                          .has_arg = row->value ? required_argument : no_argument,
                                          .val = PAST_LETTERS + (int)row->field};
        const char both[2] = {row->letter, row->nccl_letter};
        for (int k = 0; k < 2; k++) {
            if (!both[k])
                continue;
            *letters++ = both[k];
            if (row->value || k == 1)
                *letters++ = ':';
        }
    }
    *letters = 0;
}

/* Whether an operation is measured. Options come before the command, too, so it may be anywhere. */
static bool names_operation(int argc, char **argv)
{
    int i = 1;

    while (i < argc && !operation_find(argv[i]))
        i++;
    return i < argc;
}

/* The row of a letter: of an operation's letters the one that nccl-tests means. */
static int find_letter(int letter, bool operation)
{
    int by_letter = -1, by_nccl = -1;

    for (int i = 0; option_table[i].name; i++) {
        if (option_table[i].letter == letter)
            by_letter = i;
        if (option_table[i].nccl_letter == letter)
            by_nccl = i;
    }
    return by_letter < 0 || (operation && by_nccl >= 0) ? by_nccl : by_letter;
}

/* Reads all options; given[i]: row i was there. Returns -1 or an exit code. */
static int take_options(int argc, char **argv, struct bench_options *o, bool *given)
{
    struct option long_options[MAX_OPTIONS] = {{0}};
    char letters[MAX_OPTIONS], wrong[OPTION_WRONG];
    const bool operation = names_operation(argc, argv);
    int c, index;

    make_getopt(long_options, letters);
    opterr = 0;
    while (index = -1, (c = getopt_long(argc, argv, letters, long_options, &index)) != -1) {
        if (c == ':' || c == '?')
            return text_bad_option(tool, argv, c, long_options);
        const int i = index >= 0 ? index : find_letter(c, operation);
        const char *what = option_take(&option_table[i], o, optarg, wrong);

        given[i] = true;
        o->has_seed = o->has_seed || option_table[i].kind == OPTION_SEED;
        if (what)
            return text_usage_error(tool, "--%s%s%s: %s", option_table[i].name, optarg ? " " : "",
                                    optarg ? optarg : "", what);
    }
    return -1;
}

/* Takes the words that are no options: the command, and the files of plot and report. */
static int take_words(struct bench_options *o, char *const *words, int nwords)
{
    static const struct {
        const char *name;
        enum bench_command command;
        symm_matmul_kind kind;
    } commands[] = {{"matmul", BENCH_MATMUL, SYMM_MATMUL},
                    {"all-gather-matmul", BENCH_ALL_GATHER_MATMUL, SYMM_ALL_GATHER_MATMUL},
                    {"matmul-reduce-scatter", BENCH_MATMUL_SUMS, SYMM_MATMUL_REDUCE_SCATTER},
                    {"matmul-all-reduce", BENCH_MATMUL_SUMS, SYMM_MATMUL_ALL_REDUCE},
                    {"matmul-all-scatter", BENCH_MATMUL_ALL_SCATTER, SYMM_MATMUL_ALL_SCATTER},
                    {"p2p", BENCH_P2P, 0},
                    {"stress", BENCH_STRESS, 0},
                    {"tune", BENCH_TUNE, 0},
                    {"model", BENCH_MODEL, 0},
                    {"plot", BENCH_PLOT, 0},
                    {"report", BENCH_REPORT, 0}};

    if (nwords == 0)
        return text_usage_error(tool, "the command is missing: %s", HELP_COMMANDS);
    o->name = words[0];
    o->operation = operation_find(words[0]);
    o->command = o->operation ? BENCH_OPERATION : 0;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(words[0], commands[i].name) == 0) {
            o->command = commands[i].command;
            o->kind = commands[i].kind;
        }
    }
    if (!o->command)
        return text_usage_error(tool, "%s: no such command; there is %s", words[0], HELP_COMMANDS);
    if (!(o->command & BENCH_FILES) && nwords > 1)
        return text_usage_error(tool, "%s: a second command, after %s", words[1], words[0]);
    o->files = words + 1;
    o->nfiles = nwords - 1;
    return -1;
}

/* Defaults that follow from all options together. */
static void settle(struct bench_options *o)
{
    const bool is_product = o->command & BENCH_PRODUCTS;
    symm_dtype dtype = SYMM_BFLOAT16;

    if (o->schedule_name)
        o->schedule = schedule_find(o->schedule_name, o->kind);
    if (!o->dtype)
        o->dtype = o->schedule_name ? "float16" : "bfloat16";
    symm_dtype_parse(o->dtype, &dtype);
    symm_redop_parse(o->op_name, &o->op);
    o->element = element_by_dtype(dtype);
    if (o->partial_name)
        symm_dtype_parse(o->partial_name, &dtype);
    o->partial = element_by_dtype(dtype);
    o->timing = o->chain       ? TIMING_CHAIN
                : o->isolated  ? TIMING_ISOLATED
                : o->host_time ? TIMING_HOST
                               : TIMING_STREAM;
    o->plain_memory = strcmp(o->memory, "plain") == 0;
    if (o->operation)
        o->granule = o->element->nbytes;
    if (o->command == BENCH_STRESS && !o->algos && !o->strategies)
        o->algos = o->strategies = "all";
    if (!o->algos && o->command == BENCH_STRESS)
        o->algos = "none";
    if (!o->operations)
        o->operations = "all";
    if (!o->dtypes)
        o->dtypes = "bfloat16,float16,float32";
    if (!o->min_bytes && !(o->operation && o->operation->norms)) /* that begins with a row */
        o->min_bytes = o->command == BENCH_P2P ? 4 << 10 : 1 << 10;
    if (o->command == BENCH_MODEL && !o->sizes)
        o->sizes = "8K,64K,256K,1M,4M,16M,64M,256M,1G";
    if (!o->schedules)
        o->schedules = "none";
    if (!o->strategies)
        o->strategies = o->command == BENCH_STRESS ? "none" : "all";
    o->nccl = o->peers ? bench_options_want(o->peers, "nccl") : o->command & BENCH_COMMUNICATING;
    o->cublas = o->peers ? bench_options_want(o->peers, "cublas") : is_product;
}

/* --------------------------------------------------------------------------------------- checks */

/* Each option by itself, when the command is known. Returns -1 or an exit code, as all checks. */
static int check_options(const struct bench_options *o, const bool *given)
{
    char item[64], wrong[OPTION_WRONG];

    for (int i = 0; option_table[i].name; i++) {
        if (given[i] && !option_use(&option_table[i], o))
            return text_usage_error(tool, "--%s: %s has no such option", option_table[i].name,
                                    o->name);
    }
    for (const struct option_row *row = option_table; row->name; row++) {
        const char *what = option_check(row, o, item, wrong);

        if (what)
            return text_usage_error(tool, "--%s%s%s: %s", row->name, item[0] ? " " : "", item,
                                    what);
    }
    return -1;
}

static int check_schedule(const struct bench_options *o)
{
    if (o->schedule_name && !o->schedule)
        return text_usage_error(tool,
                                "--schedule-of %s: %s has no such schedule: all-gather-matmul has "
                                "AllGather..., matmul-reduce-scatter ReduceScatter...",
                                o->schedule_name, o->name);
    if (o->schedule && o->suite)
        return text_usage_error(tool, "--schedule-of %s and --suite exclude each other",
                                o->schedule_name);
    return -1;
}

static int check_product(const struct bench_options *o)
{
    if (o->suite && (o->m || o->n || o->k))
        return text_usage_error(tool, "--suite %s sets m, n and k: leave out -m, -n and -k",
                                o->suite);
    if (o->suite && o->trace)
        return text_usage_error(
            tool, "--trace %s: there is a timeline of one shape, not of --suite", o->trace);
    if (o->count && (!o->suite || strcmp(o->suite, "random") != 0))
        return text_usage_error(tool, "--count %d: only --suite random has a number of shapes",
                                o->count);
    if (o->alpha != 0 && (float)o->alpha == 0)
        return text_usage_error(tool, "--alpha %g: it is 0 in fp32", o->alpha);
    if (o->beta != 0 && (float)o->beta == 0)
        return text_usage_error(tool, "--beta %g: it is 0 in fp32", o->beta);
    if (o->as_if && o->beta != 0)
        return text_usage_error(tool, "--as-if %d: it needs --beta 0", o->as_if);
    if (o->nccl && !o->cublas && o->peers)
        return text_usage_error(tool, "--peer nccl: NCCL communicates and cuBLAS multiplies: "
                                      "--peer cublas,nccl");
    if (o->same_bits && bench_options_want(o->schedules, "stream_k"))
        return text_usage_error(tool,
                                "--schedule %s: the bits of stream_k depend on the shape: not "
                                "with --same-bits",
                                o->schedules);
    if (o->eps > 0 && !o->check)
        return text_usage_error(tool, "--eps %g: nothing is compared without --check", o->eps);
    return check_schedule(o);
}

static int check_files(const struct bench_options *o)
{
    double peak;

    if (o->roofline && strcmp(o->roofline, "measured") != 0 &&
        !(text_real(o->roofline, &peak) && peak > 0))
        return text_usage_error(tool,
                                "--roofline %s: neither measured nor a number of TFLOP/s "
                                "above 0",
                                o->roofline);
    if (o->nfiles == 0)
        return text_usage_error(tool, "%s: the JSON file is missing", o->name);
    if (!o->output)
        return text_usage_error(tool, "%s: -o FILE.%s is missing", o->name,
                                o->command == BENCH_PLOT ? "svg" : "html");
    return -1;
}

static int check_together(const struct bench_options *o)
{
    if (o->op == SYMM_AVG && o->element->integer)
        return text_usage_error(tool, "--op avg: only floating types have averages");
    if (o->chain && o->isolated)
        return text_usage_error(tool, "--chain and --isolated exclude each other");
    if (o->host_time && (o->chain || o->isolated || o->graph || o->plot))
        return text_usage_error(tool, "--host-time excludes --chain, --isolated, --graph and "
                                      "--plot");
    if (o->command & BENCH_PRODUCTS)
        return check_product(o);
    if (o->command & BENCH_FILES)
        return check_files(o);
    if (o->max_bytes && o->max_bytes < o->min_bytes)
        return text_usage_error(tool, "--max-bytes %" PRIu64 " is less than --min-bytes %" PRIu64,
                                o->max_bytes, o->min_bytes);
    if (o->command == BENCH_TUNE && !o->output)
        return text_usage_error(tool, "tune: --output FILE is missing");
    return -1;
}

int bench_options_parse(int argc, char **argv, struct bench_options *out)
{
    struct bench_options o = {.driver = "auto",
                              .op_name = "sum",
                              .memory = "symmetric",
                              .granule = 16,
                              .factor = 4,
                              .hosts = "2,16,128,1024",
                              .ranks_per_host = 8,
                              .iters = -1,
                              .warmup = -1,
                              .alpha = 1,
                              .seconds = 10};
    bool given[MAX_OPTIONS] = {false};
    int code = take_options(argc, argv, &o, given);

    if (code < 0 && o.version) {
        text_version(tool);
        return 0;
    }
    if (code < 0 && !(o.help && optind == argc))
        code = take_words(&o, argv + optind, argc - optind);
    if (code < 0 && o.help) {
        help_print(&o);
        return 0;
    }
    if (code < 0)
        code = check_options(&o, given);
    if (code >= 0)
        return code;
    settle(&o);
    *out = o;
    return check_together(out);
}

/* ---------------------------------------------------------------------------------------- lists */

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

bool bench_options_want_dtype(const char *list, symm_dtype dtype)
{
    symm_dtype named = dtype;
    char each[64];
    bool wanted = strcmp(list, "all") == 0;

    while (!wanted && text_next(&list, each, sizeof each))
        wanted = symm_dtype_parse(each, &named) == SYMM_OK && named == dtype;
    return wanted;
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
        for (int i = 0; i < index; i++) {
            if (nbytes > o->max_bytes / (uint64_t)o->factor) /* a product could wrap around */
                return false;
            nbytes *= (uint64_t)o->factor;
        }
        if (nbytes > o->max_bytes)
            return false;
    }
    *out = nbytes / o->granule * o->granule;
    return true;
}
