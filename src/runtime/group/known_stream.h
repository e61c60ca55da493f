/*
 * The streams that symm_stream_create() made. symm knows when they are destroyed. So a group need
 * not mark the end of each call on such a stream: it does that when a call on another stream comes.
 * Streams of other code may be gone by then.
 */
#ifndef SYMM_KNOWN_STREAM_H
#define SYMM_KNOWN_STREAM_H

#include <stdbool.h>
#include "runtime/driver/driver.h"

struct symm_known_stream;

/*
 * Adds a new stream. Its context must be current. Remove comes before the driver destroys the
 * stream; drv NULL: the driver is closed. Both are Local; any thread.
 */
symm_status symm__known_stream_add(const struct symm_driver *drv, CUstream stream);
void symm__known_stream_remove(const struct symm_driver *drv, CUstream stream);
/* Marks the end of the stream, which is about to be captured. */
symm_status symm__known_stream_before_capture(const struct symm_driver *drv, CUstream stream);

/* Finds a stream and keeps its record, also when it is destroyed. NULL: symm did not make it. */
struct symm_known_stream *symm__known_stream_hold(CUstream stream);
/* NULL is fine. */
void symm__known_stream_let_go(const struct symm_driver *drv, struct symm_known_stream *known);

/* Whether it is this stream, not one that got the handle after it. known may be NULL. */
bool symm__known_stream_is(const struct symm_known_stream *known, CUstream stream);
/*
 * *out: an event behind all work of the stream; of a stream that is destroyed or being captured,
 * behind all work before that. Errors: ERROR_DRIVER; ERROR_STATE, if code other than
 * symm_graph_begin() began the capture.
 */
symm_status symm__known_stream_end(const struct symm_driver *drv, struct symm_known_stream *known,
                                   CUevent *out);

#endif
