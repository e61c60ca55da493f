/* Reading a product's description, and checking its data. */
#include "problem.h"

#include <inttypes.h>
#include <stdio.h>
#include "runtime/base/dtype.h"
#include "overlap.h"

enum {
    TEXT = 24,
    EXTENT_MAX = INT32_MAX - 1023, /* a tile or a piece past the end still has a number */
    ELEMENT_NBYTES = 2,
    PACK_ELEMENTS = 8
};

int32_t symm__problem_rows(int32_t m, int nranks, int rank)
{
    return m / nranks + (rank < m % nranks);
}

int64_t symm__problem_columns(const struct symm_problem *p)
{
    int64_t sum = 0;

    for (int i = 0; i < p->nb; i++)
        sum += p->n[i];
    return sum;
}

/* ---------------------------------------------------------------------------------- one tensor */

/* "b[2]", or "a" where there is but one; or of a type. */
struct name {
    char text[TEXT];
};

static struct name name_of(const char *what, int i)
{
    struct name name;

    if (i < 0)
        snprintf(name.text, sizeof name.text, "%s", what);
    else
        snprintf(name.text, sizeof name.text, "%s[%d]", what, i);
    return name;
}

/* "float64", or the number of what is no type. */
static struct name type_of(symm_dtype dtype)
{
    const char *known = symm__dtype_name(dtype);
    struct name name;

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
            return symm__fail(SYMM_ERROR_UNSUPPORTED, "%s.shape[%d] is %" PRId64 ", at most %d",
                              name, i, extent, EXTENT_MAX);
        if (extent > 1 && stride > INT64_MAX / 8 / SYMM_MAX_DIMS / extent)
            return symm__fail(SYMM_ERROR_ARGUMENT,
                              "%s.strides[%d] is %" PRId64 ": the tensor overflows", name, i,
                              stride);
    }
    return SYMM_OK;
}

/* least: dimensions that a tensor may have; what is missing in front has extent 1. */
static symm_status read_tensor(const char *name, const symm_tensor *t, int least,
                               struct symm_operand *out)
{
    int64_t shape[3] = {1, 1, 1}, strides[3] = {0, 0, 0};
    symm_status st;

    if (!is_float(t->dtype))
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "%s.dtype is %s; it may be float32, float16 or bfloat16", name,
                          type_of(t->dtype).text);
    if (t->ndim < least || t->ndim > 3)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s.ndim is %d; it may be %d to 3", name, t->ndim,
                          least);
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
    return symm__fail(SYMM_ERROR_ARGUMENT,
                      "%s is %d x [%d, %d]; it must be %d x [%d, %d], which is l x %s", name, x->l,
                      x->rows, x->columns, l, rows, columns, meaning);
}

static symm_status check_input_dtype(const char *name, const struct symm_operand *x,
                                     symm_dtype dtype)
{
    if (dtype != SYMM_FLOAT16 && dtype != SYMM_BFLOAT16)
        return symm__fail(SYMM_ERROR_ARGUMENT, "a.dtype is %s; it may be float16 or bfloat16",
                          symm__dtype_name(dtype));
    if (x->matrix.dtype != (uint32_t)dtype)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s.dtype is %s and a's %s; they must be the same",
                          name, symm__dtype_name((symm_dtype)x->matrix.dtype),
                          symm__dtype_name(dtype));
    return SYMM_OK;
}

/* What is written: each element has a place of its own. */
static symm_status check_apart(const char *name, const struct symm_operand *x)
{
    int64_t extents[3] = {x->l, x->rows, x->columns},
            strides[3] = {x->matrix.batch, x->matrix.row, x->matrix.column}, end = 1;

    for (int done = 0; done < 3; done++) { /* from the smallest stride to the largest */
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

/* -------------------------------------------------------------------------------- all of them */

static symm_status check_enums(const symm_matmul_desc *desc)
{
    if (desc->kind != SYMM_MATMUL && desc->kind != SYMM_ALL_GATHER_MATMUL)
        return symm__fail(SYMM_ERROR_ARGUMENT, "kind %d is no symm_matmul_kind", (int)desc->kind);
    if ((unsigned)desc->strategy > SYMM_STRATEGY_UNFUSED)
        return symm__fail(SYMM_ERROR_ARGUMENT, "strategy %d is no symm_strategy",
                          (int)desc->strategy);
    if ((unsigned)desc->activation > SYMM_SILU)
        return symm__fail(SYMM_ERROR_ARGUMENT, "activation %d is no symm_activation",
                          (int)desc->activation);
    if (desc->nb < 0 || desc->nb > SYMM_MATMUL_MAX_B)
        return symm__fail(SYMM_ERROR_ARGUMENT, "nb is %d; it may be 0 to %d", desc->nb,
                          SYMM_MATMUL_MAX_B);
    for (size_t i = 0; i < sizeof desc->reserved / sizeof desc->reserved[0]; i++)
        if (desc->reserved[i])
            return symm__fail(SYMM_ERROR_ARGUMENT, "reserved[%zu] is %llu, not 0", i,
                              (unsigned long long)desc->reserved[i]);
    if (desc->kind == SYMM_MATMUL && desc->strategy != SYMM_STRATEGY_AUTO)
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "strategy is %d; nothing is gathered, so it must be AUTO",
                          (int)desc->strategy);
    if (desc->kind == SYMM_MATMUL && desc->gathered_a.dtype)
        return symm__fail(SYMM_ERROR_ARGUMENT, "gathered_a is there, but nothing is gathered");
    return SYMM_OK;
}

/* Kernels count a shard's rows, those of all batches, in 32 bits; the host bytes in 64. */
static symm_status check_shards(const struct symm_problem *p)
{
    const int64_t rows = (int64_t)symm__problem_rows(p->m, p->nranks, 0) * p->l;
    int64_t nbytes;

    if (p->nranks == 1)
        return SYMM_OK;
    if (rows > EXTENT_MAX)
        return symm__fail(SYMM_ERROR_UNSUPPORTED,
                          "m %d and l %d are %" PRId64 " rows on a rank, at most %d", p->m, p->l,
                          rows, EXTENT_MAX);
    if (__builtin_mul_overflow(rows * p->nranks * ELEMENT_NBYTES, (int64_t)p->k + PACK_ELEMENTS,
                               &nbytes))
        return symm__fail(SYMM_ERROR_MEMORY,
                          "the workspace of m %d, k %d, l %d has more than 2^63 bytes", p->m, p->k,
                          p->l);
    return SYMM_OK;
}

/* a, the b, and what follows from them and the first d: m, k, l. */
static symm_status read_inputs(const symm_matmul_desc *desc, struct symm_problem *p)
{
    struct symm_operand d;
    symm_status st;

    TRY(read_tensor("a", &desc->a, 2, &p->a));
    p->dtype = desc->a.dtype;
    TRY(check_input_dtype("a", &p->a, p->dtype));
    TRY(read_tensor("d[0]", &desc->d[0], 2, &d));
    p->m = d.rows;
    p->k = p->a.columns;
    p->l = p->a.l;
    if (p->m < 1 || p->k < 1 || p->l < 1)
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "d[0] has %d rows, a %d columns and l is %d; each must be at least 1",
                          p->m, p->k, p->l);
    TRY(check_shape("a", &p->a, p->l, symm__problem_rows(p->m, p->nranks, p->rank), p->k,
                    p->nranks == 1 ? "[m, k]" : "this rank's part of [m, k]"));
    TRY(check_shards(p));
    if (!desc->gathered_a.dtype)
        return SYMM_OK;
    TRY(read_tensor("gathered_a", &desc->gathered_a, 2, &p->gathered_a));
    TRY(check_input_dtype("gathered_a", &p->gathered_a, p->dtype));
    TRY(check_shape("gathered_a", &p->gathered_a, p->l, p->m, p->k, "[m, k]"));
    TRY(check_apart("gathered_a", &p->gathered_a));
out:
    return st;
}

/* Product i: its b, c, d and bias. */
static symm_status read_product(const symm_matmul_desc *desc, int i, struct symm_problem *p)
{
    const struct name b = name_of("b", i), c = name_of("c", i), d = name_of("d", i),
                      bias = name_of("bias", i);
    symm_status st;

    TRY(read_tensor(d.text, &desc->d[i], 2, &p->d[i]));
    p->n[i] = p->d[i].columns;
    if (p->n[i] < 1)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s has %d columns, not at least 1", d.text,
                          p->n[i]);
    TRY(check_shape(d.text, &p->d[i], p->l, p->m, p->n[i], "[m, n]"));
    TRY(check_apart(d.text, &p->d[i]));
    TRY(read_tensor(b.text, &desc->b[i], 2, &p->b[i]));
    TRY(check_input_dtype(b.text, &p->b[i], p->dtype));
    TRY(check_shape(b.text, &p->b[i], p->l, p->k, p->n[i], "[k, n]"));
    if (desc->c[i].dtype) {
        TRY(read_tensor(c.text, &desc->c[i], 2, &p->c[i]));
        TRY(check_shape(c.text, &p->c[i], p->l, p->m, p->n[i], "[m, n]"));
    }
    if (desc->bias[i].dtype) {
        TRY(read_tensor(bias.text, &desc->bias[i], 1, &p->bias[i]));
        if (p->bias[i].l == 1)
            p->bias[i].matrix.batch = 0; /* one for all */
        TRY(check_shape(bias.text, &p->bias[i], p->bias[i].l == 1 ? 1 : p->l, 1, p->n[i],
                        "[1, n]"));
    }
out:
    return st;
}

static symm_status check_absent(const char *what, int i, const symm_tensor *t, int nb)
{
    if (!t->dtype)
        return SYMM_OK;
    return symm__fail(SYMM_ERROR_ARGUMENT, "%s[%d] is there, but nb is %d", what, i, nb);
}

/* There is no product i. */
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

symm_status symm__problem_read(const symm_matmul_desc *desc, int rank, int nranks,
                               struct symm_problem *out)
{
    struct symm_problem *p = out;
    symm_status st;

    *p = (struct symm_problem){.nranks = 1};
    if (!desc)
        return symm__fail(SYMM_ERROR_ARGUMENT, "desc is NULL");
    p->kind = desc->kind;
    p->strategy = desc->strategy;
    p->activation = desc->activation;
    if (desc->kind == SYMM_ALL_GATHER_MATMUL) {
        p->rank = rank;
        p->nranks = nranks;
    }
    TRY(check_enums(desc));
    p->nb = desc->nb ? desc->nb : 1;
    TRY(read_inputs(desc, p));
    for (int i = 0; i < p->nb; i++)
        TRY(read_product(desc, i, p));
    for (int i = p->nb; i < SYMM_MATMUL_MAX_B; i++)
        TRY(check_no_product(desc, i));
    if (symm__problem_columns(p) / 64 * (p->m / 64) > INT32_MAX)
        return symm__fail(SYMM_ERROR_UNSUPPORTED, "%d rows and %" PRId64 " columns are too many",
                          p->m, symm__problem_columns(p));
out:
    return st;
}

/* ----------------------------------------------------------------------------------- the data */

/* Takes the run's data, if it has some; what it does not use is not there. */
static symm_status bind_one(const char *name, const void *data, bool used, struct symm_operand *x)
{
    if (data && x->matrix.dtype == 0)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s is %p, and there is none in the description",
                          name, data);
    if (!used) {
        *x = (struct symm_operand){0};
        return SYMM_OK;
    }
    if (data)
        x->matrix.data = (void *)(uintptr_t)data;
    if (!x->matrix.data && symm__operand_nbytes(x) > 0)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s is NULL, here and in the description", name);
    return SYMM_OK;
}

static symm_status check_place(const char *name, const struct symm_operand *x,
                               struct symm_memory *memory)
{
    const size_t size = symm__dtype_size((symm_dtype)x->matrix.dtype);
    const uint64_t nbytes = symm__operand_nbytes(x);

    if ((uintptr_t)x->matrix.data % size)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s %p is not aligned to its elements of %zu bytes",
                          name, x->matrix.data, size);
    if (nbytes > UINTPTR_MAX - (uintptr_t)x->matrix.data)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s %p runs past the address space", name,
                          x->matrix.data);
    if (!symm__memory_usable(memory, x->matrix.data, nbytes))
        return symm__fail_in(SYMM_ERROR_ARGUMENT, "%s: ", name);
    return SYMM_OK;
}

static bool same(const struct symm_operand *x, const struct symm_operand *y)
{
    return x->matrix.data == y->matrix.data && x->matrix.dtype == y->matrix.dtype &&
           x->matrix.row == y->matrix.row && x->matrix.column == y->matrix.column &&
           x->matrix.batch == y->matrix.batch;
}

/* All that has data, with its name: at most a, gathered_a and four of each. */
struct bound {
    struct name name;
    const struct symm_operand *x;
    bool written;
};
enum { BOUND_MAX = 2 + 4 * SYMM_MATMUL_MAX_B };

struct bounds {
    struct bound all[BOUND_MAX];
    int n;
};

static void add_bound(struct bounds *to, const char *what, int i, const struct symm_operand *x,
                      bool written)
{
    if (x->matrix.data && symm__operand_nbytes(x) > 0)
        to->all[to->n++] = (struct bound){name_of(what, i), x, written};
}

static struct bounds list_bound(const struct symm_problem *p)
{
    struct bounds bounds = {.n = 0};

    add_bound(&bounds, "a", -1, &p->a, false);
    add_bound(&bounds, "gathered_a", -1, &p->gathered_a, true);
    for (int i = 0; i < p->nb; i++) {
        add_bound(&bounds, "b", i, &p->b[i], false);
        add_bound(&bounds, "c", i, &p->c[i], false);
        add_bound(&bounds, "bias", i, &p->bias[i], false);
        add_bound(&bounds, "d", i, &p->d[i], true);
    }
    return bounds;
}

/* d[i] may be c[i]: an element is read by the thread that writes it, and before. */
static bool in_place(const struct symm_problem *p, const struct bound *x, const struct bound *y)
{
    for (int i = 0; i < p->nb; i++)
        if (x->x == &p->d[i] && y->x == &p->c[i])
            return same(x->x, y->x);
    return false;
}

static symm_status check_overlap(const struct symm_problem *p, const struct bound *x,
                                 const struct bound *y)
{
    if (!x->written || !symm__operands_overlap(x->x, y->x) || in_place(p, x, y) ||
        in_place(p, y, x))
        return SYMM_OK;
    return symm__fail(SYMM_ERROR_ARGUMENT, "%s %p and %s %p overlap", x->name.text,
                      x->x->matrix.data, y->name.text, y->x->matrix.data);
}

symm_status symm__problem_check_data(const struct symm_problem *p, struct symm_memory *memory)
{
    const struct bounds bounds = list_bound(p);
    symm_status st = SYMM_OK;

    for (int i = 0; i < bounds.n; i++)
        TRY(check_place(bounds.all[i].name.text, bounds.all[i].x, memory));
    for (int i = 0; i < bounds.n; i++)
        for (int j = 0; j < bounds.n; j++)
            if (i != j)
                TRY(check_overlap(p, &bounds.all[i], &bounds.all[j]));
out:
    return st;
}

/* Product i's; one past the last has no data. */
static symm_status bind_product(const symm_matmul_args *args, int i, struct symm_problem *p)
{
    symm_status st;

    TRY(bind_one(name_of("b", i).text, args->b[i], true, &p->b[i]));
    TRY(bind_one(name_of("c", i).text, args->c[i], p->beta != 0, &p->c[i]));
    TRY(bind_one(name_of("bias", i).text, args->bias[i], true, &p->bias[i]));
    st = bind_one(name_of("d", i).text, args->d[i], true, &p->d[i]);
out:
    return st;
}

static bool has_c(const struct symm_problem *p)
{
    bool any = false;

    for (int i = 0; i < p->nb; i++)
        any = any || p->c[i].matrix.dtype;
    return any;
}

symm_status symm__problem_bind(const struct symm_problem *p, const symm_matmul_args *args,
                               struct symm_memory *memory, struct symm_problem *out)
{
    static const symm_matmul_args none;
    symm_status st;

    *out = *p;
    if (!args)
        args = &none;
    out->alpha = args->alpha ? *args->alpha : 1;
    out->beta = args->beta ? *args->beta : 0;
    if (out->beta != 0 && !has_c(p))
        return symm__fail(SYMM_ERROR_ARGUMENT, "beta is %g, and there is no c in the description",
                          (double)out->beta);
    TRY(bind_one("a", args->a, true, &out->a));
    TRY(bind_one("gathered_a", args->gathered_a, true, &out->gathered_a));
    for (int i = 0; i < SYMM_MATMUL_MAX_B; i++)
        TRY(bind_product(args, i, out));
    st = symm__problem_check_data(out, memory);
out:
    return st;
}
