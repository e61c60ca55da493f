/* The data of a product's run: bound to the problem, and checked. */
#include "problem.h"

#include <symm/names.h>
#include "overlap.h"

/* Arguments that give no data. */
static const symm_matmul_args none;

/* An operand, with the data that a run gives for it. */
struct entry {
    struct symm_name name;
    struct symm_operand *x;
    const void *data;
    bool used, written;
};
enum { ENTRIES = 2 + 4 * SYMM_MATMUL_MAX_B };

static void list_operands(struct symm_problem *p, const symm_matmul_args *args,
                          struct entry out[ENTRIES])
{
    *out++ = (struct entry){symm__name_of("a", -1), &p->a, args->a, true, false};
    *out++ = (struct entry){symm__name_of("gathered_a", -1), &p->gathered_a, args->gathered_a, true,
                            true};
    for (int i = 0; i < SYMM_MATMUL_MAX_B; i++) {
        *out++ = (struct entry){symm__name_of("b", i), &p->b[i], args->b[i], true, false};
        *out++ = (struct entry){symm__name_of("c", i), &p->c[i], args->c[i], p->beta != 0, false};
        *out++ = (struct entry){symm__name_of("bias", i), &p->bias[i], args->bias[i], true, false};
        *out++ = (struct entry){symm__name_of("d", i), &p->d[i], args->d[i], true, true};
    }
}

/* Takes the run's data if it gives any. An operand that the run does not use becomes absent. */
static symm_status bind_one(const struct entry *e)
{
    struct symm_operand *x = e->x;

    if (e->data && x->matrix.dtype == 0)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s is %p, but the description has no %s",
                          e->name.text, e->data, e->name.text);
    if (!e->used) {
        *x = (struct symm_operand){0};
        return SYMM_OK;
    }
    if (e->data)
        x->matrix.data = (void *)(uintptr_t)e->data;
    if (!x->matrix.data && symm__operand_nbytes(x) > 0)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s is NULL, in the run and in the description",
                          e->name.text);
    return SYMM_OK;
}

static symm_status check_address(const struct entry *e, struct symm_memory *memory)
{
    const char *name = e->name.text;
    const void *data = e->x->matrix.data;
    const size_t size = symm_dtype_size((symm_dtype)e->x->matrix.dtype);
    const uint64_t nbytes = symm__operand_nbytes(e->x);

    if ((uintptr_t)data % size)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s %p is not aligned to its elements of %zu bytes",
                          name, data, size);
    if (nbytes > UINTPTR_MAX - (uintptr_t)data)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s %p ends past the address space", name, data);
    if (!symm__memory_usable(memory, data, nbytes))
        return symm__fail_in(SYMM_ERROR_ARGUMENT, "%s: ", name);
    return SYMM_OK;
}

static bool same(const struct symm_operand *x, const struct symm_operand *y)
{
    return x->matrix.data == y->matrix.data && x->matrix.dtype == y->matrix.dtype &&
           x->matrix.row == y->matrix.row && x->matrix.column == y->matrix.column &&
           x->matrix.batch == y->matrix.batch;
}

/* d[i] may be c[i]: the thread that writes an element has read it before. */
static bool in_place(const struct symm_problem *p, const struct symm_operand *x,
                     const struct symm_operand *y)
{
    for (int i = 0; i < p->nb; i++)
        if (x == &p->d[i] && y == &p->c[i])
            return same(x, y);
    return false;
}

static symm_status check_overlap(const struct symm_problem *p, const struct entry *x,
                                 const struct entry *y)
{
    if (!x->written || !symm__operands_overlap(x->x, y->x) || in_place(p, x->x, y->x) ||
        in_place(p, y->x, x->x))
        return SYMM_OK;
    return symm__fail(SYMM_ERROR_ARGUMENT, "%s %p and %s %p overlap", x->name.text,
                      x->x->matrix.data, y->name.text, y->x->matrix.data);
}

static symm_status check_data(const struct symm_problem *p, const struct entry entries[ENTRIES],
                              struct symm_memory *memory)
{
    const struct entry *with_data[ENTRIES];
    int n = 0;
    symm_status st = SYMM_OK;

    for (int i = 0; i < ENTRIES; i++)
        if (entries[i].x->matrix.data && symm__operand_nbytes(entries[i].x) > 0)
            with_data[n++] = &entries[i];
    for (int i = 0; i < n; i++)
        TRY(check_address(with_data[i], memory));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (i != j)
                TRY(check_overlap(p, with_data[i], with_data[j]));
out:
    return st;
}

symm_status symm__problem_check_data(struct symm_problem *p, struct symm_memory *memory)
{
    struct entry entries[ENTRIES];

    list_operands(p, &none, entries);
    return check_data(p, entries, memory);
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
    struct entry entries[ENTRIES];
    symm_status st;

    *out = *p;
    if (!args)
        args = &none;
    out->alpha = args->alpha ? *args->alpha : 1;
    out->beta = args->beta ? *args->beta : 0;
    if (out->beta != 0 && !has_c(p))
        return symm__fail(SYMM_ERROR_ARGUMENT, "beta is %g, but the description has no c",
                          (double)out->beta);
    list_operands(out, args, entries);
    for (int i = 0; i < ENTRIES; i++)
        TRY(bind_one(&entries[i]));
    st = check_data(out, entries, memory);
out:
    return st;
}
