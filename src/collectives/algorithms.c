/* The table of algorithms, and what follows from a row alone. */
#include "algorithms.h"

SYMM_KERNEL_LIST(all_reduce_packets, SYMM_ALL_REDUCE_PACKETS_KERNELS);
SYMM_KERNEL_LIST(all_reduce_one_shot, SYMM_ALL_REDUCE_ONE_SHOT_KERNELS);
SYMM_KERNEL_LIST(all_reduce_rms_norm, SYMM_ALL_REDUCE_RMS_NORM_KERNELS);
SYMM_KERNEL_LIST(all_reduce_two_shot, SYMM_ALL_REDUCE_TWO_SHOT_KERNELS);
SYMM_KERNEL_LIST(reduce_scatter, SYMM_REDUCE_SCATTER_KERNELS);
SYMM_KERNEL_LIST(all_gather, SYMM_ALL_GATHER_KERNELS);
SYMM_KERNEL_LIST(broadcast, SYMM_BROADCAST_KERNELS);
SYMM_KERNEL_LIST(lamport, SYMM_LAMPORT_KERNELS);
SYMM_KERNEL_LIST(multimem, SYMM_MULTIMEM_KERNELS);

/* Kernels of a list, by dtype (or those of 16 bits) and number of ranks, by dtype, of bytes. */
#define BY_DTYPE_AND_RANKS(name)                                                                   \
    {                                                                                              \
        SYMM_KERNEL_##name##_float32_2,                                                            \
            SYMM_KERNEL_##name##_float16_2 - SYMM_KERNEL_##name##_float32_2, true                  \
    }
#define BY_HALF_AND_RANKS(name)                                                                    \
    {                                                                                              \
        2 * SYMM_KERNEL_##name##_float16_2 - SYMM_KERNEL_##name##_bfloat16_2,                      \
            SYMM_KERNEL_##name##_bfloat16_2 - SYMM_KERNEL_##name##_float16_2, true                 \
    }
#define BY_DTYPE(name)                                                                             \
    {                                                                                              \
        SYMM_KERNEL_##name##_float32, SYMM_KERNEL_##name##_float16 - SYMM_KERNEL_##name##_float32, \
            false                                                                                  \
    }
#define BYTES_BY_RANKS(name)                                                                       \
    {                                                                                              \
        SYMM_KERNEL_##name##_bytes_2, 0, true                                                      \
    }
#define BYTES(name)                                                                                \
    {                                                                                              \
        SYMM_KERNEL_##name##_bytes, 0, false                                                       \
    }

enum {
    EXCHANGE_SLOTS = 2 * SYMM_STAGING_DEPTH, /* in each half of the staging area */
    HALF = 2,                                /* one chunk in the second half of it */
    PACKET_SETS = 2,
    /* From here on the switch moves fewer bytes than the ranks do, for four of them or more. */
    SWITCH_RANKS = 4,
    SWITCH_NBYTES = 256 * 1024
};

/*
 * Costs are fitted to measurements on 2 and 4 H200 GPUs (docs/performance.md), the way through
 * staging to some on 2 H100 GPUs (docs/notes/collectives.md). For other numbers of ranks they are a
 * model.
 */
const struct symm_algorithm symm__algorithms[] = {
    {
        .operation = SYMM_OPERATION_ALL_REDUCE,
        .algo = SYMM_ALGO_LOW_LATENCY,
        .transfer = SYMM_TRANSFER_PACKETS,
        .division = SYMM_DIVISION_NONE,
        .kernel = BY_DTYPE_AND_RANKS(all_reduce_low_latency),
        .grid = {.threads = 128, .most_threads = 256},
        .capacity = {PACKET_SETS, .per_rank = true},
        .cost = {0, 2200, 130, 227000, 227000, 1000, 0},
    },
    {
        .operation = SYMM_OPERATION_ALL_REDUCE,
        .algo = SYMM_ALGO_LOW_LATENCY_TWO_SHOT,
        .transfer = SYMM_TRANSFER_PACKETS,
        .division = SYMM_DIVISION_UNITS,
        .kernel = BY_DTYPE_AND_RANKS(all_reduce_low_latency_two_shot),
        .grid = {.threads = 64, .most_threads = 256},
        .capacity = {2 * PACKET_SETS, .per_rank = true}, /* contributions, and results */
        .cost = {2, 2300, 350, 240000, 240000, 1000, 0},
    },
    {
        .operation = SYMM_OPERATION_ALL_REDUCE,
        .algo = SYMM_ALGO_LAMPORT,
        .transfer = SYMM_TRANSFER_LAMPORT,
        .division = SYMM_DIVISION_UNITS,
        .floats = true,
        .scales = true,
        .kernel = BY_DTYPE_AND_RANKS(all_reduce_lamport),
        .grid = {.threads = 64, .most_threads = 256, .helpers = 32, .half_grid_units = 1024},
        .capacity = {2 * PACKET_SETS, .per_rank = true, .pair = true}, /* contributions, and sums */
        .cost = {2, 3700, 200, 360000, 344000, 0, 100},
    },
    {
        .operation = SYMM_OPERATION_ALL_REDUCE,
        .algo = SYMM_ALGO_ONE_SHOT,
        .transfer = SYMM_TRANSFER_PACKS,
        .division = SYMM_DIVISION_NONE,
        .reach = {.in = true},
        .kernel = BY_DTYPE_AND_RANKS(all_reduce_one_shot),
        .grid = {.threads = 512, .most_threads = 512, .few_blocks = true},
        .capacity = {.slots = HALF},
        /* No cost: low_latency has fewer hops wherever it could win. */
    },
    {
        .operation = SYMM_OPERATION_ALL_REDUCE,
        .algo = SYMM_ALGO_TWO_SHOT,
        .transfer = SYMM_TRANSFER_PACKS,
        .division = SYMM_DIVISION_UNITS,
        .reach = {.out = true},
        .kernel = BY_DTYPE_AND_RANKS(all_reduce_two_shot),
        .grid = {.threads = 256, .most_threads = 256, .half_grid_units = 1024},
        .capacity = {EXCHANGE_SLOTS, .per_rank = true, .pair = true},
        /* The second chunk is on the links while the ranks signal the first. */
        .pipeline = {.chunks = 2, .units = 2048},
        .cost = {2, 4700, 800, 365000, 349000, 0, 0},
        .staged = {1500, 840000},
    },
    {
        .operation = SYMM_OPERATION_ALL_REDUCE,
        .algo = SYMM_ALGO_MULTIMEM,
        .transfer = SYMM_TRANSFER_PACKS,
        .division = SYMM_DIVISION_NONE,
        .reach = {.in = true, .out = true},
        .by_switch = true,
        .kernel = BY_DTYPE(all_reduce_multimem),
        .grid = {.threads = 512, .most_threads = 512, .few_blocks = true, .splits_blocks = true},
        .capacity = {.slots = HALF},
        .preferred = {SWITCH_RANKS, SWITCH_NBYTES},
    },
    {
        .operation = SYMM_OPERATION_ALL_REDUCE,
        .algo = SYMM_ALGO_MULTIMEM_ONE_SHOT,
        .transfer = SYMM_TRANSFER_PACKS,
        .division = SYMM_DIVISION_NONE,
        .reach = {.in = true},
        .by_switch = true,
        .ranks_differ = true,
        .kernel = BY_DTYPE(all_reduce_multimem_one_shot),
        .grid = {.threads = 512, .most_threads = 512, .few_blocks = true},
        .capacity = {.slots = HALF},
    },
    {
        .operation = SYMM_OPERATION_ALL_REDUCE,
        .algo = SYMM_ALGO_COPY_ENGINE,
        .transfer = SYMM_TRANSFER_COPIES,
        .reach = {.out = true},
        .cost = {2, 0, 14300, 392000, 379000, 0, 0},
    },
    {
        .operation = SYMM_OPERATION_REDUCE_SCATTER,
        .algo = SYMM_ALGO_LOW_LATENCY,
        .transfer = SYMM_TRANSFER_PACKETS,
        .division = SYMM_DIVISION_EVEN,
        .kernel = BY_DTYPE_AND_RANKS(reduce_scatter_low_latency),
        .grid = {.threads = 64, .most_threads = 256},
        .capacity = {PACKET_SETS, .per_rank = true},
        .cost = SYMM_COST_REDUCE_SCATTER_LOW_LATENCY,
    },
    {
        .operation = SYMM_OPERATION_REDUCE_SCATTER,
        .algo = SYMM_ALGO_LAMPORT,
        .transfer = SYMM_TRANSFER_LAMPORT,
        .division = SYMM_DIVISION_EVEN,
        .floats = true,
        .scales = true,
        .kernel = BY_DTYPE_AND_RANKS(reduce_scatter_lamport),
        .grid = {.threads = 64, .most_threads = 256, .helpers = 32, .half_grid_units = 1024},
        .capacity = {PACKET_SETS, .per_rank = true, .pair = true},
        .cost = {1, 3900, 200, 355000, 333000, 0, 100},
    },
    {
        .operation = SYMM_OPERATION_REDUCE_SCATTER,
        .algo = SYMM_ALGO_ONE_SHOT,
        .transfer = SYMM_TRANSFER_PACKS,
        .division = SYMM_DIVISION_EVEN,
        .kernel = BY_DTYPE_AND_RANKS(reduce_scatter_one_shot),
        .grid = {.threads = 512, .most_threads = 512},
        .capacity = {EXCHANGE_SLOTS, .per_rank = true, .pair = true},
        /* With two chunks the links rest for too long. */
        .pipeline = {.chunks = 3, .units = 6144},
        .cost = SYMM_COST_REDUCE_SCATTER_ONE_SHOT,
    },
    {
        .operation = SYMM_OPERATION_REDUCE_SCATTER,
        .algo = SYMM_ALGO_MULTIMEM,
        .transfer = SYMM_TRANSFER_PACKS,
        .division = SYMM_DIVISION_EVEN,
        .reach = {.in = true},
        .by_switch = true,
        .kernel = BY_DTYPE(reduce_scatter_multimem),
        .grid = {.threads = 512, .most_threads = 512, .few_blocks = true},
        .capacity = {EXCHANGE_SLOTS, .per_rank = true},
        .preferred = {SWITCH_RANKS, SWITCH_NBYTES},
    },
    {
        .operation = SYMM_OPERATION_REDUCE_SCATTER,
        .algo = SYMM_ALGO_COPY_ENGINE,
        .transfer = SYMM_TRANSFER_COPIES,
        /* Slower than one_shot at every size on a pair: the same bandwidth, a higher start. */
        .cost = {1, 44000, 4000, 333000, 377000, 0, 0},
    },
    {
        .operation = SYMM_OPERATION_ALL_GATHER,
        .algo = SYMM_ALGO_LOW_LATENCY,
        .transfer = SYMM_TRANSFER_PACKETS,
        .division = SYMM_DIVISION_EVEN,
        .kernel = BYTES_BY_RANKS(all_gather_low_latency),
        .grid = {.threads = 64, .most_threads = 128}, /* few: so it always begins early */
        .capacity = {PACKET_SETS, .per_rank = true},
        .cost = SYMM_COST_ALL_GATHER_LOW_LATENCY,
    },
    {
        .operation = SYMM_OPERATION_ALL_GATHER,
        .algo = SYMM_ALGO_ONE_SHOT,
        .transfer = SYMM_TRANSFER_PACKS,
        .division = SYMM_DIVISION_EVEN,
        .reach = {.out = true},
        .kernel = BYTES_BY_RANKS(all_gather_one_shot),
        .grid = {.threads = 512, .most_threads = 512, .half_grid_units = 2048},
        .capacity = {EXCHANGE_SLOTS, .per_rank = true, .pair = true},
        .cost = SYMM_COST_ALL_GATHER_ONE_SHOT,
        .staged = SYMM_COST_ALL_GATHER_ONE_SHOT_STAGED,
    },
    {
        .operation = SYMM_OPERATION_ALL_GATHER,
        .algo = SYMM_ALGO_MULTIMEM,
        .transfer = SYMM_TRANSFER_PACKS,
        .division = SYMM_DIVISION_EVEN,
        .reach = {.out = true},
        .by_switch = true,
        .kernel = BYTES(all_gather_multimem),
        .grid = {.threads = 512, .most_threads = 512, .few_blocks = true},
        .capacity = {EXCHANGE_SLOTS, .per_rank = true},
        .preferred = {SWITCH_RANKS, SWITCH_NBYTES},
    },
    {
        .operation = SYMM_OPERATION_ALL_GATHER,
        .algo = SYMM_ALGO_COPY_ENGINE,
        .transfer = SYMM_TRANSFER_COPIES,
        .reach = {.out = true},
        .cost = {1, 16000, 3750, 391000, 387000, 0, 0},
    },
    /* Blocks have whole rows, and threads by the length of a row. The costs are an all-reduce's. */
    {
        .operation = SYMM_OPERATION_ALL_REDUCE_RMS_NORM,
        .algo = SYMM_ALGO_LOW_LATENCY,
        .transfer = SYMM_TRANSFER_PACKETS,
        .division = SYMM_DIVISION_NONE,
        .kernel = BY_HALF_AND_RANKS(all_reduce_rms_norm_low_latency),
        .grid = {.threads = 32, .most_threads = 512, .clusters = true},
        .capacity = {PACKET_SETS, .per_rank = true},
        .cost = {0, 2200, 130, 227000, 227000, 1000, 0},
    },
    {
        .operation = SYMM_OPERATION_ALL_REDUCE_RMS_NORM,
        .algo = SYMM_ALGO_LOW_LATENCY_TWO_SHOT,
        .transfer = SYMM_TRANSFER_PACKETS,
        .division = SYMM_DIVISION_UNITS,
        .kernel = BY_HALF_AND_RANKS(all_reduce_rms_norm_low_latency_two_shot),
        .grid = {.threads = 32, .most_threads = 512},
        .capacity = {2 * PACKET_SETS, .per_rank = true}, /* contributions, and sums */
        .cost = {2, 2300, 350, 240000, 240000, 1000, 0},
    },
    {
        .operation = SYMM_OPERATION_ALL_REDUCE_RMS_NORM,
        .algo = SYMM_ALGO_LAMPORT,
        .transfer = SYMM_TRANSFER_LAMPORT,
        .division = SYMM_DIVISION_UNITS,
        .floats = true,
        .kernel = BY_HALF_AND_RANKS(all_reduce_rms_norm_lamport),
        .grid = {.threads = 32, .most_threads = 512, .helpers = 32},
        .capacity = {2 * PACKET_SETS, .per_rank = true, .pair = true}, /* contributions, and sums */
        .cost = {2, 3700, 200, 360000, 344000, 0, 100},
    },
    /*
     * The costs are an all-gather's: the same times and bandwidths, and on the root's link the
     * whole buffer for each other rank. On two GPUs auto chooses right with them.
     */
    {
        .operation = SYMM_OPERATION_BROADCAST,
        .algo = SYMM_ALGO_LOW_LATENCY,
        .transfer = SYMM_TRANSFER_PACKETS,
        .division = SYMM_DIVISION_NONE,
        .kernel = BYTES_BY_RANKS(broadcast_low_latency),
        .grid = {.threads = 64, .most_threads = 128},
        .capacity = {PACKET_SETS, .per_rank = true},
        .cost = {0, 1700, 150, 240000, 215000, 1000, 0},
    },
    {
        .operation = SYMM_OPERATION_BROADCAST,
        .algo = SYMM_ALGO_ONE_SHOT,
        .transfer = SYMM_TRANSFER_PACKS,
        .division = SYMM_DIVISION_NONE,
        .reach = {.out = true},
        .kernel = BYTES_BY_RANKS(broadcast_one_shot),
        .grid = {.threads = 512, .most_threads = 512, .half_grid_units = 2048},
        .capacity = {EXCHANGE_SLOTS, .per_rank = true, .pair = true},
        .cost = {0, 5300, 150, 365000, 357000, 0, 0},
        .staged = {5500, 1400000},
    },
    {
        .operation = SYMM_OPERATION_BROADCAST,
        .algo = SYMM_ALGO_MULTIMEM,
        .transfer = SYMM_TRANSFER_PACKS,
        .division = SYMM_DIVISION_NONE,
        .reach = {.out = true},
        .by_switch = true,
        .kernel = BYTES(broadcast_multimem),
        .grid = {.threads = 512, .most_threads = 512, .few_blocks = true},
        .capacity = {EXCHANGE_SLOTS, .per_rank = true},
        .preferred = {SWITCH_RANKS, SWITCH_NBYTES},
    },
    {
        .operation = SYMM_OPERATION_BROADCAST,
        .algo = SYMM_ALGO_COPY_ENGINE,
        .transfer = SYMM_TRANSFER_COPIES,
        .reach = {.out = true},
        .cost = {0, 16000, 3750, 391000, 387000, 0, 0},
    },
};
const int symm__nalgorithms = sizeof symm__algorithms / sizeof symm__algorithms[0];

const struct symm_algorithm *symm__algorithm_find(enum symm_operation operation, symm_algo algo)
{
    for (int i = 0; i < symm__nalgorithms; i++)
        if (symm__algorithms[i].operation == operation && symm__algorithms[i].algo == algo)
            return &symm__algorithms[i];
    return NULL;
}

bool symm__operation_reduces(enum symm_operation operation)
{
    return operation != SYMM_OPERATION_ALL_GATHER && operation != SYMM_OPERATION_BROADCAST;
}

bool symm__operation_has_shares(enum symm_operation operation)
{
    return operation == SYMM_OPERATION_REDUCE_SCATTER || operation == SYMM_OPERATION_ALL_GATHER;
}

uint64_t symm__collective_nbytes(const struct symm_limits *limits,
                                 const struct symm_collective_call *call)
{
    return call->count * symm_dtype_size(call->dtype) *
           (symm__operation_has_shares(call->operation) ? (uint64_t)limits->nranks : 1);
}

bool symm__needs_symmetric(const struct symm_algorithm *algorithm)
{
    return algorithm->transfer == SYMM_TRANSFER_COPIES && algorithm->reach.out;
}

/* ----------------------------------------------------------------------------- what cannot run */

static const char *no_arithmetic(enum symm_operation operation, bool by_switch, symm_dtype dtype,
                                 symm_redop op)
{
    if (!symm_redop_name(op))
        return "there is no such op";
    if (dtype > SYMM_INT64)
        return "there is no arithmetic of this dtype in this version";
    if (operation == SYMM_OPERATION_ALL_REDUCE_RMS_NORM && dtype != SYMM_FLOAT16 &&
        dtype != SYMM_BFLOAT16)
        return "there are norms of float16 and bfloat16 only";
    if (op == SYMM_AVG && (dtype == SYMM_INT32 || dtype == SYMM_INT64))
        return "there are averages of floating types only";
    if (by_switch && (op == SYMM_MIN || op == SYMM_MAX) &&
        (dtype == SYMM_FLOAT32 || dtype == SYMM_FLOAT64))
        return "the switch does not compare elements of this dtype";
    return NULL;
}

const char *symm__algorithm_reason(const struct symm_algorithm *algorithm,
                                   const struct symm_limits *limits, symm_dtype dtype,
                                   symm_redop op)
{
    if (algorithm->by_switch && limits->multicast_off)
        return limits->multicast_off;
    if (algorithm->by_switch && limits->compute_major < 9)
        return "multimem instructions need compute capability 9.0 on every rank";
    if (algorithm->floats && (dtype == SYMM_INT32 || dtype == SYMM_INT64))
        return "integers have no value that marks a free slot";
    return symm__operation_reduces(algorithm->operation)
               ? no_arithmetic(algorithm->operation, algorithm->by_switch, dtype, op)
               : NULL;
}

const char *symm__collective_reason(const struct symm_limits *limits, enum symm_operation operation,
                                    symm_algo algo, symm_dtype dtype, symm_redop op)
{
    const struct symm_algorithm *algorithm = symm__algorithm_find(operation, algo);

    if (!symm_algo_name(algo))
        return "there is no such algorithm";
    if (!symm_dtype_name(dtype))
        return "there is no such dtype";
    if (algorithm)
        return symm__algorithm_reason(algorithm, limits, dtype, op);
    if (symm__algo_is_form(algo))
        return "it is a form of groups of several domains, and this group has one";
    if (algo != SYMM_ALGO_AUTO)
        return "this operation has no such algorithm";
    return symm__operation_reduces(operation) ? no_arithmetic(operation, false, dtype, op) : NULL;
}

const char *symm__auto_refuses(enum symm_operation operation, symm_algo algo, bool symmetric)
{
    for (int i = 0; i < symm__nalgorithms; i++) {
        const struct symm_algorithm *algorithm = &symm__algorithms[i];

        if (algorithm->algo != algo)
            continue;
        if (algorithm->ranks_differ)
            return "may give ranks different bits, so auto must not use it";
        if (algorithm->operation == operation && symm__needs_symmetric(algorithm) && !symmetric)
            return "needs symmetric memory";
    }
    return NULL;
}
