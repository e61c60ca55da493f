/* The table of symm-bench's options, and how a value is stored. */
#include "option_table.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "common/text.h"

enum {
    SIZED = BENCH_OPERATION | BENCH_P2P,
    TIMED = SIZED | BENCH_PRODUCTS,
    RANKS = TIMED | BENCH_STRESS | BENCH_TUNE, /* commands that run on ranks */
    ALL = RANKS | BENCH_FILES | BENCH_MODEL,
    MAX_EXTENT = 1 << 24
};

/* --------------------------------------------------------------------------------------- items */

static bool has_variant(const struct operation *operation, const char *name)
{
    const struct variant *v = operation->variants;

    while (v->name && strcmp(v->name, name) != 0)
        v++;
    return v->name != NULL;
}

/* Whether one of the operations before number i has the variant. */
static bool is_known(size_t i, const char *name)
{
    while (i > 0 && !has_variant(operation_at(i - 1), name))
        i--;
    return i > 0;
}

static void append(char out[OPTION_ITEMS], const char *name)
{
    const size_t used = strlen(out);

    snprintf(out + used, OPTION_ITEMS - used, "%s%s", used ? ", " : "", name);
}

/* Whether the operation also runs on several hosts. */
static bool spans(const struct bench_options *o)
{
    return o->operation && !o->operation->norms;
}

/*
 * The variants of the operation, and its forms on several hosts; without one those of all
 * operations, each once.
 */
static const char *algos(const struct bench_options *o, char out[OPTION_ITEMS])
{
    out[0] = 0;
    for (const struct variant *v = o->operation ? o->operation->variants : NULL; v && v->name; v++)
        append(out, v->name);
    for (const struct variant *v = spans(o) ? operation_variants(o->operation, true) : NULL;
         v && v->name; v++) {
        if (!has_variant(o->operation, v->name))
            append(out, v->name);
    }
    for (size_t i = 0; !o->operation && operation_at(i); i++) {
        for (const struct variant *v = operation_at(i)->variants; v->name; v++) {
            if (!is_known(i, v->name))
                append(out, v->name);
        }
    }
    return out;
}

static bool takes_dtype(const struct bench_options *o, const struct element *e)
{
    if (o->command & BENCH_PRODUCTS || (o->operation && o->operation->norms))
        return e->dtype == SYMM_BFLOAT16 || e->dtype == SYMM_FLOAT16;
    return !e->moved_only || (o->operation && !o->operation->reduces);
}

static const char *dtypes(const struct bench_options *o, char out[OPTION_ITEMS])
{
    out[0] = 0;
    for (size_t i = 0; element_at(i); i++) {
        if (takes_dtype(o, element_at(i)))
            append(out, symm_dtype_name(element_at(i)->dtype));
    }
    return out;
}

/* Of partial sums. */
static const char *partials(const struct bench_options *o, char out[OPTION_ITEMS])
{
    (void)o;
    out[0] = 0;
    for (size_t i = 0; element_at(i); i++) {
        const symm_dtype dtype = element_at(i)->dtype;

        if (dtype == SYMM_BFLOAT16 || dtype == SYMM_FLOAT16 || dtype == SYMM_FLOAT32)
            append(out, symm_dtype_name(dtype));
    }
    return out;
}

static const char *strategies(const struct bench_options *o, char out[OPTION_ITEMS])
{
    const symm_matmul_kind kind = o->command == BENCH_STRESS ? SYMM_ALL_GATHER_MATMUL : o->kind;

    out[0] = 0;
    for (const struct product_variant *v = product_variants(kind); v->name; v++) {
        if (v->kind == PRODUCT_TOGETHER && v->schedule == SYMM_SCHEDULE_AUTO)
            append(out, v->name);
    }
    return out;
}

static const char *schedules_of_others(const struct bench_options *o, char out[OPTION_ITEMS])
{
    (void)o;
    snprintf(out, OPTION_ITEMS, "cutlass");
    for (size_t i = 0; schedule_at(i); i++)
        append(out, schedule_at(i)->name);
    return out;
}

static const char *peers(const struct bench_options *o, char out[OPTION_ITEMS])
{
    (void)out;
    return o->command == BENCH_MATMUL           ? "cublas, none"
           : (o->command & BENCH_COMMUNICATING) ? "cublas, nccl, none"
                                                : "nccl";
}

/* --------------------------------------------------------------------------------------- table */

#define FIELD(name) .field = offsetof(struct bench_options, name)
#define FLOOR_HELP "bandwidth of a link: draw the floor of latency and the roof of bandwidth"
#define FLOOR_DEFAULT " (as measured with this device; unknown devices: none)"
#define CUBLAS_HELP "cublas (SYMM_CUBLASLT_LIBRARY, else libcublasLt.so.13, .12)"
#define NCCL_HELP "nccl (SYMM_NCCL_LIBRARY, else libnccl.so.2)"

const struct option_row option_table[] = {
    {"algo", "LIST|all", OPTION_NAMES, FIELD(algos), .items = algos,
     .uses = {{BENCH_OPERATION, "variants to measure (auto; on several hosts all):"},
              {BENCH_STRESS, "variants to call (all; with --strategy: none):"}}},
    {"how", "LIST|all", OPTION_NAMES, FIELD(hows),
     .names = "store, load, bulk_put, bulk_get, put, get, signal, packet",
     .uses = {{BENCH_P2P, "how bytes move (all):"}}},
    {"pattern", "LIST|all", OPTION_NAMES, FIELD(patterns),
     .names = "pair, pair_both, ring, ring_both, all",
     .uses = {{BENCH_P2P, "which ranks move bytes (all):"}}},
    {"blocks", "LIST", OPTION_NUMBERS, FIELD(blocks), 1, BENCH_MAX_BLOCKS,
     .uses = {{BENCH_P2P, "blocks of a kernel (4,16,64; emulated 1,4)"}}},
    {"threads", "N", OPTION_INT, FIELD(threads), 1, BENCH_MAX_THREADS,
     .uses = {{BENCH_P2P, "threads of a block that loads or stores (512; emulated 32)"}}},
    {"hidden", "H", OPTION_INT, FIELD(hidden), 1, MAX_EXTENT,
     .uses = {{BENCH_OPERATION, "elements of a row (4096; emulated 256)"}}},
    {"root", "N", OPTION_INT, FIELD(root), 0, SYMM_MAX_RANKS - 1,
     .uses = {{BENCH_OPERATION, "rank whose elements all ranks get (0)"}}},
    {"m", "M", OPTION_INT, FIELD(m), 1, MAX_EXTENT, .letter = 'm',
     .uses = {{BENCH_COLLECTED, "rows of each rank's A (8192; emulated 256)"},
              {BENCH_PRODUCTS, "rows of A, the sum of all ranks' (8192; emulated 256)"}}},
    {"n", "N", OPTION_INT, FIELD(n), 1, MAX_EXTENT, .letter = 'n',
     .uses = {{BENCH_MATMUL_SUMS, "columns of B and D on each rank (8192; emulated 128)"},
              {BENCH_MATMUL_ALL_SCATTER,
               "columns of D, of all ranks' B together (3584 for each rank; emulated 128)"},
              {BENCH_PRODUCTS, "columns of B on each rank (3584; emulated 128)"}}},
    {"k", "K", OPTION_INT, FIELD(k), 1, MAX_EXTENT, .letter = 'k',
     .uses = {{BENCH_MATMUL_SUMS, "columns of A and rows of B of one rank (3584; emulated 128)"},
              {BENCH_PRODUCTS, "columns of A and rows of B (8192; emulated 128)"}}},
    {"l", "L", OPTION_INT, FIELD(l), 1, MAX_EXTENT, .letter = 'l',
     .uses = {{BENCH_PRODUCTS, "batch: products of that shape in one call (1)"}}},
    {"suite", "NAME", OPTION_WORD, FIELD(suite), .names = "llama, random",
     .uses = {{BENCH_PRODUCTS,
               "several shapes instead, and ratios of their times. llama: m 4096, 8192, 16384 with "
               "n,k 1792,4096; 3584,8192; 6656,16384 (sums of products: k,n; all-scatter: n of one "
               "rank). random: layers of transformers, drawn by --seed. Emulated, each extent is a "
               "64th"}}},
    {"count", "N", OPTION_INT, FIELD(count), 1, 1000000,
     .uses = {{BENCH_PRODUCTS, "shapes of --suite random (54; emulated 4)"}}},
    {"as-if", "R", OPTION_INT, FIELD(as_if), 3, 8,
     .uses = {{BENCH_COMMUNICATING,
               "run fused and pipelined products of 2 ranks as if they were R: each is rank 0, and "
               "the other one plays all others (SYMM_MATMUL_AS_IF)"}}},
    {"schedule-of", "NAME", OPTION_WORD, FIELD(schedule_name), .items = schedules_of_others,
     .uses = {{BENCH_ALL_GATHER_MATMUL | BENCH_MATMUL_SUMS,
               "the product of a schedule of CUTLASS's Distributed GEMM; cutlass: the first one of "
               "the command. -m, -n and -k (16384, 106496, 16384; emulated a 64th) are of all "
               "ranks together, and the defaults of CUTLASS's example hold: float16, 100 "
               "repetitions, 10 to warm up (emulated fewer):"}}},
    {"strategy", "LIST|all", OPTION_NAMES, FIELD(strategies), .items = strategies,
     .uses = {{BENCH_COMMUNICATING, "strategies to measure (all):"},
              {BENCH_STRESS, "strategies of products to call (all; with --algo: none):"}}},
    {"schedule", "LIST|all", OPTION_NAMES, FIELD(schedules), .names = "data_parallel, stream_k",
     .uses = {{BENCH_PRODUCTS,
               "schedules of symm's kernels to measure too, of fused products (none):"}}},
    {"partial", "TYPE", OPTION_WORD, FIELD(partial_name), .items = partials,
     .uses = {{BENCH_MATMUL_SUMS,
               "type of the partial sums that ranks send each other (the type of D):"}}},
    {"alpha", "X", OPTION_REAL, FIELD(alpha),
     .uses = {{BENCH_PRODUCTS, "factor of the product; 0: A and B are not read (1)"}}},
    {"beta", "X", OPTION_REAL, FIELD(beta),
     .uses = {{BENCH_PRODUCTS, "factor of the addend C; 0: there is no C (0)"}}},
    {"dtype", "TYPE", OPTION_WORD, FIELD(dtype), .items = dtypes,
     .uses = {{BENCH_OPERATION | BENCH_PRODUCTS,
               "element type, also by its short name such as bf16 (bfloat16):"}}},
    {"operations", "LIST|all", OPTION_NAMES, FIELD(operations), .names = OPERATION_NAMES,
     .uses = {{BENCH_TUNE, "operations to measure (all):"}}},
    {"dtypes", "LIST|all", OPTION_NAMES, FIELD(dtypes), .items = dtypes,
     .uses = {{BENCH_TUNE, "types to reduce (bfloat16,float16,float32); all-gather and "
                           "broadcast are measured with the first type:"}}},
    {"op", "OP", OPTION_WORD, FIELD(op_name), .names = "sum, avg, min, max",
     .uses = {{BENCH_OPERATION, "sum, min, max, or avg of floating types (sum)"}}},
    {"min-bytes", "N", OPTION_BYTES, FIELD(min_bytes), .nccl_letter = 'b',
     .uses = {{BENCH_OPERATION, "smallest size, of the larger buffer of a rank (1K, or a row)"},
              {BENCH_P2P, "smallest size, of a rank's buffer (4K)"}}},
    {"max-bytes", "N", OPTION_BYTES, FIELD(max_bytes), .nccl_letter = 'e',
     .uses = {{BENCH_OPERATION, "largest size (64M; emulated 1M)"},
              {BENCH_P2P, "largest size (256M; emulated 64K)"},
              {BENCH_STRESS, "size of the largest buffers (16M; emulated 64K)"},
              {BENCH_TUNE, "largest size (256M; emulated 16K)"}}},
    {"factor", "N", OPTION_INT, FIELD(factor), 2, 1 << 20, .nccl_letter = 'f',
     .uses = {{SIZED, "from one size to the next (4)"}}},
    {"sizes", "LIST", OPTION_SIZES, FIELD(sizes),
     .uses = {{SIZED, "these sizes instead: 1K,96K,4M"},
              {BENCH_MODEL, "sizes of the whole buffer (8K to 1G)"}}},
    {"hosts", "LIST", OPTION_NUMBERS, FIELD(hosts), 2, BENCH_MAX_HOSTS,
     .uses = {{BENCH_MODEL, "numbers of hosts (2,16,128,1024)"}}},
    {"ranks-per-host", "N", OPTION_INT, FIELD(ranks_per_host), 1, SYMM_MAX_RANKS,
     .uses = {{BENCH_MODEL, "GPUs of each host (8)"}}},
    {"iters", "N", OPTION_INT, FIELD(iters), 1, 1000000, .nccl_letter = 'n',
     .uses = {{TIMED | BENCH_TUNE | OPTION_COMMON,
               "measured repetitions (50; products, tune 20; emulated 3; products, tune 2)"}}},
    {"iterations", "N", OPTION_INT, FIELD(iters), 1, 1000000,
     .uses = {{BENCH_PRODUCTS, "the same as --iters"}}},
    {"warmup", "N", OPTION_INT, FIELD(warmup), 0, 1000000, .nccl_letter = 'w',
     .uses = {{TIMED | BENCH_TUNE | OPTION_COMMON,
               "repetitions before the measured ones (5; tune 3; emulated 1)"}}},
    {"warmup-iterations", "N", OPTION_INT, FIELD(warmup), 0, 1000000,
     .uses = {{BENCH_PRODUCTS, "the same as --warmup"}}},
    {"graph", NULL, OPTION_FLAG, FIELD(graph),
     .uses = {{BENCH_OPERATION | BENCH_PRODUCTS | OPTION_COMMON,
               "replay a CUDA graph of the calls of a repetition"}}},
    {"in-place", NULL, OPTION_FLAG, FIELD(in_place),
     .uses = {{BENCH_OPERATION, "output over input"}}},
    {"chain", NULL, OPTION_FLAG, FIELD(chain),
     .uses = {{BENCH_OPERATION, "each call's input is the output of the call before; each "
                                "repetition begins with fresh data"}}},
    {"isolated", NULL, OPTION_FLAG, FIELD(isolated),
     .uses = {{BENCH_OPERATION, "a barrier on the stream before each call; the time of a barrier "
                                "is measured as well and subtracted"}}},
    {"host-time", NULL, OPTION_FLAG, FIELD(host_time),
     .uses = {{BENCH_OPERATION, "measure the time that the host takes to enqueue a call, and to "
                                "launch an empty kernel"}}},
    {"memory", "KIND", OPTION_WORD, FIELD(memory), .names = "symmetric, plain",
     .uses = {{BENCH_OPERATION,
               "symmetric, or plain device memory, which needs staging (symmetric)"}}},
    {"check", NULL, OPTION_FLAG, FIELD(check), .nccl_letter = 'c',
     .uses = {{BENCH_OPERATION, "verify every element on fresh random data"},
              {BENCH_COLLECTED,
               "verify every element on fresh random data, of large products a sample, on the "
               "host; and that symm's products have the same bits when they run again"},
              {BENCH_PRODUCTS,
               "verify every element on fresh random data, of large products by a kernel, and a "
               "sample on the host; and that symm's products have the same bits when they run "
               "again"}}},
    {"same-bits", NULL, OPTION_FLAG, FIELD(same_bits),
     .uses = {{BENCH_PRODUCTS,
               "SYMM_MATMUL_SAME_BITS: symm's products by its own kernels; with --check, "
               "that all strategies have the same bits"}}},
    {"any-order", NULL, OPTION_FLAG, FIELD(any_order),
     .uses = {{BENCH_PRODUCTS,
               "SYMM_MATMUL_ANY_ORDER: sums over ranks in any order; --check compares no bits"}}},
    {"constant-b", NULL, OPTION_FLAG, FIELD(constant_b),
     .uses = {{BENCH_PRODUCTS,
               "SYMM_MATMUL_CONSTANT_B: symm's products may load B before the kernel in front has "
               "ended"}}},
    {"eps", "X", OPTION_POSITIVE, FIELD(eps), .max = LONG_MAX,
     .uses = {{BENCH_MATMUL_SUMS,
               "with --check: largest error of an element, over the sum of |a| |b| of all ranks; "
               "the roundings of its partial sums and its own are added (2^-21 sqrt(k ranks))"},
              {BENCH_PRODUCTS,
               "with --check: largest error of an element, over the sum of |a| |b|; "
               "its own rounding is added (2^-21 sqrt(k))"}}},
    {"seconds", "S", OPTION_POSITIVE, FIELD(seconds), .max = 1000000000, .unit = " of seconds",
     .uses = {{BENCH_STRESS, "duration (10)"}}},
    {"seed", "N", OPTION_SEED, FIELD(seed),
     .uses = {{RANKS | OPTION_COMMON, "of the data and of the choices of stress (random)"}}},
    {"peer", "LIST|all", OPTION_NAMES, FIELD(peers), .items = peers,
     .uses = {{BENCH_OPERATION, NCCL_HELP ": measure NCCL too, with plain and with "
                                          "symmetric-window memory"},
              {BENCH_TUNE, NCCL_HELP ": rows also tell which calls libsymm_nccl.so leaves to it"},
              {BENCH_MATMUL, CUBLAS_HELP ", or none (where it is installed)"},
              {BENCH_COMMUNICATING,
               CUBLAS_HELP ", " NCCL_HELP ", or none (those that are installed)"}}},
    {"json", "FILE", OPTION_TEXT, FIELD(json),
     .uses = {{TIMED | BENCH_MODEL | OPTION_COMMON, "write everything as JSON"}}},
    {"csv", "FILE", OPTION_TEXT, FIELD(csv),
     .uses = {{TIMED | BENCH_MODEL | OPTION_COMMON, "write the table as CSV"}}},
    {"plot", "FILE.svg", OPTION_TEXT, FIELD(plot),
     .uses = {{BENCH_OPERATION, "draw latency and bus bandwidth (needs python3)"},
              {BENCH_PRODUCTS, "draw TFLOP/s (needs python3)"}}},
    {"trace", "FILE", OPTION_TEXT, FIELD(trace),
     .uses = {{BENCH_MATMUL, "write a timeline of one more run of symm's product, for Perfetto"},
              {BENCH_COMMUNICATING,
               "write a timeline of one more run of the first strategy, for Perfetto"}}},
    {"output", "FILE", OPTION_TEXT, FIELD(output), .letter = 'o',
     .uses = {{BENCH_PLOT, "the picture, an SVG file (required)"},
              {BENCH_REPORT, "the page, an HTML file (required)"},
              {BENCH_TUNE, "the tuning file (required)"}}},
    {"floor", "GB/s", OPTION_POSITIVE, FIELD(floor_gbs), .max = 1000000000, .unit = " of GB/s",
     .uses = {{BENCH_OPERATION | BENCH_REPORT, FLOOR_HELP FLOOR_DEFAULT},
              {BENCH_PLOT, FLOOR_HELP "; with --roofline of one rank the bandwidth of its "
                                      "memory" FLOOR_DEFAULT}}},
    {"roofline", "TFLOP/s", OPTION_TEXT, FIELD(roofline),
     .uses = {{BENCH_PLOT, "draw a PRODUCT over operations a byte, with this roof; measured: "
                           "with that of the fastest product alone"}}},
    {"driver", "DRIVER", OPTION_WORD, FIELD(driver), .names = "auto, cuda, emulated",
     .uses = {{RANKS | OPTION_COMMON,
               "auto, cuda or emulated (auto: SYMM_DRIVER, else cuda where it runs)"}}},
    {"timeout", "S", OPTION_POSITIVE, FIELD(timeout_s), .max = 1000000, .unit = " of seconds",
     .uses = {{RANKS | OPTION_COMMON, "limit of each wait for other ranks (SYMM_TIMEOUT_MS)"}}},
    {"help", NULL, OPTION_FLAG, FIELD(help), .letter = 'h',
     .uses = {{ALL | OPTION_COMMON, "this text, or that of the command"}}},
    {"version", NULL, OPTION_FLAG, FIELD(version), .uses = {{ALL | OPTION_COMMON, "the version"}}},
    {0},
};

/* Whether an operation has the option of a field that others have. */
static bool has_option(const struct operation *operation, size_t field)
{
    switch (field) {
    case offsetof(struct bench_options, op_name):
        return operation->reduces && !operation->norms;
    case offsetof(struct bench_options, chain):
        return operation_chains(operation);
    case offsetof(struct bench_options, hidden):
        return operation->norms;
    case offsetof(struct bench_options, root):
        return operation->from_root;
    case offsetof(struct bench_options, in_place):
    case offsetof(struct bench_options, peers):
        return !operation->norms;
    default:
        return true;
    }
}

const struct option_use *option_use(const struct option_row *row, const struct bench_options *o)
{
    if (o->operation && !has_option(o->operation, row->field))
        return NULL;
    for (size_t i = 0; i < sizeof row->uses / sizeof row->uses[0]; i++) {
        if (row->uses[i].commands & (int)o->command)
            return &row->uses[i];
    }
    return NULL;
}

/* -------------------------------------------------------------------------------------- values */

/* NULL, or what is wrong with a size. No process has more than 2^47 bytes. */
static const char *take_bytes(const char *value, uint64_t least, uint64_t *out)
{
    if (!text_bytes(value, out) || *out < least)
        return "not a number of bytes like 4096, 64K or 1M";
    return *out > UINT64_C(1) << 47 ? "more than 128T" : NULL;
}

static const char *range_wanted(const struct option_row *row, char wrong[OPTION_WRONG])
{
    snprintf(wrong, OPTION_WRONG, "not a number from %ld to %ld", row->min, row->max);
    return wrong;
}

static bool take_seed(const char *value, uint64_t *out)
{
    char *end = NULL;

    errno = 0;
    *out = strtoull(value, &end, 0);
    return isdigit((unsigned char)value[0]) && !*end && errno == 0;
}

const char *option_take(const struct option_row *row, struct bench_options *o, const char *value,
                        char wrong[OPTION_WRONG])
{
    void *field = (char *)o + row->field;
    double *real = field;

    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)field = !value || strcmp(value, "0") != 0;
        return NULL;
    case OPTION_INT:
        return text_int(value, row->min, row->max, field) ? NULL : range_wanted(row, wrong);
    case OPTION_BYTES:
        return take_bytes(value, 1, field);
    case OPTION_SEED:
        return take_seed(value, field) ? NULL : "not a number from 0 to 2^64 - 1";
    case OPTION_REAL:
        return text_real(value, real) ? NULL : "not a number";
    case OPTION_POSITIVE:
        snprintf(wrong, OPTION_WRONG, "not a number%s above 0", row->unit ? row->unit : "");
        return text_real(value, real) && *real > 0 && *real <= (double)row->max ? NULL : wrong;
    default: /* option_check() looks at it when the command is known */
        *(const char **)field = value;
        return NULL;
    }
}

static bool has_item(const char *names, const char *item)
{
    const size_t length = strcspn(item, ",");

    if (item[length])
        return false;
    while (strncmp(names, item, length) != 0 || (names[length] && names[length] != ',')) {
        names += strcspn(names, ",");
        if (!*names)
            return false;
        names += strspn(names, ", ");
    }
    return length > 0;
}

const char *option_names(const struct option_row *row, const struct bench_options *o,
                         char out[OPTION_ITEMS])
{
    return row->items ? row->items(o, out) : row->names;
}

/* NULL, or what is wrong with a word, or with an item of a list. */
static const char *check_item(const struct option_row *row, const struct bench_options *o,
                              const char *item, char wrong[OPTION_WRONG])
{
    char room[OPTION_ITEMS];
    uint64_t nbytes;
    int n;

    if (row->kind == OPTION_NUMBERS)
        return text_int(item, row->min, row->max, &n) ? NULL : range_wanted(row, wrong);
    if (row->kind == OPTION_SIZES)
        return take_bytes(item, 0, &nbytes);
    symm_dtype dtype;
    const char *names = option_names(row, o, room);
    if ((row->items == dtypes || row->items == partials) &&
        symm_dtype_parse(item, &dtype) == SYMM_OK)
        item = symm_dtype_name(dtype);
    if (has_item(names, item))
        return NULL;
    snprintf(wrong, OPTION_WRONG, "%s %s", strchr(names, ',') ? "not one of" : "the only one is",
             names);
    return wrong;
}

const char *option_check(const struct option_row *row, const struct bench_options *o, char item[64],
                         char wrong[OPTION_WRONG])
{
    const bool has_items = row->kind >= OPTION_WORD;
    const char *list = has_items ? *(const char *const *)((const char *)o + row->field) : NULL;
    const char *what = NULL;

    item[0] = 0;
    if (!list || (row->kind == OPTION_NAMES && strcmp(list, "all") == 0))
        return NULL;
    if (row->kind == OPTION_WORD) {
        snprintf(item, 64, "%.63s", list);
        return check_item(row, o, list, wrong);
    }
    if (!*list)
        return "an empty list";
    while (!what && text_next(&list, item, 64))
        what = check_item(row, o, item, wrong);
    return what;
}
