/* The memory of collecting, the workspace's layout, and the launch. */
#include "collect.h"

#include <symm/names.h>
#include "ids.h"
#include "matmul/kernels/sm90_tiles.h"
#include "matmul/kernels/tile_order.h"
#include "matmul/plan/dense.h"
#include "matmul/plan/lines.h"
#include "matmul/plan/model.h"
#include "matmul/plan/order.h"
#include "runtime/base/numbers.h"
#include "runtime/group/group.h"
#include "runtime/group/pad.h"
#include "runtime/group/side_stream.h"
#include "sums.h"

SYMM_KERNEL_LIST(matmul_collect, SYMM_MATMUL_COLLECT_KERNELS);

enum {
    WARP = 32,
    THREADS = 256, /* of a block, which takes at most half of an SM */
    BAND_BLOCKS_OF_SM = 2,
    PACK_ELEMENTS = 8,
    ALIGNMENT = 256
};

/* ---------------------------------------------------------------------------------- the layout */

/* The matrices of a workspace: see symm_collect_args. */
struct layout {
    symm_matrix of_rank[SYMM_MATMUL_MAX_B], sums[SYMM_MATMUL_MAX_B];
    uint64_t slot_nbytes[SYMM_MATMUL_MAX_B];
    uint64_t set_nbytes; /* of all slots; with sums beside the product there are several sets */
    uint64_t nbytes;
};

/* Appends a matrix of this number of elements to the layout. */
static symm_matrix append(struct layout *layout, char *workspace, symm_matrix x, int64_t elements)
{
    x.data = workspace ? workspace + layout->nbytes : NULL;
    layout->nbytes +=
        symm__round_up((uint64_t)elements * symm_dtype_size((symm_dtype)x.dtype), ALIGNMENT);
    return x;
}

/* The next matrix [l, rows, columns], whose rows are whole packs. */
static symm_matrix append_packs(struct layout *layout, char *workspace, symm_dtype dtype, int32_t l,
                                int32_t rows, int32_t columns)
{
    const int64_t row = (int64_t)symm__round_up((uint64_t)columns, PACK_ELEMENTS);
    const symm_matrix x = {.row = row, .column = 1, .batch = row * rows, .dtype = (uint32_t)dtype};

    return append(layout, workspace, x, x.batch * l);
}

/*
 * The partial sums of product i for a collective: in the order of d, without gaps. Of a
 * reduce-scatter, all ranks have the rows of the first one.
 */
static symm_matrix append_dense(struct layout *layout, char *workspace,
                                const struct symm_problem *p, int i)
{
    const struct symm_operand *d = &p->d[i];
    const int32_t nranks = p->collect_nranks,
                  rows = p->kind == SYMM_MATMUL_REDUCE_SCATTER
                             ? symm__rows_of_rank(p->m, nranks, 0) * nranks
                             : p->m;

    return append(layout, workspace,
                  symm__dense_matrix(symm__dense_order(d), p->partial[i], p->l, p->m, d->columns),
                  (int64_t)p->l * rows * d->columns);
}

/* The results of product i that a rank computes, or that go to one slot. */
static void append_results(struct layout *layout, const struct symm_collect *c,
                           const struct symm_problem *p, int i)
{
    const bool to_owners = c->plan->sink == SYMM_TO_OWNERS, reduces = symm__kind_reduces(p->kind);
    const int nranks = p->collect_nranks;
    const int32_t rows = to_owners ? symm__rows_of_rank(p->m, nranks, 0) : p->m,
                  all = p->d[i].columns,
                  columns = reduces ? all : symm__rows_of_rank(all, nranks, 0);

    layout->of_rank[i] = append_packs(layout, c->workspace,
                                      reduces ? p->partial[i] : (symm_dtype)p->d[i].matrix.dtype,
                                      p->l, rows, columns);
}

/* Slots for the results of product i, one of each rank. */
static void append_slots(struct layout *layout, const struct symm_collect *c,
                         const struct symm_problem *p, int i)
{
    const uint64_t begin = layout->nbytes;

    append_results(layout, c, p, i);
    layout->slot_nbytes[i] = layout->nbytes - begin;
    layout->nbytes = begin + layout->slot_nbytes[i] * (uint64_t)p->collect_nranks;
}

/* Whether runs use several sets of slots in rotation. */
static bool has_sets(const struct symm_collect *c)
{
    return c->plan->sums == SYMM_SUMS_PARTS || c->plan->sums == SYMM_SUMS_PACKS;
}

static bool has_bands(const struct symm_collect *c)
{
    return c->plan->sums == SYMM_SUMS_BANDS;
}

/* Whether the switch can reach the whole workspace. */
static bool is_bound(const struct symm_collect *c, const struct layout *layout)
{
    const struct symm_context *ctx = c->group->ctx;

    return has_bands(c) && c->workspace &&
           symm__multicast_covers(
               c->group->mc,
               (uint64_t)(c->workspace - symm__memory_window(ctx->memory, ctx->join.rank)),
               layout->nbytes);
}

/* The same on all ranks: with the rows and columns of the rank that has most. */
static struct layout lay_out(const struct symm_collect *c, const struct symm_problem *p)
{
    struct layout layout = {.nbytes = 0};

    for (int i = 0; i < p->nb; i++) {
        if (c->plan->collective) {
            layout.of_rank[i] = append_dense(&layout, c->workspace, p, i);
            continue;
        }
        if (c->plan->sink == SYMM_TO_D && c->plan->sums != SYMM_SUMS_PACKS)
            append_results(&layout, c, p, i);
        else
            append_slots(&layout, c, p, i);
        if (p->kind == SYMM_MATMUL_ALL_REDUCE && !has_sets(c))
            layout.sums[i] =
                append_packs(&layout, c->workspace, (symm_dtype)p->d[i].matrix.dtype, p->l,
                             has_bands(c) ? p->m : symm__rows_of_rank(p->m, p->collect_nranks, 0),
                             p->d[i].columns);
    }
    layout.set_nbytes = layout.nbytes;
    if (has_sets(c))
        layout.nbytes *= c->plan->sums == SYMM_SUMS_PACKS ? SYMM_PACK_SETS : SYMM_PART_SETS;
    return layout;
}

uint64_t symm__collect_slot_nbytes(const struct symm_collect *c, const struct symm_problem *p)
{
    return lay_out(c, p).slot_nbytes[0];
}

/* A product's results in the layout: this rank's slot, or all of them. */
static struct symm_operand results_of(const struct symm_problem *p, const struct layout *layout,
                                      int i)
{
    struct symm_operand d = {
        .matrix = layout->of_rank[i], .l = p->l, .rows = p->m, .columns = p->n[i]};

    if (layout->slot_nbytes[i] > 0 && d.matrix.data)
        d.matrix.data = (char *)d.matrix.data + layout->slot_nbytes[i] * (uint64_t)p->collect_rank;
    return d;
}

void symm__collect_product(const struct symm_collect *c, const struct symm_problem *p,
                           struct symm_problem *out)
{
    *out = *p;
    if (p->collect_nranks == 1)
        return;
    const struct layout layout = lay_out(c, p);
    for (int i = 0; i < p->nb; i++) {
        out->d[i] = results_of(p, &layout, i);
        if (symm__kind_reduces(p->kind))
            out->c[i] = out->bias[i] = (struct symm_operand){.l = 0};
    }
    if (!symm__kind_reduces(p->kind))
        return;
    out->alpha = c->plan->collective || has_bands(c) ? p->alpha : 1;
    out->beta = 0;
    out->activation = SYMM_NONE;
}

/* ------------------------------------------------------------------ parts that a product adds */

/* Of tiles that are signalled. */
static const struct symm_tile_shape *shape_of(const struct symm_collect *c)
{
    return &symm__wgmma_shapes[c->plan->shape - 1];
}

/* Channels, and tiles that may be late: of the owner that has most rows. */
static uint64_t most_tiles(const struct symm_collect *c)
{
    const struct symm_tile_shape *shape = shape_of(c);

    return symm__tiles_of_owner(c->problem, has_bands(c) ? SYMM_TO_ALL : c->plan->sink, 0,
                                shape->rows, shape->columns);
}

/* Whether d[i] gets just the sums, in their own type, and the copy unit can add to it. */
static bool is_plain_sum(const struct symm_collect *c, const struct symm_problem *p, int i)
{
    const symm_matrix *d = &p->d[i].matrix;
    const struct symm_lines lines = symm__lines_of(
        d, true, symm__rows_of_owner(p, c->plan->sink, p->collect_rank), p->n[i], p->l);

    return d->dtype == (uint32_t)p->partial[i] && d->dtype != SYMM_FLOAT32 && d->column == 1 &&
           p->n[i] % PACK_ELEMENTS == 0 && symm__lines_suit_copies(&lines) &&
           (p->beta == 0 || !p->c[i].matrix.data) && !p->bias[i].matrix.data;
}

static bool are_plain_sums(const struct symm_collect *c, const struct symm_problem *p)
{
    bool all = p->alpha == 1 && p->activation == SYMM_NONE;

    for (int i = 0; i < p->nb && all; i++)
        all = is_plain_sum(c, p, i);
    return all;
}

/* Whether the product can store its results as the way of the sums wants them. */
static bool suits_sums(const struct symm_collect *c, const struct symm_problem *p)
{
    bool narrow = true;

    if (c->plan->sums == SYMM_SUMS_PARTS)
        return are_plain_sums(c, p);
    for (int i = 0; i < p->nb; i++)
        narrow = narrow && p->partial[i] != SYMM_FLOAT32;
    return narrow || c->plan->sums == SYMM_SUMS_PACKS;
}

void symm__collect_parts(const struct symm_collect *c, const struct symm_problem *p, bool can_add,
                         symm_parts *out)
{
    *out = (symm_parts){.pad = NULL};
    if (c->plan->sums == SYMM_SUMS_COLLECTED)
        return;
    const struct layout layout = lay_out(c, p);

    out->pad = c->pad;
    out->state = c->state;
    out->set_nbytes = has_sets(c) ? layout.set_nbytes : 0;
    out->all_own = c->plan->sink == SYMM_TO_ALL || has_bands(c);
    if (symm__signals_tiles(c->plan)) {
        const struct symm_tile_shape *shape = shape_of(c);
        out->rows = shape->rows;
        out->columns = shape->columns;
        out->band_rows = (int32_t)c->plan->band * shape->rows * shape->cluster;
    }
    out->sums = c->plan->sums;
    out->by_switch = is_bound(c, &layout);
    out->beside = can_add && suits_sums(c, p);
    for (int i = 0; i < p->nb; i++) {
        out->slots[i] = layout.of_rank[i];
        out->slot_nbytes[i] = layout.slot_nbytes[i];
    }
}

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
        return (int)most_tiles(c);
    case SYMM_SUMS_BANDS:
        return (int)(most_tiles(c) + band_blocks(c));
    default:
        return c->group->ctx->agreed.nsms;
    }
}

static uint64_t state_nbytes(const struct symm_collect *c)
{
    const uint64_t nlate = c->plan->sums == SYMM_SUMS_PARTS ? most_tiles(c) : 0;

    return sizeof(symm_parts_state) + nlate * sizeof(symm_part_tile);
}

symm_status symm__collect_alloc(struct symm_call *call, void *owner, struct symm_collect *c)
{
    const struct symm_problem *p = c->problem;
    void *block;
    symm_status st;

    st = symm__call_alloc(call, owner, lay_out(c, p).nbytes, &block);
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
           lay_out(c, c->problem).nbytes / sizeof(uint32_t), ctx->own_stream);
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
    const struct layout layout = lay_out(c, p);
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
                           PACK_ELEMENTS);
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

    if (has_bands(c))
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
