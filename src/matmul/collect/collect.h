/*
 * What follows a product whose results go to other ranks: the sums of all ranks' products, or the
 * columns of all ranks. The product writes to this rank's workspace, or each owner's rows to a slot
 * in the owner's workspace. One kernel makes D, or of plain sums a collective of the group.
 */
#ifndef SYMM_MATMUL_COLLECT_H
#define SYMM_MATMUL_COLLECT_H

#include "matmul/plan/plan.h"
#include "runtime/group/call.h"

/* The collecting part of a product, for all of its runs. */
struct symm_collect {
    const struct symm_group *group;
    const symm_view *view; /* of the product's kernels */
    const struct symm_problem *problem;
    const struct symm_matmul_plan *plan;
    char *workspace;         /* symmetric; NULL: nothing is collected */
    symm_signal_pad *pad;    /* NULL: the collectives have theirs */
    symm_parts_state *state; /* of sums beside the product; NULL: there are none */
};

/*
 * Sets *out to the product of p that a rank computes: p itself, or if its results are collected,
 * the product without the transform of sums, to the workspace. Of a plan with owners, d[i] is this
 * rank's slot of an owner's rows. Pure.
 */
void symm__collect_product(const struct symm_collect *c, const struct symm_problem *p,
                           struct symm_problem *out);

/* Allocates the memory of runs, owned by `owner`, and the collectives' areas. Collective. */
symm_status symm__collect_alloc(struct symm_call *call, void *owner, struct symm_collect *c);
/* Clears its signals, and creates what runs need. Local; before the first signal of any rank. */
symm_status symm__collect_prepare(struct symm_call *call, const struct symm_collect *c);

/* From one rank's slot of product 0 to the next one's. */
uint64_t symm__collect_slot_nbytes(const struct symm_collect *c, const struct symm_problem *p);

/*
 * Sets *out to the parts of sums that a product of the problem p adds; pad NULL: it adds none.
 * can_add: whether the multiplier can add. Pure.
 */
void symm__collect_parts(const struct symm_collect *c, const struct symm_problem *p, bool can_add,
                         symm_parts *out);

/*
 * Makes D of the product of p, which precedes it on the stream. product: as
 * symm__collect_product() gives it. can_add: as above. Stream-ordered.
 */
symm_status symm__collect_enqueue(struct symm_call *call, const struct symm_collect *c,
                                  const struct symm_problem *product, const struct symm_problem *p,
                                  bool can_add);

#endif
