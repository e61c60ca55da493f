/* The collectives that make the sums: when, which, and their launches. */
#include "sums.h"

#include "collectives/choice.h"
#include "collectives/collective.h"
#include "matmul/plan/dense.h"

/* Whether D gets the sums of product i as they are: in their type, and nothing added. */
static bool are_plain(const struct symm_problem *p, int i)
{
    return symm__only_sums(p) && p->d[i].matrix.dtype == (uint32_t)p->partial[i];
}

/*
 * Whether each rank has one range of the partial sums, in the order of D. Only the last rank with
 * rows may have a shorter one.
 */
static bool are_shares(const struct symm_problem *p, int order)
{
    return p->l == 1 && symm__rows_are_packed(p->m, p->collect_nranks) &&
           order == SYMM_DENSE_BY_ROWS;
}

int64_t symm__sums_order(const struct symm_problem *p)
{
    int64_t all = 0;

    if (!symm__kind_reduces(p->kind) || p->same_bits || p->collect_nranks == 1)
        return 0;
    for (int i = 0; i < p->nb; i++) {
        const int order = symm__dense_order(&p->d[i]);
        if (order < 0 || !are_plain(p, i) ||
            (p->kind == SYMM_MATMUL_REDUCE_SCATTER && !are_shares(p, order)))
            return 0;
        all = all * (SYMM_DENSE_ORDERS + 1) + order + 1;
    }
    return all;
}

/*
 * The collective of product i. If its result must have the same bits in every run, the switch does
 * not add. D may be any memory: a promise would have to hold on all ranks.
 */
static struct symm_collective_call call_of(const struct symm_problem *p, int i)
{
    const struct symm_operand *d = &p->d[i];
    const bool scatters = p->kind == SYMM_MATMUL_REDUCE_SCATTER;
    const int32_t rows = scatters ? symm__rows_of_rank(p->m, p->collect_nranks, 0) : p->m;

    return (struct symm_collective_call){
        .operation = scatters ? SYMM_OPERATION_REDUCE_SCATTER : SYMM_OPERATION_ALL_REDUCE,
        .algo = SYMM_ALGO_AUTO,
        .flags = p->any_order ? 0 : SYMM_DETERMINISTIC,
        .dtype = p->partial[i],
        .op = SYMM_SUM,
        .count = (uint64_t)d->l * (uint64_t)rows * (uint64_t)d->columns,
    };
}

double symm__sums_us(const struct symm_limits *limits, const struct symm_problem *p)
{
    uint64_t ns = 0;

    for (int i = 0; i < p->nb; i++) {
        const struct symm_collective_call call = call_of(p, i);
        ns += symm__choice_ns(limits, &call);
    }
    return (double)ns / 1000;
}

symm_status symm__sums_provide(struct symm_call *call, const struct symm_problem *p)
{
    symm_status st = SYMM_OK;

    for (int i = 0; i < p->nb && st == SYMM_OK; i++) {
        const struct symm_collective_call sums = call_of(p, i);
        st = symm__collective_provide(call, &sums);
    }
    return st;
}

symm_status symm__sums_enqueue(struct symm_call *call, const struct symm_problem *product,
                               const struct symm_problem *p)
{
    symm_status st = SYMM_OK;

    for (int i = 0; i < p->nb && st == SYMM_OK; i++) {
        const struct symm_operand *d = &p->d[i];
        const struct symm_collective_call sums = call_of(p, i);
        const struct symm_data data = {.in = product->d[i].matrix.data,
                                       .out = d->matrix.data,
                                       .lacks = sums.count - (uint64_t)d->l * (uint64_t)d->rows *
                                                                 (uint64_t)d->columns};
        st = symm__collective_enqueue(call, &sums, &data);
    }
    return st;
}
