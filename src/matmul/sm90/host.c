/* The host code of the Hopper kernel: supported operands, their tensor maps, the launch. */
#include "host.h"

#include <symm/names.h>
#include "ids.h"
#include "matmul/plan/lines.h"
#include "matmul/plan/model.h"
#include "matmul/plan/order.h"
#include "matmul/trace/trace.h"
#include "runtime/base/numbers.h"
#include "runtime/base/settings.h"

SYMM_KERNEL_LISTS(matmul_sm90, SYMM_MATMUL_SM90_KERNELS);

enum {
    ALONG = SYMM_WGMMA_DEPTH,
    NDIM_MAX = 5,
    SWIZZLED_ROWS = 8,
    REGISTERS_MIN = 128 /* the empty kernel, compiled for other GPUs, has fewer */
};

_Static_assert(sizeof(symm_wgmma_args) <= 4096, "older drivers launch no more");

/* A kernel for each shape and type. */
#define KERNELS(unused, rows, columns, blocks)                                                     \
    {SYMM_KERNEL_matmul_wgmma_##rows##_##columns##_##blocks##_float16,                             \
     SYMM_KERNEL_matmul_wgmma_##rows##_##columns##_##blocks##_bfloat16},
static const symm_kernel_id kernels[][2] = {SYMM_WGMMA_SHAPES(KERNELS, )};
enum { NSHAPES = sizeof kernels / sizeof kernels[0] };

/* The same of the kernel for plain products. */
#define PLAIN_KERNELS(unused, rows, columns, blocks)                                               \
    {SYMM_KERNEL_matmul_plain_##rows##_##columns##_##blocks##_float16,                             \
     SYMM_KERNEL_matmul_plain_##rows##_##columns##_##blocks##_bfloat16},
static const symm_kernel_id plain_kernels[][2] = {SYMM_PLAIN_SHAPES(PLAIN_KERNELS, )};
enum { NPLAIN_SHAPES = sizeof plain_kernels / sizeof plain_kernels[0] };

/* The same of the kernel that splits k. */
#define SPLIT_KERNELS(unused, rows, columns, stages)                                               \
    {SYMM_KERNEL_matmul_split_##rows##_##columns##_float16,                                        \
     SYMM_KERNEL_matmul_split_##rows##_##columns##_bfloat16},
static const symm_kernel_id split_kernels[][2] = {SYMM_SPLIT_SHAPES(SPLIT_KERNELS, )};
enum { NSPLIT_SHAPES = sizeof split_kernels / sizeof split_kernels[0] };

static int split_nbytes(const struct symm_split_shape *shape)
{
    return SYMM_SPLIT_SHARED_NBYTES(shape->rows, shape->columns, shape->stages);
}

/* A shape's kernel for this type. */
static symm_kernel_id kernel_of(const symm_kernel_id (*of_types)[2], symm_dtype dtype)
{
    return (*of_types)[dtype != SYMM_FLOAT16];
}

/* --------------------------------------------------------------------------- supported operands */

/* Clears *usable if the kernel is empty. */
static symm_status look_at(const struct symm_context *ctx, symm_kernel_id kernel, bool *usable)
{
    int nregisters = 0;
    symm_status st = SYMM_OK;

    TRY_CU(ctx->drv, cuFuncGetAttribute, &nregisters, CU_FUNC_ATTRIBUTE_NUM_REGS,
           symm__kernels_function(ctx->kernels, kernel));
    *usable = *usable && nregisters >= REGISTERS_MIN;
out:
    return st;
}

/* Allows the kernels of both types their shared memory. */
static symm_status allow(const struct symm_context *ctx, const symm_view *view,
                         const symm_kernel_id (*of_types)[2], int nbytes)
{
    symm_status st = SYMM_OK;

    for (int i = 0; i < 2; i++)
        TRY_CU(ctx->drv, cuFuncSetAttribute,
               symm__kernels_function(ctx->kernels, symm__trace_kernel((*of_types)[i], view)),
               CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, nbytes);
out:
    return st;
}

/* Whether a cluster of this shape has room beside an SM of transfers. 0: no shape. */
static bool fits(const struct symm_context *ctx, int shape)
{
    return shape > 0 && symm__wgmma_shapes[shape - 1].cluster < ctx->agreed.nsms;
}

/* Whether a cluster of this shape of plain products has room. */
static bool plain_fits(const struct symm_context *ctx, int plain)
{
    return plain <= 0 || symm__plain_shapes[plain - 1].cluster <= ctx->agreed.nsms;
}

symm_status symm__wgmma_enable(const struct symm_context *ctx, const symm_view *view,
                               struct symm_wgmma *out)
{
    int64_t enabled, splits, shape, plain;
    symm_status st;

    *out = (struct symm_wgmma){.usable = false};
    TRY(symm__setting_int(SYMM_SETTING_MATMUL_WGMMA, 0, 1, &enabled));
    TRY(symm__setting_int(SYMM_SETTING_MATMUL_SPLIT, 0, 1, &splits));
    TRY(symm__setting_int(SYMM_SETTING_MATMUL_SHAPE, 0, NSHAPES, &shape));
    TRY(symm__setting_int(SYMM_SETTING_MATMUL_PLAIN, -1, NPLAIN_SHAPES, &plain));
    if (!enabled || !ctx->drv->cuTensorMapEncodeTiled ||
        ctx->agreed.max_threads < SYMM_WGMMA_THREADS(192))
        return SYMM_OK;
    out->usable = true;
    TRY(look_at(ctx, symm__trace_kernel(kernels[0][0], view), &out->usable));
    for (int i = 0; i < NSHAPES && out->usable; i++)
        TRY(allow(ctx, view, &kernels[i], SYMM_WGMMA_SHARED_NBYTES));
    for (int i = 0; i < NPLAIN_SHAPES && out->usable; i++)
        TRY(allow(ctx, view, &plain_kernels[i], SYMM_PLAIN_SHARED_NBYTES));
    for (int i = 0; i < NSPLIT_SHAPES && out->usable; i++)
        TRY(allow(ctx, view, &split_kernels[i], split_nbytes(&symm__split_shapes[i])));
    out->splits = out->usable && splits;
    out->shape = fits(ctx, (int)shape) ? (int)shape : 0;
    out->plain = plain_fits(ctx, (int)plain) ? (int)plain : 0;
out:
    return st;
}

bool symm__wgmma_suits(const struct symm_problem *p, const symm_shards *a)
{
    const int64_t rows = symm__rows_of_rank(p->m, p->nranks, p->rank);
    struct symm_lines lines = symm__lines_of(&a->own, true, rows, p->k, p->l);

    if (p->alpha == 0 || (rows > 0 && (a->own.column != 1 || !symm__lines_suit_copies(&lines))))
        return false;
    for (int i = 0; i < p->nb; i++) {
        const symm_matrix *b = &p->b[i].matrix;
        if (b->row != 1 && b->column != 1)
            return false;
        lines = symm__lines_of(b, b->row != 1, p->k, p->n[i], p->l);
        if (!symm__lines_suit_copies(&lines))
            return false;
    }
    return true;
}

bool symm__plain_suits(const struct symm_problem *p, const symm_shards *a)
{
    const symm_matrix *d = &p->d[0].matrix;

    return symm__wgmma_suits(p, a) && d->dtype == (uint32_t)p->dtype && d->column == 1 &&
           p->n[0] % SYMM_PACK_ELEMENTS == 0 && d->row % SYMM_PACK_ELEMENTS == 0 &&
           (uintptr_t)d->data % (SYMM_PACK_ELEMENTS * sizeof(uint16_t)) == 0;
}

/* ----------------------------------------------------------------------------------- its launch */

/* A tensor of up to NDIM_MAX dimensions, and its boxes. */
struct tensor {
    const void *data;
    uint32_t ndim;
    uint64_t extents[NDIM_MAX], strides[NDIM_MAX - 1]; /* in elements; the first stride is 1 */
    uint32_t box[NDIM_MAX];
};

static symm_status encode(const struct symm_driver *drv, symm_dtype dtype, const struct tensor *x,
                          int swizzle, symm_tensor_map *out)
{
    static const uint32_t steps[NDIM_MAX] = {1, 1, 1, 1, 1};
    uint64_t strides[NDIM_MAX - 1];
    symm_status st = SYMM_OK;

    for (uint32_t i = 0; i + 1 < x->ndim; i++)
        strides[i] = x->strides[i] * symm_dtype_size(dtype);
    TRY_CU(drv, cuTensorMapEncodeTiled, out,
           dtype == SYMM_FLOAT16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
           x->ndim, (void *)(uintptr_t)x->data, x->extents, strides, x->box, steps,
           CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
out:
    return st;
}

/* The tensor of x. An unused stride is that of contiguous lines and batches. */
static struct tensor tensor_of(const struct symm_lines *x, uint32_t box_along, uint32_t box_lines)
{
    const int64_t padded = (int64_t)symm__round_up((uint64_t)x->along, SYMM_PACK_ELEMENTS),
                  pitch = x->pitch ? x->pitch : padded,
                  batch = x->batch ? x->batch : pitch * x->lines;

    return (struct tensor){
        .data = x->data,
        .ndim = 3,
        .extents = {(uint64_t)x->along, (uint64_t)x->lines, (uint64_t)x->batches},
        .strides = {(uint64_t)pitch, (uint64_t)batch},
        .box = {box_along, box_lines, 1},
    };
}

/* Describes x with boxes of `lines` lines of 128 bytes each. */
static symm_status describe(const struct symm_driver *drv, symm_dtype dtype,
                            const struct symm_lines *x, uint32_t lines, symm_tensor_map *out)
{
    const struct tensor tensor = tensor_of(x, ALONG, lines);

    return encode(drv, dtype, &tensor, CU_TENSOR_MAP_SWIZZLE_128B, out);
}

/* A: this rank's rows, and the slabs of all ranks, each with the lines of the largest slab. */
static symm_status describe_a(const struct symm_driver *drv, const struct symm_problem *p,
                              uint32_t box_rows, symm_wgmma_args *args)
{
    const symm_shards *a = &args->product.a;
    const int64_t rows = symm__rows_of_rank(p->m, p->nranks, p->rank),
                  size = (int64_t)symm_dtype_size(p->dtype);
    symm_status st = SYMM_OK;

    if (rows > 0) {
        const struct symm_lines own = symm__lines_of(&a->own, true, rows, p->k, p->l);
        TRY(describe(drv, p->dtype, &own, box_rows, &args->own));
    }
    if (a->workspace) {
        const struct symm_lines slabs = {
            .data = a->workspace,
            .along = p->k,
            .lines = (int64_t)symm__rows_of_rank(p->m, p->nranks, 0) * p->l,
            .batches = p->nranks,
            .pitch = a->ld,
            .batch = (int64_t)a->slab_nbytes / size,
        };
        TRY(describe(drv, p->dtype, &slabs, box_rows, &args->workspace));
    }
out:
    return st;
}

/* b[i] in the boxes that blocks load: if it is column-major, each block that shares its part. */
static symm_status describe_b(const struct symm_driver *drv, const struct symm_problem *p, int i,
                              int columns, int sharers, symm_wgmma_args *args)
{
    const symm_matrix *b = &p->b[i].matrix;
    const bool along_k = b->row == 1;
    const struct symm_lines lines = symm__lines_of(b, !along_k, p->k, p->n[i], p->l);
    const int box_lines = along_k ? columns / sharers : SYMM_WGMMA_DEPTH;

    args->b_along_k |= (uint32_t)along_k << i;
    return describe(drv, p->dtype, &lines, (uint32_t)box_lines, &args->b[i]);
}

/* The slots of product i on a rank: of both sets. */
static symm_status describe_slots(const struct symm_driver *drv, const struct symm_problem *p,
                                  int i, const symm_product_args *args, int rank,
                                  symm_tensor_map *out)
{
    const symm_parts *s = &args->parts;
    const symm_matrix *slot = &s->slots[i];
    const uint64_t size = symm_dtype_size((symm_dtype)slot->dtype);
    const struct tensor slots = {
        .data = (char *)slot->data + (rank == p->collect_rank ? 0 : args->view.peer[rank]),
        .ndim = 5,
        .extents = {(uint64_t)p->n[i], (uint64_t)symm__rows_of_owner(p, args->sink, rank),
                    (uint64_t)p->l, (uint64_t)p->collect_nranks, SYMM_PART_SETS},
        .strides = {(uint64_t)slot->row, (uint64_t)slot->batch, s->slot_nbytes[i] / size,
                    s->set_nbytes / size},
        .box = {SYMM_WGMMA_LINE, SYMM_WGMMA_BOX_ROWS, 1, 1, 1},
    };

    return encode(drv, (symm_dtype)slot->dtype, &slots, CU_TENSOR_MAP_SWIZZLE_128B, out);
}

/* The results of product i, in boxes as a consumer stores them. */
static symm_status describe_results(const struct symm_driver *drv, const struct symm_operand *d,
                                    int32_t rows, symm_tensor_map *out)
{
    const struct symm_lines lines = symm__lines_of(&d->matrix, true, rows, d->columns, d->l);

    return describe(drv, (symm_dtype)d->matrix.dtype, &lines, SYMM_WGMMA_BOX_ROWS, out);
}

/* D, which gets the sums of product i, and the slots of its parts. */
static symm_status describe_parts(const struct symm_driver *drv, const struct symm_problem *p,
                                  int i, symm_wgmma_args *args)
{
    const symm_product_args *a = &args->product;
    symm_status st;

    TRY(describe_results(drv, &p->d[i], symm__rows_of_owner(p, a->sink, p->collect_rank),
                         &args->d[i]));
    TRY(describe_slots(drv, p, i, a, p->collect_rank, &args->slots[i]));
    st = describe_slots(drv, p, i, a, 1 - p->collect_rank, &args->others[i]);
out:
    return st;
}

/* The first place whose tile the blocks of a cluster share along k; none: past all places. */
static uint32_t shared_from(const struct symm_problem *p, const symm_product_args *args,
                            const struct symm_tile_shape *shape, uint32_t clusters)
{
    const uint64_t ntiles = symm__tiles_of_steps(p, args->sink, args->first_step, args->last_step,
                                                 shape->rows * shape->cluster, shape->columns);

    if (!symm__model_shares_k(p, shape, ntiles, clusters))
        return UINT32_MAX;
    return (uint32_t)(ntiles - ntiles % clusters);
}

symm_status symm__wgmma_enqueue(struct symm_call *call, const struct symm_problem *p,
                                const struct symm_problem *sums,
                                const struct symm_matmul_plan *plan, const symm_product_args *args)
{
    const struct symm_driver *drv = call->group->ctx->drv;
    const int at = symm__model_shape(p, plan, args->first_step, args->last_step);
    const struct symm_tile_shape *shape = &symm__wgmma_shapes[at];
    const uint32_t cluster = (uint32_t)shape->cluster,
                   shared_nbytes = args->parts.beside ? SYMM_WGMMA_SHARED_NBYTES
                                                      : SYMM_WGMMA_PLAIN_SHARED_NBYTES;
    symm_wgmma_args all = {
        .product = *args,
        .shared_from = shared_from(p, args, shape, plan->blocks / cluster),
    };
    symm_status st;

    all.product.order = symm__tile_order(p, args, shape->rows * shape->cluster, shape->columns,
                                         plan->blocks / cluster, plan->band);
    TRY(describe_a(drv, p, (uint32_t)shape->rows, &all));
    for (int i = 0; i < p->nb; i++)
        TRY(describe_b(drv, p, i, shape->columns, shape->cluster, &all));
    for (int i = 0; i < p->nb && args->parts.beside; i++)
        TRY(args->parts.sums == SYMM_SUMS_BANDS ? describe_results(drv, &p->d[i], p->m, &all.d[i])
                                                : describe_parts(drv, sums, i, &all));
    st = symm__call_launch_cluster(
        call, symm__trace_kernel(kernel_of(&kernels[at], p->dtype), &args->view),
        plan->blocks / cluster * cluster, SYMM_WGMMA_THREADS(shape->columns), cluster,
        shared_nbytes, false, &all);
out:
    return st;
}

/* All SMs may have a block, since none waits for another kernel. */
symm_status symm__plain_enqueue(struct symm_call *call, const struct symm_problem *p,
                                const struct symm_matmul_plan *plan, const symm_product_args *args)
{
    const struct symm_driver *drv = call->group->ctx->drv;
    const struct symm_tile_shape *shape = &symm__plain_shapes[plan->plain - 1];
    const int rows = shape->rows * shape->cluster;
    const uint64_t tiles = symm__tiles_of_steps(p, SYMM_TO_D, 0, 1, rows, shape->columns),
                   most = (uint64_t)(call->group->ctx->agreed.nsms / shape->cluster);
    const uint32_t clusters = (uint32_t)symm__max(symm__min(tiles, most), 1);
    symm_wgmma_args all = {.product = *args};
    symm_status st;

    all.product.order = symm__tile_order(p, args, rows, shape->columns, clusters, plan->band);
    TRY(describe_a(drv, p, (uint32_t)shape->rows, &all));
    TRY(describe_b(drv, p, 0, shape->columns, shape->cluster, &all));
    st = symm__call_launch_cluster(
        call, symm__trace_kernel(kernel_of(&plain_kernels[plan->plain - 1], p->dtype), &args->view),
        clusters * (uint32_t)shape->cluster, SYMM_WGMMA_THREADS(shape->columns),
        (uint32_t)shape->cluster, SYMM_PLAIN_SHARED_NBYTES, false, &all);
out:
    return st;
}

/* The rows of a box of A: no more than are there, in the swizzle's units of 8. */
static uint32_t rows_loaded(const struct symm_problem *p, const struct symm_split_shape *shape)
{
    return (uint32_t)symm__min(symm__round_up((uint64_t)p->m, SWIZZLED_ROWS),
                               (uint64_t)shape->rows);
}

/* With packs the kernel makes D of the sums. */
static void describe_sums(const struct symm_problem *sums, symm_product_args *args)
{
    args->alpha = sums->alpha;
    for (int i = 0; i < sums->nb; i++)
        args->d[i] = sums->d[i].matrix;
}

/*
 * A kernel that begins early has its place while the one before it runs, which may wait for other
 * ranks. So its grid has half of the room of a group, as a collective's, unless the one before it
 * has settled.
 */
static bool may_begin_early(const struct symm_call *call, uint32_t blocks)
{
    return call->group->settled || 2 * blocks <= (uint32_t)call->group->ctx->agreed.nsms;
}

symm_status symm__split_enqueue(struct symm_call *call, const struct symm_problem *p,
                                const struct symm_problem *sums,
                                const struct symm_matmul_plan *plan, const symm_product_args *args)
{
    const struct symm_driver *drv = call->group->ctx->drv;
    const struct symm_split *split = &plan->split;
    const struct symm_split_shape *shape = &symm__split_shapes[split->shape];
    const uint32_t cluster = (uint32_t)split->k_parts,
                   blocks = (uint32_t)symm__model_split_tiles(p, shape) * cluster;
    symm_wgmma_args all = {.product = *args,
                           .k_parts = (uint32_t)split->k_parts,
                           .rows_loaded = rows_loaded(p, shape),
                           .constant_b = p->constant_b};
    symm_status st;

    all.product.order =
        symm__tile_order(p, args, shape->rows, shape->columns, blocks / cluster, plan->band);
    if (args->parts.sums == SYMM_SUMS_PACKS)
        describe_sums(sums, &all.product);
    TRY(describe_a(drv, p, all.rows_loaded, &all));
    for (int i = 0; i < p->nb; i++)
        TRY(describe_b(drv, p, i, shape->columns, 1, &all));
    TRY(symm__call_launch_cluster(
        call, symm__trace_kernel(kernel_of(&split_kernels[split->shape], p->dtype), &args->view),
        blocks, SYMM_WGMMA_THREADS(shape->columns), cluster, (uint32_t)split_nbytes(shape),
        may_begin_early(call, blocks), &all));
    symm__call_settles(call);
out:
    return st;
}
