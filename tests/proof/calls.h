/* Protocols of calls in stream order, and their helpers for other protocols. */
#ifndef PROOF_CALLS_H
#define PROOF_CALLS_H

#include "protocols.h"

struct call {
    const struct protocol *protocol;
    symm_dtype dtype;
    size_t count, nbytes;
    char *in, *out, *inbox;
    bool in_place; /* as the operation has it */
    symm_redop op;
    symm_options options;
    int root; /* of a broadcast, modulo the number of ranks */
    uint32_t signals, rounds;
    uint32_t epochs[4]; /* of `wrap`: where counters are put */
};

/* Draws the next call of all ranks; one of them may have its data at another address. */
struct call calls_draw(struct stage *st, const struct protocol *p, struct draw *draw);
/* The same as the protocol's collective takes it. */
struct call calls_draw_collective(struct stage *st, const struct protocol *p, struct draw *draw);

/*
 * Of `count` elements as the operation counts. The input is spoilt right behind each call, and the
 * output before it. `turn`: whose data.
 */
bool calls_enqueue(struct stage *st, const struct call *call, size_t count, int turn);

/* A protocol's `run`. */
bool calls_run_signals(struct stage *st, const struct protocol *p, struct draw *draw);
bool calls_run_barriers(struct stage *st, const struct protocol *p, struct draw *draw);
bool calls_run_collective(struct stage *st, const struct protocol *p, struct draw *draw);
bool calls_run_mixture(struct stage *st, const struct protocol *p, struct draw *draw);
bool calls_run_roots(struct stage *st, const struct protocol *p, struct draw *draw);
bool calls_run_wrap(struct stage *st, const struct protocol *p, struct draw *draw);

#endif
