/* Frames: parsed as built, refused when damaged; no descriptor is left over. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "runtime/base/fd.h"
#include "runtime/comm/link.h"
#include "runtime/comm/message.h"
#include "test.h"

static unsigned char buffer[SYMM_MESSAGE_MAX + 16];

static const struct symm_message sample = {.type = SYMM_MESSAGE_VOTE,
                                           .rank = 3,
                                           .comm = UINT64_C(0x123456789abcdef0),
                                           .seq = 42,
                                           .op = 2,
                                           .status = SYMM_ERROR_DRIVER,
                                           .args = {1, 2, 3, UINT64_MAX},
                                           .set = {{5, 128}},
                                           .text = "symm_alloc(4096)",
                                           .reason = "cuMemCreate",
                                           .payload = "abcde",
                                           .payload_nbytes = 5};

static struct symm_frame *make(const struct symm_message *m)
{
    struct symm_frame *frame = symm__frame_make(m);
    ck_assert_ptr_nonnull(frame);
    return frame;
}

TEST_GROUP(parser, 10);

TEST(parser, frames_are_parsed_as_built)
{
    struct symm_frame *frame = make(&sample);
    struct symm_message m;

    ck_assert_int_eq(symm__message_parse(frame->bytes, frame->nbytes, 0, &m), SYMM_OK);
    ck_assert_uint_eq(m.version, SYMM_VERSION);
    ck_assert_uint_eq(m.type, sample.type);
    ck_assert_int_eq(m.rank, 3);
    ck_assert(m.comm == sample.comm && m.seq == 42 && m.op == 2);
    ck_assert_int_eq(m.status, SYMM_ERROR_DRIVER);
    ck_assert_mem_eq(m.args, sample.args, sizeof m.args);
    ck_assert(symm__rank_set_equal(m.set, sample.set));
    ck_assert_str_eq(m.text, "symm_alloc(4096)");
    ck_assert_str_eq(m.reason, "cuMemCreate");
    ck_assert_uint_eq(m.payload_nbytes, 5);
    ck_assert_mem_eq(m.payload, "abcde", 5);
    symm__frame_put(frame);
}

TEST(parser, every_cut_is_refused)
{
    struct symm_frame *frame = make(&sample);
    struct symm_message m;

    for (size_t n = 0; n < frame->nbytes; n++) {
        unsigned char *exact = malloc(n + 1); /* so that the sanitizer sees reads beyond */
        memcpy(exact, frame->bytes, n);
        ck_assert_int_eq(symm__message_parse(exact, n, 0, &m), SYMM_ERROR_MISMATCH);
        free(exact);
    }
    symm__frame_put(frame);
}

/* Offset in the header, and what to write there. */
static const struct {
    int at;
    uint32_t value;
    symm_status status;
} damages[] = {
    {0, 0x4d4d5954, SYMM_ERROR_MISMATCH}, /* magic */
    {4, SYMM_VERSION + 1, SYMM_ERROR_VERSION},
    {8, 0, SYMM_ERROR_MISMATCH}, /* type */
    {8, SYMM_MESSAGE_TYPES, SYMM_ERROR_MISMATCH},
    {12, SYMM_MAX_RANKS, SYMM_ERROR_MISMATCH}, /* rank */
    {12, (uint32_t)-2, SYMM_ERROR_MISMATCH},
    {36, 1, SYMM_ERROR_MISMATCH}, /* status */
    {36, (uint32_t)-11, SYMM_ERROR_MISMATCH},
    {40, 1, SYMM_ERROR_MISMATCH}, /* a descriptor that is missing */
    {44, 0, SYMM_ERROR_MISMATCH}, /* lengths */
    {44, 18, SYMM_ERROR_MISMATCH},
    {44, UINT32_MAX, SYMM_ERROR_MISMATCH},
    {48, 0, SYMM_ERROR_MISMATCH},
    {52, 6, SYMM_ERROR_MISMATCH},
    {52, UINT32_MAX, SYMM_ERROR_MISMATCH},
    {96, 256, SYMM_ERROR_MISMATCH}, /* rank 72 in the set */
    {104, 1, SYMM_ERROR_MISMATCH},  /* what must be zero */
};

TEST_LOOP(parser, damaged_headers_are_refused, 0, sizeof damages / sizeof damages[0])
{
    struct symm_frame *frame = make(&sample);
    struct symm_message m;

    memcpy(frame->bytes + damages[_i].at, &damages[_i].value, 4);
    ck_assert_int_eq(symm__message_parse(frame->bytes, frame->nbytes, 0, &m), damages[_i].status);
    if (damages[_i].status == SYMM_ERROR_VERSION) {
        ck_assert_uint_eq(m.version, SYMM_VERSION + 1);
        ck_assert_int_eq(m.rank, 3);
    }
    symm__frame_put(frame);
}

/* A zero inside of the text, or none at its end. */
TEST_LOOP(parser, damaged_texts_are_refused, 0, 2)
{
    struct symm_frame *frame = make(&sample);
    struct symm_message m;

    frame->bytes[SYMM_MESSAGE_HEADER + (_i ? strlen(sample.text) : 4)] = _i ? 'x' : 0;
    ck_assert_int_eq(symm__message_parse(frame->bytes, frame->nbytes, 0, &m), SYMM_ERROR_MISMATCH);
    symm__frame_put(frame);
}

TEST(parser, long_texts_are_cut)
{
    struct symm_message m = sample;
    char text[3000];

    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    m.text = m.reason = text;
    struct symm_frame *frame = make(&m);
    ck_assert_int_eq(symm__message_parse(frame->bytes, frame->nbytes, 0, &m), SYMM_OK);
    ck_assert_uint_eq(strlen(m.text), SYMM_TEXT_MAX - 1);
    ck_assert_uint_eq(strlen(m.reason), SYMM_TEXT_MAX - 1);
    symm__frame_put(frame);
}

/* ---- On sockets ---- */

static void pair(int ends[2])
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
}

TEST_GROUP(sockets, 10);

TEST(sockets, descriptors_travel)
{
    int ends[2];
    struct symm_message m = {.type = SYMM_MESSAGE_RESULT, .nfds = SYMM_MAX_RANKS}, got;

    pair(ends);
    for (int i = 0; i < SYMM_MAX_RANKS; i++)
        m.fds[i] = ends[0];
    struct symm_frame *frame = make(&m);
    ck_assert_int_eq(symm__frame_send(ends[0], frame), 0);
    symm__frame_put(frame);
    ck_assert_int_eq(symm__message_receive(ends[1], buffer, &got), SYMM_RECEIVED);
    ck_assert_int_eq(got.nfds, SYMM_MAX_RANKS);
    for (int i = 0; i < got.nfds; i++)
        ck_assert(fcntl(got.fds[i], F_GETFD) & FD_CLOEXEC);
    symm__fd_close_all(got.fds, got.nfds);
    ck_assert_int_eq(symm__message_receive(ends[1], buffer, &got), SYMM_RECEIVED_NOTHING);
    symm__fd_close(&ends[0]);
    ck_assert_int_eq(symm__message_receive(ends[1], buffer, &got), SYMM_RECEIVED_END);
    symm__fd_close(&ends[1]);
}

/* Sends bytes with n copies of a descriptor, in as many control messages. */
static void send_raw(int fd, const void *bytes, size_t nbytes, int n)
{
    char control[CMSG_SPACE(sizeof(int) * 253)] = {0};
    struct iovec iov = {(void *)bytes, nbytes};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (n) {
        msg.msg_control = control;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n);
        for (int i = 0; i < n; i++)
            memcpy(CMSG_DATA(c) + sizeof(int) * (size_t)i, &fd, sizeof fd);
    }
    ck_assert_int_eq(sendmsg(fd, &msg, 0), (ssize_t)nbytes);
}

static const int surprises[] = {1, 2, 73, 253};

TEST_LOOP(sockets, surprise_descriptors_are_closed, 0, 4)
{
    int ends[2];
    struct symm_message m = {.type = SYMM_MESSAGE_BYE}, got;
    struct symm_frame *frame = make(&m);

    pair(ends); /* the fixture counts what is left open */
    send_raw(ends[0], frame->bytes, frame->nbytes, surprises[_i]);
    ck_assert_int_eq(symm__message_receive(ends[1], buffer, &got), SYMM_RECEIVED_BAD);
    send_raw(ends[0], "garbage", 7, surprises[_i]);
    ck_assert_int_eq(symm__message_receive(ends[1], buffer, &got), SYMM_RECEIVED_BAD);
    ck_assert_int_eq(got.nfds, 0);
    symm__frame_put(frame);
    symm__fd_close_all(ends, 2);
}

TEST(sockets, too_long_is_refused)
{
    static const char bytes[SYMM_MESSAGE_MAX + 1];
    int ends[2];
    struct symm_message got;

    pair(ends);
    send_raw(ends[0], bytes, sizeof bytes, 0);
    ck_assert_int_eq(symm__message_receive(ends[1], buffer, &got), SYMM_RECEIVED_BAD);
    ck_assert_ptr_nonnull(strstr(symm__failure_text(), "more than"));
    symm__fd_close_all(ends, 2);
}

TEST(sockets, the_descriptor_limit_is_named)
{
    int ends[2];
    struct symm_message m = {.type = SYMM_MESSAGE_RESULT, .seq = 9, .nfds = 8}, got;

    pair(ends);
    for (int i = 0; i < m.nfds; i++)
        m.fds[i] = ends[0];
    struct symm_frame *frame = make(&m);
    ck_assert_int_eq(symm__frame_send(ends[0], frame), 0);
    symm__frame_put(frame);
    struct rlimit limit = {(rlim_t)ends[1] + 4, (rlim_t)ends[1] + 4};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(symm__message_receive(ends[1], buffer, &got), SYMM_RECEIVED_NO_FDS);
    ck_assert_uint_eq(got.seq, 9);
    ck_assert_int_eq(got.nfds, 0);
    ck_assert_ptr_nonnull(strstr(symm__failure_text(), "RLIMIT_NOFILE"));
    symm__fd_close_all(ends, 2);
}

TEST(sockets, data_is_read_although_the_peer_had_some_unread)
{
    int ends[2];
    struct symm_message got;
    struct symm_frame *frame = make(&(struct symm_message){.type = SYMM_MESSAGE_BYE});

    pair(ends);
    ck_assert_int_eq(symm__frame_send(ends[1], frame), 0);
    ck_assert_int_eq(symm__frame_send(ends[0], frame), 0);
    symm__fd_close(&ends[0]); /* which leaves ECONNRESET in front of the goodbye */
    ck_assert_int_eq(symm__message_receive(ends[1], buffer, &got), SYMM_RECEIVED);
    ck_assert_uint_eq(got.type, SYMM_MESSAGE_BYE);
    ck_assert_int_eq(symm__message_receive(ends[1], buffer, &got), SYMM_RECEIVED_END);
    ck_assert_int_eq(symm__frame_send(ends[1], frame), EPIPE);
    symm__frame_put(frame);
    symm__fd_close_all(ends, 2);
}

TEST(sockets, links_keep_order_when_the_socket_is_full)
{
    enum { FRAMES = 200 };
    static unsigned char payload[8000];
    int ends[2], later = 0, n = 0, fd = dup(0);
    struct symm_link link;
    struct symm_message got;
    bool retry = false;

    pair(ends);
    ck_assert_int_eq(symm__link_open(&link, ends[0]), SYMM_OK);
    for (int i = 0; i < FRAMES; i++) {
        struct symm_message m = {.type = SYMM_MESSAGE_VOTE,
                                 .seq = (uint64_t)i,
                                 .payload = payload,
                                 .payload_nbytes = sizeof payload,
                                 .nfds = 1,
                                 .fds = {fd}};
        later += symm__link_send(&link, make(&m)) == SYMM_SENT_LATER;
    }
    symm__fd_close(&fd); /* queued frames have their own */
    ck_assert_int_gt(later, 0);
    ck_assert(!symm__link_idle(&link));
    (void)symm__link_events(&link, &retry);
    while (n < FRAMES)
        if (symm__message_receive(ends[1], buffer, &got) == SYMM_RECEIVED) {
            ck_assert_uint_eq(got.seq, (uint64_t)n++);
            ck_assert_int_eq(got.nfds, 1);
            ck_assert_int_ge(fcntl(got.fds[0], F_GETFD), 0);
            symm__fd_close_all(got.fds, got.nfds);
        } else {
            symm__link_flush(&link);
        }
    ck_assert(symm__link_idle(&link));
    symm__fd_close(&ends[1]);
    ck_assert_int_eq(symm__link_send(&link, make(&sample)), SYMM_SENT); /* to nobody */
    symm__link_close(&link);
}
