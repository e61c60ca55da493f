/* Sends frames, and queues them while the socket is full. */
#include "link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include "runtime/base/fd.h"

struct symm_queued {
    struct symm_queued *next;
    struct symm_frame *frame;
};

symm_status symm__link_open(struct symm_link *link, int fd)
{
    *link = (struct symm_link){.fd = fd};
    int err = pthread_mutex_init(&link->lock, NULL);
    if (err) {
        symm__fd_close(&link->fd);
        return symm__fail_errno(err, "pthread_mutex_init");
    }
    return SYMM_OK;
}

static void drop_first(struct symm_link *link)
{
    struct symm_queued *q = link->first;

    link->first = q->next;
    if (!link->first)
        link->last = NULL;
    symm__frame_put(q->frame);
    free(q);
}

void symm__link_close(struct symm_link *link)
{
    while (link->first)
        drop_first(link);
    symm__link_hang_up(link); /* a forked child may hold the socket, too */
    symm__fd_close(&link->fd);
    pthread_mutex_destroy(&link->lock);
}

/*
 * Returns 0 if the frame was sent, or dropped because the other side has closed; EAGAIN if the
 * socket does not take it now; else errno.
 */
static int try_send(struct symm_link *link, const struct symm_frame *frame)
{
    int err = link->broken ? 0 : symm__frame_send(link->fd, frame);

    link->refused = err == ETOOMANYREFS || err == ENOBUFS || err == ENOMEM;
    if (link->refused)
        return EAGAIN;
    if (err == EPIPE || err == ECONNRESET || err == ECONNREFUSED || err == ENOTCONN) {
        link->broken = true;
        return 0;
    }
    return err;
}

/*
 * Duplicates the descriptors of a queued frame, since the caller may close its own before they are
 * sent.
 */
static symm_status own_fds(struct symm_frame *frame)
{
    if (frame->owns_fds)
        return SYMM_OK;
    for (int i = 0; i < frame->nfds; i++) {
        int copy = fcntl(frame->fds[i], F_DUPFD_CLOEXEC, 0);
        if (copy < 0) {
            int err = errno;
            symm__fd_close_all(frame->fds, i);
            return symm__fail_errno(err, "keeping descriptor %d until it can be sent",
                                    frame->fds[i]);
        }
        frame->fds[i] = copy;
    }
    frame->owns_fds = true;
    return SYMM_OK;
}

static bool enqueue(struct symm_link *link, struct symm_frame *frame)
{
    struct symm_queued *q = malloc(sizeof *q);

    if (!q)
        symm__fail(SYMM_ERROR_MEMORY, "no memory for a message");
    if (!q || own_fds(frame) != SYMM_OK) {
        free(q);
        return false;
    }
    *q = (struct symm_queued){NULL, frame};
    if (link->last)
        link->last->next = q;
    else
        link->first = q;
    link->last = q;
    return true;
}

enum symm_sent symm__link_send(struct symm_link *link, struct symm_frame *frame)
{
    enum symm_sent sent = SYMM_SENT;
    int err;

    pthread_mutex_lock(&link->lock);
    err = link->first ? EAGAIN : try_send(link, frame);
    if (err == EAGAIN) {
        sent = enqueue(link, frame) ? SYMM_SENT_LATER : SYMM_SENT_NOT;
    } else if (err) {
        symm__fail_errno(err, "sendmsg");
        sent = SYMM_SENT_NOT;
    }
    if (sent != SYMM_SENT_LATER)
        symm__frame_put(frame);
    pthread_mutex_unlock(&link->lock);
    return sent;
}

void symm__link_flush(struct symm_link *link)
{
    pthread_mutex_lock(&link->lock);
    while (link->first && try_send(link, link->first->frame) != EAGAIN)
        drop_first(link);
    pthread_mutex_unlock(&link->lock);
}

bool symm__link_idle(struct symm_link *link)
{
    pthread_mutex_lock(&link->lock);
    bool idle = !link->first;
    pthread_mutex_unlock(&link->lock);
    return idle;
}

size_t symm__link_unread(const struct symm_link *link)
{
    int nbytes;

    /* If the system call fails, no number of bytes counts as enough. */
    return ioctl(link->fd, FIONREAD, &nbytes) ? SIZE_MAX - 1 : (size_t)nbytes;
}

void symm__link_hang_up(struct symm_link *link)
{
    shutdown(link->fd, SHUT_RDWR);
}

short symm__link_events(struct symm_link *link, bool *retry)
{
    pthread_mutex_lock(&link->lock);
    bool waits = link->first, refused = link->refused;
    pthread_mutex_unlock(&link->lock);
    *retry |= waits && refused;
    return waits && !refused ? POLLIN | POLLOUT : POLLIN;
}
