/*
 * Confirmations: nothing that lay in a socket at the time of the question is left out, and a rank
 * that never stops sending delays nobody. Rank 0 asks, rank 1 has much to say.
 */
#include "hub_scene.h"
#include "folder.h"
#include "test.h"

enum { BEFORE = 100 /* messages that lie in a socket; it holds more */ };

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

/* One turn, in which rank 0 reads its answers. */
static void serve(struct hub_scene *x, int *turns)
{
    client_serve(x->hub);
    client_drain(&x->clients[0]);
    ++*turns;
}

TEST_GROUP(hub_confirm, 20, IN_A_FOLDER);

TEST(hub_confirm, a_rank_that_never_stops_sending_delays_an_answer_by_one_socket)
{
    struct hub_scene x;
    int turns = 0;

    hub_scene_open(&x, 2);
    hub_scene_join(&x);
    struct client_comm *const world = &x.clients[0].comms[0];
    for (int i = 0; i < BEFORE; i++)
        make_noise(&x.clients[1]);
    client_say(&x.clients[0], SYMM_MESSAGE_CONFIRM, 0);
    while (world->confirmed != world->confirm && turns < 10 * BEFORE) {
        make_noise(&x.clients[1]);
        serve(&x, &turns);
    }
    ck_assert_int_eq(world->stage, COMM_OPEN);
    ck_assert_msg(turns >= BEFORE && turns <= BEFORE + 10, "%d turns", turns);
    hub_scene_close(&x);
}

TEST(hub_confirm, an_abort_behind_other_messages_counts)
{
    struct hub_scene x;
    int turns = 0;

    hub_scene_open(&x, 2);
    hub_scene_join(&x);
    struct client_comm *const world = &x.clients[0].comms[0];
    for (int i = 0; i < BEFORE; i++)
        make_noise(&x.clients[1]);
    client_say(&x.clients[1], SYMM_MESSAGE_ABORT, 0);
    client_say(&x.clients[0], SYMM_MESSAGE_CONFIRM, 0);
    while (world->stage == COMM_OPEN && world->confirmed != world->confirm && turns < 10 * BEFORE)
        serve(&x, &turns);
    ck_assert_int_eq(world->stage, COMM_ENDED);
    ck_assert_msg(turns >= BEFORE, "%d turns", turns);
    ck_assert_uint_eq(world->confirmed, 0);
    hub_scene_close(&x);
}
