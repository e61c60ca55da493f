/* The variants of a matrix product. */
#include "product.h"

#include <stdlib.h>
#include <string.h>
#include <symm/collectives.h>

static const struct product_variant alone[] = {
    {.name = "cublas", .kind = PRODUCT_CUBLAS},
    {.name = "product", .kind = PRODUCT_ALONE},
    {0},
};

static const struct product_variant gathered[] = {
    {.name = "cublas", .kind = PRODUCT_CUBLAS},
    {.name = "product", .kind = PRODUCT_ALONE},
    {.name = "all_gather", .kind = PRODUCT_GATHER},
    {.name = "cublas_symm", .kind = PRODUCT_CUBLAS_SYMM},
    {.name = "cublas_nccl", .kind = PRODUCT_CUBLAS_NCCL},
    {.name = "auto", .kind = PRODUCT_GATHERED, .strategy = SYMM_STRATEGY_AUTO},
    {.name = "fused", .kind = PRODUCT_GATHERED, .strategy = SYMM_STRATEGY_FUSED},
    {.name = "pipelined", .kind = PRODUCT_GATHERED, .strategy = SYMM_STRATEGY_PIPELINED},
    {.name = "unfused", .kind = PRODUCT_GATHERED, .strategy = SYMM_STRATEGY_UNFUSED},
    {0},
};

const struct product_variant *product_variants(symm_matmul_kind kind)
{
    return kind == SYMM_ALL_GATHER_MATMUL ? gathered : alone;
}

bool product_by_cublas(enum product_kind kind)
{
    return kind == PRODUCT_CUBLAS || kind == PRODUCT_CUBLAS_SYMM || kind == PRODUCT_CUBLAS_NCCL;
}

int product_rows(int m, int nranks, int rank)
{
    return m / nranks + (rank < m % nranks);
}

int product_first_row(int m, int nranks, int rank)
{
    const int larger = rank < m % nranks ? rank : m % nranks;

    return rank * (m / nranks) + larger;
}

/* Whether parts of the size of the largest, one after another, begin with A. */
static bool gathers_as_one(const struct cublas_shape *shape, int nranks)
{
    const int rest = shape->m % nranks;

    return rest == 0 || (rest == nranks - 1 && shape->l == 1);
}

const char *product_unavailable(const struct product_variant *variant,
                                const struct cublas_shape *shape, int nranks)
{
    if (variant->kind == PRODUCT_GATHER && nranks == 1)
        return "there is one rank only";
    if (variant->kind == PRODUCT_CUBLAS_SYMM && nranks == 1)
        return "there is one rank only";
    if (variant->kind == PRODUCT_CUBLAS_SYMM && !gathers_as_one(shape, nranks))
        return "the gathered parts are not one matrix: m is no multiple of the ranks";
    if (variant->kind == PRODUCT_CUBLAS_NCCL && shape->m % nranks != 0)
        return "NCCL gathers equal parts, and m is no multiple of the ranks";
    return NULL;
}

const char *product_strategy(const struct product_call *call)
{
    const symm_strategy strategy = symm_matmul_strategy(call->ours);

    return strategy == SYMM_STRATEGY_AUTO ? "-" : symm_strategy_name(strategy);
}

/* ------------------------------------------------------------------------------------- one call */

/* [l, rows, columns], row after row. */
static symm_tensor tensor(void *data, symm_dtype dtype, int l, int rows, int columns)
{
    return (symm_tensor){.data = data,
                         .dtype = dtype,
                         .ndim = 3,
                         .shape = {l, rows, columns},
                         .strides = {(int64_t)rows * columns, columns, 1}};
}

static symm_status prepare_ours(struct product_call *call)
{
    const struct cublas_shape *s = &call->shape;
    const struct product_buffers *on = &call->buffers;
    const bool gathers = call->variant->kind == PRODUCT_GATHERED;
    const int rows =
        gathers ? product_rows(s->m, symm_nranks(call->group), symm_rank(call->group)) : s->m;
    symm_matmul_desc desc = {.kind = gathers ? SYMM_ALL_GATHER_MATMUL : SYMM_MATMUL,
                             .strategy = call->variant->strategy,
                             .flags = (call->same_bits ? SYMM_MATMUL_SAME_BITS : 0u) |
                                      (call->traced ? SYMM_MATMUL_TRACE : 0u)};

    desc.a = tensor(gathers ? on->part : on->a, s->dtype, s->l, rows, s->k);
    desc.b[0] = tensor(on->b, s->dtype, s->l, s->k, s->n);
    desc.d[0] = tensor(on->d, s->dtype, s->l, s->m, s->n);
    if (on->c)
        desc.c[0] = tensor(on->c, s->dtype, s->l, s->m, s->n);
    return symm_matmul_create(call->group, &desc, &call->ours);
}

symm_status product_prepare(struct product_call *call)
{
    switch (call->variant->kind) {
    case PRODUCT_ALONE:
    case PRODUCT_GATHERED:
        return prepare_ours(call);
    case PRODUCT_CUBLAS:
    case PRODUCT_CUBLAS_SYMM:
    case PRODUCT_CUBLAS_NCCL:
        call->theirs = cublas_product_create(call->cublas, &call->shape);
        return call->theirs ? SYMM_OK : SYMM_ERROR_DRIVER;
    default:
        return SYMM_OK;
    }
}

symm_status product_tune(const struct product_call *call)
{
    const struct product_buffers *on = &call->buffers;

    return call->theirs
               ? cublas_product_tune(call->theirs, on->a, on->b, on->c, on->d, call->stream)
               : SYMM_OK;
}

void product_release(struct product_call *call)
{
    symm_matmul_destroy(call->ours);
    cublas_product_destroy(call->theirs);
    call->ours = NULL;
    call->theirs = NULL;
}

static symm_status run_ours(const struct product_call *call)
{
    const symm_matmul_args args = {.alpha = &call->shape.alpha, .beta = &call->shape.beta};

    return symm_matmul_run(call->ours, &args, call->stream);
}

/* All parts have the size of the largest. */
static symm_status gather(const struct product_call *call)
{
    const struct cublas_shape *s = &call->shape;
    const symm_options options = {.flags = SYMM_SYMMETRIC};
    const size_t part = (size_t)product_rows(s->m, symm_nranks(call->group), 0) * (size_t)s->k;

    return symm_all_gather(call->group, call->buffers.part, call->buffers.gathered,
                           part * (size_t)s->l, s->dtype, &options, call->stream);
}

static symm_status multiply(const struct product_call *call, const void *a)
{
    return cublas_product_run(call->theirs, a, call->buffers.b, call->buffers.c, call->buffers.d,
                              call->stream);
}

static symm_status gather_part(const struct product_call *call, const void *part, void *all,
                               size_t count)
{
    const symm_options options = {.flags = SYMM_SYMMETRIC};

    if (call->variant->kind == PRODUCT_CUBLAS_NCCL)
        return nccl_all_gather(call->nccl, part, all, count, call->shape.dtype, SYMM_SUM,
                               call->stream);
    return symm_all_gather(call->group, part, all, count, call->shape.dtype, &options,
                           call->stream);
}

/* One matrix of the batch after another. */
static symm_status gather_and_multiply(const struct product_call *call)
{
    const struct cublas_shape *s = &call->shape;
    const int nranks = symm_nranks(call->group);
    const size_t part = (size_t)product_rows(s->m, nranks, 0) * (size_t)s->k,
                 nbytes = 2; /* both types' */
    symm_status st = SYMM_OK;

    for (size_t l = 0; l < (size_t)s->l && st == SYMM_OK; l++)
        st = gather_part(call, (const char *)call->buffers.part + l * part * nbytes,
                         (char *)call->buffers.gathered + l * part * (size_t)nranks * nbytes, part);
    return st == SYMM_OK ? multiply(call, call->buffers.gathered) : st;
}

symm_status product_enqueue(const struct product_call *call)
{
    switch (call->variant->kind) {
    case PRODUCT_GATHER:
        return gather(call);
    case PRODUCT_CUBLAS:
        return multiply(call, call->buffers.a);
    case PRODUCT_CUBLAS_SYMM:
    case PRODUCT_CUBLAS_NCCL:
        return gather_and_multiply(call);
    default:
        return run_ours(call);
    }
}
