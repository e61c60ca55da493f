/*
 * Judges long waits of kernels. A kernel that waits long writes a record in pinned memory. The I/O
 * thread reads it and distinguishes slow (a report), stalled (the group ends by timeout) and
 * mismatch (ranks called different things). It asks the awaited rank for its activity, for the
 * error text.
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
    struct symm_wait_record seen; /* at the last tick; valid 0: no wait */
    int64_t since_us;             /* first seen unchanged */
    int64_t reported_us;
    int64_t asked_us; /* 0: not asked */
    bool told;        /* the asked rank has answered */
    struct symm_activity answer;
};

/* Judges every group of a context. The exchange's tick; user: the context. */
void symm__stall_tick(void *user);

/* The exchange's events activity and told; user: the group. */
void symm__stall_activity(void *user, struct symm_activity *out);
void symm__stall_told(void *user, int rank, const struct symm_activity *activity);

/*
 * After a mismatch in the record, waits until the I/O thread has ended the group. Otherwise a call
 * could return OK in between. Local; one load if there is no mismatch. In the I/O thread it returns
 * at once.
 */
void symm__stall_settle(struct symm_group *group);

#endif
