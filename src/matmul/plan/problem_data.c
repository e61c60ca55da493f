/* The data of a product's run: bound to the problem, and checked. */
#include "problem.h"

#include "runtime/base/dtype.h"
#include "overlap.h"

/* Takes the run's data if it gives any. An operand that the run does not use becomes absent. */
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

/* All operands with data, and their names. */
struct bound {
    struct symm_name name;
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
        to->all[to->n++] = (struct bound){symm__name_of(what, i), x, written};
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

/* d[i] may be c[i]: the thread that writes an element has read it before. */
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

/* Product i's data; past the last product all are absent. */
static symm_status bind_product(const symm_matmul_args *args, int i, struct symm_problem *p)
{
    symm_status st;

    TRY(bind_one(symm__name_of("b", i).text, args->b[i], true, &p->b[i]));
    TRY(bind_one(symm__name_of("c", i).text, args->c[i], p->beta != 0, &p->c[i]));
    TRY(bind_one(symm__name_of("bias", i).text, args->bias[i], true, &p->bias[i]));
    st = bind_one(symm__name_of("d", i).text, args->d[i], true, &p->d[i]);
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
