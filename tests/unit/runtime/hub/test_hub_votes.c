/* Votes and other messages on comms that the exchange of a rank never sends, or at rare moments. */
#include <string.h>
#include "hub_scene.h"
#include "folder.h"
#include "test.h"

static void open_joined(struct hub_scene *x, int nranks)
{
    hub_scene_open(x, nranks);
    hub_scene_join(x);
}

/* A comm of ranks 0 and 1, which is lane 2 of the clients. */
enum { PAIR = 2 };

static void create_pair(struct hub_scene *x)
{
    ck_assert_uint_eq(client_members(PAIR, x->join.nranks), 3);
    client_create(&x->clients[0], PAIR);
    client_create(&x->clients[1], PAIR);
    for (int i = 0; i < SCENE_TURNS; i++) {
        client_serve(x->hub);
        client_drain(&x->clients[0]);
        client_drain(&x->clients[1]);
    }
    ck_assert_int_eq(x->clients[0].comms[PAIR].stage, COMM_OPEN);
    ck_assert_int_eq(x->clients[1].comms[PAIR].stage, COMM_OPEN);
}

TEST_GROUP(hub_votes, 20, IN_A_FOLDER);

TEST_LOOP(hub_votes, all_bytes_of_a_vote_fit_in_one_message, 0, 2)
{
    static const unsigned char bytes[SYMM_PAYLOAD_MAX];
    struct symm_message m = {.type = SYMM_MESSAGE_VOTE,
                             .comm = SYMM_COMM_WORLD,
                             .seq = 1,
                             .text = "bytes",
                             .payload = bytes,
                             .payload_nbytes = SYMM_PAYLOAD_MAX / 2 + (size_t)_i};
    struct symm_message heard;
    struct hub_scene x;

    open_joined(&x, 2);
    for (m.rank = 0; m.rank < 2; m.rank++)
        client_send(&x.clients[m.rank], &m);
    for (int r = 0; r < 2; r++) {
        ck_assert(hub_scene_hear(&x, x.clients[r].fd, SYMM_MESSAGE_RESULT, &heard));
        ck_assert_int_eq(heard.status, _i ? SYMM_ERROR_ARGUMENT : SYMM_OK);
        ck_assert_uint_eq(heard.payload_nbytes, _i ? 0 : SYMM_PAYLOAD_MAX);
        ck_assert_str_eq(heard.reason,
                         _i ? "30721 bytes from each rank are too many for one vote" : "");
    }
    hub_scene_close(&x);
}

/* The number of a first vote: too low, right, too high. */
TEST_LOOP(hub_votes, a_vote_out_of_sequence_ends_the_connection, 0, 3)
{
    struct symm_message heard;
    struct hub_scene x;

    open_joined(&x, 2);
    client_send(&x.clients[1], &(struct symm_message){.type = SYMM_MESSAGE_VOTE,
                                                      .rank = 1,
                                                      .comm = SYMM_COMM_WORLD,
                                                      .seq = (uint64_t)_i,
                                                      .text = "vote"});
    ck_assert(hub_scene_is_closed(&x, x.clients[1].fd) == (_i != 1));
    ck_assert(hub_scene_hear(&x, x.clients[0].fd, SYMM_MESSAGE_ENDED, &heard) == (_i != 1));
    hub_scene_close(&x);
}

TEST(hub_votes, a_rank_asks_ranks_of_its_group_only)
{
    struct symm_message m = {.type = SYMM_MESSAGE_ASK}, heard;
    struct hub_scene x;

    open_joined(&x, 3);
    create_pair(&x);
    m.comm = x.clients[0].comms[PAIR].key;
    for (int r = 1; r < 3; r++) {
        m.args[0] = (uint64_t)r;
        client_send(&x.clients[0], &m);
    }
    ck_assert(hub_scene_hear(&x, x.clients[1].fd, SYMM_MESSAGE_ASKED, &heard));
    ck_assert(!hub_scene_hear(&x, x.clients[2].fd, SYMM_MESSAGE_ASKED, &heard));
    hub_scene_close(&x);
}

TEST(hub_votes, an_abort_without_a_status_is_an_error)
{
    struct symm_message heard;
    struct hub_scene x;

    open_joined(&x, 2);
    client_say(&x.clients[1], SYMM_MESSAGE_ABORT, 0);
    for (int r = 0; r < 2; r++) {
        ck_assert(hub_scene_hear(&x, x.clients[r].fd, SYMM_MESSAGE_ENDED, &heard));
        ck_assert_int_eq(heard.status, SYMM_ERROR_PEER);
        ck_assert_str_eq(heard.reason, "enough");
    }
    hub_scene_close(&x);
}

/* Rank 1 cannot come to the group any more. Rank 2 closes the parent as well, but has no part. */
TEST(hub_votes, a_rank_that_closes_the_parent_ends_a_group_that_forms)
{
    struct symm_message heard;
    struct hub_scene x;

    open_joined(&x, 3);
    client_create(&x.clients[0], PAIR);
    client_say(&x.clients[2], SYMM_MESSAGE_CLOSE, 0);
    ck_assert(!hub_scene_hear(&x, x.clients[0].fd, SYMM_MESSAGE_ENDED, &heard));
    client_say(&x.clients[1], SYMM_MESSAGE_CLOSE, 0);
    ck_assert(hub_scene_hear(&x, x.clients[0].fd, SYMM_MESSAGE_ENDED, &heard));
    ck_assert_uint_eq(heard.comm, x.clients[0].comms[PAIR].key);
    ck_assert_int_eq(heard.status, SYMM_ERROR_PEER);
    ck_assert_str_eq(heard.reason, "rank 1 has left");
    hub_scene_close(&x);
}
