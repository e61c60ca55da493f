/* What is compared, timed by turns: repetitions of so many calls, eagerly or as one graph. */
#ifndef SYMM_BENCH_TIMING_H
#define SYMM_BENCH_TIMING_H

#include "session.h"

/* Calls of one kind. */
struct timed {
    /* Enqueues nops calls. */
    symm_status (*enqueue)(const void *what, int nops);
    /* Enqueues what has to be there before a repetition and is not timed; NULL: nothing. */
    symm_status (*prepare)(const void *what);
    const void *what;
    int nops;         /* of a repetition */
    symm_graph graph; /* of a repetition; NULL without --graph */
    float *samples;   /* one for every repetition */
};

/* Records nops calls; without --graph there is nothing to record. */
symm_status timing_record(const struct session *s, const struct timed *t, int nops,
                          symm_graph *out);

/* Enqueues nops calls, or the graph of them where there is one. */
symm_status timing_repeat(const struct session *s, const struct timed *t, symm_graph graph,
                          int nops);

/* Prepares a repetition and makes the ranks begin it together. */
symm_status timing_line_up(const struct session *s, const struct timed *t);

/*
 * Records and times them all, by turns, so that what changes with time changes for all of them.
 * Collective. timing_clear() takes the graphs back, after a failure too.
 */
symm_status timing_run(const struct session *s, struct timed *all, int n);
void timing_clear(struct timed *all, int n);

/* The median and the 95th percentile of one call on the slowest rank. Collective. */
symm_status timing_summarise(struct session *s, struct timed *t, float times[2]);

#endif
