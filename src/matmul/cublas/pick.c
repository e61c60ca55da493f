/* Picks the algorithms of products by trials, and times the products. */
#include <math.h>
#include "prepared.h"
#include "runtime/base/deadline.h"
#include "runtime/base/log.h"
#include "runtime/base/numbers.h"
#include "trial.h"

/* Multiply-adds of products that pick an algorithm by trials, and that are timed: 1.5 and 6 ms. */
static const double TRIAL_PRODUCTS_MAX = 5e11, TIMED_PRODUCTS_MAX = 2e12;

uint64_t symm__cublas_most_nbytes(const struct symm_cublas_product *product, bool trial)
{
    uint64_t most = 0;

    for (int part = 0; part < product->nparts; part++)
        for (int i = 0; i < product->problem.nb; i++) {
            const struct cublaslt_shape *shape = &product->parts[part].each[i].shape;
            const struct cublaslt_product *made = &product->parts[part].each[i].product;
            most = symm__max(most, trial ? symm__cublas_trial_nbytes(shape)
                                         : made->chosen.workspace_nbytes);
        }
    return most;
}

static double products_of(const struct symm_cublas_product *product)
{
    const struct symm_problem *p = &product->problem;

    return (double)product->parts[0].rows * p->k * p->l * (double)symm__problem_columns(p);
}

bool symm__cublas_is_short(const struct symm_cublas_product *product)
{
    return products_of(product) <= TRIAL_PRODUCTS_MAX;
}

bool symm__cublas_list(const struct symm_cublas_product *product,
                       const struct symm_cublas_part *part, int i,
                       struct symm_cublas_candidates *out, char why[CUBLASLT_WHY])
{
    const struct cublaslt_product *one = &part->each[i].product;

    if (symm__cublas_is_short(product))
        return symm__cublas_candidates(product->from, &part->each[i].shape, one,
                                       product->problem.any_order, out, why);
    out->algorithms[0] = one->chosen;
    out->n = 1;
    return true;
}

/* Product i of this number of rows, for the rival: k in order, as cuBLASLt adds if it can. */
static struct symm_problem one_of(const struct symm_problem *p, int32_t rows, int i)
{
    struct symm_problem one = *p;

    one.kind = SYMM_MATMUL;
    one.strategy = SYMM_STRATEGY_AUTO;
    one.same_bits = true;
    one.rank = one.collect_rank = 0;
    one.nranks = one.collect_nranks = 1;
    one.m = rows;
    one.a = (struct symm_operand){symm__cublas_rows_of_a(p, rows), p->l, rows, p->k};
    one.gathered_a = (struct symm_operand){.l = 0};
    one.nb = 1;
    one.n[0] = p->n[i];
    one.b[0] = p->b[i];
    one.c[0] = p->c[i];
    one.d[0] = p->d[i];
    one.d[0].rows = rows;
    return one;
}

/* Takes the algorithm that trials pick, or have picked for an equal product. */
static symm_status pick_one(const struct symm_cublas_product *product,
                            struct symm_cublas_trial *trial, const struct symm_cublas_tried *tried,
                            struct symm_cublas_pick *pick)
{
    struct symm_cublas *c = product->from;
    const int64_t begin_us = symm__now_us();
    symm_status st = SYMM_OK;

    if (symm__cublas_recall(c, pick))
        return SYMM_OK;
    if (!trial->memory)
        TRY(symm__cublas_trial_open(c->ctx->drv, &c->lt, symm__cublas_most_nbytes(product, true),
                                    trial));
    TRY(symm__cublas_trial_pick(trial, tried, pick));
    symm__cublas_remember(c, pick);
    symm__log(&c->ctx->log, SYMM_LOG_DETAIL,
              "trials of cuBLASLt took %lld us; its product %g us, by symm's kernels %g us",
              (long long)(symm__now_us() - begin_us), pick->us, pick->own_us);
out:
    return st;
}

/* Adds the times of the first part, where the rival's is known if it is for all. */
static void add_times(struct symm_cublas_product *product, const struct symm_cublas_part *part,
                      const struct symm_cublas_pick *pick)
{
    struct symm_cublas_times *us = &product->us;

    if (pick->own_us == 0)
        us->own = INFINITY;
    if (part != product->parts)
        return;
    us->cublas += pick->us;
    us->own += pick->own_us;
}

/* Gives product i of a part its fastest algorithm. */
static symm_status pick_of(struct symm_cublas_product *product, struct symm_cublas_part *part,
                           int i, const struct symm_cublas_rival *rival,
                           struct symm_cublas_trial *trial)
{
    const struct symm_problem *p = &product->problem;
    struct symm_cublas_candidates candidates;
    const struct symm_cublas_tried tried = {
        .product = &part->each[i].product,
        .candidates = &candidates,
        .problem = one_of(p, part->rows, i),
        .flipped = part->each[i].flipped,
        .rival = rival,
    };
    struct symm_cublas_pick of = {.shape = part->each[i].shape,
                                  .any_order = p->any_order,
                                  .has_c = p->c[i].matrix.dtype != 0,
                                  .is_short = symm__cublas_is_short(product),
                                  .rival = rival != NULL,
                                  .one_matrix = rival && rival->one_matrix};
    char why[CUBLASLT_WHY];
    symm_status st;

    if (!symm__cublas_list(product, part, i, &candidates, why))
        return symm__fail(SYMM_ERROR_DRIVER, "cuBLASLt: %s", why);
    TRY(pick_one(product, trial, &tried, &of));
    add_times(product, part, &of);
    part->each[i].product.chosen = of.chosen;
out:
    return st;
}

void symm__cublas_pick(struct symm_cublas_product *product, const struct symm_cublas_rival *rival)
{
    struct symm_cublas *c = product->from;
    struct symm_cublas_trial trial = {.drv = c->ctx->drv};
    symm_status st = SYMM_OK;

    product->trials = false;
    product->us = (struct symm_cublas_times){0, 0};
    for (int part = 0; part < product->nparts; part++)
        for (int i = 0; i < product->problem.nb; i++)
            TRY(pick_of(product, &product->parts[part], i, rival, &trial));
    if (product->us.own == INFINITY)
        product->us.own = 0;
out:
    if (st != SYMM_OK) {
        product->us = (struct symm_cublas_times){0, 0};
        symm__log(&c->ctx->log, SYMM_LOG_DETAIL, "cuBLASLt's first candidate is used: %s",
                  symm__failure_text());
    }
    symm__cublas_trial_close(&trial);
    if (trial.busy)
        symm__cublas_keep(c, trial.memory);
}

struct symm_cublas_times symm__cublas_measure(struct symm_cublas_product *product,
                                              const struct symm_cublas_rival *rival)
{
    const struct symm_cublas_times unknown = {0, 0};

    if (!product || !product->trials || products_of(product) > TIMED_PRODUCTS_MAX)
        return unknown;
    symm__cublas_pick(product, rival);
    return product->problem.any_order || product->us.own > 0 ? product->us : unknown;
}
