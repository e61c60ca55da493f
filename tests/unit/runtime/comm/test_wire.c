/*
 * Wires on real sockets of this host: frames arrive as they were sent, or the wire ends and says
 * why. The monotonic clock stands still apart from wait_us(), so that no time limit depends on the
 * load.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "runtime/base/fd.h"
#include "runtime/comm/handshake.h"
#include "runtime/comm/wire.h"
#include "test.h"

enum { PASSES = 2000 }; /* most passes until something happens; a pass lasts up to 1 ms */

static int64_t waited_us;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    enum { BEGIN_S = 1000000 };

    if (clock != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, clock, now);
    now->tv_sec = BEGIN_S + waited_us / 1000000;
    now->tv_nsec = waited_us % 1000000 * 1000;
    return 0;
}

static void wait_us(int64_t us)
{
    waited_us += us;
}

static const struct symm_wire_key right = {{1, 2, 3}}, wrong = {{1, 2, 4}};

/* ---- Both ends ---- */

static int listen_at(struct symm_address *at)
{
    struct symm_address a;
    int fd;

    ck_assert_int_eq(symm__address_read("a test", "127.0.0.1:0", -1, &a), SYMM_OK);
    ck_assert_int_eq(symm__address_listen(&a, at, &fd), SYMM_OK);
    return fd;
}

static int take(int listener)
{
    struct pollfd p = {listener, POLLIN, 0};
    int fd;

    ck_assert_int_eq(poll(&p, 1, 5000), 1);
    fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static void serve(struct symm_wire *w)
{
    struct pollfd p = symm__wire_poll(w);

    if (poll(&p, 1, 0) < 0)
        p.revents = 0;
    symm__wire_serve(w, p.revents);
}

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* Serves both (the second may be NULL) until the first has this state. */
static void serve_until(struct symm_wire *a, struct symm_wire *b, enum symm_wire_state state)
{
    for (int i = 0; i < PASSES && symm__wire_state(a) != state; i++) {
        serve(a);
        if (b)
            serve(b);
        rest();
    }
    ck_assert_msg(symm__wire_state(a) == state, "state %d: %s", symm__wire_state(a),
                  symm__wire_why(a));
}

static void serve_some(struct symm_wire *a, struct symm_wire *b)
{
    for (int i = 0; i < 20; i++) {
        serve(a);
        if (b)
            serve(b);
        rest();
    }
}

struct ends {
    struct symm_wire *client, *server;
};

static struct ends connect_with(const struct symm_wire_key *of_client)
{
    struct symm_address at;
    struct ends e;
    int listener = listen_at(&at);

    ck_assert_int_eq(symm__wire_connect(&at, of_client, &e.client), SYMM_OK);
    ck_assert_int_eq(symm__wire_accept(take(listener), &right, &e.server), SYMM_OK);
    symm__fd_close(&listener);
    return e;
}

static struct ends open_both(void)
{
    struct ends e = connect_with(&right);

    serve_until(e.client, e.server, SYMM_WIRE_OPEN);
    serve_until(e.server, e.client, SYMM_WIRE_OPEN);
    return e;
}

static void close_both(struct ends e)
{
    symm__wire_close(e.client);
    symm__wire_close(e.server);
}

/* ---- Frames ---- */

static unsigned char payload[SYMM_PAYLOAD_MAX];

static struct symm_frame *make(uint64_t seq, size_t nbytes)
{
    const struct symm_message m = {.type = SYMM_MESSAGE_VOTE,
                                   .rank = 1,
                                   .seq = seq,
                                   .text = "symm_alloc(4096)",
                                   .payload = payload,
                                   .payload_nbytes = nbytes};
    struct symm_frame *frame = symm__frame_make(&m);

    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (unsigned char)(i * 7 + i / 256);
    ck_assert_ptr_nonnull(frame);
    memcpy(frame->bytes + frame->nbytes - nbytes, payload, nbytes);
    return frame;
}

/* Sizes of all kinds, the largest included. */
static size_t size_of(uint64_t seq)
{
    return seq % 3 ? seq * 37 % 5000 : SYMM_PAYLOAD_MAX - seq % 2;
}

/* Takes frames that continue the sequence. */
static void take_frames(struct symm_wire *w, uint64_t *seq)
{
    struct symm_message m;

    while (symm__wire_next(w, &m)) {
        ck_assert_uint_eq(m.seq, *seq);
        ck_assert_str_eq(m.text, "symm_alloc(4096)");
        ck_assert_uint_eq(m.payload_nbytes, size_of(*seq));
        ck_assert(!memcmp(m.payload, payload, m.payload_nbytes));
        ++*seq;
    }
}

/* ---- A process that speaks by hand ---- */

/* Sends bytes on a blocking socket. */
static void say(int fd, const void *bytes, size_t nbytes)
{
    ck_assert_int_eq(send(fd, bytes, nbytes, MSG_NOSIGNAL), (ssize_t)nbytes);
}

/* Reads exactly n bytes while the wire is served. */
static void listen_to(int fd, struct symm_wire *w, void *bytes, size_t nbytes)
{
    size_t got = 0;

    for (int i = 0; i < PASSES && got < nbytes; i++) {
        ssize_t n = recv(fd, (char *)bytes + got, nbytes - got, MSG_DONTWAIT);
        got += n > 0 ? (size_t)n : 0;
        serve(w);
        rest();
    }
    ck_assert_uint_eq(got, nbytes);
}

/* A listening wire and a socket that is connected to it. */
struct stranger {
    int fd;
    struct symm_wire *wire;
};

static struct stranger come(void)
{
    struct stranger s = {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), NULL};
    struct symm_address at;
    int listener = listen_at(&at);

    ck_assert_int_eq(connect(s.fd, (struct sockaddr *)&at.sock, at.nbytes), 0);
    ck_assert_int_eq(symm__wire_accept(take(listener), &right, &s.wire), SYMM_OK);
    symm__fd_close(&listener);
    return s;
}

static void go(struct stranger s)
{
    symm__fd_close(&s.fd);
    symm__wire_close(s.wire);
}

/* Proves the key by hand. *h: what both ends have sent. */
static struct stranger come_and_record(struct symm_handshake *h)
{
    struct stranger s = come();

    ck_assert_int_eq(symm__handshake_begin(h, SYMM_HANDSHAKE_CONNECTS, right.bytes), SYMM_OK);
    say(s.fd, h->out, SYMM_PREFACE_BYTES);
    listen_to(s.fd, s.wire, h->in, SYMM_PREFACE_BYTES);
    ck_assert_int_eq(symm__handshake_take(h, SYMM_PREFACE_BYTES), SYMM_OK);
    say(s.fd, h->out + SYMM_PREFACE_BYTES, SYMM_PROOF_BYTES);
    listen_to(s.fd, s.wire, h->in + h->nin, SYMM_PROOF_BYTES);
    ck_assert_int_eq(symm__handshake_take(h, SYMM_PROOF_BYTES), SYMM_OK);
    ck_assert_int_eq(symm__wire_state(s.wire), SYMM_WIRE_OPEN);
    return s;
}

static struct stranger come_and_prove(void)
{
    struct symm_handshake h;

    return come_and_record(&h);
}

/* With one call: the kernel would keep back the second of two until the first is acknowledged. */
static void say_frame(int fd, uint64_t seq)
{
    struct symm_frame *frame = make(seq, size_of(seq));
    const uint32_t length = htole32((uint32_t)frame->nbytes);
    static unsigned char bytes[SYMM_MESSAGE_MAX + sizeof length];

    memcpy(bytes, &length, sizeof length);
    memcpy(bytes + sizeof length, frame->bytes, frame->nbytes);
    say(fd, bytes, sizeof length + frame->nbytes);
    symm__frame_put(frame);
}

/* ---- A relay between both ends ---- */

struct relay {
    int near, far; /* the client's and the server's connection */
    size_t forwarded[2];
};

static struct ends connect_through(struct relay *r)
{
    struct symm_address at, at_relay;
    struct ends e;
    int listener = listen_at(&at), door = listen_at(&at_relay);

    *r = (struct relay){-1, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), {0}};
    ck_assert_int_eq(symm__wire_connect(&at_relay, &right, &e.client), SYMM_OK);
    r->near = take(door);
    ck_assert_int_eq(connect(r->far, (struct sockaddr *)&at.sock, at.nbytes), 0);
    ck_assert_int_eq(symm__wire_accept(take(listener), &right, &e.server), SYMM_OK);
    symm__fd_close(&listener);
    symm__fd_close(&door);
    return e;
}

/* Forwards up to nbytes in each direction. Returns their number. */
static size_t relay(struct relay *r, size_t nbytes)
{
    static char bytes[65536];
    size_t total = 0;

    for (int i = 0; i < 2; i++) {
        ssize_t n = recv(i ? r->far : r->near, bytes, nbytes, MSG_DONTWAIT);
        if (n <= 0)
            continue;
        say(i ? r->near : r->far, bytes, (size_t)n);
        r->forwarded[i] += (size_t)n;
        total += (size_t)n;
    }
    return total;
}

static void relay_until_open(struct ends e, struct relay *r)
{
    for (int i = 0; i < PASSES && (symm__wire_state(e.client) != SYMM_WIRE_OPEN ||
                                   symm__wire_state(e.server) != SYMM_WIRE_OPEN);
         i++) {
        serve(e.client);
        serve(e.server);
        relay(r, sizeof payload);
        rest();
    }
    ck_assert_int_eq(symm__wire_state(e.client), SYMM_WIRE_OPEN);
    ck_assert_int_eq(symm__wire_state(e.server), SYMM_WIRE_OPEN);
}

static void close_relayed(struct ends e, struct relay *r)
{
    close_both(e);
    symm__fd_close(&r->near);
    symm__fd_close(&r->far);
}

TEST_GROUP(frames, 60);

/* The first ones are sent before the wire is open. The sockets are full at times. */
TEST(frames, they_arrive_in_order_in_both_directions)
{
    enum { FRAMES = 300 };
    struct ends e = connect_with(&right);
    uint64_t at_client = 0, at_server = 0;

    ck_assert_int_eq(symm__wire_state(e.client), SYMM_WIRE_PROVING);
    for (uint64_t seq = 0; seq < FRAMES; seq++) {
        symm__wire_send(e.client, make(seq, size_of(seq)));
        symm__wire_send(e.server, make(seq, size_of(seq)));
    }
    ck_assert(!symm__wire_idle(e.client));
    for (int i = 0; i < PASSES && (at_client < FRAMES || at_server < FRAMES); i++) {
        serve(e.client);
        serve(e.server);
        take_frames(e.client, &at_client);
        take_frames(e.server, &at_server);
    }
    ck_assert_uint_eq(at_client, FRAMES);
    ck_assert_uint_eq(at_server, FRAMES);
    ck_assert(symm__wire_idle(e.client));
    ck_assert(symm__wire_idle(e.server));
    close_both(e);
}

TEST(frames, they_arrive_byte_by_byte)
{
    enum { FRAMES = 3 };
    struct relay r;
    struct ends e = connect_through(&r);
    uint64_t at_client = 1, at_server = 1;

    for (uint64_t seq = 1; seq < FRAMES; seq++) {
        symm__wire_send(e.client, make(seq, size_of(seq)));
        symm__wire_send(e.server, make(seq, size_of(seq)));
    }
    for (int i = 0; i < 100000 && (at_client < FRAMES || at_server < FRAMES); i++) {
        serve(e.client);
        serve(e.server);
        relay(&r, 1);
        take_frames(e.client, &at_client);
        take_frames(e.server, &at_server);
    }
    ck_assert_uint_eq(at_client, FRAMES);
    ck_assert_uint_eq(at_server, FRAMES);
    close_relayed(e, &r);
}

/* A frame that is sent to many is freed with its last reference. */
TEST(frames, one_frame_goes_to_several_wires)
{
    struct ends a = open_both(), b = open_both();
    struct symm_frame *frame = make(1, size_of(1));
    uint64_t at_a = 1, at_b = 1;

    frame->refs++;
    symm__wire_send(a.client, frame);
    symm__wire_send(b.server, frame);
    for (int i = 0; i < PASSES && (at_a < 2 || at_b < 2); i++) {
        serve_some(a.client, a.server);
        serve_some(b.client, b.server);
        take_frames(a.server, &at_a);
        take_frames(b.client, &at_b);
    }
    close_both(a);
    close_both(b);
}

TEST(frames, those_that_came_before_the_end_are_given_out)
{
    struct stranger s = come_and_prove();
    uint64_t seq = 1;

    say_frame(s.fd, 1);
    say_frame(s.fd, 2);
    symm__fd_close(&s.fd);
    serve_until(s.wire, NULL, SYMM_WIRE_ENDED);
    ck_assert_str_eq(symm__wire_why(s.wire), "closed the connection");
    ck_assert_int_eq(symm__wire_status(s.wire), SYMM_ERROR_PEER);
    take_frames(s.wire, &seq);
    ck_assert_uint_eq(seq, 3);
    go(s);
}

/* The other end has closed with unread bytes, so sending fails before its frames were read. */
TEST(frames, those_that_came_are_read_although_sending_fails)
{
    struct stranger s = come_and_prove();
    uint64_t seq = 1;
    struct pollfd p;

    say_frame(s.fd, 1);
    say_frame(s.fd, 2);
    symm__wire_send(s.wire, make(0, 100));
    rest();
    symm__fd_close(&s.fd);
    for (int i = 0; i < 50; i++) {
        symm__wire_send(s.wire, make(0, 100));
        rest();
    }
    ck_assert_int_ne(symm__wire_state(s.wire), SYMM_WIRE_ENDED);
    p = symm__wire_poll(s.wire);
    ck_assert_int_eq(poll(&p, 1, 1000), 1);
    serve_until(s.wire, NULL, SYMM_WIRE_ENDED);
    take_frames(s.wire, &seq);
    ck_assert_uint_eq(seq, 3);
    ck_assert(symm__wire_idle(s.wire));
    symm__wire_send(s.wire, make(0, 100)); /* to nobody */
    go(s);
}

TEST(frames, one_that_is_too_long_ends_the_wire)
{
    struct stranger s = come_and_prove();
    const uint32_t length = htole32(SYMM_MESSAGE_MAX + 1);
    struct symm_message m;
    uint64_t seq = 1;

    say_frame(s.fd, 1);
    say(s.fd, &length, sizeof length);
    say_frame(s.fd, 2);
    for (int i = 0; i < PASSES && symm__wire_state(s.wire) == SYMM_WIRE_OPEN; i++) {
        serve(s.wire);
        take_frames(s.wire, &seq);
        rest();
    }
    ck_assert_uint_eq(seq, 2);
    ck_assert_int_eq(symm__wire_status(s.wire), SYMM_ERROR_MISMATCH);
    ck_assert_ptr_nonnull(strstr(symm__wire_why(s.wire), "sent a frame of 63601 bytes, at most"));
    ck_assert(!symm__wire_next(s.wire, &m));
    go(s);
}

TEST(frames, one_that_is_none_ends_the_wire)
{
    struct stranger s = come_and_prove();
    struct symm_message m;

    say(s.fd, "\5\0\0\0hello", 9);
    for (int i = 0; i < PASSES && symm__wire_state(s.wire) == SYMM_WIRE_OPEN; i++) {
        serve(s.wire);
        ck_assert(!symm__wire_next(s.wire, &m));
        rest();
    }
    ck_assert_str_eq(symm__wire_why(s.wire),
                     "sent a frame that is none: not a message of symm (5 bytes)");
    go(s);
}

TEST_GROUP(proof, 60);

TEST(proof, the_socket_is_as_sockets_of_symm_are)
{
    struct ends e = open_both();
    const int fds[] = {symm__wire_poll(e.client).fd, symm__wire_poll(e.server).fd};

    for (int i = 0; i < 2; i++) {
        int nodelay = 0;
        socklen_t nbytes = sizeof nodelay;
        ck_assert_int_gt(fds[i], 2);
        ck_assert(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        ck_assert(fcntl(fds[i], F_GETFL) & O_NONBLOCK);
        ck_assert_int_eq(getsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &nodelay, &nbytes), 0);
        ck_assert_int_ne(nodelay, 0);
    }
    close_both(e);
}

TEST(proof, another_key_is_refused)
{
    struct ends e = connect_with(&wrong);

    symm__wire_send(e.client, make(1, 100));
    serve_until(e.server, e.client, SYMM_WIRE_ENDED);
    serve_until(e.client, NULL, SYMM_WIRE_ENDED);
    ck_assert_str_eq(symm__wire_why(e.server), "has not proved that it knows the token");
    ck_assert_str_eq(symm__wire_why(e.client),
                     "closed the connection before it proved that it knows the token");
    ck_assert_int_eq(symm__wire_status(e.server), SYMM_ERROR_ARGUMENT);
    ck_assert_int_eq(symm__wire_status(e.client), SYMM_ERROR_ARGUMENT);
    ck_assert_int_eq(symm__wire_poll(e.server).fd, -1);
    close_both(e);
}

/* A listener that knows no key sends back what it gets: challenge and proof. */
TEST(proof, it_cannot_be_sent_back)
{
    uint8_t bytes[SYMM_HANDSHAKE_BYTES];
    struct symm_wire *w;
    struct symm_address at;
    int listener = listen_at(&at), fd;

    ck_assert_int_eq(symm__wire_connect(&at, &right, &w), SYMM_OK);
    fd = take(listener);
    listen_to(fd, w, bytes, SYMM_PREFACE_BYTES);
    say(fd, bytes, SYMM_PREFACE_BYTES);
    listen_to(fd, w, bytes, SYMM_PROOF_BYTES);
    say(fd, bytes, SYMM_PROOF_BYTES);
    serve_until(w, NULL, SYMM_WIRE_ENDED);
    ck_assert_str_eq(symm__wire_why(w), "has not proved that it knows the token");
    symm__wire_close(w);
    symm__fd_close(&fd);
    symm__fd_close(&listener);
}

/* What a client has sent to the listener is of no use to another client. */
TEST(proof, a_recorded_proof_of_a_client_is_refused)
{
    struct symm_handshake recorded;
    struct stranger s;

    go(come_and_record(&recorded));
    s = come();
    say(s.fd, recorded.out, SYMM_HANDSHAKE_BYTES);
    serve_until(s.wire, NULL, SYMM_WIRE_ENDED);
    ck_assert_str_eq(symm__wire_why(s.wire), "has not proved that it knows the token");
    go(s);
}

TEST(proof, a_recorded_proof_of_a_listener_is_refused)
{
    struct symm_handshake recorded;
    struct symm_address at;
    struct symm_wire *w;
    int listener, fd;

    go(come_and_record(&recorded));
    listener = listen_at(&at);
    ck_assert_int_eq(symm__wire_connect(&at, &right, &w), SYMM_OK);
    fd = take(listener);
    say(fd, recorded.in, SYMM_HANDSHAKE_BYTES);
    serve_until(w, NULL, SYMM_WIRE_ENDED);
    ck_assert_str_eq(symm__wire_why(w), "has not proved that it knows the token");
    symm__wire_close(w);
    symm__fd_close(&fd);
    symm__fd_close(&listener);
}

/* The listening end proves nothing to who has not proved. */
TEST(proof, who_does_not_know_the_key_gets_none)
{
    struct stranger s = come();
    struct symm_handshake h;
    char bytes[64];

    ck_assert_int_eq(symm__handshake_begin(&h, SYMM_HANDSHAKE_CONNECTS, wrong.bytes), SYMM_OK);
    say(s.fd, h.out, SYMM_PREFACE_BYTES);
    say(s.fd, bytes, SYMM_PROOF_BYTES);
    serve_until(s.wire, NULL, SYMM_WIRE_ENDED);
    ck_assert_int_eq(recv(s.fd, bytes, sizeof bytes, MSG_WAITALL), SYMM_PREFACE_BYTES);
    go(s);
}

TEST(proof, challenges_differ)
{
    struct symm_handshake a, b;

    ck_assert_int_eq(symm__handshake_begin(&a, SYMM_HANDSHAKE_CONNECTS, right.bytes), SYMM_OK);
    ck_assert_int_eq(symm__handshake_begin(&b, SYMM_HANDSHAKE_CONNECTS, right.bytes), SYMM_OK);
    ck_assert_mem_ne(a.out + 12, b.out + 12, SYMM_CHALLENGE_BYTES);
}

TEST(proof, another_version_is_named)
{
    struct stranger s = come();
    const uint32_t version = htole32(20300);
    uint8_t bytes[SYMM_PREFACE_BYTES];

    say(s.fd, "symm-tcp", 8);
    say(s.fd, &version, sizeof version);
    serve_until(s.wire, NULL, SYMM_WIRE_ENDED);
    ck_assert_str_eq(symm__wire_why(s.wire), "is symm 20300, this is 100");
    ck_assert_int_eq(symm__wire_status(s.wire), SYMM_ERROR_VERSION);
    ck_assert_int_eq(recv(s.fd, bytes, sizeof bytes, MSG_WAITALL), SYMM_PREFACE_BYTES);
    ck_assert_mem_eq(bytes, "symm-tcp\x64\0\0\0", 12); /* so the other end can name both, too */
    go(s);
}

TEST(proof, other_protocols_are_refused_at_the_first_byte)
{
    struct stranger s = come();

    say(s.fd, "G", 1);
    serve_until(s.wire, NULL, SYMM_WIRE_ENDED);
    ck_assert_str_eq(symm__wire_why(s.wire), "is no symm");
    ck_assert_int_eq(symm__wire_status(s.wire), SYMM_ERROR_ARGUMENT);
    go(s);
}

/* A stranger fills no memory: only the bytes of a handshake are read. */
TEST(proof, no_more_than_a_handshake_is_read)
{
    struct stranger s = come();
    struct symm_handshake h;
    int unread = 0;

    ck_assert_int_eq(symm__handshake_begin(&h, SYMM_HANDSHAKE_CONNECTS, right.bytes), SYMM_OK);
    say(s.fd, h.out, SYMM_PREFACE_BYTES);
    serve_some(s.wire, NULL);
    say(s.fd, payload, SYMM_PROOF_BYTES - 1);
    serve_some(s.wire, NULL);
    ck_assert_int_eq(symm__wire_state(s.wire), SYMM_WIRE_PROVING);
    ck_assert_int_eq(ioctl(symm__wire_poll(s.wire).fd, FIONREAD, &unread), 0);
    ck_assert_int_eq(unread, 0);
    say(s.fd, payload, 50000);
    serve_until(s.wire, NULL, SYMM_WIRE_ENDED);
    ck_assert_str_eq(symm__wire_why(s.wire), "has not proved that it knows the token");
    go(s);
}

TEST_LOOP(proof, a_connection_may_end_after_each_byte, 0, SYMM_HANDSHAKE_BYTES)
{
    struct stranger s = come();
    struct symm_handshake h;

    ck_assert_int_eq(symm__handshake_begin(&h, SYMM_HANDSHAKE_CONNECTS, right.bytes), SYMM_OK);
    say(s.fd, h.out, (size_t)_i); /* the proof is 0 */
    serve_some(s.wire, NULL);
    ck_assert_int_eq(symm__wire_state(s.wire), SYMM_WIRE_PROVING);
    symm__fd_close(&s.fd);
    serve_until(s.wire, NULL, SYMM_WIRE_ENDED);
    ck_assert_int_eq(symm__wire_status(s.wire),
                     _i < SYMM_PREFACE_BYTES ? SYMM_ERROR_PEER : SYMM_ERROR_ARGUMENT);
    go(s);
}

TEST(proof, nobody_listens)
{
    struct symm_address at;
    struct symm_wire *w;
    int listener = listen_at(&at);

    symm__fd_close(&listener);
    ck_assert_int_eq(symm__wire_connect(&at, &right, &w), SYMM_OK);
    symm__wire_send(w, make(1, 100));
    serve_until(w, NULL, SYMM_WIRE_ENDED);
    ck_assert_str_eq(symm__wire_why(w), "Connection refused");
    ck_assert_int_eq(symm__wire_status(w), SYMM_ERROR_PEER);
    symm__wire_close(w);
    symm__wire_close(NULL);
}

TEST(proof, a_descriptor_that_is_no_connection_is_refused_and_closed)
{
    struct symm_wire *w;

    ck_assert_int_eq(symm__wire_accept(dup(0), &right, &w), SYMM_ERROR_SYSTEM);
    ck_assert_ptr_null(w);
    ck_assert_int_eq(symm__wire_accept(-1, &right, &w), SYMM_ERROR_SYSTEM);
}

TEST_GROUP(silence, 60);

TEST(silence, a_stranger_has_5_s_to_prove)
{
    struct stranger s = come();

    wait_us(SYMM_WIRE_PROOF_US - 1);
    say(s.fd, "symm", 4); /* some bytes are no excuse */
    serve_some(s.wire, NULL);
    ck_assert_int_eq(symm__wire_state(s.wire), SYMM_WIRE_PROVING);
    wait_us(1);
    serve(s.wire);
    ck_assert_int_eq(symm__wire_state(s.wire), SYMM_WIRE_ENDED);
    ck_assert_str_eq(symm__wire_why(s.wire), "has not proved that it knows the token within 5 s");
    ck_assert_int_eq(symm__wire_status(s.wire), SYMM_ERROR_TIMEOUT);
    go(s);
}

/* The listener's queue is full, so the kernel does not answer. */
TEST(silence, a_connect_has_5_s)
{
    struct symm_address at;
    struct symm_wire *wires[8];
    int listener = listen_at(&at);

    ck_assert_int_eq(listen(listener, 0), 0);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(symm__wire_connect(&at, &right, &wires[i]), SYMM_OK);
    serve_some(wires[7], NULL);
    ck_assert_int_eq(symm__wire_state(wires[7]), SYMM_WIRE_PROVING);
    wait_us(SYMM_WIRE_PROOF_US);
    serve(wires[7]);
    ck_assert_str_eq(symm__wire_why(wires[7]), "has not answered within 5 s");
    for (int i = 0; i < 8; i++)
        symm__wire_close(wires[i]);
    symm__fd_close(&listener);
}

TEST(silence, an_idle_wire_sends_a_sign_of_life_each_second)
{
    enum { SECONDS = 20 };
    struct relay r;
    struct ends e = connect_through(&r);
    struct symm_message m;

    relay_until_open(e, &r);
    for (int s = 0; s < SECONDS; s++)
        for (int half = 0; half < 2; half++) {
            wait_us(SYMM_WIRE_BEAT_US / 2);
            for (int i = 0; i < 5; i++) {
                serve(e.client);
                serve(e.server);
                rest();
                relay(&r, sizeof payload);
                ck_assert(!symm__wire_next(e.client, &m));
                ck_assert(!symm__wire_next(e.server, &m));
            }
        }
    ck_assert_uint_eq(r.forwarded[0], SYMM_HANDSHAKE_BYTES + 4 * SECONDS);
    ck_assert_uint_eq(r.forwarded[1], SYMM_HANDSHAKE_BYTES + 4 * SECONDS);
    ck_assert_int_eq(symm__wire_state(e.client), SYMM_WIRE_OPEN);
    ck_assert_int_eq(symm__wire_state(e.server), SYMM_WIRE_OPEN);
    close_relayed(e, &r);
}

/* Nothing is forwarded any more, and no end of a connection either: the network is lost. */
TEST(silence, a_lost_network_ends_both_ends_after_5_s)
{
    struct relay r;
    struct ends e = connect_through(&r);

    relay_until_open(e, &r);
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(symm__wire_state(e.client), SYMM_WIRE_OPEN);
        ck_assert_int_eq(symm__wire_state(e.server), SYMM_WIRE_OPEN);
        wait_us(SYMM_WIRE_BEAT_US / 2);
        serve_some(e.client, e.server);
    }
    ck_assert_str_eq(symm__wire_why(e.client), "was silent for 5 s");
    ck_assert_str_eq(symm__wire_why(e.server), "was silent for 5 s");
    ck_assert_int_eq(symm__wire_status(e.client), SYMM_ERROR_TIMEOUT);
    close_relayed(e, &r);
}

/* This thread was stopped for long, but the other end has sent meanwhile. */
TEST(silence, bytes_that_wait_are_read_before_the_time_is_judged)
{
    struct stranger s = come_and_prove();
    uint64_t seq = 1;

    wait_us(SYMM_WIRE_BEAT_US);
    say_frame(s.fd, 1);
    rest();
    wait_us(10 * SYMM_WIRE_SILENT_US);
    symm__wire_serve(s.wire, 0);
    ck_assert_int_eq(symm__wire_state(s.wire), SYMM_WIRE_OPEN);
    take_frames(s.wire, &seq);
    ck_assert_uint_eq(seq, 2);
    go(s);
}
