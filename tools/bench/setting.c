/* Every option of symm-bench and its help. */
#include "setting.h"

#include <stdio.h>
#include <string.h>
#include "p2p.h"

enum {
    PRODUCTS = BENCH_PRODUCT | BENCH_GATHERED_PRODUCT,
    SIZED = BENCH_OPERATION | BENCH_P2P,
    TIMED = SIZED | PRODUCTS,
    RANKS = TIMED | BENCH_STRESS | BENCH_TUNE, /* what runs on ranks */
    ALL = RANKS | BENCH_PLOT
};

const struct setting settings[NSETTINGS] = {
    {"algo", OPT_ALGO, "LIST|all", BENCH_OPERATION | BENCH_STRESS,
     "variants: auto low_latency low_latency_two_shot one_shot\n"
     "two_shot multimem multimem_one_shot copy_engine (auto; stress:\nall)"},
    {"how", OPT_HOW, "LIST|all", BENCH_P2P, "ways to move: " P2P_HOWS "\n(all)"},
    {"pattern", OPT_PATTERN, "LIST|all", BENCH_P2P, "who moves: " P2P_PATTERNS " (all)"},
    {"blocks", OPT_BLOCKS, "LIST", BENCH_P2P, "blocks of a kernel (4,16,64; emulated 1,4)"},
    {"threads", OPT_THREADS, "N", BENCH_P2P, "of a block that loads or stores (512; emulated 32)"},
    {"m", 'm', "M", PRODUCTS,
     "rows of A, those of all ranks together (8192; emulated 256; n,\nk: emulated 128)"},
    {"n", 'n', "N", PRODUCTS, "columns of B on each rank (3584)"},
    {"k", 'k', "K", PRODUCTS, "between them (8192)"},
    {"l", 'l', "L", PRODUCTS, "products of that shape at once (1)"},
    {"suite", OPT_SUITE, "llama", PRODUCTS,
     "nine shapes instead: m 4096, 8192, 16384 with n,k 1792,4096;\n3584,8192; 6656,16384; "
     "emulated, each a 64th"},
    {"strategy", OPT_STRATEGY, "LIST|all", BENCH_GATHERED_PRODUCT,
     "auto fused pipelined unfused (all)"},
    {"alpha", OPT_ALPHA, "X", PRODUCTS, "factor of the product, which 0 leaves out (1)"},
    {"beta", OPT_BETA, "X", PRODUCTS, "of a matrix that is added, which 0 leaves out (0)"},
    {"dtype", OPT_DTYPE, "TYPE", BENCH_OPERATION | PRODUCTS,
     "one of " ELEMENT_NAMES "\n(bf16); nothing reduces the last three, products are of the\n"
     "first two"},
    {"operations", OPT_OPERATIONS, "LIST|all", BENCH_TUNE, "which of them to measure (all)"},
    {"dtypes", OPT_DTYPES, "LIST|all", BENCH_TUNE,
     "types to reduce (bf16,fp16,fp32); what only moves elements is\nmeasured with the first"},
    {"op", OPT_OP, "OP", BENCH_OPERATION,
     "of what reduces: sum, min, max, or avg of floating types (sum)"},
    {"min-bytes", OPT_MIN, "N", SIZED,
     "from this size of a rank's buffer, the larger one if they\ndiffer (1K; p2p 4K)"},
    {"max-bytes", OPT_MAX, "N", SIZED | BENCH_STRESS | BENCH_TUNE,
     "to this one (64M, emulated 1M; p2p 256M, emulated 64K;\nstress 16M, emulated 64K; tune 256M, "
     "emulated 16K)"},
    {"factor", OPT_FACTOR, "N", SIZED, "each so many times the one before (4)"},
    {"sizes", OPT_SIZES, "LIST", SIZED, "these sizes instead: 1K,96K,4M"},
    {"iters", OPT_ITERS, "N", TIMED | BENCH_TUNE,
     "measured repetitions (50; products, tune 20; emulated 3; products,\ntune 2)"},
    {"iterations", OPT_ITERS, "N", PRODUCTS, "the same"},
    {"warmup", OPT_WARMUP, "N", TIMED | BENCH_TUNE,
     "repetitions before them (5; tune 3; emulated 1)"},
    {"warmup-iterations", OPT_WARMUP, "N", PRODUCTS, "the same"},
    {"graph", OPT_GRAPH, NULL, BENCH_OPERATION | PRODUCTS,
     "replay a CUDA graph of the operations of a repetition"},
    {"in-place", OPT_IN_PLACE, NULL, BENCH_OPERATION, "output over input"},
    {"chain", OPT_CHAIN, NULL, BENCH_OPERATION,
     "all-reduce: each call's input is the last one's output; each\n"
     "repetition begins with fresh data"},
    {"isolated", OPT_ISOLATED, NULL, BENCH_OPERATION,
     "a barrier of the streams before each call, the time of which\n"
     "is measured alongside and subtracted"},
    {"memory", OPT_MEMORY, "KIND", BENCH_OPERATION,
     "symmetric, or plain device memory, which goes through staging"},
    {"check", OPT_CHECK, NULL, BENCH_OPERATION | PRODUCTS,
     "verify every element on fresh random data; of large products a\nsample, and all that the "
     "strategies have the same bits\n(SYMM_MATMUL_CUBLAS=0: on GPUs of few rows, too)"},
    {"eps", OPT_EPS, "X", PRODUCTS,
     "with --check: an element may be off by so much times the sum of\n|a| |b|, and its own "
     "rounding "
     "(2^-21 sqrt(k))"},
    {"seconds", OPT_SECONDS, "S", BENCH_STRESS, "go on for so long (10)"},
    {"seed", OPT_SEED, "N", RANKS, "of the data, and of all that stress chooses (random)"},
    {"peer", OPT_PEER, "LIST|all", BENCH_OPERATION | PRODUCTS,
     "nccl: measure NCCL too, with plain and with symmetric-window\nmemory (SYMM_NCCL_LIBRARY, "
     "else "
     "libnccl.so.2); of products also\ncublas (SYMM_CUBLASLT_LIBRARY, else libcublasLt.so.13, "
     ".12), or\nnone (those that are there)"},
    {"json", OPT_JSON, "FILE", TIMED, "write everything as JSON"},
    {"csv", OPT_CSV, "FILE", TIMED, "write the table as CSV"},
    {"plot", OPT_PLOT, "FILE.svg", BENCH_OPERATION | PRODUCTS,
     "draw latency and bus bandwidth, or TFLOP/s (needs gnuplot)"},
    {"output", 'o', "FILE", BENCH_PLOT | BENCH_TUNE,
     "the picture, or the tuning file; this must be there"},
    {"floor", OPT_FLOOR, "GB/s", BENCH_OPERATION | BENCH_PLOT,
     "of a link, for the line that nothing can be better than (395);\nof memory, for that of "
     "products "
     "alone (4800)"},
    {"roofline", OPT_ROOFLINE, "TFLOP/s", BENCH_PLOT,
     "of a PRODUCT: against operations a byte, below so many TFLOP/s,\nor measured: those of the "
     "fastest product alone"},
    {"driver", OPT_DRIVER, "DRIVER", RANKS, "auto, cuda or emulated (auto: cuda where it runs)"},
    {"timeout", OPT_TIMEOUT, "S", RANKS, "limit of each wait for other ranks (SYMM_TIMEOUT_MS)"},
    {"help", 'h', NULL, ALL, "this text"},
    {"version", OPT_VERSION, NULL, ALL, "the version"},
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
        "# symm-bench COMMAND --help shows its options. Exit code: 0 all right;\n"
        "# 1 wrong or failed; 2 wrong usage.\n",
        operation_names);
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

static void print_options(enum bench_command command)
{
    for (int i = 0; i < NSETTINGS; i++) {
        char head[64];
        const char *help = settings[i].help;

        if (!(settings[i].commands & (int)command))
            continue;
        const char letter[] = {'-', (char)settings[i].id, ',', ' ', 0};

        snprintf(head, sizeof head, "%s--%s%s%s", settings[i].id < OPT_ALGO ? letter : "",
                 settings[i].name, settings[i].value ? " " : "",
                 settings[i].value ? settings[i].value : "");
        do {
            int length = (int)strcspn(help, "\n");

            printf("#   %-21s %.*s\n", head, length, help);
            help += length + (help[length] == '\n');
            head[0] = 0;
        } while (*help);
    }
    print_about(command);
}

int setting_find(int id)
{
    int i = 0;

    while (i < NSETTINGS - 1 && settings[i].id != id)
        i++;
    return i;
}

void setting_help(enum bench_command command)
{
    print_commands();
    if (!command)
        return;
    printf("#\n# Options here:\n");
    print_options(command);
}
