/* What every collective does: checks the call, plans it, says where the data lie, launches. */
#ifndef SYMM_COLLECTIVE_H
#define SYMM_COLLECTIVE_H

#include "runtime/group/call.h"
#include "plan.h"

/*
 * The public function of an operation: call holds what is the operation's own; algo, flags and
 * max_blocks are filled in from options.
 */
symm_status symm__collective(symm_group *group, struct symm_collective_call call, const void *in,
                             void *out, const symm_options *options, symm_stream stream);

/*
 * What it enqueues, within another call: the ranks call the same, and what AUTO, in and out may be
 * is seen to.
 */
symm_status symm__collective_enqueue(struct symm_call *e, const struct symm_collective_call *call,
                                     const void *in, void *out);

/* Why it cannot run here; NULL: it can. */
const char *symm__collective_unavailable(symm_group *group, enum symm_operation operation,
                                         symm_algo algo, symm_dtype dtype, symm_redop op);

#endif
