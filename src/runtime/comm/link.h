/*
 * One end of a connection: sends at once when it can and keeps the rest, in order, for the thread
 * that polls it. Sending never blocks and works from any thread; receiving and flushing belong to
 * the polling thread.
 */
#ifndef SYMM_LINK_H
#define SYMM_LINK_H

#include <pthread.h>
#include "message.h"

struct symm_link {
    int fd;
    pthread_mutex_t lock;
    struct symm_queued *first, *last; /* what could not be sent yet */
    bool broken;                      /* the other side is gone: what is sent is dropped */
    bool refused; /* too many descriptors in flight: writable, and yet not now */
};

enum symm_sent {
    SYMM_SENT,
    SYMM_SENT_LATER, /* queued: the polling thread must know */
    SYMM_SENT_NOT,   /* no memory or descriptors for queueing; the failure text says so */
};

/* Takes the descriptor, in every case. */
symm_status symm__link_open(struct symm_link *link, int fd);
void symm__link_close(struct symm_link *link); /* only what was opened */

/* Takes the caller's reference of the frame, in every case. */
enum symm_sent symm__link_send(struct symm_link *link, struct symm_frame *frame);

/* Sends what is queued, as far as it goes. */
void symm__link_flush(struct symm_link *link);
bool symm__link_idle(struct symm_link *link);

/* Bytes that have come and were not received yet, in all messages; below SIZE_MAX. */
size_t symm__link_unread(const struct symm_link *link);

/* Ends the connection in both directions; what the other side has not received yet stays there. */
void symm__link_hang_up(struct symm_link *link);

/* What to poll for. *retry: something waits that poll cannot see; flush it after a moment. */
short symm__link_events(struct symm_link *link, bool *retry);

#endif
