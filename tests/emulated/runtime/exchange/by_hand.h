/* A rank that speaks by hand: below the exchange, frame by frame. */
#ifndef TEST_BY_HAND_H
#define TEST_BY_HAND_H

#include <poll.h>
#include <stdlib.h>
#include <sys/time.h>
#include "meet.h"
#include "runtime/comm/boot_id.h"
#include "runtime/base/fd.h"
#include "runtime/hub/hub.h"
#include "runtime/comm/message.h"
#include "runtime/comm/rendezvous.h"

static const struct symm_log silent = {.rank = -1};

static inline int connect_to(const char *session)
{
    int fd = -1;
    pid_t hub;

    return symm__rendezvous_connect(session, symm__deadline_in(5000), &silent, INT32_MAX, &fd,
                                    &hub) == SYMM_OK
               ? fd
               : -1;
}

struct hello_by_hand {
    bool other_version, other_host;
    int more_ranks; /* than there are */
};

/* The HELLO of this rank, by its own configuration and SYMM_TOKEN, with what is to be wrong. */
static inline void say_hello_by_hand(int fd, const struct symm_join *join,
                                     const struct hello_by_hand *wrong)
{
    struct symm_hello hello = {.token = {0}};
    struct symm_message m = {.type = SYMM_MESSAGE_HELLO,
                             .rank = join->rank,
                             .args = {(uint64_t)(join->nranks + wrong->more_ranks),
                                      (uint64_t)getpid(), join->has_token ? SYMM_HELLO_TOKEN : 0},
                             .payload = &hello,
                             .payload_nbytes = sizeof hello};
    struct symm_frame *frame;

    memcpy(hello.token, join->token, sizeof hello.token);
    symm__boot_id(hello.boot_id);
    hello.boot_id[0] ^= wrong->other_host;
    frame = symm__frame_make(&m);
    frame->bytes[4] ^= wrong->other_version;
    symm__frame_send(fd, frame);
    symm__frame_put(frame);
}

/* Connects and says hello; -1 if it could not. */
static inline int join_by_hand(struct rank *self, const struct hello_by_hand *wrong)
{
    const symm_config config = rank_config(self);
    struct symm_join join;
    int fd;

    if (symm__join_resolve(&config, NULL, &join) != SYMM_OK)
        return -1;
    fd = connect_to(join.session);
    if (fd >= 0)
        say_hello_by_hand(fd, &join, wrong);
    return fd;
}

/* The next message, within 5 s. Its texts stay valid until the next call. */
static inline enum symm_received hear(int fd, struct symm_message *m)
{
    static _Thread_local unsigned char buffer[SYMM_MESSAGE_MAX];
    struct pollfd p = {fd, POLLIN, 0};

    *m = (struct symm_message){.text = "", .reason = ""};
    return poll(&p, 1, 5000) == 1 ? symm__message_receive(fd, buffer, m) : SYMM_RECEIVED_NOTHING;
}

#endif
