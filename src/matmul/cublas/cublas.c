/* Products by cuBLASLt: their description, their algorithms, and runs. */
#include "prepared.h"

#include <stdlib.h>
#include <string.h>
#include <symm/names.h>
#include "matmul/plan/lines.h"
#include "matmul/plan/plan.h"
#include "runtime/base/log.h"
#include "runtime/base/numbers.h"
#include "runtime/base/settings.h"

enum { ALIGNMENT = 16, WORKSPACE_NBYTES_MAX = 32 << 20 };

/* The rival replaces cuBLASLt if its time is less than this part. */
static const double RIVAL_GAIN = 0.97;

/* ------------------------------------------------------------------------------------ a problem */

static int type_of(uint32_t dtype)
{
    switch (dtype) {
    case SYMM_BFLOAT16:
        return CUBLASLT_TYPE_16BF;
    case SYMM_FLOAT16:
        return CUBLASLT_TYPE_16F;
    default:
        return CUBLASLT_TYPE_32F;
    }
}

/*
 * Describes x to cuBLASLt, as contiguous columns; contiguous rows are a transposed matrix. Unused
 * strides get ordinary values. Returns whether cuBLASLt takes the layout.
 */
static bool describe_matrix(const symm_matrix *x, int64_t rows, int64_t columns, int64_t l,
                            struct cublaslt_matrix *out)
{
    const bool by_rows = columns > 1 ? x->column == 1 : rows == 1 || x->row != 1,
               by_columns = !by_rows && (rows == 1 || x->row == 1);
    const struct symm_lines lines = symm__lines_of(x, by_rows, rows, columns, l);
    const int64_t nbytes = (int64_t)symm_dtype_size((symm_dtype)x->dtype);

    *out = (struct cublaslt_matrix){
        .type = type_of(x->dtype),
        .transposed = by_rows,
        .rows = (uint64_t)lines.along,
        .columns = (uint64_t)lines.lines,
        .ld = lines.lines > 1 ? lines.pitch : (lines.along + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT,
        .batch = lines.batch,
    };
    return (by_rows || by_columns) && out->ld >= lines.along &&
           lines.batch * nbytes % ALIGNMENT == 0;
}

symm_matrix symm__cublas_rows_of_a(const struct symm_problem *p, int32_t rows)
{
    const int64_t ld = symm__matmul_ld(p->k);

    if (p->nranks == 1)
        return p->a.matrix;
    return (symm_matrix){.row = ld, .column = 1, .batch = ld * rows, .dtype = (uint32_t)p->dtype};
}

static bool same_layout(const struct cublaslt_matrix *x, const struct cublaslt_matrix *y)
{
    return x->type == y->type && x->transposed == y->transposed && x->ld == y->ld &&
           x->batch == y->batch;
}

/*
 * Describes product i of this number of rows. flipped: d is row-major, so cuBLASLt computes
 * d' = b' a'.
 */
static bool describe(const struct symm_problem *p, int32_t rows, int i, struct cublaslt_shape *out,
                     bool *flipped)
{
    const int32_t n = p->n[i];
    const symm_matrix rows_a = symm__cublas_rows_of_a(p, rows);
    struct cublaslt_matrix a, b, c, d;

    if (p->bias[i].matrix.dtype || !describe_matrix(&rows_a, rows, p->k, p->l, &a) ||
        !describe_matrix(&p->b[i].matrix, p->k, n, p->l, &b) ||
        !describe_matrix(&p->d[i].matrix, rows, n, p->l, &d))
        return false;
    if (p->c[i].matrix.dtype &&
        (!describe_matrix(&p->c[i].matrix, rows, n, p->l, &c) || !same_layout(&c, &d)))
        return false;
    *flipped = d.transposed;
    a.transposed = a.transposed != *flipped;
    b.transposed = b.transposed != *flipped;
    *out = (struct cublaslt_shape){.a = *flipped ? b : a,
                                   .b = *flipped ? a : b,
                                   .d = d,
                                   .batches = p->l,
                                   .alignment = ALIGNMENT,
                                   .workspace_nbytes = WORKSPACE_NBYTES_MAX};
    return true;
}

/* Whether cuBLASLt may compute it. It cannot wait for rows during a product. */
static bool is_candidate(const struct symm_problem *p)
{
    return !p->same_bits && p->schedule == SYMM_SCHEDULE_AUTO && p->activation == SYMM_NONE &&
           (p->nranks == 1 || p->strategy != SYMM_STRATEGY_FUSED);
}

/* ------------------------------------------------------------------------------------- products */

/*
 * Whether the gathered rows are one matrix: in the workspace there is no gap between the ranks'
 * rows if only the last rank with rows has fewer than the others.
 */
static bool is_packed(const struct symm_problem *p)
{
    return p->nranks == 1 || (p->l == 1 && symm__rows_are_packed(p->m, p->nranks));
}

/* Takes memory for the algorithms' sums, followed by a copy of A. False: out of memory. */
static bool take_memory(struct symm_cublas_product *product, uint64_t sums_nbytes)
{
    const struct symm_problem *p = &product->problem;
    const uint64_t a_at = symm__round_up(sums_nbytes, ALIGNMENT);
    symm_matrix packed = symm__cublas_rows_of_a(p, p->m);
    const uint64_t a_nbytes =
        product->nshares > 1 || is_packed(p)
            ? 0
            : (uint64_t)packed.batch * (uint64_t)p->l * symm_dtype_size(p->dtype);

    if (a_at + a_nbytes == 0)
        return true;
    product->workspace = symm__cublas_take(product->from, a_at + a_nbytes);
    if (!product->workspace)
        return false;
    if (a_nbytes > 0) {
        packed.data = (void *)(uintptr_t)(product->workspace->at + a_at);
        product->packed = packed;
    }
    return true;
}

/* Prepares the products of a part. False, with the reason. */
static bool make_part(const struct symm_cublas_product *product, struct symm_cublas_part *part,
                      char why[CUBLASLT_WHY])
{
    const struct symm_problem *p = &product->problem;
    struct symm_cublas_candidates candidates;

    for (int i = 0; i < p->nb; i++) {
        struct cublaslt_shape *shape = &part->each[i].shape;
        if (!describe(p, part->rows, i, shape, &part->each[i].flipped)) {
            strcpy(why, "it supports no bias, or not this layout");
            return false;
        }
        if (!symm__cublaslt_product(&product->from->lt, shape, &part->each[i].product, why) ||
            !symm__cublas_list(product, part, i, &candidates, why))
            return false;
        part->each[i].product.chosen = candidates.algorithms[0];
    }
    return true;
}

/* The rows of the ranks with most rows, and with fewest. */
static void name_parts(struct symm_cublas_product *product)
{
    const struct symm_problem *p = &product->problem;
    const int32_t most = symm__rows_of_rank(p->m, product->nshares, 0),
                  fewest = p->m / product->nshares;

    product->parts[0].rows = most;
    product->nparts = 1;
    if (fewest < most && fewest > 0)
        product->parts[product->nparts++].rows = fewest;
}

/* Prepares all products; false, with the reason, if one fails. The caller then releases them. */
static bool make(struct symm_cublas_product *product, char why[CUBLASLT_WHY])
{
    name_parts(product);
    for (int i = 0; i < product->nparts; i++)
        if (!make_part(product, &product->parts[i], why))
            return false;
    return true;
}

/* Releases products that cuBLASLt does not compute. */
static void refuse(struct symm_cublas_product *product, const char *why)
{
    const struct symm_problem *p = &product->problem;

    symm__log(&product->from->ctx->log, SYMM_LOG_DETAIL,
              "the product of m %d, k %d, n %d does not use cuBLASLt: %s", p->m, p->k, p->n[0],
              why);
    symm__cublas_release(product);
}

symm_status symm__cublas_prepare(struct symm_context *ctx, const struct symm_problem *p,
                                 int nshares, struct symm_cublas_product **out)
{
    struct symm_cublas_product *product;
    struct symm_cublas *c;
    char why[CUBLASLT_WHY];
    int64_t enabled, trials;
    symm_status st;

    *out = NULL;
    TRY(symm__setting_int(SYMM_SETTING_MATMUL_CUBLAS, 0, 1, &enabled));
    TRY(symm__setting_int(SYMM_SETTING_MATMUL_TRIALS, 0, 1, &trials));
    if (!enabled || strcmp(ctx->drv->name, "cuda") != 0 || !is_candidate(p))
        return SYMM_OK;
    c = symm__cublas_library(ctx);
    product = c ? calloc(1, sizeof *product) : NULL;
    if (!product)
        return SYMM_OK;
    *product = (struct symm_cublas_product){
        .from = c, .problem = *p, .trials = trials != 0, .nshares = nshares};
    if (!make(product, why)) {
        refuse(product, why);
        return SYMM_OK;
    }
    *out = product;
out:
    return st;
}

/* Whether the rival computes all rows faster, with the same bits. */
static bool is_beaten(const struct symm_cublas_product *product)
{
    return product->nshares == 1 && symm__cublas_is_short(product) && product->us.own > 0 &&
           product->us.own < RIVAL_GAIN * product->us.cublas;
}

void symm__cublas_settle(struct symm_cublas_product **product,
                         const struct symm_cublas_rival *rival)
{
    if (!*product)
        return;
    if ((*product)->trials && symm__cublas_is_short(*product))
        symm__cublas_pick(*product, rival);
    if (is_beaten(*product))
        refuse(*product, "symm's kernels are faster, and have the same bits");
    else if (!take_memory(*product, symm__cublas_most_nbytes(*product, false)))
        refuse(*product, "out of memory for its workspace");
    else
        return;
    *product = NULL;
}

void symm__cublas_release(struct symm_cublas_product *product)
{
    if (!product)
        return;
    struct symm_cublas *c = product->from;
    for (int part = 0; part < product->nparts; part++)
        for (int i = 0; i < product->problem.nb; i++)
            symm__cublaslt_forget(&c->lt, &product->parts[part].each[i].product);
    if (product->workspace)
        symm__cublas_give(c, product->workspace);
    free(product);
}

const symm_matrix *symm__cublas_packed(const struct symm_cublas_product *product)
{
    return &product->packed;
}

static bool is_aligned(const void *data)
{
    return (uintptr_t)data % ALIGNMENT == 0;
}

/* The address of a row. */
static void *row_at(const symm_matrix *x, int32_t row)
{
    const int64_t nbytes = (int64_t)symm_dtype_size((symm_dtype)x->dtype);

    return x->data ? (char *)x->data + row * x->row * nbytes : NULL;
}

/* Whether the addresses of products from this row on are aligned. */
static bool rows_are_aligned(const struct symm_problem *p, int32_t row)
{
    bool all = true;

    for (int i = 0; i < p->nb; i++)
        all = all && is_aligned(p->b[i].matrix.data) && is_aligned(row_at(&p->c[i].matrix, row)) &&
              is_aligned(row_at(&p->d[i].matrix, row));
    return all;
}

bool symm__cublas_suits(const struct symm_cublas_product *product, const struct symm_problem *p,
                        const void *a)
{
    const int nshares = product->nshares;
    bool all = p->alpha != 0 && is_aligned(a);

    for (int r = 0; r < nshares; r++) {
        const int32_t first = symm__first_row_of_rank(p->m, nshares, r);
        if (p->nranks == nshares)
            all = all && rows_are_aligned(p, first);
        else
            all = all && rows_are_aligned(p, 0) && is_aligned(row_at(&p->a.matrix, first));
    }
    return all;
}

static const struct symm_cublas_part *part_of(const struct symm_cublas_product *product,
                                              int32_t rows)
{
    return &product->parts[product->parts[0].rows == rows ? 0 : 1];
}

symm_status symm__cublas_enqueue(const struct symm_cublas_product *product,
                                 const struct symm_problem *p, const void *a, int32_t first_row,
                                 int32_t rows, CUstream stream)
{
    const struct symm_cublas_part *part = part_of(product, rows);
    char why[CUBLASLT_WHY];

    for (int i = 0; i < p->nb; i++) {
        const bool flipped = part->each[i].flipped;
        const void *b = p->b[i].matrix.data, *c = row_at(&p->c[i].matrix, first_row);
        const struct cublaslt_operands on = {
            .a = flipped ? b : a,
            .b = flipped ? a : b,
            .c = c,
            .d = row_at(&p->d[i].matrix, first_row),
            .alpha = p->alpha,
            .beta = c ? p->beta : 0,
            .workspace = product->workspace ? (void *)(uintptr_t)product->workspace->at : NULL,
        };
        if (!symm__cublaslt_multiply(&product->from->lt, &part->each[i].product, &on, stream, why))
            return symm__fail(SYMM_ERROR_DRIVER, "%s", why);
    }
    return SYMM_OK;
}
