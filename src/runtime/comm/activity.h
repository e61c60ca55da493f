/* What a rank is doing, as it tells a rank, or the hub, that waits for it. */
#ifndef SYMM_ACTIVITY_H
#define SYMM_ACTIVITY_H

#include "runtime/base/text.h"
#include "message.h"

enum { SYMM_CALL_MAX = 192 }; /* bytes of the text of a call */

enum symm_activity_kind {
    SYMM_ACTIVITY_NOTHING, /* text: the last call it made; may be empty */
    SYMM_ACTIVITY_CALL,    /* its host is in the call `text` */
    SYMM_ACTIVITY_WAIT,    /* its device waits; text: in which call, for what */
    SYMM_ACTIVITY_GONE,    /* it has left the group */
    SYMM_ACTIVITY_KINDS
};

struct symm_activity {
    enum symm_activity_kind kind;
    int awaits;        /* WAIT: the world rank that is waited for; -1: none */
    uint64_t since_ms; /* WAIT */
    char text[2 * SYMM_CALL_MAX];
    char enqueued[SYMM_CALL_MAX]; /* "call 5: ...", the last one that was enqueued; empty: none */
};

/* Into a TOLD, whose texts then point into activity, and out of one. */
void symm__activity_write(const struct symm_activity *activity, struct symm_message *told);
void symm__activity_read(const struct symm_message *told, struct symm_activity *activity);

/* "rank 2 waits in call 6: ...". rank is a world rank. */
void symm__activity_add(struct symm_text *text, int rank, const struct symm_activity *activity);

#endif
