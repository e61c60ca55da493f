/* Frames with a length before them, after a handshake; and signs of life. */
#include "wire.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include "runtime/base/fd.h"
#include "handshake.h"

enum {
    LENGTH_BYTES = 4,
    LEAST_ROOM = 4096, /* of the receive buffer; it grows with the frames */
    SECOND_US = 1000000,
};

struct queued {
    struct queued *next;
    struct symm_frame *frame;
};

struct symm_wire {
    int fd; /* -1 after the end */
    enum symm_wire_state state;
    bool connecting; /* connect() has not finished */
    struct symm_handshake handshake;
    int64_t begun_us, sent_us, heard_us;

    /* What precedes the first queued frame: this end's handshake, later signs of life. */
    const uint8_t *control;
    size_t ncontrol, control_sent;
    struct queued *first, *last;
    size_t frame_sent; /* of the first frame with its length */
    int send_err;      /* nothing can be sent any more; the end is seen by reading */

    uint8_t *in; /* received after the handshake: in[in_at] to in[in_end - 1] */
    size_t in_at, in_end, in_room;

    symm_status status;
    char why[256];
};

/* ---- The end ---- */

static void drop_frames(struct symm_wire *w)
{
    while (w->first) {
        struct queued *q = w->first;
        w->first = q->next;
        symm__frame_put(q->frame);
        free(q);
    }
    w->last = NULL;
    w->frame_sent = 0;
    w->control_sent = w->ncontrol;
}

/* Only the first reason counts. */
__attribute__((format(printf, 3, 4))) static void end(struct symm_wire *w, symm_status status,
                                                      const char *fmt, ...)
{
    va_list args;

    if (w->state == SYMM_WIRE_ENDED)
        return;
    w->state = SYMM_WIRE_ENDED;
    w->status = status;
    va_start(args, fmt);
    vsnprintf(w->why, sizeof w->why, fmt, args);
    va_end(args);
    drop_frames(w);
    shutdown(w->fd, SHUT_RDWR); /* a forked child may hold the socket, too */
    symm__fd_close(&w->fd);
}

static void end_errno(struct symm_wire *w, int err)
{
    end(w, err == ENOMEM ? SYMM_ERROR_MEMORY : SYMM_ERROR_PEER, "%s", strerror(err));
}

/* ---- Sending ---- */

static bool is_pending(const struct symm_wire *w)
{
    return w->control_sent < w->ncontrol || (w->state == SYMM_WIRE_OPEN && w->first);
}

/* Writes the rest of the control bytes, or of the first frame with its length. */
static ssize_t write_rest(const struct symm_wire *w)
{
    const size_t at = w->frame_sent;
    struct iovec iov[2] = {{(void *)(w->control + w->control_sent), w->ncontrol - w->control_sent}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 1};
    uint32_t length;

    if (!iov[0].iov_len) {
        const struct symm_frame *f = w->first->frame;
        const size_t of_frame = at > LENGTH_BYTES ? at - LENGTH_BYTES : 0;
        length = htole32((uint32_t)f->nbytes);
        iov[0] = (struct iovec){(char *)&length + (at < LENGTH_BYTES ? at : LENGTH_BYTES),
                                at < LENGTH_BYTES ? LENGTH_BYTES - at : 0};
        iov[1] = (struct iovec){(void *)(f->bytes + of_frame), f->nbytes - of_frame};
        msg.msg_iovlen = 2;
    }
    return sendmsg(w->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void count_sent(struct symm_wire *w, size_t nbytes)
{
    if (w->control_sent < w->ncontrol) {
        w->control_sent += nbytes;
        return;
    }
    w->frame_sent += nbytes;
    if (w->frame_sent == LENGTH_BYTES + w->first->frame->nbytes) {
        struct queued *q = w->first;
        w->first = q->next;
        w->last = q->next ? w->last : NULL;
        w->frame_sent = 0;
        symm__frame_put(q->frame);
        free(q);
    }
}

/* Sends until the socket takes no more. */
static void flush(struct symm_wire *w)
{
    while (is_pending(w) && !w->connecting) {
        ssize_t n = write_rest(w);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM))
            return;
        if (n < 0) { /* the last frames of the other end may still lie in the socket */
            w->send_err = errno;
            drop_frames(w);
            return;
        }
        w->sent_us = symm__now_us();
        count_sent(w, (size_t)n);
    }
}

void symm__wire_send(struct symm_wire *w, struct symm_frame *frame)
{
    const bool dropped = w->state == SYMM_WIRE_ENDED || w->send_err;
    struct queued *q = dropped ? NULL : malloc(sizeof *q);

    if (!q) {
        symm__frame_put(frame);
        if (!dropped)
            end(w, SYMM_ERROR_MEMORY, "no memory for a frame to it");
        return;
    }
    *q = (struct queued){NULL, frame};
    if (w->last)
        w->last->next = q;
    else
        w->first = q;
    w->last = q;
    if (w->first == q)
        flush(w);
}

bool symm__wire_idle(const struct symm_wire *w)
{
    return !w->first && w->control_sent == w->ncontrol;
}

/* ---- Receiving ---- */

/* The length of the first frame, or 0 if it has not come yet. */
static uint32_t first_length(const struct symm_wire *w)
{
    uint32_t length;

    if (w->in_end - w->in_at < LENGTH_BYTES)
        return 0;
    memcpy(&length, w->in + w->in_at, sizeof length);
    return le32toh(length);
}

/*
 * Makes room for the rest of the first frame, behind what has been received. Returns false if there
 * is no memory.
 */
static bool make_room(struct symm_wire *w)
{
    const uint32_t length = first_length(w);
    size_t wanted = LEAST_ROOM;
    uint8_t *moved;

    if (w->in_at && w->in_at < w->in_end)
        memmove(w->in, w->in + w->in_at, w->in_end - w->in_at);
    w->in_end -= w->in_at;
    w->in_at = 0;
    if (length <= SYMM_MESSAGE_MAX && LENGTH_BYTES + length > LEAST_ROOM)
        wanted = LENGTH_BYTES + length;
    if (w->in_room >= wanted)
        return true;
    moved = realloc(w->in, wanted);
    if (!moved)
        return false;
    w->in = moved;
    w->in_room = wanted;
    return true;
}

/* Where the next bytes go. *room is 0 while frames wait to be taken. */
static uint8_t *next_bytes(struct symm_wire *w, size_t *room)
{
    if (w->state == SYMM_WIRE_PROVING) {
        *room = SYMM_HANDSHAKE_BYTES - w->handshake.nin; /* no byte more before the proof */
        return w->handshake.in + w->handshake.nin;
    }
    if (!make_room(w)) {
        end(w, SYMM_ERROR_MEMORY, "no memory for its frames");
        *room = 0;
        return NULL;
    }
    *room = w->in_room - w->in_end;
    return w->in + w->in_end;
}

static void advance_handshake(struct symm_wire *w, size_t n)
{
    const symm_status st = symm__handshake_take(&w->handshake, n);

    w->ncontrol = w->handshake.nout;
    if (st != SYMM_OK)
        end(w, st, "%s", symm__failure_text());
    else if (symm__handshake_done(&w->handshake))
        w->state = SYMM_WIRE_OPEN;
}

static void end_of_bytes(struct symm_wire *w, int err)
{
    if (!err)
        err = w->send_err == EPIPE ? 0 : w->send_err;
    if (w->state == SYMM_WIRE_PROVING && w->handshake.nin >= SYMM_PREFACE_BYTES)
        end(w, SYMM_ERROR_ARGUMENT,
            "closed the connection before it proved that it knows the "
            "token");
    else if (err)
        end_errno(w, err);
    else
        end(w, SYMM_ERROR_PEER, "closed the connection");
}

/* Reads until the socket is empty or the buffer is full. */
static void receive(struct symm_wire *w)
{
    while (w->state != SYMM_WIRE_ENDED) {
        size_t room;
        uint8_t *at = next_bytes(w, &room);
        ssize_t n = room ? recv(w->fd, at, room, MSG_DONTWAIT) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == ENOMEM))
            return;
        if (room && n <= 0) {
            end_of_bytes(w, n < 0 ? errno : 0);
            return;
        }
        w->heard_us = symm__now_us(); /* also if unread bytes wait for room */
        if (!room)
            return;
        if (w->state == SYMM_WIRE_PROVING)
            advance_handshake(w, (size_t)n);
        else
            w->in_end += (size_t)n;
    }
}

/* Ends the wire, and drops the rest of what has come. */
static bool spoil(struct symm_wire *w)
{
    w->in_at = w->in_end = 0;
    return false;
}

bool symm__wire_next(struct symm_wire *w, struct symm_message *out)
{
    while (w->in_end - w->in_at >= LENGTH_BYTES) {
        const uint8_t *frame = w->in + w->in_at + LENGTH_BYTES;
        const uint32_t length = first_length(w);
        if (length > SYMM_MESSAGE_MAX) {
            end(w, SYMM_ERROR_MISMATCH, "sent a frame of %u bytes, at most %d are allowed", length,
                SYMM_MESSAGE_MAX);
            return spoil(w);
        }
        if (w->in_end - w->in_at - LENGTH_BYTES < length)
            return false;
        w->in_at += LENGTH_BYTES + length;
        if (!length)
            continue; /* a sign of life */
        if (symm__message_parse(frame, length, 0, out) == SYMM_OK)
            return true;
        end(w, SYMM_ERROR_MISMATCH, "sent a frame that is none: %s", symm__failure_text());
        return spoil(w);
    }
    return false;
}

/* ---- Serving ---- */

static void finish_connect(struct symm_wire *w, short revents)
{
    int err = 0;
    socklen_t nbytes = sizeof err;

    if (!(revents & (POLLOUT | POLLERR | POLLHUP)))
        return;
    if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &err, &nbytes))
        err = errno;
    w->connecting = false;
    if (err)
        end_errno(w, err);
}

/* Whether the other end has had all the time that it may take. */
static bool is_late(const struct symm_wire *w)
{
    const int64_t now = symm__now_us();

    return w->state == SYMM_WIRE_OPEN ? now - w->heard_us >= SYMM_WIRE_SILENT_US
                                      : now - w->begun_us >= SYMM_WIRE_PROOF_US;
}

static void end_late(struct symm_wire *w)
{
    const int proof_s = SYMM_WIRE_PROOF_US / SECOND_US;

    if (w->state == SYMM_WIRE_OPEN)
        end(w, SYMM_ERROR_TIMEOUT, "was silent for %d s",
            (int)((symm__now_us() - w->heard_us) / SECOND_US));
    else if (w->connecting)
        end(w, SYMM_ERROR_TIMEOUT, "has not answered within %d s", proof_s);
    else
        end(w, SYMM_ERROR_TIMEOUT, "has not proved that it knows the token within %d s", proof_s);
}

static void send_sign_of_life(struct symm_wire *w)
{
    static const uint8_t nothing[LENGTH_BYTES] = {0};

    if (w->state == SYMM_WIRE_OPEN && !w->send_err && symm__wire_idle(w) &&
        symm__now_us() - w->sent_us >= SYMM_WIRE_BEAT_US) {
        w->control = nothing;
        w->ncontrol = sizeof nothing;
        w->control_sent = 0;
    }
}

struct pollfd symm__wire_poll(const struct symm_wire *w)
{
    const uint32_t length = w->state == SYMM_WIRE_OPEN ? first_length(w) : 0;
    const bool waits = length && w->in_end - w->in_at >= LENGTH_BYTES + (size_t)length;
    struct pollfd p = {.fd = w->fd};

    if (!w->connecting && !waits)
        p.events |= POLLIN;
    if (w->connecting || is_pending(w))
        p.events |= POLLOUT;
    return p;
}

void symm__wire_serve(struct symm_wire *w, short revents)
{
    if (w->connecting)
        finish_connect(w, revents);
    if (w->state == SYMM_WIRE_ENDED)
        return;
    flush(w);
    /* Bytes that came while this thread did something else count: read before judging the time. */
    if (!w->connecting && (revents & ~POLLOUT || w->send_err || is_late(w)))
        receive(w);
    if (is_late(w))
        end_late(w);
    send_sign_of_life(w);
    flush(w);
}

enum symm_wire_state symm__wire_state(const struct symm_wire *w)
{
    return w->state;
}

const char *symm__wire_why(const struct symm_wire *w)
{
    return w->why;
}

symm_status symm__wire_status(const struct symm_wire *w)
{
    return w->status;
}

/* ---- Opening and closing ---- */

static symm_status make(int fd, enum symm_handshake_role role, const struct symm_wire_key *key,
                        struct symm_wire **out)
{
    const int64_t now = symm__now_us();
    struct symm_wire *w = calloc(1, sizeof *w);
    symm_status st;

    if (!w)
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for a connection");
    w->fd = fd;
    w->begun_us = w->sent_us = w->heard_us = now;
    TRY(symm__handshake_begin(&w->handshake, role, key->bytes));
    w->control = w->handshake.out;
    w->ncontrol = w->handshake.nout;
    *out = w;
    w = NULL;
out:
    free(w);
    return st;
}

static symm_status set_options(int fd)
{
    const int on = 1, flags = fcntl(fd, F_GETFL);
    symm_status st;

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
        return symm__fail_errno(errno, "making descriptor %d non-blocking", fd);
    TRY(symm__fd_cloexec(fd));
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on))
        st = symm__fail_errno(errno, "setsockopt(TCP_NODELAY)");
out:
    return st;
}

symm_status symm__wire_accept(int fd, const struct symm_wire_key *key, struct symm_wire **out)
{
    symm_status st;

    *out = NULL;
    fd = symm__fd_above_stdio(fd);
    if (fd < 0)
        return symm__fail_errno(errno, "moving a connection above descriptor 2");
    TRY(set_options(fd));
    TRY(make(fd, SYMM_HANDSHAKE_LISTENS, key, out));
out:
    if (st != SYMM_OK)
        symm__fd_close(&fd);
    return st;
}

symm_status symm__wire_connect(const struct symm_address *to, const struct symm_wire_key *key,
                               struct symm_wire **out)
{
    symm_status st;
    int fd, err;

    *out = NULL;
    fd = symm__fd_above_stdio(
        socket(to->sock.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return symm__fail_errno(errno, "socket for %s", symm__address_name(to).text);
    TRY(set_options(fd));
    TRY(make(fd, SYMM_HANDSHAKE_CONNECTS, key, out));
    err = connect(fd, (const struct sockaddr *)&to->sock, to->nbytes) ? errno : 0;
    (*out)->connecting = err == EINPROGRESS || err == EINTR;
    if (err && !(*out)->connecting)
        end_errno(*out, err);
out:
    if (st != SYMM_OK)
        symm__fd_close(&fd);
    return st;
}

void symm__wire_close(struct symm_wire *w)
{
    if (!w)
        return;
    end(w, SYMM_ERROR_PEER, "this end has closed");
    free(w->in);
    free(w);
}
