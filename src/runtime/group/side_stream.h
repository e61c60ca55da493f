/*
 * A group's side streams, on which a call has copies run beside what it has in the caller's stream:
 * of each urgency one for calls outside of captures, and one for each capture at a time.
 * They are forked from it and joined to it by events, so that in a capture they become branches of
 * the graph.
 */
#ifndef SYMM_SIDE_STREAM_H
#define SYMM_SIDE_STREAM_H

#include "call.h"

struct symm_side_stream;

/*
 * Kernels that find no room on the device keep those behind them waiting that are no more urgent.
 * So what a kernel waits for is urgent, and has room whatever runs there; all else is not.
 */
enum symm_urgency { SYMM_URGENT, SYMM_NOT_URGENT };

/*
 * A side stream for one call, which takes one of each urgency at most; call's stream is the caller's,
 * from which it is forked. It is made at first need and stays with the group. A stream takes part
 * in a capture until that ends, whatever has been joined: so a call never gets one that another
 * capture has.
 */
symm_status symm__side_stream_take(struct symm_call *call, enum symm_urgency urgency,
                                   struct symm_side_stream **out);

/* The point in the caller's stream that can be followed from now on: after all that it has. */
symm_status symm__side_stream_mark(struct symm_side_stream *side);
/* What the side stream gets from now on comes after the last mark. */
symm_status symm__side_stream_follow(struct symm_side_stream *side);
/* What the caller's stream gets from now on comes after all that the side stream has. */
symm_status symm__side_stream_join(struct symm_side_stream *side);
CUstream symm__side_stream_handle(const struct symm_side_stream *side);

/*
 * Joins it if it has not been, also after a failure, which it returns: a capture cannot be ended
 * otherwise.
 */
symm_status symm__side_stream_finish(struct symm_side_stream *side, symm_status st);

/* Gives back all that the group has; *st keeps the first failure. Local. */
void symm__side_streams_release(struct symm_group *group, symm_status *st);

#endif
