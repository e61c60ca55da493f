/* Factors described for the tensor copy unit, and the launch of the kernel that uses it. */
#include "host.h"

#include "matmul/kernels/ids.h"
#include "runtime/base/dtype.h"
#include "runtime/base/settings.h"
#include "matmul/plan/model.h"

enum {
    ALONG = SYMM_WGMMA_DEPTH,
    NDIM = 3,
    REGISTERS_LEAST = 128 /* more than a kernel has that is compiled for another GPU: it is empty */
};

/* A kernel a shape and type. */
#define KERNELS(unused, columns, cluster, time)                                                    \
    {SYMM_KERNEL_matmul_wgmma_##columns##_float16, SYMM_KERNEL_matmul_wgmma_##columns##_bfloat16},
static const symm_kernel_id kernels[][2] = {SYMM_WGMMA_SHAPES(KERNELS, )};
enum { NSHAPES = sizeof kernels / sizeof kernels[0] };

static symm_kernel_id kernel_of(int shape, symm_dtype dtype)
{
    return kernels[shape][dtype != SYMM_FLOAT16];
}

static symm_status allow(const struct symm_context *ctx, symm_kernel_id kernel, bool *can)
{
    const CUfunction function = symm__kernels_function(ctx->kernels, kernel);
    int nregisters = 0;
    symm_status st = SYMM_OK;

    TRY_CU(ctx->drv, cuFuncGetAttribute, &nregisters, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
    *can = *can && nregisters >= REGISTERS_LEAST;
    if (*can)
        TRY_CU(ctx->drv, cuFuncSetAttribute, function,
               CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, SYMM_WGMMA_SHARED_NBYTES);
out:
    return st;
}

symm_status symm__wgmma_look(const struct symm_context *ctx, bool *out)
{
    int64_t wanted;
    symm_status st;

    *out = false;
    TRY(symm__setting_int(SYMM_SETTING_MATMUL_WGMMA, 0, 1, &wanted));
    if (!wanted || !ctx->drv->cuTensorMapEncodeTiled ||
        ctx->agreed.max_threads < SYMM_WGMMA_THREADS)
        return SYMM_OK;
    *out = true;
    for (int i = 0; i < NSHAPES && *out; i++) {
        TRY(allow(ctx, kernels[i][0], out));
        TRY(allow(ctx, kernels[i][1], out));
    }
out:
    return st;
}

/*
 * Boxes of so many lines, of 128 bytes each. A stride that is not used is that of lines and batches
 * that lie one after the other.
 */
static symm_status describe(const struct symm_matmul_run *run, const struct symm_lines *x,
                            uint32_t lines, symm_tensor_map *out)
{
    const struct symm_driver *drv = run->m->group->ctx->drv;
    const symm_dtype dtype = run->problem.dtype;
    const int64_t size = (int64_t)symm__dtype_size(dtype), pack = 16 / size,
                  pitch = x->pitch ? x->pitch : (x->along + pack - 1) / pack * pack,
                  batch = x->batch ? x->batch : pitch * x->lines;
    const uint64_t extents[NDIM] = {(uint64_t)x->along, (uint64_t)x->lines, (uint64_t)x->batches},
                   strides[NDIM - 1] = {(uint64_t)(pitch * size), (uint64_t)(batch * size)};
    const uint32_t box[NDIM] = {ALONG, lines, 1}, steps[NDIM] = {1, 1, 1};
    symm_status st = SYMM_OK;

    TRY_CU(drv, cuTensorMapEncodeTiled, out,
           dtype == SYMM_FLOAT16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
           NDIM, (void *)(uintptr_t)x->data, extents, strides, box, steps,
           CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
           CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
out:
    return st;
}

/* A: this rank's rows, and the slabs of all ranks, each of as many lines as the largest has. */
static symm_status describe_a(const struct symm_matmul_run *run, symm_wgmma_args *args)
{
    const struct symm_problem *p = &run->problem;
    const symm_shards *a = &run->shards;
    const int64_t rows = symm__problem_rows(p->m, p->nranks, p->rank),
                  size = (int64_t)symm__dtype_size(p->dtype);
    symm_status st = SYMM_OK;

    if (rows > 0) {
        const struct symm_lines own = symm__lines_of_rows(&a->own, rows, p->k, p->l);
        TRY(describe(run, &own, SYMM_WGMMA_ROWS, &args->own));
    }
    if (a->workspace) {
        const struct symm_lines slabs = {
            .data = a->workspace,
            .along = p->k,
            .lines = (int64_t)symm__problem_rows(p->m, p->nranks, 0) * p->l,
            .batches = p->nranks,
            .pitch = a->ld,
            .batch = (int64_t)a->slab_nbytes / size,
        };
        TRY(describe(run, &slabs, SYMM_WGMMA_ROWS, &args->workspace));
    }
out:
    return st;
}

/* In boxes as blocks bring them: where B lies along k, each block of a cluster its share. */
static symm_status describe_b(const struct symm_matmul_run *run, int i,
                              const struct symm_tile_shape *shape, symm_wgmma_args *args)
{
    const struct symm_problem *p = &run->problem;
    const symm_matrix *b = &p->b[i].matrix;

    if (b->row == 1) {
        const struct symm_lines columns = symm__lines_of_columns(b, p->k, p->n[i], p->l);
        args->b_along_k |= 1u << i;
        return describe(run, &columns, (uint32_t)(shape->columns / shape->cluster), &args->b[i]);
    }
    const struct symm_lines rows = symm__lines_of_rows(b, p->k, p->n[i], p->l);
    return describe(run, &rows, SYMM_WGMMA_DEPTH, &args->b[i]);
}

bool symm__wgmma_multiplies(const struct symm_matmul_run *run)
{
    return run->m->wgmma && symm__matmul_suits_wgmma(&run->problem, &run->shards);
}

symm_status symm__wgmma_enqueue(const struct symm_matmul_run *run, const symm_product_args *args)
{
    const int at =
        symm__model_shape(&run->problem, &run->m->plan, args->first_step, args->last_step);
    const struct symm_tile_shape *shape = &symm__wgmma_shapes[at];
    const uint32_t cluster = (uint32_t)shape->cluster, blocks = run->m->plan.blocks;
    symm_wgmma_args all = {.product = *args};
    symm_status st;

    TRY(describe_a(run, &all));
    for (int i = 0; i < run->problem.nb; i++)
        TRY(describe_b(run, i, shape, &all));
    st = symm__call_launch_cluster(run->e, kernel_of(at, run->problem.dtype),
                                   blocks / cluster * cluster, SYMM_WGMMA_THREADS, cluster,
                                   SYMM_WGMMA_SHARED_NBYTES, &all);
out:
    return st;
}
