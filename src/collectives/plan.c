/* The rules by which a collective gets its kernel and grid. */
#include "plan.h"

#include "runtime/base/numbers.h"
#include "choice.h"

SYMM_KERNEL_LIST(collectives, SYMM_COLLECTIVES_KERNELS);

enum {
    WARP = 32,
    EARLY_THREADS = 128, /* of a block of packets: half of what it may have */
    /* From so many packs on, a block's slice of two_shot goes in two chunks at least: the second is
     * on the links while the ranks tell each other of the first. */
    TWO_CHUNKS = 2048,
    /* And one of a reduce-scatter's one_shot in three: with two the links rest for too long. */
    THREE_CHUNKS = 6144,
    PACK_NBYTES = 16,
    PACKET_NBYTES = 12 /* of 16; the rest is the flag */
};

bool symm__algo_by_switch(symm_algo algo)
{
    return algo == SYMM_ALGO_MULTIMEM || algo == SYMM_ALGO_MULTIMEM_ONE_SHOT;
}

/* ---------------------------------------------------------------------------------- what runs */

static bool two_steps(symm_algo algo)
{
    return algo == SYMM_ALGO_TWO_SHOT || algo == SYMM_ALGO_LOW_LATENCY_TWO_SHOT ||
           algo == SYMM_ALGO_MULTIMEM_ONE_SHOT;
}

static const char *no_arithmetic(symm_algo algo, symm_dtype dtype, symm_redop op)
{
    if (!symm__redop_name(op))
        return "there is no such op";
    if (dtype > SYMM_INT64)
        return "there is no arithmetic of this dtype in this version";
    if (op == SYMM_AVG && (dtype == SYMM_INT32 || dtype == SYMM_INT64))
        return "there are averages of floating types only";
    if (symm__algo_by_switch(algo) && (op == SYMM_MIN || op == SYMM_MAX) &&
        (dtype == SYMM_FLOAT32 || dtype == SYMM_FLOAT64))
        return "the switch does not compare elements of this dtype";
    return NULL;
}

const char *symm__collective_reason(const struct symm_limits *limits, enum symm_operation operation,
                                    symm_algo algo, symm_dtype dtype, symm_redop op)
{
    if (!symm__algo_name(algo))
        return "there is no such algorithm";
    if (!symm__dtype_name(dtype))
        return "there is no such dtype";
    if (operation != SYMM_OPERATION_ALL_REDUCE && two_steps(algo))
        return "this operation takes one step";
    if (symm__algo_by_switch(algo) && limits->multicast_off)
        return limits->multicast_off;
    if (symm__algo_by_switch(algo) && limits->compute_major < 9)
        return "multimem instructions need compute capability 9.0 on every rank";
    return operation == SYMM_OPERATION_ALL_GATHER ? NULL : no_arithmetic(algo, dtype, op);
}

/* ------------------------------------------------------------------------- the kernel, the grid */

/*
 * In the order of kernels.def: for bytes and then for each dtype these, most of them for 2, 4, 8
 * and any number of ranks.
 */
static symm_kernel_id kernel_of(enum symm_operation operation, symm_algo algo, symm_dtype dtype,
                                int nranks)
{
    static const int firsts[SYMM_OPERATION_COUNT][SYMM_ALGO_LOW_LATENCY_TWO_SHOT + 1] = {
        [SYMM_OPERATION_ALL_REDUCE] =
            {
                [SYMM_ALGO_LOW_LATENCY] = SYMM_KERNEL_all_reduce_low_latency_float32_2,
                [SYMM_ALGO_LOW_LATENCY_TWO_SHOT] =
                    SYMM_KERNEL_all_reduce_low_latency_two_shot_float32_2,
                [SYMM_ALGO_ONE_SHOT] = SYMM_KERNEL_all_reduce_one_shot_float32_2,
                [SYMM_ALGO_TWO_SHOT] = SYMM_KERNEL_all_reduce_two_shot_float32_2,
                [SYMM_ALGO_MULTIMEM] = SYMM_KERNEL_all_reduce_multimem_float32,
                [SYMM_ALGO_MULTIMEM_ONE_SHOT] = SYMM_KERNEL_all_reduce_multimem_one_shot_float32,
            },
        [SYMM_OPERATION_REDUCE_SCATTER] =
            {
                [SYMM_ALGO_LOW_LATENCY] = SYMM_KERNEL_reduce_scatter_low_latency_float32_2,
                [SYMM_ALGO_ONE_SHOT] = SYMM_KERNEL_reduce_scatter_one_shot_float32_2,
                [SYMM_ALGO_MULTIMEM] = SYMM_KERNEL_reduce_scatter_multimem_float32,
            },
        [SYMM_OPERATION_ALL_GATHER] =
            {
                [SYMM_ALGO_LOW_LATENCY] = SYMM_KERNEL_all_gather_low_latency_bytes_2,
                [SYMM_ALGO_ONE_SHOT] = SYMM_KERNEL_all_gather_one_shot_bytes_2,
                [SYMM_ALGO_MULTIMEM] = SYMM_KERNEL_all_gather_multimem_bytes,
            },
    };
    const int unrolled = nranks == 2 ? 0 : nranks == 4 ? 1 : nranks == 8 ? 2 : 3;
    const int of_dtype =
        operation == SYMM_OPERATION_ALL_GATHER
            ? 0
            : ((int)dtype - SYMM_FLOAT32) * (SYMM_KERNEL_all_reduce_low_latency_float16_2 -
                                             SYMM_KERNEL_all_reduce_low_latency_float32_2);

    return (symm_kernel_id)(firsts[operation][algo] + of_dtype +
                            (symm__algo_by_switch(algo) ? 0 : unrolled));
}

/*
 * The shape of an algorithm's grids. Blocks are of `threads` until there are `blocks` of them, then
 * of twice as many, up to most_threads, while even these have more than a thing each. Two groups
 * may be active at once, so twice the blocks fit the device: those of most_threads with the
 * registers that they have. A kernel that begins early has its place while the one before is at
 * work, so a grid may that has half of most_threads a block, or half the blocks. Up to few_units a
 * block, half the blocks do as well as all of them.
 */
struct shape {
    bool packets;
    uint64_t threads, most_threads, blocks, few_units;
};

static struct shape shape_of(enum symm_operation operation, symm_algo algo, uint64_t nsms)
{
    const uint64_t all = symm__min(nsms, SYMM_BLOCKS_MAX), few = symm__min(nsms / 2, 32);
    const bool gathers = operation == SYMM_OPERATION_ALL_GATHER;

    switch (algo) {
    case SYMM_ALGO_LOW_LATENCY:
        /* What only moves packets does so with few threads, and so may always begin early. */
        return (struct shape){true, operation == SYMM_OPERATION_ALL_REDUCE ? 128 : 64,
                              gathers ? 128 : 256, all, 0};
    case SYMM_ALGO_LOW_LATENCY_TWO_SHOT:
        return (struct shape){true, 64, 256, all, 0};
    case SYMM_ALGO_TWO_SHOT:
        return (struct shape){false, 256, 256, all, 1024};
    case SYMM_ALGO_ONE_SHOT:
        return (struct shape){false, 512, 512, operation == SYMM_OPERATION_ALL_REDUCE ? few : all,
                              gathers ? 2048 : 0};
    default:
        return (struct shape){false, 512, 512, few, 0};
    }
}

/* Units that a block's part of the group's memory holds: of packets, in two sets, or of staging. */
static uint32_t room_of(const struct symm_plan *plan, enum symm_operation operation,
                        const struct symm_limits *limits)
{
    const uint64_t nranks = (uint64_t)limits->nranks,
                   staging = limits->staging_nbytes / PACK_NBYTES / plan->blocks;

    switch (plan->algo) {
    case SYMM_ALGO_LOW_LATENCY:
        return (uint32_t)(limits->block_packets / 2 / nranks);
    case SYMM_ALGO_LOW_LATENCY_TWO_SHOT: /* of the others' shares, and of results */
        return (uint32_t)(limits->block_packets / 4 / nranks);
    default:
        if (operation == SYMM_OPERATION_ALL_REDUCE && plan->algo != SYMM_ALGO_TWO_SHOT)
            return (uint32_t)(staging / 2); /* of one chunk */
        return (uint32_t)(staging / (2 * SYMM_STAGING_DEPTH * nranks));
    }
}

static uint64_t least_chunks(const struct symm_plan *plan, enum symm_operation operation,
                             symm_algo algo)
{
    if (algo == SYMM_ALGO_TWO_SHOT && plan->slice >= TWO_CHUNKS)
        return 2;
    if (operation == SYMM_OPERATION_REDUCE_SCATTER && algo == SYMM_ALGO_ONE_SHOT &&
        plan->slice >= THREE_CHUNKS)
        return 3;
    return 1;
}

/*
 * Units of a chunk of staging, of which a block's slice goes in so many at least. They are of one
 * size, but for the last: the ranks wait for each other after each, and a small one costs as much.
 * There is no pass over a chunk in which most threads have nothing to do.
 */
static uint64_t chunk_units(const struct symm_plan *plan, uint64_t chunks)
{
    const uint64_t threads = plan->threads, most = plan->room - plan->room % threads;

    if (most == 0)
        return plan->room;
    chunks = symm__max(chunks, symm__ceil_div(plan->slice, most));
    return symm__min(most, symm__max(symm__ceil_div(plan->slice, chunks * threads), 1) * threads);
}

/* An all-gather's elements are bytes. */
static uint64_t element_nbytes(const struct symm_collective_call *call)
{
    return call->operation == SYMM_OPERATION_ALL_GATHER ? 1 : symm__dtype_size(call->dtype);
}

uint64_t symm__collective_nbytes(const struct symm_limits *limits,
                                 const struct symm_collective_call *call)
{
    return call->count * symm__dtype_size(call->dtype) *
           (call->operation == SYMM_OPERATION_ALL_REDUCE ? 1 : (uint64_t)limits->nranks);
}

/* How the elements are divided among the ranks, in units of so many. */
static void divide(struct symm_plan *plan, const struct symm_limits *limits,
                   const struct symm_collective_call *call, uint64_t unit)
{
    const uint64_t nranks = (uint64_t)limits->nranks;

    plan->count = symm__collective_nbytes(limits, call) / element_nbytes(call);
    if (call->operation != SYMM_OPERATION_ALL_REDUCE) {
        plan->stride = plan->count / nranks;
        plan->share = symm__ceil_div(plan->stride, unit);
    } else if (plan->algo == SYMM_ALGO_TWO_SHOT || plan->algo == SYMM_ALGO_LOW_LATENCY_TWO_SHOT) {
        plan->share = symm__ceil_div(symm__ceil_div(plan->count, unit), nranks);
        plan->stride = plan->share * unit;
    } else {
        plan->share = symm__ceil_div(plan->count, unit);
        plan->stride = plan->count;
    }
}

struct symm_plan symm__plan(const struct symm_limits *limits,
                            const struct symm_collective_call *call)
{
    const symm_algo algo = symm__choose(limits, call);
    const struct shape shape = shape_of(call->operation, algo, (uint64_t)limits->nsms);
    const uint64_t nranks = (uint64_t)limits->nranks, size = element_nbytes(call);
    uint64_t threads = shape.threads, blocks = shape.blocks, work;
    struct symm_plan plan = {.algo = algo};

    if (algo == SYMM_ALGO_COPY_ENGINE)
        return plan;
    plan.kernel = kernel_of(call->operation, algo, call->dtype, limits->nranks);
    divide(&plan, limits, call,
           !shape.packets ? PACK_NBYTES / size
           : size == 8    ? 1
                          : PACKET_NBYTES / size);
    /* The blocks of an all-reduce by the switch have shares of their own. */
    work = call->operation == SYMM_OPERATION_ALL_REDUCE && algo == SYMM_ALGO_MULTIMEM
               ? symm__ceil_div(plan.share, nranks)
               : plan.share;
    while (work > threads * blocks && threads < shape.most_threads)
        threads *= 2;
    if (blocks > 1 && work <= shape.few_units * (blocks / 2))
        blocks /= 2;
    threads = symm__min(threads, (uint64_t)limits->max_threads);
    if (threads >= WARP)
        threads = symm__min(threads / WARP, symm__ceil_div(work, WARP)) * WARP;
    if (call->max_blocks)
        blocks = symm__min(blocks, call->max_blocks);
    /* Each needs a part of the staging area. */
    blocks =
        symm__min(blocks, limits->staging_nbytes / PACK_NBYTES / (2 * SYMM_STAGING_DEPTH * nranks));
    blocks = symm__min(blocks, symm__ceil_div(work, threads));
    blocks = blocks ? blocks : 1;

    plan.blocks = (uint32_t)blocks;
    plan.threads = (uint32_t)threads;
    plan.early =
        shape.packets ? threads <= EARLY_THREADS : shape.few_units && 2 * blocks <= shape.blocks;
    plan.slice = symm__ceil_div(plan.share, blocks);
    plan.room = room_of(&plan, call->operation, limits);
    if (!shape.packets)
        plan.room = (uint32_t)chunk_units(&plan, least_chunks(&plan, call->operation, algo));
    return plan;
}
