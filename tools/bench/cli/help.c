/* The help of symm-bench, from the table of options. */
#include "help.h"

#include <stdio.h>
#include <string.h>
#include "option_table.h"

enum { WIDTH = 66 /* of a description */ };

static const char about_times[] =
    "# time_us and p95_us are the median and the 95th percentile over the repetitions of the time "
    "of\n"
    "# one call on the slowest rank; wrong counts elements outside of their error bound.\n";

static void print_commands(void)
{
    printf(
        "# Usage: symm-bench OPERATION|PRODUCT|p2p|stress [option...]\n"
        "#        symm-bench tune --output FILE [option...]\n"
        "#        symm-bench model [option...]\n"
        "#        symm-bench plot FILE.json... -o FILE.svg [--floor GB/s] [--roofline TFLOP/s]\n"
        "#        symm-bench report FILE.json... -o FILE.html [--floor GB/s]\n"
        "#\n"
        "# Start it on several ranks with symm-run, torchrun --no-python, mpirun or srun.\n"
        "#\n"
        "#   OPERATION   measures, and with --check verifies, every variant of an operation:\n"
        "#               %s,\n"
        "#               %s\n"
        "#   PRODUCT     the same for matrix products, beside cuBLAS and NCCL: matmul,\n"
        "#               all-gather-matmul, matmul-reduce-scatter, matmul-all-reduce,\n"
        "#               matmul-all-scatter\n"
        "#   p2p         bandwidth between ranks by kernels and copy engines, latency of signals\n"
        "#   stress      random calls of every collective and product, each result checked\n"
        "#   tune        finds the fastest algorithm for each size, for SYMM_TUNING_FILE\n"
        "#   model       what calls between hosts take by a model, without ranks or GPUs\n"
        "#   plot        draws the JSON of one or more runs of an OPERATION, or one of a PRODUCT\n"
        "#   report      makes one HTML page of any runs: tables that sort, pictures that zoom\n"
        "#\n"
        "# symm-bench COMMAND --help shows the options of one command. Common to most commands "
        "are:\n"
        "#\n",
        OPERATION_NAMES, OPERATION_NORM);
}

static void print_exit_codes(void)
{
    printf("#\n"
           "# Exit code: 0 success; 1 a wrong result, a failure, nothing measured, or an item that "
           "a\n"
           "# list names cannot run here (\"all\" leaves such items out); 2 wrong usage.\n");
}

static void print_about_operation(void)
{
    printf(
        "# Columns: bytes, of the larger buffer of a rank; algbw, bytes over time; busbw, the\n"
        "# traffic of each link; both in GB/s (10^9).\n%s"
        "# With --host-time host_us, launch_us and beside_us instead: the host's time to "
        "enqueue a\n"
        "# call, to launch an empty kernel by the driver alone, and the difference; "
        "repetitions of\n"
        "# 20 calls, the mean of each, of these the median and the 95th percentile.\n"
        "# All repetitions use one pair of buffers: small ones stay in caches. Variants and "
        "peers\n"
        "# run alternately, on the same data.\n"
        "# On several hosts all ranks take part, and the variants are the forms of calls between\n"
        "# domains, beside NCCL if asked for; hosts is their number. Pretended hosts (symm-run\n"
        "# --hosts N) say nothing about a network.\n"
        "# Short options are those of nccl-tests: also -n, --iters and -w, --warmup; -c 1 is "
        "--check.\n",
        about_times);
}

static void print_about_products(void)
{
    printf(
        "# Algorithms: product, by symm, of all of A; cublas, the same by cuBLAS. Of\n"
        "# all-gather-matmul also: all_gather, by symm, alone; cublas_symm and cublas_nccl,\n"
        "# symm's or NCCL's all-gather, then cuBLAS; and the strategies. Of cuBLASLt's first\n"
        "# eight algorithms the fastest is taken. Columns: strategy, the one that ran;\n"
        "# product_us, the product alone; exposed_us, time_us - product_us, the communication\n"
        "# that the product does not hide; tflops, 10^12 operations a second of one rank; speedup\n"
        "# over cublas_nccl, of matmul over cublas; hidden, (product + all_gather - time) over\n"
        "# all_gather: the share of the communication behind the product.\n%s"
        "# All algorithms run alternately, on the same normally distributed data.\n",
        about_times);
}

static void print_about_collected(enum bench_command command)
{
    printf(
        "# Algorithms: product, by symm, of this rank alone; cublas, the same by cuBLAS;\n"
        "# reduce_scatter, all_reduce or all_gather, the communication by symm, alone;\n"
        "# cublas_symm and cublas_nccl, cuBLAS, then the communication of symm or NCCL; and the\n"
        "# strategies. Of cuBLASLt's first eight algorithms the fastest is taken. Columns:\n"
        "# strategy, the one that ran; product_us, the product alone; exposed_us, time_us -\n"
        "# product_us, the communication that the product does not hide; tflops, 10^12 operations\n"
        "# a second of one rank; speedup over cublas_nccl; hidden, (product + communication -\n"
        "# time) over communication: the share of the communication behind the product.\n%s"
        "# All algorithms run alternately, on the same normally distributed data, other data on\n"
        "# each rank.\n",
        about_times);
    if (command == BENCH_MATMUL_SUMS)
        printf("# product, cublas and the peers' sums have no C, and their type is that of D.\n");
    else
        printf("# cublas_symm and cublas_nccl leave the columns of each rank in a matrix of their\n"
               "# own, so their results are not checked.\n");
}

static void print_about_p2p(void)
{
    printf("# Columns: bytes, that each sending rank moves, in equal parts to its peers; gbs, "
           "bytes\n"
           "# over time, in GB/s (10^9). signal and packet: the latency of one hop, half a round "
           "trip\n"
           "# of ranks 0 and 1.\n%s"
           "# Patterns: pair, rank 0 with rank 1; pair_both, both directions at the same time; "
           "ring,\n"
           "# each rank with the next; ring_both, with both neighbours; all, with all others (put "
           "and\n"
           "# get, by copy engine: one after another). All in CUDA graphs; every word is checked "
           "before\n"
           "# it is timed.\n",
           about_times);
}

static void print_about_tune(void)
{
    printf(
        "# Measures every algorithm that auto may choose, in CUDA graphs, at sizes from 1K on, "
        "each\n"
        "# twice the one before: in symmetric memory, for calls with SYMM_SYMMETRIC, and in "
        "plain\n"
        "# memory, for all other calls. The file gets a row where another algorithm is faster by "
        "more\n"
        "# than 2 %%, at the size where the times cross. It holds for this number of ranks. The "
        "last\n"
        "# row also holds above --max-bytes. With --peer nccl, NCCL is measured in plain memory, "
        "too,\n"
        "# beside algorithms with the blocks that they have in libsymm_nccl.so. Where NCCL is "
        "faster,\n"
        "# and above twice --max-bytes, rows say `forward`: libsymm_nccl.so leaves these calls "
        "to it.\n"
        "# On several hosts with as many ranks each: the forms flat and hierarchical, in plain\n"
        "# memory; the rows hold for this number of hosts and of ranks on each.\n");
}

static void print_about_stress(void)
{
    printf(
        "# Calls random operations, variants, types, counts, memory and alignment, in several "
        "groups\n"
        "# on several streams at once, eagerly and in graphs, with ranks that are late. In some\n"
        "# rounds one of the calls is a product, of random kind, strategy and shape. The seed\n"
        "# determines everything. Ends at the first wrong result and describes it.\n");
}

static void print_about_model(void)
{
    printf("# Prints the times of all-reduce, all-gather and reduce-scatter between hosts by the "
           "model\n"
           "# that auto goes by, flat and hierarchical, and its assumptions. Nothing is measured: "
           "it\n"
           "# needs no GPU and no launcher. Compare it with symm-bench all-reduce and tune.\n"
           "# Columns: bytes, of the larger buffer of a rank; flat_us, nvls_us and hier_us, "
           "microseconds\n"
           "# of NCCL over all ranks, of NCCL with multicast, and of the hierarchical form; auto, "
           "the\n"
           "# form that auto takes.\n");
}

static void print_about_files(void)
{
    printf("# Runs python3 with a script of share/symm; no packages are needed.\n");
}

static void print_about(enum bench_command command)
{
    printf("#\n");
    if (command == BENCH_OPERATION)
        print_about_operation();
    if (command & BENCH_COLLECTED)
        print_about_collected(command);
    else if (command & BENCH_PRODUCTS)
        print_about_products();
    if (command == BENCH_P2P)
        print_about_p2p();
    if (command == BENCH_TUNE)
        print_about_tune();
    if (command == BENCH_STRESS)
        print_about_stress();
    if (command == BENCH_MODEL)
        print_about_model();
    if (command & BENCH_FILES)
        print_about_files();
}

/* ------------------------------------------------------------------------------------- options */

/* How much of a text fits into a line: whole words. */
static int line_length(const char *text)
{
    int length = (int)strlen(text);

    if (length <= WIDTH)
        return length;
    for (length = WIDTH; length > 0 && text[length] != ' '; length--)
        ;
    return length > 0 ? length : WIDTH;
}

/* Prints a text in lines; `head` stands before the first one. */
static void print_lines(const char *head, const char *text)
{
    while (*text) {
        const int length = line_length(text);

        printf("#   %-21s %.*s\n", head, length, text);
        head = "";
        text += length;
        text += strspn(text, " ");
    }
}

static void print_option(const struct option_row *row, const struct option_use *use,
                         const struct bench_options *o)
{
    const char short_name = o->operation && row->nccl_letter ? row->nccl_letter : row->letter;
    const char letter[] = {'-', short_name, ',', ' ', 0};
    const bool has_items = use->help[strlen(use->help) - 1] == ':';
    char head[64], items[OPTION_ITEMS], text[1024];

    snprintf(head, sizeof head, "%s--%s%s%s", short_name ? letter : "", row->name,
             row->value ? " " : "", row->value ? row->value : "");
    snprintf(text, sizeof text, "%s%s%s", use->help, has_items ? " " : "",
             has_items ? option_names(row, o, items) : "");
    print_lines(head, text);
}

static void print_common(const struct bench_options *o)
{
    for (const struct option_row *row = option_table; row->name; row++) {
        if (row->uses[0].commands & OPTION_COMMON)
            print_option(row, &row->uses[0], o);
    }
}

/* The command's own options, and the names of the common ones. */
static void print_options(const struct bench_options *o)
{
    char common[256] = "";
    size_t used = 0;

    for (const struct option_row *row = option_table; row->name; row++) {
        const struct option_use *use = option_use(row, o);

        if (use && !(use->commands & OPTION_COMMON))
            print_option(row, use, o);
        else if (use && used < sizeof common)
            used += (size_t)snprintf(common + used, sizeof common - used, " --%s", row->name);
    }
    print_lines("common:", common + 1);
    printf("#   %-21s (symm-bench --help describes them)\n", "");
}

void help_print(const struct bench_options *o)
{
    if (!o->command) {
        print_commands();
        print_common(o);
        print_exit_codes();
        return;
    }
    if (o->command & BENCH_FILES)
        printf("# Usage: symm-bench %s FILE.json... -o FILE.%s [option...]\n#\n", o->name,
               o->command == BENCH_PLOT ? "svg" : "html");
    else
        printf("# Usage: %ssymm-bench %s%s [option...]\n#\n",
               o->command == BENCH_MODEL ? "" : "symm-run -n N ", o->name,
               o->command == BENCH_TUNE ? " --output FILE" : "");
    print_options(o);
    print_about(o->command);
}
