/*
 * Subjects of a comparison: timed alternately, and checked on fresh data before and after. A
 * subject is a row of functions and the data that they get.
 */
#ifndef SYMM_BENCH_SUBJECT_H
#define SYMM_BENCH_SUBJECT_H

#include "session.h"

struct subject_kind {
    /* Enqueues nops calls. */
    symm_status (*enqueue)(const void *what, int nops);
    /* Enqueues the restoration of the input, before each repetition and untimed; NULL: nothing. */
    symm_status (*prepare)(const void *what);
    /* Makes fresh input by the seed, and fills the output with poison. */
    symm_status (*offer)(void *what, uint64_t seed);
    /* Counts the wrong elements of this rank after nops calls. */
    symm_status (*judge)(void *what, int nops, uint64_t *wrong);
};

struct subject {
    const struct subject_kind *kind;
    void *what;
    int nops;          /* calls of a repetition */
    bool idle;         /* this rank enqueues nothing: its time is 0 */
    int64_t wrong;     /* elements of all ranks, the most of any check; -1: not to be checked */
    float once_us;     /* this rank's time of the last check */
    float median, p95; /* microseconds of a call, on the slowest rank */
    symm_graph graph;  /* of a repetition; NULL without --graph */
};

/* Checks one call on fresh data. Collective. */
symm_status subject_check(struct session *s, struct subject *x, uint64_t seed);

/* Times `iters` repetitions after the warm-up. Collective. */
symm_status subject_time(struct session *s, struct subject *x, int iters);

/*
 * Checks each subject by one call, times all of them alternately, so that drift affects all of them
 * alike, and checks each by a repetition, with other data. Collective.
 */
symm_status subjects_measure(struct session *s, struct subject *all, int n, uint64_t seed);

#endif
