/*
 * The plan of a round, drawn from its seed alone. Driver and ranks draw the same plan, so
 * collective calls match and each process knows which groups may end.
 */
#ifndef STORM_PLAN_H
#define STORM_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum { STORM_RANKS = 12, STORM_LIVES = 4, STORM_EVENTS = 2 };

/* X(name, whether the rank is lost, text). */
#define STORM_EVENT_KINDS(X)                                                                       \
    X(KILL, true, "kills") /* SIGKILL from outside, at a random time */                            \
    X(DIE, true, "deaths") /* SIGKILL by itself, between two calls */                              \
    X(FATAL_FAULT, true, "deaths inside a driver call")                                            \
    X(EXIT, true, "exits")            /* exit code 0, without a destroy */                         \
    X(STOP, false, "short stops")     /* SIGSTOP for less than the timeout */                      \
    X(LONG_STOP, false, "long stops") /* SIGSTOP for 0.5 to 1.5 timeouts */                        \
    X(ABORT, false, "aborts")         /* of a group in which collectives run */                    \
    X(ABORT_ALL, false, "aborts of all groups")                                                    \
    X(LEAVE, false, "early destroys") /* symm_context_destroy before the others */                 \
    X(SKIP, false, "skipped calls")                                                                \
    X(FAULT, false, "driver faults")

enum storm_event_kind {
#define STORM_EVENT_ID_(name, loses, text) STORM_##name,
    STORM_EVENT_KINDS(STORM_EVENT_ID_)
#undef STORM_EVENT_ID_
        STORM_EVENTS_KNOWN
};

struct storm_event {
    enum storm_event_kind kind;
    int rank;      /* of the round */
    int action;    /* aborts, SKIP: the next that will do; KILL, stops: not used */
    int after_us;  /* KILL, stops: since the rank began the life; aborts: since the action began */
    int stop_ms;   /* aborts: of the hub, which then hears of them late; 0: of nobody */
    int nth, code; /* faults: the nth driver call from the action on returns code */
};

/* One world, from symm_context_create to symm_context_destroy, of the ranks that are left. */
struct storm_life {
    uint64_t seed;
    int nactions, timeout_ms;
    bool together; /* nobody leaves before all have done all actions */
    int nranks, ranks[STORM_RANKS];
    int nevents;
    struct storm_event events[STORM_EVENTS];
};

struct storm_plan {
    uint64_t seed;
    int nranks, nlives;
    struct storm_life lives[STORM_LIVES];
};

void plan_draw(uint64_t seed, int least, int most, struct storm_plan *out);

/* Sets the environment of this round's ranks. */
void plan_environment(const struct storm_plan *plan);

/* Prints the plan: a line a life. */
void plan_print(const struct storm_plan *plan);

bool plan_loses(enum storm_event_kind kind);
const char *plan_event_text(enum storm_event_kind kind);

/* The rank's number in the life's world; -1: it is dead by then. */
int life_place(const struct storm_life *life, int rank);
/* Whether the rank is lost in this life. */
bool life_loses(const struct storm_life *life, int rank);
/* How many ranks are there after it. */
int life_survivors(const struct storm_life *life);
/* Whether the plan lets calls of a group of these ranks (a bit each) fail. */
bool life_may_end(const struct storm_life *life, uint32_t ranks);
/* Whether calls may time out. */
bool life_times_out(const struct storm_life *life);
/* Milliseconds for which the plan stops ranks. */
int life_stops_ms(const struct storm_life *life);

#endif
