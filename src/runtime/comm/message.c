/* Builds, parses, sends and receives frames. */
#include "message.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/base/fd.h"

enum { MAGIC = 0x4d4d5953 };  /* "SYMM" */
enum { FDS_A_MESSAGE = 253 }; /* the kernel's limit */

/* The header on the wire. Every member is aligned to its size. */
struct header {
    uint32_t magic, version, type;
    int32_t rank;
    uint64_t comm, seq;
    uint32_t op;
    int32_t status;
    uint32_t nfds, text_nbytes, reason_nbytes, payload_nbytes;
    uint64_t args[4], set[2];
    uint64_t zero;
};
_Static_assert(sizeof(struct header) == SYMM_MESSAGE_HEADER, "no padding");

static const struct {
    int nfds;
    size_t least, most;
} limits[SYMM_MESSAGE_TYPES] = {
#define SYMM_MESSAGE_ROW_(name, nfds, least, most) [SYMM_MESSAGE_##name] = {nfds, least, most},
    SYMM_MESSAGES(SYMM_MESSAGE_ROW_)
#undef SYMM_MESSAGE_ROW_
};

/* Converts in both directions. */
static void swap_header(struct header *h)
{
    uint32_t *words[] = {&h->magic, &h->version,     &h->type,          &h->op,
                         &h->nfds,  &h->text_nbytes, &h->reason_nbytes, &h->payload_nbytes};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        *words[i] = htole32(*words[i]);
    h->rank = (int32_t)htole32((uint32_t)h->rank);
    h->status = (int32_t)htole32((uint32_t)h->status);
    h->comm = htole64(h->comm);
    h->seq = htole64(h->seq);
    h->zero = htole64(h->zero);
    for (int i = 0; i < 4; i++)
        h->args[i] = htole64(h->args[i]);
    for (int i = 0; i < 2; i++)
        h->set[i] = htole64(h->set[i]);
}

static bool known_status(int32_t status)
{
    return status <= 0 && status >= SYMM_ERROR_VERSION;
}

/* A text is empty or ends with its only NUL. */
static bool parse_text(const char *at, size_t nbytes, const char **out)
{
    *out = nbytes ? at : "";
    return !nbytes || strnlen(at, nbytes) == nbytes - 1;
}

static symm_status check_header(const struct header *h, size_t nbytes, int nfds)
{
    if (h->type == SYMM_MESSAGE_NONE || h->type >= SYMM_MESSAGE_TYPES)
        return symm__fail(SYMM_ERROR_MISMATCH, "a message of unknown type %u", h->type);
    if (h->rank < -1 || h->rank >= SYMM_MAX_RANKS || !known_status(h->status) || h->zero)
        return symm__fail(SYMM_ERROR_MISMATCH, "a message with an invalid header");
    if (h->text_nbytes > SYMM_TEXT_MAX || h->reason_nbytes > SYMM_TEXT_MAX ||
        h->payload_nbytes < limits[h->type].least || h->payload_nbytes > limits[h->type].most ||
        nbytes != sizeof *h + h->text_nbytes + h->reason_nbytes + h->payload_nbytes)
        return symm__fail(SYMM_ERROR_MISMATCH, "a message of %zu bytes with wrong lengths", nbytes);
    if (nfds < 0 || h->nfds != (uint32_t)nfds || nfds > limits[h->type].nfds)
        return symm__fail(SYMM_ERROR_MISMATCH, "a message with %d descriptors instead of %u", nfds,
                          h->nfds);
    if (h->set[1] >> (SYMM_MAX_RANKS - 64))
        return symm__fail(SYMM_ERROR_MISMATCH, "a message about ranks above %d",
                          SYMM_MAX_RANKS - 1);
    return SYMM_OK;
}

symm_status symm__message_parse(const void *bytes, size_t nbytes, int nfds,
                                struct symm_message *out)
{
    struct header h;
    const char *at = (const char *)bytes + sizeof h;
    symm_status st;

    *out = (struct symm_message){.rank = -1, .text = "", .reason = "", .nbytes = nbytes};
    memset(&h, 0, sizeof h);
    memcpy(&h, bytes, nbytes < sizeof h ? nbytes : sizeof h);
    swap_header(&h);
    if (nbytes < 16 || h.magic != MAGIC)
        return symm__fail(SYMM_ERROR_MISMATCH, "not a message of symm (%zu bytes)", nbytes);
    out->version = h.version;
    out->type = h.type;
    out->rank = h.rank;
    if (h.version != SYMM_VERSION && nbytes > sizeof h) {
        out->payload = at; /* the token has the same offset in all versions */
        out->payload_nbytes = nbytes - sizeof h;
    }
    if (h.version != SYMM_VERSION)
        return symm__fail(SYMM_ERROR_VERSION, "a message of symm %u, this is %u", h.version,
                          SYMM_VERSION);
    if (nbytes < sizeof h)
        return symm__fail(SYMM_ERROR_MISMATCH, "a message of only %zu bytes", nbytes);
    st = check_header(&h, nbytes, nfds);
    if (st != SYMM_OK)
        return st;
    if (!parse_text(at, h.text_nbytes, &out->text) ||
        !parse_text(at + h.text_nbytes, h.reason_nbytes, &out->reason))
        return symm__fail(SYMM_ERROR_MISMATCH, "a message with an invalid text");
    out->comm = h.comm;
    out->seq = h.seq;
    out->op = h.op;
    out->status = (symm_status)h.status;
    memcpy(out->args, h.args, sizeof out->args);
    memcpy(out->set.bits, h.set, sizeof out->set.bits);
    out->payload = at + h.text_nbytes + h.reason_nbytes;
    out->payload_nbytes = h.payload_nbytes;
    out->nfds = nfds;
    return SYMM_OK;
}

struct symm_frame *symm__frame_make(const struct symm_message *m)
{
    size_t text = m->text && *m->text ? strnlen(m->text, SYMM_TEXT_MAX - 1) + 1 : 0;
    size_t reason = m->reason && *m->reason ? strnlen(m->reason, SYMM_TEXT_MAX - 1) + 1 : 0;
    size_t nbytes = sizeof(struct header) + text + reason + m->payload_nbytes;
    struct symm_frame *frame = malloc(sizeof *frame + nbytes);
    unsigned char *at;
    struct header h = {.magic = MAGIC,
                       .version = SYMM_VERSION,
                       .type = m->type,
                       .rank = m->rank,
                       .comm = m->comm,
                       .seq = m->seq,
                       .op = m->op,
                       .status = m->status,
                       .nfds = (uint32_t)m->nfds,
                       .text_nbytes = (uint32_t)text,
                       .reason_nbytes = (uint32_t)reason,
                       .payload_nbytes = (uint32_t)m->payload_nbytes};

    if (!frame)
        return NULL;
    frame->refs = 1;
    frame->owns_fds = false;
    frame->nfds = m->nfds;
    memcpy(frame->fds, m->fds, (size_t)m->nfds * sizeof m->fds[0]);
    frame->nbytes = nbytes;
    memcpy(h.args, m->args, sizeof h.args);
    memcpy(h.set, m->set.bits, sizeof h.set);
    swap_header(&h);
    at = memcpy(frame->bytes, &h, sizeof h);
    at += sizeof h;
    if (text) {
        memcpy(at, m->text, text - 1);
        at[text - 1] = 0;
    }
    at += text;
    if (reason) {
        memcpy(at, m->reason, reason - 1);
        at[reason - 1] = 0;
    }
    at += reason;
    if (m->payload_nbytes)
        memcpy(at, m->payload, m->payload_nbytes);
    return frame;
}

void symm__frame_put(struct symm_frame *frame)
{
    if (!frame || --frame->refs)
        return;
    if (frame->owns_fds)
        symm__fd_close_all(frame->fds, frame->nfds);
    free(frame);
}

int symm__frame_send(int fd, const struct symm_frame *frame)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(SYMM_MAX_RANKS * sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec iov = {(void *)frame->bytes, frame->nbytes};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (frame->nfds) {
        size_t nbytes = (size_t)frame->nfds * sizeof(int);
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(nbytes);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(nbytes);
        memcpy(CMSG_DATA(c), frame->fds, nbytes);
    }
    do
        n = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 ? errno : 0;
}

/*
 * Takes all descriptors of a message and closes those above SYMM_MAX_RANKS. Returns their number.
 */
static int take_fds(struct msghdr *msg, int fds[SYMM_MAX_RANKS])
{
    int n = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++, n++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (n < SYMM_MAX_RANKS)
                fds[n] = fd;
            else
                symm__fd_close(&fd);
        }
    }
    return n;
}

enum symm_received symm__message_receive(int fd, void *buffer, struct symm_message *out)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(FDS_A_MESSAGE * sizeof(int))];
    } control;
    struct iovec iov = {buffer, SYMM_MESSAGE_MAX};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof control.bytes};
    int fds[SYMM_MAX_RANKS], nfds, kept;
    bool cut;
    ssize_t n;

    /* A peer that closed with unread data leaves one ECONNRESET in front of its last messages. */
    do
        n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    if (n < 0 && (errno == EAGAIN || errno == ENOMEM))
        return SYMM_RECEIVED_NOTHING;
    if (n <= 0 && !msg.msg_controllen)
        return SYMM_RECEIVED_END;
    nfds = n < 0 ? 0 : take_fds(&msg, fds);
    kept = nfds < SYMM_MAX_RANKS ? nfds : SYMM_MAX_RANKS;
    cut = msg.msg_flags & MSG_CTRUNC;
    *out = (struct symm_message){.rank = -1, .text = "", .reason = ""};
    if (n <= 0) {
        symm__fd_close_all(fds, kept);
        return SYMM_RECEIVED_END;
    }
    if (msg.msg_flags & MSG_TRUNC) {
        symm__fail(SYMM_ERROR_MISMATCH, "a message of more than %d bytes", SYMM_MESSAGE_MAX);
    } else if (cut) {
        struct header h;
        memset(&h, 0, sizeof h);
        memcpy(&h, buffer, (size_t)n < sizeof h ? (size_t)n : sizeof h);
        symm__fd_close_all(fds, kept);
        if (symm__message_parse(buffer, (size_t)n, (int)le32toh(h.nfds), out) == SYMM_OK) {
            out->nfds = 0;
            symm__fail(SYMM_ERROR_SYSTEM, "descriptors were lost: RLIMIT_NOFILE is reached");
            return SYMM_RECEIVED_NO_FDS;
        }
        kept = 0;
    } else if (symm__message_parse(buffer, (size_t)n, nfds, out) == SYMM_OK) {
        memcpy(out->fds, fds, (size_t)kept * sizeof fds[0]);
        return SYMM_RECEIVED;
    }
    symm__fd_close_all(fds, kept);
    return SYMM_RECEIVED_BAD;
}
