/*
 * Confirmations, with the hub and its clients in one thread, so that every turn is the test's:
 * nothing that lay in a socket at the time of the question is left out, and a rank that never stops
 * sending delays nobody.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include "runtime/comm/boot_id.h"
#include "runtime/comm/rendezvous.h"
#include "fuzz/client.h"
#include "folder.h"
#include "test.h"

enum { RANKS = 2, BEFORE = 100 /* messages that lie in a socket; it holds more */ };

/* Rank 0 asks, rank 1 has much to say. */
struct scene {
    struct symm_join join;
    struct symm_log log;
    struct symm_rendezvous rendezvous;
    struct symm_hub *hub;
    struct client clients[RANKS];
    int turns;
};

static void serve(struct scene *x)
{
    client_serve(x->hub);
    client_drain(&x->clients[0]);
    x->turns++;
}

static void open_scene(struct scene *x)
{
    const struct symm_hub_config config = {
        .join = &x->join, .log = &x->log, .rendezvous = &x->rendezvous};
    char boot_id[40];
    int ends[2], fd = -1;
    pid_t pid;

    *x = (struct scene){.join = {.nranks = RANKS, .session = "confirm"},
                        .log = {.to = client_be_silent}};
    ck_assert_int_eq(symm__boot_id(boot_id), SYMM_OK);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends),
                     0);
    ck_assert_int_eq(
        symm__rendezvous_open(&x->rendezvous, x->join.session, symm__deadline_in(1000), &x->log),
        SYMM_OK);
    ck_assert_int_eq(symm__hub_open(&config, ends[1], &x->hub), SYMM_OK);
    ck_assert_int_eq(symm__rendezvous_connect(x->join.session, symm__deadline_in(1000), &x->log,
                                              1000000, &fd, &pid),
                     SYMM_OK);
    client_init(&x->clients[0], ends[0], 0, RANKS);
    client_init(&x->clients[1], fd, 1, RANKS);
    for (int r = 0; r < RANKS; r++)
        client_hello(&x->clients[r], boot_id);
    for (int i = 0; i < 100 && !x->clients[1].joined; i++) {
        serve(x);
        client_drain(&x->clients[1]);
    }
    ck_assert(x->clients[0].joined && x->clients[1].joined);
    x->turns = 0;
}

static void close_scene(struct scene *x)
{
    for (int r = 0; r < RANKS; r++)
        client_close(&x->clients[r]);
    symm__hub_close(x->hub);
}

/* Says nothing that anybody answers. */
static void make_noise(struct client *c)
{
    static const uint64_t off = 0;
    const struct symm_message m = {.type = SYMM_MESSAGE_FREED,
                                   .rank = c->rank,
                                   .comm = SYMM_COMM_WORLD,
                                   .payload = &off,
                                   .payload_nbytes = sizeof off};

    client_send(c, &m);
    ck_assert_msg(!c->crooked, "the hub has dropped it, or the socket is full");
}

TEST_GROUP(hub_confirm, 20, IN_A_FOLDER);

TEST(hub_confirm, a_rank_that_never_stops_sending_delays_an_answer_by_one_socket)
{
    struct scene x;

    open_scene(&x);
    struct client_comm *const world = &x.clients[0].comms[0];
    for (int i = 0; i < BEFORE; i++)
        make_noise(&x.clients[1]);
    client_say(&x.clients[0], SYMM_MESSAGE_CONFIRM, 0);
    while (world->confirmed != world->confirm && x.turns < 10 * BEFORE) {
        make_noise(&x.clients[1]);
        serve(&x);
    }
    ck_assert_int_eq(world->stage, COMM_OPEN);
    ck_assert_msg(x.turns >= BEFORE && x.turns <= BEFORE + 10, "%d turns", x.turns);
    close_scene(&x);
}

TEST(hub_confirm, an_abort_behind_other_messages_counts)
{
    struct scene x;

    open_scene(&x);
    struct client_comm *const world = &x.clients[0].comms[0];
    for (int i = 0; i < BEFORE; i++)
        make_noise(&x.clients[1]);
    client_say(&x.clients[1], SYMM_MESSAGE_ABORT, 0);
    client_say(&x.clients[0], SYMM_MESSAGE_CONFIRM, 0);
    while (world->stage == COMM_OPEN && world->confirmed != world->confirm && x.turns < 10 * BEFORE)
        serve(&x);
    ck_assert_int_eq(world->stage, COMM_ENDED);
    ck_assert_msg(x.turns >= BEFORE, "%d turns", x.turns);
    ck_assert_uint_eq(world->confirmed, 0);
    close_scene(&x);
}
