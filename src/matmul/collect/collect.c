/* The memory of collecting, and the launch. */
#include "collect.h"

#include "ids.h"
#include "matmul/plan/order.h"
#include "runtime/base/numbers.h"
#include "runtime/group/group.h"
#include "runtime/group/pad.h"
#include "runtime/group/side_stream.h"
#include "layout.h"
#include "parts.h"
#include "sums.h"

SYMM_KERNEL_LIST(matmul_collect, SYMM_MATMUL_COLLECT_KERNELS);

enum {
    WARP = 32,
    THREADS = 256, /* of a block, which takes at most half of an SM */
    BAND_BLOCKS_OF_SM = 2
};

/* ----------------------------------------------------------------------------------- its memory */

/* Of bands: on each SM that the product leaves free. */
static uint32_t band_blocks(const struct symm_collect *c)
{
    return c->plan->comm_sms * BAND_BLOCKS_OF_SM;
}

/* A channel for each tile, and with bands for each block. Other grids have a block an SM. */
static int nchannels(const struct symm_collect *c)
{
    switch (c->plan->sums) {
    case SYMM_SUMS_PACKS:
        return 1;
    case SYMM_SUMS_PARTS:
        return (int)symm__collect_tiles(c);
    case SYMM_SUMS_BANDS:
        return (int)(symm__collect_tiles(c) + band_blocks(c));
    default:
        return c->group->ctx->agreed.nsms;
    }
}

static uint64_t state_nbytes(const struct symm_collect *c)
{
    const uint64_t nlate = c->plan->sums == SYMM_SUMS_PARTS ? symm__collect_tiles(c) : 0;

    return sizeof(symm_parts_state) + nlate * sizeof(symm_part_tile);
}

symm_status symm__collect_alloc(struct symm_call *call, void *owner, struct symm_collect *c)
{
    const struct symm_problem *p = c->problem;
    void *block;
    symm_status st;

    st = symm__call_alloc(call, owner, symm__collect_layout(c, p).nbytes, &block);
    if (st != SYMM_OK)
        return symm__fail_in(st, "the workspace of m %d, l %d, and %d columns of d[0] on rank %d: ",
                             p->m, p->l, p->d[0].columns, p->collect_rank);
    c->workspace = block;
    if (c->plan->collective)
        return symm__sums_provide(call, p);
    TRY(symm__call_alloc(call, owner, symm__pad_nbytes(nchannels(c), p->collect_nranks), &block));
    c->pad = block;
    if (c->plan->sums != SYMM_SUMS_COLLECTED) {
        TRY(symm__call_alloc(call, owner, state_nbytes(c), &block));
        c->state = block;
    }
out:
    return st;
}

/* Frees all slots for packs. */
static symm_status free_slots(const struct symm_collect *c)
{
    const struct symm_context *ctx = c->group->ctx;
    symm_status st = SYMM_OK;

    TRY_CU(ctx->drv, cuMemsetD32Async, (CUdeviceptr)(uintptr_t)c->workspace, UINT32_MAX,
           symm__collect_layout(c, c->problem).nbytes / sizeof(uint32_t), ctx->own_stream);
out:
    return st;
}

symm_status symm__collect_prepare(struct symm_call *call, const struct symm_collect *c)
{
    struct symm_side_stream *side;
    symm_status st;

    if (c->plan->collective) /* copy engines may run it */
        return symm__side_stream_take(call, SYMM_URGENT, &side);
    if (c->state)
        TRY(symm__pad_clear_runs(c->group, c->state, sizeof *c->state));
    if (c->plan->sums == SYMM_SUMS_PACKS)
        TRY(free_slots(c));
    st = symm__pad_clear(c->group->ctx, c->pad, nchannels(c), c->problem->collect_nranks);
out:
    return st;
}

/* ----------------------------------------------------------------------------------- the launch */

static const symm_kernel_id kernels[] = {
    [SYMM_MATMUL_REDUCE_SCATTER] = SYMM_KERNEL_matmul_reduce_scatter,
    [SYMM_MATMUL_ALL_REDUCE] = SYMM_KERNEL_matmul_all_reduce,
    [SYMM_MATMUL_ALL_SCATTER] = SYMM_KERNEL_matmul_all_scatter,
};

static symm_collect_args args_of(const struct symm_collect *c, const struct symm_problem *p,
                                 bool can_add)
{
    const struct symm_collect_layout layout = symm__collect_layout(c, p);
    symm_collect_args args = {
        .product = {.a = {.m = p->m, .k = p->k, .l = p->l, .nranks = 1},
                    .nb = p->nb,
                    .alpha = p->alpha,
                    .beta = p->beta,
                    .activation = (uint32_t)p->activation,
                    .view = *c->view},
        .pad = c->pad,
        .rank = p->collect_rank,
        .nranks = p->collect_nranks,
    };

    symm__collect_parts(c, p, can_add, &args.product.parts);

    for (int i = 0; i < p->nb; i++) {
        args.product.n[i] = p->n[i];
        args.product.c[i] = p->c[i].matrix;
        args.product.d[i] = p->d[i].matrix;
        args.product.bias[i] = p->bias[i].matrix;
        args.of_rank[i] = layout.of_rank[i];
        args.slot_nbytes[i] = layout.slot_nbytes[i];
        args.sums[i] = layout.sums[i];
        args.d_columns[i] = p->d[i].columns;
    }
    return args;
}

/* The packs of the rank that has most, of one rank's part. */
static uint64_t packs_of(const struct symm_collect *c, const struct symm_problem *p)
{
    const bool by_columns = p->kind == SYMM_MATMUL_ALL_SCATTER;
    const int nranks = p->collect_nranks;
    uint64_t across = 0;

    for (int i = 0; i < p->nb; i++)
        across +=
            symm__ceil_div((uint64_t)(by_columns ? symm__rows_of_rank(p->d[i].columns, nranks, 0)
                                                 : p->d[i].columns),
                           SYMM_PACK_ELEMENTS);
    return across * (uint64_t)p->l *
           (uint64_t)(by_columns || c->plan->sums == SYMM_SUMS_PACKS
                          ? p->m
                          : symm__rows_of_owner(p, c->plan->sink, 0));
}

/*
 * Blocks of one warp fit beside products. They may have to wait, so most SMs keep their places for
 * other kernels that products wait for.
 */
static symm_status launch_late_parts(struct symm_call *call, const struct symm_collect *c,
                                     const symm_collect_args *args)
{
    return symm__call_launch(call, SYMM_KERNEL_matmul_late_parts,
                             (uint32_t)symm__ceil_div((uint64_t)c->group->ctx->agreed.nsms, 4),
                             WARP, true, args);
}

/* Beside a product that signals its tiles, else behind it. */
static symm_status launch_bands(struct symm_call *call, const struct symm_collect *c,
                                const symm_collect_args *args)
{
    const uint32_t threads =
        (uint32_t)symm__min(THREADS, (uint64_t)c->group->ctx->agreed.max_threads);

    return symm__call_launch(call, SYMM_KERNEL_matmul_sum_bands, band_blocks(c), threads,
                             args->product.parts.beside, args);
}

static symm_status launch(struct symm_call *call, const struct symm_collect *c,
                          const struct symm_problem *p, bool can_add)
{
    const symm_collect_args args = args_of(c, p, can_add);
    const uint32_t threads =
                       (uint32_t)symm__min(THREADS, (uint64_t)c->group->ctx->agreed.max_threads),
                   blocks = (uint32_t)symm__min(symm__ceil_div(packs_of(c, p), threads),
                                                (uint64_t)c->group->ctx->agreed.nsms);

    if (symm__collect_has_bands(c))
        return launch_bands(call, c, &args);
    if (c->plan->sums == SYMM_SUMS_PACKS && args.product.parts.beside)
        return SYMM_OK; /* the product has made D */
    if (args.product.parts.beside)
        return launch_late_parts(call, c, &args);
    return symm__call_launch(call, kernels[p->kind], blocks, threads, false, &args);
}

symm_status symm__collect_enqueue(struct symm_call *call, const struct symm_collect *c,
                                  const struct symm_problem *product, const struct symm_problem *p,
                                  bool can_add)
{
    return c->plan->collective ? symm__sums_enqueue(call, product, p) : launch(call, c, p, can_add);
}
