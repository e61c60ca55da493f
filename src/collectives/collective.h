/* The common part of all collectives: checks the call, looks its buffers up, chooses, launches. */
#ifndef SYMM_COLLECTIVE_H
#define SYMM_COLLECTIVE_H

#include "runtime/group/call.h"
#include "arguments.h"

/*
 * The public function of an operation. The caller sets operation, dtype, op, count and row of the
 * call; algo, flags and max_blocks are filled in from options.
 */
symm_status symm__collective(symm_group *group, struct symm_collective_call call,
                             const struct symm_data *data, const symm_options *options,
                             symm_stream stream);

/*
 * Makes the areas that a collective would be slower without, if there is memory for them.
 * Collective, after symm__collective_begin(). Errors: ERROR_MISMATCH, ERROR_PEER, ERROR_TIMEOUT
 */
symm_status symm__collective_provide(struct symm_call *c, const struct symm_collective_call *call);

/*
 * Enqueues a collective within another call, without checks: all ranks call the same, with valid
 * arguments.
 */
symm_status symm__collective_enqueue(struct symm_call *e, const struct symm_collective_call *call,
                                     const struct symm_data *data);

/* Parts of a call that groups of several domains have, too (spanning.c). */
struct symm_limits symm__collective_limits(const struct symm_group *group);
symm_status symm__collective_check_enums(const struct symm_collective_call *call);
symm_status symm__collective_check_reserved(const symm_options *options);
symm_status symm__collective_check_count(const struct symm_group *group,
                                         const struct symm_collective_call *call);
/* Whether the stream is being captured: then no host call may block. */
symm_status symm__collective_is_captured(const struct symm_group *group, symm_stream stream,
                                         bool *out);
/* Begins the call; its text has what the ranks must agree on. */
symm_status symm__collective_start(struct symm_call *e, symm_group *group,
                                   const struct symm_collective_call *call, symm_stream stream);

/* Why it cannot run here; NULL: it can. */
const char *symm__collective_unavailable(symm_group *group, enum symm_operation operation,
                                         symm_algo algo, symm_dtype dtype, symm_redop op);

#endif
