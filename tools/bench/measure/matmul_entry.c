/* Runs and checks of a variant of a product. */
#include "matmul_entry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { POISON = 0xff /* a NaN in every floating type */ };

static symm_status enqueue(const void *what, int nops)
{
    const struct matmul_entry *e = what;
    symm_status st = SYMM_OK;

    for (int i = 0; i < nops && st == SYMM_OK; i++)
        st = product_enqueue(&e->call);
    return st;
}

/* Where the result of a call is. */
static void *result_of(const struct matmul_entry *e)
{
    return e->expected == &e->round->part ? e->round->on.part : e->round->on.d;
}

static symm_status poison(const struct matmul_entry *e)
{
    const size_t nbytes = matmul_result_nbytes(e->expected);

    return nbytes > 0 ? symm_fill(result_of(e), POISON, nbytes, e->round->s->stream) : SYMM_OK;
}

/* All variants get the same data. */
static symm_status offer(void *what, uint64_t seed)
{
    symm_status st;

    TRY(matmul_round_offer(((struct matmul_entry *)what)->round, seed));
    TRY(poison(what));
out:
    return st;
}

static void complain(const struct matmul_entry *e, const struct products_verdict *v)
{
    const struct matmul_round *r = e->round;

    fprintf(stderr,
            "# rank %d: %s, %d x %d x %d: element [%d, %d, %d] is %s and should be %s: %.3g off, "
            "and no more than %.3g is right\n",
            r->s->rank, e->call.variant->name, r->shape->m, r->shape->n, r->shape->k, v->l, v->row,
            v->column, v->got, v->expected, v->off, v->bound);
}

static bool is_symms(const struct matmul_entry *e)
{
    return e->call.variant->kind == PRODUCT_ALONE || e->call.variant->kind == PRODUCT_TOGETHER;
}

static symm_status fetch(const struct matmul_entry *e)
{
    const struct session *s = e->round->s;
    const size_t nbytes = matmul_result_nbytes(e->expected);
    symm_status st = SYMM_OK;

    if (nbytes > 0)
        TRY(symm_copy(e->round->got, result_of(e), nbytes, s->stream));
    TRY(symm_synchronize(s->group, s->stream));
out:
    return st;
}

/* Keeps the result as that of its strategy. */
static void keep(const struct matmul_entry *e)
{
    struct matmul_round *r = e->round;

    memcpy(r->kept, r->got, matmul_result_nbytes(e->expected));
    r->keeper = e->call.variant->name;
}

/* Counts the elements that differ from the kept result in their bits. */
static uint64_t differing(const struct matmul_entry *e)
{
    const struct matmul_round *r = e->round;
    const size_t nbytes = r->data.element->nbytes, count = products_d_count(e->expected);
    uint64_t n = 0;

    if (memcmp(r->kept, r->got, count * nbytes) == 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        n += memcmp(r->kept + i * nbytes, r->got + i * nbytes, nbytes) != 0;
    fprintf(stderr,
            "# rank %d: %s, %d x %d x %d: elements that differ in bits from %s: %" PRIu64 "\n",
            r->s->rank, e->call.variant->name, r->shape->m, r->shape->n, r->shape->k, r->keeper, n);
    return n;
}

/*
 * Counts the elements with wrong bits of symm's product in `got`. By default, compares with another
 * run of the product. --same-bits: with symm's first product of the same result. --any-order:
 * compares nothing.
 */
static symm_status compare_bits(const struct matmul_entry *e, uint64_t *out)
{
    struct matmul_round *r = e->round;
    const bool again = !e->call.same_bits || product_is_part(&e->call);
    symm_status st = SYMM_OK;

    *out = 0;
    if (e->call.any_order)
        return SYMM_OK;
    if (again || !r->keeper)
        keep(e);
    if (again) {
        TRY(poison(e));
        TRY(product_enqueue(&e->call));
        TRY(fetch(e));
    }
    *out = differing(e);
    if (again)
        r->keeper = NULL;
out:
    return st;
}

bool matmul_is_own(const struct products *expected)
{
    return !kind_collects(expected->kind);
}

/* Counts all wrong elements on the device, if the host compares a part of them only. */
static symm_status check_whole(const struct matmul_entry *e, const struct products_verdict *sample,
                               uint64_t *wrong)
{
    const struct matmul_round *r = e->round;
    struct product_buffers on = r->on;
    symm_status st = SYMM_OK;

    *wrong = 0;
    if (e->expected->step == 1 || !matmul_is_own(e->expected))
        return SYMM_OK;
    on.c = e->expected->beta != 0 ? on.c : NULL;
    on.d = result_of(e);
    TRY(whole_check_count(r->s, e->whole, e->expected, &on, wrong));
    if (*wrong > 0 && sample->wrong == 0)
        fprintf(stderr, "# rank %d: %s, %d x %d x %d: wrong elements: %" PRIu64 "\n", r->s->rank,
                e->call.variant->name, r->shape->m, r->shape->n, r->shape->k, *wrong);
out:
    return st;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* How often a partial sum may be rounded: NCCL rounds each of its additions. */
static int roundings(const struct matmul_entry *e)
{
    return e->call.variant->kind == PRODUCT_CUBLAS_NCCL ? e->round->nranks : 1;
}

static symm_status judge(void *what, int nops, uint64_t *wrong)
{
    const struct matmul_entry *e = what;
    struct products_verdict verdict;
    uint64_t whole, others = 0;
    symm_status st;

    (void)nops; /* each call has the same result */
    TRY(fetch(e));
    products_check(e->expected, e->round->got, roundings(e), &verdict);
    if (verdict.wrong > 0)
        complain(e, &verdict);
    TRY(check_whole(e, &verdict, &whole));
    if (is_symms(e))
        TRY(compare_bits(e, &others));
    *wrong = larger(larger(verdict.wrong, whole), others);
out:
    return st;
}

const struct subject_kind matmul_entry_kind = {enqueue, NULL, offer, judge};
