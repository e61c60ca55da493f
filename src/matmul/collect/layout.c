/* The layout of a collecting product's workspace. */
#include "layout.h"

#include <symm/names.h>
#include "matmul/plan/dense.h"
#include "matmul/plan/order.h"
#include "runtime/base/numbers.h"
#include "runtime/group/group.h"

enum { ALIGNMENT = 256 };

/* Appends a matrix of this number of elements to the layout. */
static symm_matrix append(struct symm_collect_layout *layout, char *workspace, symm_matrix x,
                          int64_t elements)
{
    x.data = workspace ? workspace + layout->nbytes : NULL;
    layout->nbytes +=
        symm__round_up((uint64_t)elements * symm_dtype_size((symm_dtype)x.dtype), ALIGNMENT);
    return x;
}

/* The next matrix [l, rows, columns], whose rows are whole packs. */
static symm_matrix append_packs(struct symm_collect_layout *layout, char *workspace,
                                symm_dtype dtype, int32_t l, int32_t rows, int32_t columns)
{
    const int64_t row = (int64_t)symm__round_up((uint64_t)columns, SYMM_PACK_ELEMENTS);
    const symm_matrix x = {.row = row, .column = 1, .batch = row * rows, .dtype = (uint32_t)dtype};

    return append(layout, workspace, x, x.batch * l);
}

/*
 * The partial sums of product i for a collective: in the order of d, without gaps. Of a
 * reduce-scatter, all ranks have the rows of the first one.
 */
static symm_matrix append_dense(struct symm_collect_layout *layout, char *workspace,
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
static void append_results(struct symm_collect_layout *layout, const struct symm_collect *c,
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
static void append_slots(struct symm_collect_layout *layout, const struct symm_collect *c,
                         const struct symm_problem *p, int i)
{
    const uint64_t begin = layout->nbytes;

    append_results(layout, c, p, i);
    layout->slot_nbytes[i] = layout->nbytes - begin;
    layout->nbytes = begin + layout->slot_nbytes[i] * (uint64_t)p->collect_nranks;
}

bool symm__collect_is_bound(const struct symm_collect *c, const struct symm_collect_layout *layout)
{
    const struct symm_context *ctx = c->group->ctx;

    return symm__collect_has_bands(c) && c->workspace &&
           symm__multicast_covers(
               c->group->mc,
               (uint64_t)(c->workspace - symm__memory_window(ctx->memory, ctx->join.rank)),
               layout->nbytes);
}

struct symm_collect_layout symm__collect_layout(const struct symm_collect *c,
                                                const struct symm_problem *p)
{
    struct symm_collect_layout layout = {.nbytes = 0};

    for (int i = 0; i < p->nb; i++) {
        if (c->plan->collective) {
            layout.of_rank[i] = append_dense(&layout, c->workspace, p, i);
            continue;
        }
        if (c->plan->sink == SYMM_TO_D && c->plan->sums != SYMM_SUMS_PACKS)
            append_results(&layout, c, p, i);
        else
            append_slots(&layout, c, p, i);
        if (p->kind == SYMM_MATMUL_ALL_REDUCE && !symm__collect_has_sets(c))
            layout.sums[i] = append_packs(
                &layout, c->workspace, (symm_dtype)p->d[i].matrix.dtype, p->l,
                symm__collect_has_bands(c) ? p->m : symm__rows_of_rank(p->m, p->collect_nranks, 0),
                p->d[i].columns);
    }
    layout.set_nbytes = layout.nbytes;
    if (symm__collect_has_sets(c))
        layout.nbytes *= c->plan->sums == SYMM_SUMS_PACKS ? SYMM_PACK_SETS : SYMM_PART_SETS;
    return layout;
}

uint64_t symm__collect_slot_nbytes(const struct symm_collect *c, const struct symm_problem *p)
{
    return symm__collect_layout(c, p).slot_nbytes[0];
}

/* A product's results in the layout: this rank's slot, or all of them. */
static struct symm_operand results_of(const struct symm_problem *p,
                                      const struct symm_collect_layout *layout, int i)
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
    const struct symm_collect_layout layout = symm__collect_layout(c, p);
    for (int i = 0; i < p->nb; i++) {
        out->d[i] = results_of(p, &layout, i);
        if (symm__kind_reduces(p->kind))
            out->c[i] = out->bias[i] = (struct symm_operand){.l = 0};
    }
    if (!symm__kind_reduces(p->kind))
        return;
    out->alpha = c->plan->collective || symm__collect_has_bands(c) ? p->alpha : 1;
    out->beta = 0;
    out->activation = SYMM_NONE;
}
