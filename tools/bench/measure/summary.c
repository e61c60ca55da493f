#include "summary.h"

#include <math.h>

enum { FEW_ROWS = 1024, LONG_US = 100 };

/* Peers over symm: small is bad. symm over a floor or the best: large is bad. */
static const struct {
    const char *name;
    bool small_is_worse;
} ratios[SUMMARY_RATIOS] = {
    {"cublas / product", true},
    {"cublas_symm / auto", true},
    {"auto / max(cublas, communication), cublas >= 100 us", false},
    {"auto / best strategy", false},
};

static double ratio_of(int ratio, const struct summary_times *t)
{
    switch (ratio) {
    case 0:
        return t->cublas / t->product;
    case 1:
        return t->cublas_symm / t->automatic;
    case 2:
        return t->cublas >= LONG_US && t->communication > 0
                   ? t->automatic / (t->cublas > t->communication ? t->cublas : t->communication)
                   : NAN;
    default:
        return t->automatic / t->best;
    }
}

void summary_add(struct summary *s, const struct suite_shape *shape,
                 const struct summary_times *times)
{
    const int many = shape->m >= FEW_ROWS;

    s->nshapes[many]++;
    for (int i = 0; i < SUMMARY_RATIOS; i++) {
        struct summary_ratio *r = &s->ratios[many][i];
        const double x = ratio_of(i, times);

        if (!(x > 0))
            continue;
        if (r->n == 0 || (ratios[i].small_is_worse ? x < r->worst : x > r->worst)) {
            r->worst = x;
            r->at = *shape;
        }
        r->logarithms += log(x);
        r->n++;
    }
}

double summary_mean(const struct summary_ratio *r)
{
    return r->n ? exp(r->logarithms / r->n) : (double)NAN;
}

const char *summary_name(int ratio)
{
    return ratios[ratio].name;
}
