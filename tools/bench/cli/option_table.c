/* Every option of symm-bench and its help. */
#include "option_table.h"

#include <stdio.h>
#include <string.h>
#include "bench/measure/p2p.h"

enum {
    PRODUCTS = BENCH_PRODUCT | BENCH_GATHERED_PRODUCT,
    SIZED = BENCH_OPERATION | BENCH_P2P,
    TIMED = SIZED | PRODUCTS,
    RANKS = TIMED | BENCH_STRESS | BENCH_TUNE, /* what runs on ranks */
    ALL = RANKS | BENCH_PLOT,
    COMMON = 1 << 16, /* described once, in the help of no command */
    WIDTH = 66        /* of a description */
};

#define FLOOR_HELP                                                                                 \
    "speed of a link: draw the line that nothing can be better than (as measured with this "       \
    "device, if it was; else no line)"

const struct setting settings[NSETTINGS] = {
    {"algo", OPT_ALGO, "LIST|all", BENCH_OPERATION, "variants to measure (auto):"},
    {"algo", OPT_ALGO, "LIST|all", BENCH_STRESS, "variants to call (all):"},
    {"how", OPT_HOW, "LIST|all", BENCH_P2P, "ways to move: " P2P_HOWS " (all)"},
    {"pattern", OPT_PATTERN, "LIST|all", BENCH_P2P, "who moves: " P2P_PATTERNS " (all)"},
    {"blocks", OPT_BLOCKS, "LIST", BENCH_P2P, "blocks of a kernel (4,16,64; emulated 1,4)"},
    {"threads", OPT_THREADS, "N", BENCH_P2P, "of a block that loads or stores (512; emulated 32)"},
    {"m", 'm', "M", PRODUCTS, "rows of A, those of all ranks together (8192; emulated 256)"},
    {"n", 'n', "N", PRODUCTS, "columns of B on each rank (3584; emulated 128)"},
    {"k", 'k', "K", PRODUCTS, "between them (8192; emulated 128)"},
    {"l", 'l', "L", PRODUCTS, "products of that shape at once (1)"},
    {"suite", OPT_SUITE, "llama", PRODUCTS,
     "nine shapes instead: m 4096, 8192, 16384 with n,k 1792,4096; 3584,8192; 6656,16384; "
     "emulated, each extent is a 64th"},
    {"strategy", OPT_STRATEGY, "LIST|all", BENCH_GATHERED_PRODUCT,
     "auto fused pipelined unfused (all)"},
    {"alpha", OPT_ALPHA, "X", PRODUCTS, "factor of the product, which 0 leaves out (1)"},
    {"beta", OPT_BETA, "X", PRODUCTS, "of a matrix that is added, which 0 leaves out (0)"},
    {"dtype", OPT_DTYPE, "TYPE", BENCH_OPERATION, "bf16 by default:"},
    {"dtype", OPT_DTYPE, "TYPE", PRODUCTS, "bf16 or fp16 (bf16)"},
    {"operations", OPT_OPERATIONS, "LIST|all", BENCH_TUNE,
     "what to measure (all): " OPERATION_NAMES},
    {"dtypes", OPT_DTYPES, "LIST|all", BENCH_TUNE,
     "types to reduce (bf16,fp16,fp32): " ELEMENT_REDUCED_NAMES "; what only moves elements is "
     "measured with the first"},
    {"op", OPT_OP, "OP", BENCH_OPERATION, "sum, min, max, or avg of floating types (sum)"},
    {"min-bytes", OPT_MIN, "N", BENCH_OPERATION,
     "from this size of a rank's buffer, the larger one if they differ (1K)"},
    {"min-bytes", OPT_MIN, "N", BENCH_P2P, "from this size of a rank's buffer (4K)"},
    {"max-bytes", OPT_MAX, "N", BENCH_OPERATION, "to this one (64M; emulated 1M)"},
    {"max-bytes", OPT_MAX, "N", BENCH_P2P, "to this one (256M; emulated 64K)"},
    {"max-bytes", OPT_MAX, "N", BENCH_STRESS, "size of the largest buffers (16M; emulated 64K)"},
    {"max-bytes", OPT_MAX, "N", BENCH_TUNE, "sizes up to this one (256M; emulated 16K)"},
    {"factor", OPT_FACTOR, "N", SIZED, "each so many times the one before (4)"},
    {"sizes", OPT_SIZES, "LIST", SIZED, "these sizes instead: 1K,96K,4M"},
    {"iters", OPT_ITERS, "N", TIMED | BENCH_TUNE | COMMON,
     "measured repetitions (50; products, tune 20; emulated 3; products, tune 2)"},
    {"iterations", OPT_ITERS, "N", PRODUCTS, "the same as --iters"},
    {"warmup", OPT_WARMUP, "N", TIMED | BENCH_TUNE | COMMON,
     "repetitions before them (5; tune 3; emulated 1)"},
    {"warmup-iterations", OPT_WARMUP, "N", PRODUCTS, "the same as --warmup"},
    {"graph", OPT_GRAPH, NULL, BENCH_OPERATION | PRODUCTS | COMMON,
     "replay a CUDA graph of the operations of a repetition"},
    {"in-place", OPT_IN_PLACE, NULL, BENCH_OPERATION, "output over input"},
    {"chain", OPT_CHAIN, NULL, BENCH_OPERATION,
     "each call's input is the last one's output; each repetition begins with fresh data"},
    {"isolated", OPT_ISOLATED, NULL, BENCH_OPERATION,
     "a barrier of the streams before each call, the time of which is measured alongside and "
     "subtracted"},
    {"memory", OPT_MEMORY, "KIND", BENCH_OPERATION,
     "symmetric, or plain device memory, which goes through staging (symmetric)"},
    {"check", OPT_CHECK, NULL, BENCH_OPERATION, "verify every element on fresh random data"},
    {"check", OPT_CHECK, NULL, PRODUCTS,
     "verify every element on fresh random data, of large products a sample; and that all "
     "strategies have the same bits (SYMM_MATMUL_CUBLAS=0: on GPUs of few rows, too)"},
    {"eps", OPT_EPS, "X", PRODUCTS,
     "with --check: an element may be off by X times the sum of |a| |b|, and by its own rounding "
     "(2^-21 sqrt(k))"},
    {"seconds", OPT_SECONDS, "S", BENCH_STRESS, "how long to go on (10)"},
    {"seed", OPT_SEED, "N", RANKS | COMMON, "of the data, and of all that stress chooses (random)"},
    {"peer", OPT_PEER, "LIST|all", BENCH_OPERATION,
     "nccl: measure NCCL too, with plain and with symmetric-window memory (SYMM_NCCL_LIBRARY, "
     "else libnccl.so.2)"},
    {"peer", OPT_PEER, "LIST|all", BENCH_PRODUCT,
     "cublas (SYMM_CUBLASLT_LIBRARY, else libcublasLt.so.13, .12), or none (where it is there)"},
    {"peer", OPT_PEER, "LIST|all", BENCH_GATHERED_PRODUCT,
     "cublas (SYMM_CUBLASLT_LIBRARY, else libcublasLt.so.13, .12), nccl (SYMM_NCCL_LIBRARY, else "
     "libnccl.so.2), or none (those that are there)"},
    {"json", OPT_JSON, "FILE", TIMED | COMMON, "write everything as JSON"},
    {"csv", OPT_CSV, "FILE", TIMED | COMMON, "write the table as CSV"},
    {"plot", OPT_PLOT, "FILE.svg", BENCH_OPERATION,
     "draw latency and bus bandwidth (needs python3)"},
    {"plot", OPT_PLOT, "FILE.svg", PRODUCTS, "draw TFLOP/s (needs python3)"},
    {"output", 'o', "FILE.svg", BENCH_PLOT, "the picture; it must be named"},
    {"output", 'o', "FILE", BENCH_TUNE, "the tuning file; it must be named"},
    {"floor", OPT_FLOOR, "GB/s", BENCH_OPERATION, FLOOR_HELP},
    {"floor", OPT_FLOOR, "GB/s", BENCH_PLOT,
     FLOOR_HELP "; with --roofline of one rank the speed of its memory (likewise)"},
    {"roofline", OPT_ROOFLINE, "TFLOP/s", BENCH_PLOT,
     "of a PRODUCT: against operations a byte, below so many TFLOP/s, or measured: those of the "
     "fastest product alone"},
    {"driver", OPT_DRIVER, "DRIVER", RANKS | COMMON,
     "auto, cuda or emulated (auto: SYMM_DRIVER, else cuda where it runs)"},
    {"timeout", OPT_TIMEOUT, "S", RANKS | COMMON,
     "limit of each wait for other ranks (SYMM_TIMEOUT_MS)"},
    {"help", 'h', NULL, ALL | COMMON, "this text, or that of the command"},
    {"version", OPT_VERSION, NULL, ALL | COMMON, "the version"},
};

/* ----------------------------------------------------------------------------------------- help */

static const char timed_columns[] =
    "# time_us and p95_us are the median and the 95th percentile over the repetitions of the time "
    "of\n"
    "# one operation, on the slowest rank; wrong counts what has another value than it may have.\n";

static void print_commands(void)
{
    printf(
        "# Usage: symm-bench OPERATION|PRODUCT|p2p|stress [option...]\n"
        "#        symm-bench tune --output FILE [option...]\n"
        "#        symm-bench plot FILE.json... -o FILE.svg [--floor GB/s] [--roofline TFLOP/s]\n"
        "#\n"
        "# Start it on several ranks with symm-run, torchrun --no-python, mpirun or srun.\n"
        "#\n"
        "#   OPERATION   measures, and with --check verifies, it in every variant:\n"
        "#               %s\n"
        "#   PRODUCT     the same of matrix products, beside cuBLAS and NCCL: matmul,\n"
        "#               all-gather-matmul\n"
        "#   p2p         bandwidth between ranks by every way to move bytes, latency of signals\n"
        "#   stress      random calls of every collective, each result checked\n"
        "#   tune        measures which algorithm is the fastest, for SYMM_TUNING_FILE\n"
        "#   plot        draws the JSON of one or more runs of an OPERATION, or one of a PRODUCT\n"
        "#\n"
        "# symm-bench COMMAND --help shows the options of one command. Common to most commands "
        "are:\n"
        "#\n",
        OPERATION_NAMES);
}

static void print_exit_codes(void)
{
    printf("#\n"
           "# Exit code: 0 all right; 1 a wrong result, a failure, nothing measured, or something\n"
           "# named in a list cannot run here (all: what runs); 2 wrong usage.\n");
}

static void print_about(enum bench_command command)
{
    if (command != BENCH_PLOT)
        printf("#\n");
    if (command == BENCH_OPERATION)
        printf(
            "# Columns: bytes of a rank's larger buffer; algbw, bytes over time, and busbw, what\n"
            "# crosses each link, in GB/s (10^9).\n%s"
            "# One pair of buffers is used again and again: small ones stay in caches. Variants "
            "and\n"
            "# peers take turns at each repetition, on the same data.\n",
            timed_columns);
    if ((int)command & PRODUCTS)
        printf("# Ways: product, symm's alone, of all of A; cublas, the same; of all-gather-matmul "
               "also\n"
               "# all_gather, symm's alone; cublas_nccl, one after the other; and the strategies. "
               "Columns:\n"
               "# strategy, the one that was taken; tflops, 10^12 operations a second of one rank; "
               "speedup\n"
               "# over cublas_nccl, of matmul over cublas; hidden, (product + all_gather - time) "
               "over\n"
               "# all_gather, the share of the communication that goes on beside the product.\n%s"
               "# All ways take turns at each repetition, on the same normally distributed data.\n",
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
            "# all others; put and get, by copy engine, with one after another. All in CUDA "
            "graphs; every\n"
            "# word is checked before it is timed.\n",
            timed_columns);
    if (command == BENCH_TUNE)
        printf(
            "# Every algorithm that auto may take, in CUDA graphs, at sizes from 1K on, each twice "
            "the\n"
            "# one before; in symmetric memory, for calls with SYMM_SYMMETRIC, and in plain "
            "memory, "
            "for\n"
            "# all others. The file has a row wherever another one wins by more than 2 %%, at the "
            "size\n"
            "# where their times cross. It holds for so many ranks. With --max-bytes, the last row "
            "goes\n"
            "# on from there.\n");
    if (command == BENCH_STRESS)
        printf("# Calls of random operations, variants, types, counts, memory and alignment, by "
               "several\n"
               "# groups on several streams at once, with ranks that are late, eagerly and in "
               "graphs.\n"
               "# All follows from the seed. It ends at the first wrong result, which it "
               "describes.\n");
}

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

/* A text in lines behind `head`, which stands in the first of them. */
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

static void print_option(const struct setting *s, const struct operation *operation)
{
    const char letter[] = {'-', (char)s->id, ',', ' ', 0};
    char head[64], items[SETTING_ALGOS] = "", text[1024];

    snprintf(head, sizeof head, "%s--%s%s%s", s->id < OPT_ALGO ? letter : "", s->name,
             s->value ? " " : "", s->value ? s->value : "");
    if (s->id == OPT_ALGO)
        setting_algos(operation, " ", items);
    else if (operation && s->id == OPT_DTYPE)
        snprintf(items, sizeof items, "%s",
                 operation->reduces ? ELEMENT_REDUCED_NAMES : ELEMENT_NAMES);
    snprintf(text, sizeof text, "%s%s%s", s->help, items[0] ? " " : "", items);
    print_lines(head, text);
}

static void print_common(void)
{
    for (int i = 0; i < NSETTINGS; i++) {
        if (settings[i].commands & COMMON)
            print_option(&settings[i], NULL);
    }
}

static bool is_for(const struct setting *s, enum bench_command command,
                   const struct operation *operation)
{
    if (operation && ((s->id == OPT_OP && !operation->reduces) ||
                      (s->id == OPT_CHAIN && !operation_chains(operation))))
        return false;
    return s->commands & (int)command;
}

/* What the command has for itself; of what is common, the names. */
static void print_options(enum bench_command command, const struct operation *operation)
{
    char common[256] = "";
    size_t used = 0;

    for (int i = 0; i < NSETTINGS; i++) {
        if (!is_for(&settings[i], command, operation))
            continue;
        if (!(settings[i].commands & COMMON))
            print_option(&settings[i], operation);
        else if (used < sizeof common)
            used +=
                (size_t)snprintf(common + used, sizeof common - used, " --%s", settings[i].name);
    }
    print_lines("common:", common + 1);
    printf("#   %-21s (symm-bench --help describes them)\n", "");
}

static void print_usage(enum bench_command command, const char *name)
{
    if (command == BENCH_PLOT)
        printf("# Usage: symm-bench plot FILE.json... -o FILE.svg [option...]\n#\n");
    else
        printf("# Usage: symm-run -n N symm-bench %s%s [option...]\n#\n", name,
               command == BENCH_TUNE ? " --output FILE" : "");
}

static bool has_variant(const struct operation *operation, const char *name)
{
    const struct variant *v = operation->variants;

    while (v->name && strcmp(v->name, name) != 0)
        v++;
    return v->name != NULL;
}

/* Whether one of the operations before number i has it. */
static bool is_known(size_t i, const char *name)
{
    while (i > 0 && !has_variant(operation_at(i - 1), name))
        i--;
    return i > 0;
}

const char *setting_algos(const struct operation *operation, const char *separator,
                          char out[SETTING_ALGOS])
{
    size_t used = 0;

    out[0] = 0;
    for (size_t i = 0; operation_at(i); i++) {
        for (const struct variant *v = operation_at(i)->variants; v->name; v++) {
            const bool wanted = operation ? operation == operation_at(i) : !is_known(i, v->name);

            if (wanted && used < SETTING_ALGOS)
                used += (size_t)snprintf(out + used, SETTING_ALGOS - used, "%s%s",
                                         used ? separator : "", v->name);
        }
    }
    return out;
}

bool setting_is_for(const char *name, enum bench_command command, const struct operation *operation)
{
    int i = 0;

    while (i < NSETTINGS &&
           (strcmp(settings[i].name, name) != 0 || !is_for(&settings[i], command, operation)))
        i++;
    return i < NSETTINGS;
}

int setting_find(int id)
{
    int i = 0;

    while (i < NSETTINGS - 1 && settings[i].id != id)
        i++;
    return i;
}

void setting_help(enum bench_command command, const struct operation *operation, const char *name)
{
    if (!command) {
        print_commands();
        print_common();
        print_exit_codes();
        return;
    }
    print_usage(command, name);
    print_options(command, operation);
    print_about(command);
}
