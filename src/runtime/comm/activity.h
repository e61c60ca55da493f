/*
 * A rank's activity: its current or last call, or the wait of its device. Sent to another rank or
 * the hub that asks.
 */
#ifndef SYMM_ACTIVITY_H
#define SYMM_ACTIVITY_H

#include "runtime/base/text.h"
#include "message.h"

enum { SYMM_CALL_MAX = 192 }; /* bytes of the text of a call */

enum symm_activity_kind {
    SYMM_ACTIVITY_NOTHING, /* text: its last call; may be empty */
    SYMM_ACTIVITY_CALL,    /* its host is in the call `text` */
    SYMM_ACTIVITY_WAIT,    /* its device waits; text: the call and the awaited rank or blocks */
    SYMM_ACTIVITY_GONE,    /* it has left the group */
    SYMM_ACTIVITY_KINDS
};

struct symm_activity {
    enum symm_activity_kind kind;
    int awaits;        /* WAIT: the awaited world rank; -1: none */
    uint64_t since_ms; /* WAIT */
    char text[2 * SYMM_CALL_MAX];
    char enqueued[SYMM_CALL_MAX]; /* "call 5: ...", the last enqueued call; empty: none */
};

/* Writes an activity into a TOLD message, whose texts then point into it; reads one from a TOLD. */
void symm__activity_write(const struct symm_activity *activity, struct symm_message *told);
void symm__activity_read(const struct symm_message *told, struct symm_activity *activity);

/* Appends "rank 2 waits in call 6: ...". rank: a world rank. */
void symm__activity_add(struct symm_text *text, int rank, const struct symm_activity *activity);

#endif
