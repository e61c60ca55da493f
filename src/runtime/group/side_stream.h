/*
 * A group's side streams. A call runs copies on them, in parallel to its work on the caller's
 * stream. For each urgency there is one side stream for calls outside of captures and one for each
 * capture in progress. Events fork them from the caller's stream and join them to it, so in a
 * capture they become branches of the graph.
 */
#ifndef SYMM_SIDE_STREAM_H
#define SYMM_SIDE_STREAM_H

#include "call.h"

struct symm_side_stream;

/*
 * A kernel that does not fit on the device blocks queued kernels of equal or lower priority. So a
 * kernel that other kernels wait for is urgent and always fits. All other kernels are not urgent.
 */
enum symm_urgency { SYMM_URGENT, SYMM_NOT_URGENT };

/*
 * Takes a side stream for a call, at most one of each urgency. It is forked from call->stream, is
 * created at first use and stays with the group. A stream belongs to a capture until the capture
 * ends, even after the join. So a call never gets a stream of another capture.
 */
symm_status symm__side_stream_take(struct symm_call *call, enum symm_urgency urgency,
                                   struct symm_side_stream **out);

/* Marks the current end of the caller's stream. */
symm_status symm__side_stream_mark(struct symm_side_stream *side);
/* Later work on the side stream comes after the last mark. */
symm_status symm__side_stream_follow(struct symm_side_stream *side);
/* Later work on the caller's stream comes after all work on the side stream. */
symm_status symm__side_stream_join(struct symm_side_stream *side);
CUstream symm__side_stream_handle(const struct symm_side_stream *side);

/*
 * Joins the side stream if needed, also after the failure st, because a capture with a forked
 * stream cannot end. Returns st or its own failure.
 */
symm_status symm__side_stream_finish(struct symm_side_stream *side, symm_status st);

/* Releases all side streams of the group; *st keeps the first failure. Local. */
void symm__side_streams_release(struct symm_group *group, symm_status *st);

#endif
