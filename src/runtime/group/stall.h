/*
 * The judge of long waits. A kernel that waits long leaves a record in pinned memory; the I/O
 * thread looks at it and tells slow (a report) from stalled (the group ends with a timeout) and
 * from a disagreement (ranks called different things), and asks the other ranks what they called
 * last, so that the error can say so.
 */
#ifndef SYMM_STALL_H
#define SYMM_STALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <symm/detail/wait_record.h>
#include "runtime/comm/activity.h"

struct symm_group;

struct symm_stall {
    struct symm_wait_record seen; /* as at the last look; valid 0: nobody waited */
    int64_t since_us;             /* when it was first seen so */
    int64_t reported_us;
    int64_t asked_us; /* 0: not asked */
    bool told;        /* who was asked has answered */
    struct symm_activity answer;
};

/* Looks at every group of a context: the exchange's tick, user is the context. */
void symm__stall_tick(void *user);

/* The exchange's events activity and told, user is the group. */
void symm__stall_activity(void *user, struct symm_activity *out);
void symm__stall_told(void *user, int rank, const struct symm_activity *activity);

/*
 * Kernels that find that ranks called different things say so in the record, and the I/O thread
 * ends the group a moment later. Waits for that moment, so that nobody is told OK in between.
 * Local; one load where there is nothing to wait for.
 */
void symm__stall_settle(struct symm_group *group);

#endif
