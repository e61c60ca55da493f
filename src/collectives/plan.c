/* From a row of the table to a kernel and its grid. */
#include "plan.h"

#include "runtime/base/numbers.h"

enum {
    WARP = 32,
    FEW_BLOCKS = 32,
    PDL_THREADS = 128, /* of a block of packets: half of the most that it may have */
    PACK_NBYTES = 16,
    ROW_UNIT = 6,       /* elements of a packet of a row, which have 16 bits, */
    ROW_PACK = 8,       /* and of a pack */
    ROW_THREADS = 512,  /* of a block that has whole rows, at most */
    PART_THREADS = 256, /* of a block that has a part of a row */
    CLUSTERS_MAJOR = 9, /* the first GPUs that have clusters */
    PACKET_NBYTES = 12  /* of 16; the rest is the flag */
};

/* For 2, 4, 8 and any number of ranks in this order; for one dtype after the other. */
static symm_kernel_id kernel_of(const struct symm_algorithm *algorithm, symm_dtype dtype,
                                int nranks)
{
    const int by_ranks = nranks == 2 ? 0 : nranks == 4 ? 1 : nranks == 8 ? 2 : 3;

    return algorithm->kernel.first + ((int)dtype - SYMM_FLOAT32) * algorithm->kernel.dtype_ids +
           (algorithm->kernel.by_ranks ? by_ranks : 0);
}

/* Blocks of a full grid. */
static uint64_t most_blocks(const struct symm_algorithm *algorithm,
                            const struct symm_limits *limits)
{
    const uint64_t nsms = (uint64_t)limits->nsms;

    if (algorithm->transfer == SYMM_TRANSFER_PACKETS ||
        algorithm->transfer == SYMM_TRANSFER_LAMPORT)
        return symm__min(nsms, limits->areas.packet_blocks);
    return algorithm->grid.few_blocks ? symm__min(nsms / 2, FEW_BLOCKS)
                                      : symm__min(nsms, SYMM_BLOCKS_MAX);
}

uint64_t symm__element_nbytes(const struct symm_collective_call *call)
{
    return symm__operation_reduces(call->operation) ? symm_dtype_size(call->dtype) : 1;
}

/* Elements of a unit. */
static uint64_t unit_of(const struct symm_algorithm *algorithm, uint64_t element_nbytes)
{
    if (algorithm->transfer != SYMM_TRANSFER_PACKETS)
        return PACK_NBYTES / element_nbytes;
    return element_nbytes == 8 ? 1 : PACKET_NBYTES / element_nbytes;
}

/* Divides `count` elements among the ranks. */
static void divide(struct symm_plan *plan, const struct symm_limits *limits,
                   const struct symm_collective_call *call, const struct symm_algorithm *algorithm,
                   uint64_t count)
{
    const uint64_t nranks = (uint64_t)limits->nranks, size = symm__element_nbytes(call),
                   unit = unit_of(algorithm, size);

    plan->count = count;
    switch (algorithm->division) {
    case SYMM_DIVISION_EVEN:
        plan->stride = plan->count / nranks;
        plan->share = symm__ceil_div(plan->stride, unit);
        break;
    case SYMM_DIVISION_UNITS:
        plan->share = symm__ceil_div(symm__ceil_div(plan->count, unit), nranks);
        plan->stride = plan->share * unit;
        break;
    default:
        plan->share = symm__ceil_div(plan->count, unit);
        plan->stride = plan->count;
    }
}

/* The most blocks of which each has a part of the staging area. */
static uint64_t staged_blocks(const struct symm_limits *limits)
{
    return limits->areas.staging_nbytes / PACK_NBYTES /
           (2 * SYMM_STAGING_DEPTH * (uint64_t)limits->nranks);
}

static void make_grid(struct symm_plan *plan, const struct symm_limits *limits,
                      const struct symm_collective_call *call,
                      const struct symm_algorithm *algorithm)
{
    const uint64_t nranks = (uint64_t)limits->nranks, most = most_blocks(algorithm, limits),
                   half_grid_units = algorithm->grid.half_grid_units,
                   work = algorithm->grid.splits_blocks ? symm__ceil_div(plan->share, nranks)
                                                        : plan->share;
    const uint64_t helpers = limits->max_threads >= 2 * WARP ? algorithm->grid.helpers : 0;
    uint64_t threads = algorithm->grid.threads, blocks = most;

    if (blocks > 1 && work <= half_grid_units * (blocks / 2))
        blocks /= 2;
    while (work > threads * blocks && threads < algorithm->grid.most_threads)
        threads *= 2;
    threads = symm__min(threads, (uint64_t)limits->max_threads - helpers);
    if (threads >= WARP)
        threads = symm__min(threads / WARP, symm__ceil_div(work, WARP)) * WARP;
    if (call->max_blocks)
        blocks = symm__min(blocks, call->max_blocks);
    blocks = symm__min(blocks, staged_blocks(limits));
    blocks = symm__min(blocks, symm__ceil_div(work, threads));
    blocks = blocks ? blocks : 1;

    plan->blocks = (uint32_t)blocks;
    plan->threads = (uint32_t)(threads + helpers);
    plan->block_units = symm__ceil_div(plan->share, blocks);
    /*
     * A kernel that begins early has its place while the one before it runs. So its grid has half
     * of the threads a block that it could have, or half of the blocks.
     */
    plan->pdl = algorithm->transfer == SYMM_TRANSFER_PACKETS
                    ? threads <= PDL_THREADS
                    : half_grid_units && 2 * blocks <= most;
}

uint32_t symm__plan_row_threads(const struct symm_limits *limits, uint64_t row, uint32_t most)
{
    const uint64_t max_threads = (uint64_t)limits->max_threads,
                   free = max_threads >= 2 * WARP ? max_threads - WARP : max_threads,
                   units = symm__ceil_div(row, ROW_UNIT), least = symm__min(units, most);

    return (uint32_t)symm__min(symm__round_up(least, WARP), free);
}

/* Elements of a row's part. */
static uint64_t width_of_part(const symm_row_threads *part)
{
    return (uint64_t)part->warps * part->lanes * part->packs * ROW_PACK;
}

/* Threads of a block that has it, one for each of its packets. */
static uint64_t threads_of_part(const symm_row_threads *part)
{
    return symm__round_up(symm__ceil_div(width_of_part(part), ROW_UNIT), WARP);
}

symm_row_threads symm__plan_row(uint64_t row, uint32_t threads)
{
    const uint32_t npacks = (uint32_t)symm__ceil_div(row, ROW_PACK),
                   lanes = threads < WARP ? threads : WARP, most = threads / lanes * lanes,
                   packs = (uint32_t)symm__ceil_div(npacks, most);

    return (symm_row_threads){.blocks = 1,
                              .warps = (uint32_t)symm__ceil_div(npacks, lanes * packs),
                              .lanes = lanes,
                              .packs = packs};
}

/*
 * Divides the packs of a row among the blocks of the largest cluster that has room, in the runs of
 * packs that a warp has at a time. Then a thread has one packet, as in an all-reduce, and, if there
 * are warps enough, one pack. Returns *whole if no cluster has room. All blocks together
 * have at most half of the threads that blocks with whole rows could have, so that the kernel may
 * begin early.
 */
static symm_row_threads share_row(const struct symm_limits *limits, uint64_t rows,
                                  const symm_row_threads *whole, uint64_t most, uint64_t room)
{
    symm_row_threads part = *whole;

    for (part.blocks = SYMM_ROW_PARTS; part.blocks > 1; part.blocks /= 2) {
        const uint32_t runs = (uint32_t)symm__ceil_div(whole->warps * whole->packs, part.blocks);
        part.packs = runs > SYMM_PART_WARPS ? whole->packs : 1;
        part.warps = (uint32_t)symm__ceil_div(runs, part.packs);
        const uint64_t threads = threads_of_part(&part), blocks = rows * part.blocks;
        if (whole->warps >= part.blocks && part.warps <= SYMM_PART_WARPS &&
            whole->packs <= SYMM_PART_PACKS && blocks <= most && threads <= PART_THREADS &&
            threads <= (uint64_t)limits->max_threads && 2 * blocks * threads <= room * ROW_THREADS)
            return part;
    }
    return *whole;
}

/*
 * A block has whole rows, so that it can norm them, and divides their elements among the ranks. Its
 * threads follow from the row and the device alone: so every algorithm adds up the squares of a row
 * in the same order. Two groups may be active at once, so a grid has half of the SMs, for one block
 * fills an SM. If there are few rows, the blocks of a cluster share each.
 */
static void make_grid_of_rows(struct symm_plan *plan, const struct symm_limits *limits,
                              const struct symm_collective_call *call,
                              const struct symm_algorithm *algorithm)
{
    const uint64_t rows = call->count / call->row, nsms = (uint64_t)limits->nsms,
                   room = symm__max(symm__min(most_blocks(algorithm, limits), nsms / 2), 1),
                   staged = symm__max(symm__min(room, staged_blocks(limits)), 1),
                   most = call->max_blocks ? symm__min(staged, call->max_blocks) : staged;
    const uint32_t helpers = limits->max_threads >= 2 * WARP ? algorithm->grid.helpers : 0,
                   threads =
                       symm__plan_row_threads(limits, call->row, algorithm->grid.most_threads);

    const symm_row_threads whole = symm__plan_row(call->row, threads);

    plan->row = algorithm->grid.clusters && limits->compute_major >= CLUSTERS_MAJOR
                    ? share_row(limits, rows, &whole, most, room)
                    : whole;
    if (plan->row.blocks > 1) {
        plan->block_rows = 1;
        plan->blocks = (uint32_t)rows * plan->row.blocks;
        plan->threads = (uint32_t)threads_of_part(&plan->row);
        plan->pdl = true;
        divide(plan, limits, call, algorithm, width_of_part(&plan->row));
    } else {
        plan->block_rows = symm__ceil_div(rows, most);
        plan->blocks = (uint32_t)symm__ceil_div(rows, plan->block_rows);
        plan->threads = threads + helpers;
        plan->pdl = 2 * plan->blocks <= room; /* as above */
        divide(plan, limits, call, algorithm, plan->block_rows * call->row);
    }
    plan->block_units = plan->share;
}

/*
 * Units of a chunk of staging, at most `most`. Chunks are of one size, but for the last: the ranks
 * wait for each other after each chunk, and a small one costs as much. All threads are busy in each
 * pass over a chunk.
 */
static uint64_t chunk_units(const struct symm_plan *plan, const struct symm_algorithm *algorithm,
                            uint64_t capacity)
{
    const uint64_t threads = plan->threads, most = capacity - capacity % threads;
    uint64_t chunks =
        plan->block_units >= algorithm->pipeline.units ? algorithm->pipeline.chunks : 1;

    if (most == 0)
        return capacity;
    chunks = symm__max(symm__max(chunks, 1), symm__ceil_div(plan->block_units, most));
    return symm__min(most,
                     symm__max(symm__ceil_div(plan->block_units, chunks * threads), 1) * threads);
}

/* Units of a block's part of the area through which elements travel. */
static uint64_t block_area(const struct symm_plan *plan, const struct symm_limits *limits,
                           enum symm_transfer transfer)
{
    switch (transfer) {
    case SYMM_TRANSFER_PACKETS:
        return limits->areas.block_packets;
    case SYMM_TRANSFER_LAMPORT:
        return limits->areas.block_slots;
    default:
        return limits->areas.staging_nbytes / PACK_NBYTES / plan->blocks;
    }
}

/* Units of one rank, or of all, that this part holds at a time. */
static uint32_t capacity_of(const struct symm_plan *plan, const struct symm_limits *limits,
                            const struct symm_algorithm *algorithm)
{
    const uint64_t area = block_area(plan, limits, algorithm->transfer),
                   nranks = algorithm->capacity.pair && limits->nranks == 2
                                ? 1
                                : (uint64_t)limits->nranks,
                   slots = algorithm->capacity.slots * (algorithm->capacity.per_rank ? nranks : 1),
                   capacity = (uint32_t)(area / slots);

    return (uint32_t)(algorithm->transfer == SYMM_TRANSFER_PACKS
                          ? chunk_units(plan, algorithm, capacity)
                          : capacity);
}

struct symm_plan symm__plan(const struct symm_limits *limits,
                            const struct symm_collective_call *call,
                            const struct symm_algorithm *algorithm)
{
    struct symm_plan plan = {.kernel = kernel_of(algorithm, call->dtype, limits->nranks)};

    if (call->row) {
        make_grid_of_rows(&plan, limits, call, algorithm);
    } else {
        divide(&plan, limits, call, algorithm,
               symm__collective_nbytes(limits, call) / symm__element_nbytes(call));
        make_grid(&plan, limits, call, algorithm);
    }
    plan.capacity = capacity_of(&plan, limits, algorithm);
    return plan;
}

uint64_t symm__plan_chunks(const struct symm_plan *plan)
{
    return symm__ceil_div(plan->block_units, plan->capacity);
}

bool symm__plan_is_slower(const struct symm_plan *plan, const struct symm_plan *than)
{
    return plan->blocks < than->blocks || symm__plan_chunks(plan) > symm__plan_chunks(than);
}
