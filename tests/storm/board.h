/*
 * Memory shared by the ranks of a round and their driver: each rank's current call and its start,
 * and the number of faults found. A rank is late if its call takes longer than its limit.
 */
#ifndef STORM_BOARD_H
#define STORM_BOARD_H

#include <stdatomic.h>
#include <symm/types.h>
#include "plan.h"

/* Faults of a round. X(name, text). */
#define STORM_FAULTS(X)                                                                            \
    X(WRONG, "wrong")   /* symm_synchronize was OK and a result is not right */                    \
    X(LATE, "late")     /* a call took longer than its limit, or has not returned */               \
    X(LEAKED, "leaked") /* something is left of a context that was destroyed */                    \
    X(UNJUST, "unjust") /* a call failed, and nothing had happened to its group */                 \
    X(BROKEN, "broken") /* a rule of the driver was broken, or a rank crashed */

enum storm_wrong {
#define STORM_WRONG_ID_(name, text) STORM_##name,
    STORM_FAULTS(STORM_WRONG_ID_)
#undef STORM_WRONG_ID_
        STORM_WRONGS
};

struct storm_board;

/* A rank's place on the board. */
struct storm_post {
    struct storm_board *board;
    uint64_t seed;
    int rank;
    atomic_int life;    /* it is in, from 1; 0: not yet in any */
    atomic_int deafens; /* ms for which it wants the hub to be stopped; 0: that is done */
    atomic_llong since; /* when the call it is in began, in ms; 0: it is in none */
    atomic_llong limit; /* how long that may take, in ms */
    _Atomic(const char *) call;
    atomic_llong calls, worst; /* worst: the most by which a call exceeded its limit, in ms */
    _Atomic(const char *) worst_call; /* which that was */
    atomic_llong happened[STORM_EVENTS_KNOWN], wrong[STORM_WRONGS];
};

struct storm_board {
    atomic_int load; /* tasks that want a processor, for each there is: at least 1 */
    atomic_int finished[STORM_LIVES]; /* ranks that have done all actions */
    atomic_int over[STORM_LIVES];     /* survivors that have left */
    atomic_bool leaving[STORM_LIVES]; /* somebody leaves: any group may end */
    struct storm_post posts[STORM_RANKS];
};

struct storm_board *board_create(void);
void board_destroy(struct storm_board *board);
/* Empties it for a round of this plan. */
void board_clear(struct storm_board *board, const struct storm_plan *plan);
/* Looks at how busy the machine is. */
void board_measure(struct storm_board *board);

/* By how much a call may exceed its limit: a second, and more on a busy machine. */
long long board_margin_ms(const struct storm_board *board);

/* Around a call. */
void board_begin(struct storm_post *post, const char *call, int limit_ms);
void board_end(struct storm_post *post);

/* Counts a fault and prints its text. */
__attribute__((format(printf, 3, 4))) void
board_report(struct storm_post *post, enum storm_wrong wrong, const char *fmt, ...);

/* Waits until `n` ranks have come. */
void board_meet(atomic_int *came, int n);

#endif
