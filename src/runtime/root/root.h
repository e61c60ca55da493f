/*
 * The root: the hubs of all domains connect to it. It lives in the context of rank 0, in a thread
 * of its own, and knows domains, not ranks.
 *
 * Messages of a hub: DOMAIN; VOTE and SPAN (the first vote of a new comm) with the contribution of
 * its ranks; ABORT, CLOSE, SLOW, EXPIRED; CONFIRM (is the comm alive on all domains?); the answers
 * CONFIRMED and LATE; BYE. Messages to a hub: RESULT, ENDED, LATE; the questions CONFIRM and SLOW
 * (which of your ranks are missing?); CONFIRMED. Each hub names comms as it likes.
 */
#ifndef SYMM_ROOT_H
#define SYMM_ROOT_H

#include "runtime/base/log.h"
#include "runtime/comm/span.h"

struct symm_root;

/*
 * Takes the listener, also on failure. The span must live as long as the root.
 * Errors: ERROR_MEMORY, ERROR_SYSTEM
 */
symm_status symm__root_open(const struct symm_span *span, int listener, const struct symm_log *log,
                            struct symm_root **out);

/* Waits until every domain has left or is lost, at most wait_ms. NULL is fine. */
void symm__root_close(struct symm_root *root, int64_t wait_ms);

#endif
