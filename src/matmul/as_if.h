/*
 * SYMM_MATMUL_AS_IF=R, for measurements: a product of two ranks runs as if they were R. Each of the
 * two is rank 0, and the other one plays all others: it sends what R - 1 ranks send, to places and
 * with signals of their own. So a rank sends, receives, waits and computes as much as rank 0 of R.
 */
#ifndef SYMM_MATMUL_AS_IF_H
#define SYMM_MATMUL_AS_IF_H

#include "matmul/plan/problem.h"
#include "runtime/group/group.h"

/*
 * Sets *view to that of a product's kernels: the group's, or one of R ranks. Errors:
 * ERROR_ARGUMENT: the setting is out of range; ERROR_UNSUPPORTED: the group has not two ranks.
 */
symm_status symm__as_if(const struct symm_group *group, symm_matmul_kind kind, symm_view *view);

/* Whether the product with this view may run. Errors: ERROR_UNSUPPORTED. */
symm_status symm__as_if_check(const symm_view *view, const struct symm_problem *p);

/*
 * Moves the other ranks' memory in such a view by slots of slot_nbytes each, so that kernels that
 * address this rank's slot on another rank find the one from which that rank takes it.
 */
void symm__as_if_slots(symm_view *view, uint64_t slot_nbytes);

#endif
