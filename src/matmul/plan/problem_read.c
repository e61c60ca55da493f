/* Reads a product's description. */
#include "problem.h"

#include <inttypes.h>
#include <stdio.h>
#include <symm/names.h>

enum {
    EXTENT_MAX = INT32_MAX - 1023, /* so that indices of a tile or piece past the end fit 32 bits */
    INPUT_NBYTES = 2,
    OUTPUT_NBYTES_MAX = 4
};

bool symm__kind_reduces(symm_matmul_kind kind)
{
    return kind == SYMM_MATMUL_REDUCE_SCATTER || kind == SYMM_MATMUL_ALL_REDUCE;
}

bool symm__kind_collects(symm_matmul_kind kind)
{
    return symm__kind_reduces(kind) || kind == SYMM_MATMUL_ALL_SCATTER;
}

bool symm__may_share_k(const struct symm_problem *p)
{
    return !p->same_bits && p->schedule != SYMM_SCHEDULE_DATA_PARALLEL;
}

bool symm__only_sums(const struct symm_problem *p)
{
    bool only = p->activation == SYMM_NONE;

    for (int i = 0; i < p->nb; i++)
        only = only && !p->c[i].matrix.dtype && !p->bias[i].matrix.dtype;
    return only;
}

int64_t symm__problem_columns(const struct symm_problem *p)
{
    int64_t sum = 0;

    for (int i = 0; i < p->nb; i++)
        sum += p->n[i];
    return sum;
}

/* ---------------------------------------------------------------------------------- one tensor */

struct symm_name symm__name_of(const char *member, int i)
{
    struct symm_name name;

    if (i < 0)
        snprintf(name.text, sizeof name.text, "%s", member);
    else
        snprintf(name.text, sizeof name.text, "%s[%d]", member, i);
    return name;
}

/* "float64", or the number of an unknown type. */
static struct symm_name name_of_type(symm_dtype dtype)
{
    const char *known = symm_dtype_name(dtype);
    struct symm_name name;

    if (known)
        snprintf(name.text, sizeof name.text, "%s", known);
    else
        snprintf(name.text, sizeof name.text, "%d", (int)dtype);
    return name;
}

static bool is_float(symm_dtype dtype)
{
    return dtype == SYMM_FLOAT32 || dtype == SYMM_FLOAT16 || dtype == SYMM_BFLOAT16;
}

static symm_status check_dimensions(const char *name, const symm_tensor *t)
{
    for (int i = 0; i < t->ndim; i++) {
        const int64_t extent = t->shape[i], stride = t->strides[i];
        if (extent < 0)
            return symm__fail(SYMM_ERROR_ARGUMENT, "%s.shape[%d] is %" PRId64, name, i, extent);
        if (stride < 0)
            return symm__fail(SYMM_ERROR_ARGUMENT, "%s.strides[%d] is %" PRId64, name, i, stride);
        if (extent > EXTENT_MAX)
            return symm__fail(SYMM_ERROR_UNSUPPORTED,
                              "%s.shape[%d] is %" PRId64 "; at most %d is supported", name, i,
                              extent, EXTENT_MAX);
        if (extent > 1 && stride > INT64_MAX / 8 / SYMM_MAX_DIMS / extent)
            return symm__fail(SYMM_ERROR_ARGUMENT,
                              "%s.strides[%d] is %" PRId64 ": the size of the tensor overflows",
                              name, i, stride);
    }
    return SYMM_OK;
}

/* Reads a tensor of min_ndim to 3 dimensions. Missing leading dimensions have extent 1. */
static symm_status read_tensor(const char *name, const symm_tensor *t, int min_ndim,
                               struct symm_operand *out)
{
    int64_t shape[3] = {1, 1, 1}, strides[3] = {0, 0, 0};
    symm_status st;

    if (!is_float(t->dtype))
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "%s.dtype is %s; it must be float32, float16 or bfloat16", name,
                          name_of_type(t->dtype).text);
    if (t->ndim < min_ndim || t->ndim > 3)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s.ndim is %d; it must be %d to 3", name, t->ndim,
                          min_ndim);
    TRY(check_dimensions(name, t));
    for (int i = 0; i < t->ndim; i++) {
        shape[3 - t->ndim + i] = t->shape[i];
        strides[3 - t->ndim + i] = t->strides[i];
    }
    *out = (struct symm_operand){
        .matrix = {.data = t->data,
                   .batch = strides[0],
                   .row = strides[1],
                   .column = strides[2],
                   .dtype = (uint32_t)t->dtype},
        .l = (int32_t)shape[0],
        .rows = (int32_t)shape[1],
        .columns = (int32_t)shape[2],
    };
out:
    return st;
}

static symm_status check_shape(const char *name, const struct symm_operand *x, int32_t l,
                               int32_t rows, int32_t columns, const char *meaning)
{
    if (x->l == l && x->rows == rows && x->columns == columns)
        return SYMM_OK;
    return symm__fail(SYMM_ERROR_ARGUMENT, "%s is %d x [%d, %d]; it must be %d x [%d, %d]: l x %s",
                      name, x->l, x->rows, x->columns, l, rows, columns, meaning);
}

static symm_status check_input_dtype(const char *name, const struct symm_operand *x,
                                     symm_dtype dtype)
{
    if (dtype != SYMM_FLOAT16 && dtype != SYMM_BFLOAT16)
        return symm__fail(SYMM_ERROR_ARGUMENT, "a.dtype is %s; it must be float16 or bfloat16",
                          symm_dtype_name(dtype));
    if (x->matrix.dtype != (uint32_t)dtype)
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "%s.dtype is %s, but a.dtype is %s; they must be equal", name,
                          symm_dtype_name((symm_dtype)x->matrix.dtype), symm_dtype_name(dtype));
    return SYMM_OK;
}

/* Checks that no two elements of an output share memory. */
static symm_status check_disjoint(const char *name, const struct symm_operand *x)
{
    int64_t extents[3] = {x->l, x->rows, x->columns},
            strides[3] = {x->matrix.batch, x->matrix.row, x->matrix.column}, end = 1;

    if (x->l == 0 || x->rows == 0 || x->columns == 0)
        return SYMM_OK;
    for (int done = 0; done < 3; done++) { /* by increasing stride */
        int least = -1;
        for (int i = 0; i < 3; i++)
            if (extents[i] > 1 && (least < 0 || strides[i] < strides[least]))
                least = i;
        if (least < 0)
            return SYMM_OK;
        if (strides[least] < end)
            return symm__fail(SYMM_ERROR_ARGUMENT,
                              "%s has strides %" PRId64 ", %" PRId64 ", %" PRId64
                              ": its elements overlap",
                              name, x->matrix.batch, x->matrix.row, x->matrix.column);
        end += strides[least] * (extents[least] - 1);
        extents[least] = 1;
    }
    return SYMM_OK;
}

/* --------------------------------------------------------------------------------- all tensors */

/* What some kinds do not have. */
static symm_status check_kind(const symm_matmul_desc *desc)
{
    if (desc->kind == SYMM_MATMUL && desc->strategy != SYMM_STRATEGY_AUTO)
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "strategy is %d; SYMM_MATMUL gathers no rows, so it must be AUTO",
                          (int)desc->strategy);
    if (desc->kind == SYMM_MATMUL_ALL_SCATTER && desc->strategy == SYMM_STRATEGY_PIPELINED)
        return symm__fail(SYMM_ERROR_UNSUPPORTED,
                          "strategy is %d (%s), but an all-scatter has no product for each rank's "
                          "rows",
                          (int)desc->strategy, symm_strategy_name(desc->strategy));
    if (desc->kind != SYMM_ALL_GATHER_MATMUL && desc->gathered_a.dtype)
        return symm__fail(SYMM_ERROR_ARGUMENT, "gathered_a is given, but kind %d gathers no rows",
                          (int)desc->kind);
    if (desc->partial && !symm__kind_reduces(desc->kind))
        return symm__fail(SYMM_ERROR_ARGUMENT, "partial is %s, but kind %d has no sums over ranks",
                          name_of_type(desc->partial).text, (int)desc->kind);
    if (desc->partial && !is_float(desc->partial))
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "partial is %s; it must be 0, float32, float16 or bfloat16",
                          name_of_type(desc->partial).text);
    return SYMM_OK;
}

static symm_status check_flags(uint64_t flags)
{
    const uint64_t bits = SYMM_MATMUL_SAME_BITS | SYMM_MATMUL_ANY_ORDER;

    if (flags & ~(bits | SYMM_MATMUL_TRACE | SYMM_MATMUL_CONSTANT_B))
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "flags is %#llx; it may have SYMM_MATMUL_SAME_BITS (%#x), "
                          "SYMM_MATMUL_TRACE (%#x), SYMM_MATMUL_ANY_ORDER (%#x) and "
                          "SYMM_MATMUL_CONSTANT_B (%#x)",
                          (unsigned long long)flags, SYMM_MATMUL_SAME_BITS, SYMM_MATMUL_TRACE,
                          SYMM_MATMUL_ANY_ORDER, SYMM_MATMUL_CONSTANT_B);
    if ((flags & bits) == bits)
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "flags is %#llx; SYMM_MATMUL_SAME_BITS and SYMM_MATMUL_ANY_ORDER exclude "
                          "each other",
                          (unsigned long long)flags);
    return SYMM_OK;
}

static symm_status check_enums(const symm_matmul_desc *desc)
{
    if ((unsigned)desc->kind > SYMM_MATMUL_ALL_SCATTER)
        return symm__fail(SYMM_ERROR_ARGUMENT, "kind is %d, which is no symm_matmul_kind",
                          (int)desc->kind);
    if ((unsigned)desc->strategy > SYMM_STRATEGY_UNFUSED)
        return symm__fail(SYMM_ERROR_ARGUMENT, "strategy is %d, which is no symm_strategy",
                          (int)desc->strategy);
    if ((unsigned)desc->activation > SYMM_SILU)
        return symm__fail(SYMM_ERROR_ARGUMENT, "activation is %d, which is no symm_activation",
                          (int)desc->activation);
    if ((unsigned)desc->schedule > SYMM_SCHEDULE_STREAM_K)
        return symm__fail(SYMM_ERROR_ARGUMENT, "schedule is %d, which is no symm_schedule",
                          (int)desc->schedule);
    if (desc->schedule == SYMM_SCHEDULE_STREAM_K && desc->flags & SYMM_MATMUL_SAME_BITS)
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "schedule is SYMM_SCHEDULE_STREAM_K, whose bits "
                          "depend on the shape: not with flags %#llx, "
                          "SYMM_MATMUL_SAME_BITS",
                          (unsigned long long)desc->flags);
    if (desc->nb < 0 || desc->nb > SYMM_MATMUL_MAX_B)
        return symm__fail(SYMM_ERROR_ARGUMENT, "nb is %d; it must be 0 to %d", desc->nb,
                          SYMM_MATMUL_MAX_B);
    for (size_t i = 0; i < sizeof desc->reserved / sizeof desc->reserved[0]; i++)
        if (desc->reserved[i])
            return symm__fail(SYMM_ERROR_ARGUMENT, "reserved[%zu] is %llu; it must be 0", i,
                              (unsigned long long)desc->reserved[i]);
    return check_kind(desc);
}

/*
 * Kernels count the rows of a workspace over all batches in 32 bits; the host counts bytes in 64.
 * rows: those of one rank. columns: of the largest matrix. element_nbytes: of one element of
 * each matrix.
 */
static symm_status check_workspace(const struct symm_problem *p, int64_t rows, int64_t columns,
                                   int64_t element_nbytes)
{
    int64_t nbytes;

    if (rows > EXTENT_MAX)
        return symm__fail(SYMM_ERROR_UNSUPPORTED,
                          "m %d and l %d give a rank %" PRId64 " rows; at most %d are supported",
                          p->m, p->l, rows, EXTENT_MAX);
    if (__builtin_mul_overflow(rows * element_nbytes, columns + SYMM_PACK_ELEMENTS, &nbytes))
        return symm__fail(SYMM_ERROR_MEMORY,
                          "the workspace of m %d, k %d, l %d has more than 2^63 bytes", p->m, p->k,
                          p->l);
    return SYMM_OK;
}

static symm_status check_shards(const struct symm_problem *p)
{
    if (p->nranks == 1)
        return SYMM_OK;
    return check_workspace(p, (int64_t)symm__rows_of_rank(p->m, p->nranks, 0) * p->l, p->k,
                           p->nranks * INPUT_NBYTES);
}

/* Rows of a, and of c and d. */
static int32_t rows_of_a(const struct symm_problem *p)
{
    return symm__rows_of_rank(p->m, p->nranks, p->rank);
}

static int32_t rows_of_d(const struct symm_problem *p)
{
    return p->kind == SYMM_MATMUL_REDUCE_SCATTER
               ? symm__rows_of_rank(p->m, p->collect_nranks, p->collect_rank)
               : p->m;
}

/* Reads a and gathered_a; k and l are from a, m is from the matrix that has all rows. */
static symm_status read_inputs(const symm_matmul_desc *desc, struct symm_problem *p)
{
    struct symm_operand d;
    symm_status st;

    TRY(read_tensor("a", &desc->a, 2, &p->a));
    p->dtype = desc->a.dtype;
    TRY(check_input_dtype("a", &p->a, p->dtype));
    TRY(read_tensor("d[0]", &desc->d[0], 2, &d));
    p->m = symm__kind_collects(p->kind) ? p->a.rows : d.rows;
    p->k = p->a.columns;
    p->l = p->a.l;
    if (p->m < 1 || p->k < 1 || p->l < 1)
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "%s has %d rows, a has %d columns and l is %d; each must be at least 1",
                          symm__kind_collects(p->kind) ? "a" : "d[0]", p->m, p->k, p->l);
    TRY(check_shape("a", &p->a, p->l, rows_of_a(p), p->k,
                    p->nranks == 1 ? "[m, k]" : "this rank's part of [m, k]"));
    TRY(check_shards(p));
    if (!desc->gathered_a.dtype)
        return SYMM_OK;
    TRY(read_tensor("gathered_a", &desc->gathered_a, 2, &p->gathered_a));
    TRY(check_input_dtype("gathered_a", &p->gathered_a, p->dtype));
    TRY(check_shape("gathered_a", &p->gathered_a, p->l, p->m, p->k, "[m, k]"));
    TRY(check_disjoint("gathered_a", &p->gathered_a));
out:
    return st;
}

/* Sets the columns of product i that this rank computes: its share, or all columns of d. */
static symm_status read_columns(int i, struct symm_problem *p)
{
    const int32_t n = p->d[i].columns;
    const bool shares = p->kind == SYMM_MATMUL_ALL_SCATTER;

    if (n < (shares ? p->collect_nranks : 1))
        return symm__fail(SYMM_ERROR_ARGUMENT, "d[%d] has %d columns; it must have at least %d", i,
                          n, shares ? p->collect_nranks : 1);
    p->n[i] = shares ? symm__rows_of_rank(n, p->collect_nranks, p->collect_rank) : n;
    if (p->collect_nranks == 1)
        return SYMM_OK;
    return check_workspace(p, (int64_t)p->m * p->l, n, 2 * SYMM_MATMUL_MAX_B * OUTPUT_NBYTES_MAX);
}

/* Reads b, c, d and bias of product i. */
static symm_status read_product(const symm_matmul_desc *desc, int i, struct symm_problem *p)
{
    const struct symm_name b = symm__name_of("b", i), c = symm__name_of("c", i),
                           d = symm__name_of("d", i), bias = symm__name_of("bias", i);
    symm_status st;

    TRY(read_tensor(d.text, &desc->d[i], 2, &p->d[i]));
    TRY(read_columns(i, p));
    TRY(check_shape(d.text, &p->d[i], p->l, rows_of_d(p), p->d[i].columns,
                    p->kind == SYMM_MATMUL_REDUCE_SCATTER ? "this rank's part of [m, n]"
                                                          : "[m, n]"));
    TRY(check_disjoint(d.text, &p->d[i]));
    p->partial[i] = desc->partial ? desc->partial : desc->d[i].dtype;
    TRY(read_tensor(b.text, &desc->b[i], 2, &p->b[i]));
    TRY(check_input_dtype(b.text, &p->b[i], p->dtype));
    TRY(check_shape(b.text, &p->b[i], p->l, p->k, p->n[i],
                    p->kind == SYMM_MATMUL_ALL_SCATTER ? "this rank's part of [k, n]" : "[k, n]"));
    if (desc->c[i].dtype) {
        TRY(read_tensor(c.text, &desc->c[i], 2, &p->c[i]));
        TRY(check_shape(c.text, &p->c[i], p->l, rows_of_d(p), p->n[i], "[m, n]"));
    }
    if (desc->bias[i].dtype) {
        TRY(read_tensor(bias.text, &desc->bias[i], 1, &p->bias[i]));
        if (p->bias[i].l == 1)
            p->bias[i].matrix.batch = 0; /* one bias for all batches */
        TRY(check_shape(bias.text, &p->bias[i], p->bias[i].l == 1 ? 1 : p->l, 1, p->n[i],
                        "[1, n]"));
    }
out:
    return st;
}

static symm_status check_absent(const char *member, int i, const symm_tensor *t, int nb)
{
    if (!t->dtype)
        return SYMM_OK;
    return symm__fail(SYMM_ERROR_ARGUMENT, "%s[%d] is given, but nb is %d%s", member, i, nb,
                      nb ? "" : ", which means 1");
}

/* Checks that the description has no tensors for a product i past nb. */
static symm_status check_no_product(const symm_matmul_desc *desc, int i)
{
    symm_status st;

    TRY(check_absent("b", i, &desc->b[i], desc->nb));
    TRY(check_absent("c", i, &desc->c[i], desc->nb));
    TRY(check_absent("d", i, &desc->d[i], desc->nb));
    st = check_absent("bias", i, &desc->bias[i], desc->nb);
out:
    return st;
}

/* Kernels number the tiles of all batches in 31 bits. The smallest tiles are 64 wide. */
static symm_status check_tiles(const struct symm_problem *p)
{
    const int64_t columns = symm__problem_columns(p),
                  down = p->m / 64 + p->nranks * p->collect_nranks,
                  of_batch = (columns / 64 + p->nb) * down;

    if (of_batch <= INT32_MAX / p->l)
        return SYMM_OK;
    return symm__fail(SYMM_ERROR_UNSUPPORTED,
                      "m %d with %" PRId64 " columns and l %d gives 2^31 tiles or more", p->m,
                      columns, p->l);
}

symm_status symm__problem_read(const symm_matmul_desc *desc, int rank, int nranks,
                               struct symm_problem *out)
{
    struct symm_problem *p = out;
    symm_status st;

    *p = (struct symm_problem){.nranks = 1, .collect_nranks = 1};
    if (!desc)
        return symm__fail(SYMM_ERROR_ARGUMENT, "desc is NULL");
    p->kind = desc->kind;
    p->strategy = desc->strategy;
    p->activation = desc->activation;
    p->schedule = desc->schedule;
    p->same_bits = desc->flags & SYMM_MATMUL_SAME_BITS;
    p->any_order = desc->flags & SYMM_MATMUL_ANY_ORDER;
    p->traced = desc->flags & SYMM_MATMUL_TRACE;
    p->constant_b = desc->flags & SYMM_MATMUL_CONSTANT_B;
    if (desc->kind == SYMM_ALL_GATHER_MATMUL) {
        p->rank = rank;
        p->nranks = nranks;
    }
    if (symm__kind_collects(desc->kind)) {
        p->collect_rank = rank;
        p->collect_nranks = nranks;
    }
    TRY(check_enums(desc));
    TRY(check_flags(desc->flags));
    p->nb = desc->nb ? desc->nb : 1;
    TRY(read_inputs(desc, p));
    for (int i = 0; i < p->nb; i++)
        TRY(read_product(desc, i, p));
    for (int i = p->nb; i < SYMM_MATMUL_MAX_B; i++)
        TRY(check_no_product(desc, i));
    st = check_tiles(p);
out:
    return st;
}
