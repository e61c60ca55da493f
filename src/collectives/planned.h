/*
 * A call with the algorithm and the plan that were chosen for it. A group keeps those of its last
 * call, since programs repeat calls. They follow from the call and from the group's areas alone:
 * its other limits never change.
 */
#ifndef SYMM_PLANNED_H
#define SYMM_PLANNED_H

#include "runtime/group/context.h"
#include "plan.h"

struct symm_planned {
    struct symm_collective_call call;
    const struct symm_algorithm *algorithm; /* NULL: one rank, or no elements */
    struct symm_plan plan;                  /* of an algorithm with a kernel */
    bool slower;                            /* than with the full areas of a group */
};

/*
 * Chooses and plans. For a call that has been checked. full: the full areas, which the group may
 * lack. Pure.
 */
void symm__planned_make(const struct symm_limits *limits, const struct symm_areas_size *full,
                        const struct symm_collective_call *call, struct symm_planned *out);
/* Keeps it until the next one, if there is host memory. */
void symm__planned_keep(struct symm_group *group, const struct symm_planned *planned);
/* Returns whether the group's last call was the same, on the same areas; then *out is its plan. */
bool symm__planned_find(const struct symm_group *group, const struct symm_collective_call *call,
                        struct symm_planned *out);

#endif
