/*
 * One end of a connection. Sends at once if the socket takes the frame, else queues it for the
 * polling thread; order is kept. Any thread may send, and sending never blocks. Only the polling
 * thread receives and flushes.
 */
#ifndef SYMM_LINK_H
#define SYMM_LINK_H

#include <pthread.h>
#include "message.h"

struct symm_link {
    int fd;
    pthread_mutex_t lock;
    struct symm_queued *first, *last; /* frames to be sent later */
    bool broken;                      /* the other side has closed: frames are dropped */
    bool refused; /* too many descriptors in flight: poll says writable, sendmsg fails */
};

enum symm_sent {
    SYMM_SENT,
    SYMM_SENT_LATER, /* queued: wake the polling thread */
    SYMM_SENT_NOT,   /* no memory or descriptors for the queue: see the failure text */
};

/* Takes ownership of fd, also on failure. */
symm_status symm__link_open(struct symm_link *link, int fd);
void symm__link_close(struct symm_link *link); /* of an opened link only */

/* Takes the caller's reference of the frame, also on failure. */
enum symm_sent symm__link_send(struct symm_link *link, struct symm_frame *frame);

/* Sends queued frames until the socket takes no more. */
void symm__link_flush(struct symm_link *link);
bool symm__link_idle(struct symm_link *link);

/* Bytes of all messages that lie unread in the socket; below SIZE_MAX. */
size_t symm__link_unread(const struct symm_link *link);

/* Ends the connection in both directions. The other side can still receive earlier messages. */
void symm__link_hang_up(struct symm_link *link);

/*
 * The poll events. Sets *retry if a frame waits for a condition that poll does not report: flush
 * again after a moment.
 */
short symm__link_events(struct symm_link *link, bool *retry);

#endif
