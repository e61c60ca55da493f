/*
 * The layout of a collecting product's workspace: results of this rank or slots for all ranks'
 * results, and this rank's sums.
 */
#ifndef SYMM_MATMUL_LAYOUT_H
#define SYMM_MATMUL_LAYOUT_H

#include "collect.h"

/* The matrices of a workspace: see symm_collect_args. */
struct symm_collect_layout {
    symm_matrix of_rank[SYMM_MATMUL_MAX_B], sums[SYMM_MATMUL_MAX_B];
    uint64_t slot_nbytes[SYMM_MATMUL_MAX_B];
    uint64_t set_nbytes; /* of all slots; with sums beside the product there are several sets */
    uint64_t nbytes;
};

/* The same on all ranks: with the rows and columns of the rank that has most. Pure. */
struct symm_collect_layout symm__collect_layout(const struct symm_collect *c,
                                                const struct symm_problem *p);

/* Whether the switch can reach the whole workspace. */
bool symm__collect_is_bound(const struct symm_collect *c, const struct symm_collect_layout *layout);

/* Whether runs use several sets of slots in rotation. */
static inline bool symm__collect_has_sets(const struct symm_collect *c)
{
    return c->plan->sums == SYMM_SUMS_PARTS || c->plan->sums == SYMM_SUMS_PACKS;
}

static inline bool symm__collect_has_bands(const struct symm_collect *c)
{
    return c->plan->sums == SYMM_SUMS_BANDS;
}

#endif
