/* What a rank is doing, as it tells a rank, or the hub, that waits for it. */
#ifndef SYMM_DOING_H
#define SYMM_DOING_H

#include "runtime/base/text.h"
#include "message.h"

enum { SYMM_CALL_MAX = 192 }; /* bytes of the text of a call */

enum symm_doing_kind {
    SYMM_DOING_NOTHING, /* text: the last call it made; may be empty */
    SYMM_DOING_CALL,    /* its host is in the call `text` */
    SYMM_DOING_WAIT,    /* its device waits; text: in which call, for what */
    SYMM_DOING_GONE,    /* it has left the group */
    SYMM_DOING_KINDS
};

struct symm_doing {
    enum symm_doing_kind kind;
    int awaits;        /* WAIT: the world rank that is waited for; -1: none */
    uint64_t since_ms; /* WAIT */
    char text[2 * SYMM_CALL_MAX];
    char enqueued[SYMM_CALL_MAX]; /* "call 5: ...", the last one that was enqueued; empty: none */
};

/* Into a TOLD, whose texts then point into doing, and out of one. */
void symm__doing_write(const struct symm_doing *doing, struct symm_message *told);
void symm__doing_read(const struct symm_message *told, struct symm_doing *doing);

/* "rank 2 waits in call 6: ...". rank is a world rank. */
void symm__doing_add(struct symm_text *text, int rank, const struct symm_doing *doing);

#endif
