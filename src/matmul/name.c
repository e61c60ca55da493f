/* The text of a call that creates a product. */
#include "name.h"

#include <stdio.h>
#include <symm/names.h>

enum { NAMED = 2 /* products whose columns and types have room in the text of a call */ };

/* Of more products than have room for names: all columns, and the numbers of all types. */
static void number_columns(char *text, size_t size, const struct symm_problem *p)
{
    int at = snprintf(text, size, ", n");

    for (int i = 0; i < p->nb; i++)
        at += snprintf(text + at, size - (size_t)at, " %d", p->d[i].columns);
    at += snprintf(text + at, size - (size_t)at, ", types");
    for (int i = 0; i < p->nb; i++)
        at += snprintf(text + at, size - (size_t)at, " %u.%u", p->d[i].matrix.dtype,
                       (unsigned)p->partial[i]);
}

/* The part of the name that has the columns and types of what ranks send each other. */
static void name_columns(char *text, size_t size, const struct symm_problem *p)
{
    int at = 0;

    for (int i = 0; i < p->nb; i++)
        at += snprintf(text + at, size - (size_t)at, ", n %d of %s in %s", p->d[i].columns,
                       symm_dtype_name((symm_dtype)p->d[i].matrix.dtype),
                       symm_dtype_name(p->partial[i]));
}

void symm__matmul_name(struct symm_call *call, const struct symm_matmul *m)
{
    static const char *const schedules[] = {"", ", data parallel", ", stream-K"};
    const struct symm_problem *p = &m->problem;
    char columns[SYMM_CALL_MAX / 2], as_if[24] = "";

    if (symm__kind_collects(p->kind))
        (p->nb > NAMED ? number_columns : name_columns)(columns, sizeof columns, p);
    else
        snprintf(columns, sizeof columns, ", k %d", p->k);
    if (m->transport.view.flags & SYMM_VIEW_PLAYED)
        snprintf(as_if, sizeof as_if, ", as if %d ranks", m->transport.view.nranks);
    snprintf(call->text, sizeof call->text, "symm_matmul_create(%s, %s%s, m %d%s, l %d, %s%s%s%s)",
             m->operation->name, symm_strategy_name(p->strategy), schedules[p->schedule], p->m,
             columns, p->l, symm_dtype_name(p->dtype), p->same_bits ? ", same bits" : "",
             p->any_order ? ", any order" : "", as_if);
}
