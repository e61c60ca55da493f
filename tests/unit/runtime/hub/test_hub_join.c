/* Joining: connections that say nothing, and refusals. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "runtime/base/fd.h"
#include "hub_scene.h"
#include "folder.h"
#include "test.h"

TEST_GROUP(hub_join, 20, IN_A_FOLDER);

TEST(hub_join, a_connection_without_hello_is_refused_after_5_s)
{
    struct hub_scene x;
    struct symm_message m;

    hub_scene_open(&x, 2);
    client_hello(&x.clients[0], x.boot_id);
    ck_assert(!hub_scene_hear(&x, x.clients[1].fd, SYMM_MESSAGE_ENDED, &m));
    hub_scene_wait(4500);
    ck_assert(!hub_scene_hear(&x, x.clients[1].fd, SYMM_MESSAGE_ENDED, &m));
    hub_scene_wait(600);
    ck_assert(hub_scene_hear(&x, x.clients[1].fd, SYMM_MESSAGE_ENDED, &m));
    ck_assert_int_eq(m.status, SYMM_ERROR_TIMEOUT);
    ck_assert_str_eq(m.reason, "this rank has sent no HELLO");
    ck_assert(hub_scene_is_closed(&x, x.clients[1].fd));
    hub_scene_close(&x);
}

/* Ranks 1 and 2 are wrong, rank 3 does not come. */
TEST(hub_join, a_refusal_names_all_that_come_within_half_a_second)
{
    struct hub_scene x;
    struct symm_message m;

    hub_scene_open(&x, 4);
    client_hello(&x.clients[0], x.boot_id);
    client_hello(&x.clients[1], "another host");
    ck_assert(!hub_scene_hear(&x, x.clients[0].fd, SYMM_MESSAGE_ENDED, &m));
    hub_scene_wait(400);
    client_hello(&x.clients[2], "another host");
    ck_assert(!hub_scene_hear(&x, x.clients[0].fd, SYMM_MESSAGE_ENDED, &m));
    hub_scene_wait(200);
    ck_assert(hub_scene_hear(&x, x.clients[0].fd, SYMM_MESSAGE_ENDED, &m));
    ck_assert_int_eq(m.status, SYMM_ERROR_UNSUPPORTED);
    ck_assert_str_eq(
        m.reason, "rank 1 is on another host than rank 0; rank 2 is on another host than rank 0");
    hub_scene_close(&x);
}

/* All places are taken by connections that say nothing, and one more waits. */
TEST(hub_join, the_oldest_silent_connection_makes_room_after_1_s)
{
    enum { MANY = SYMM_HUB_STRANGERS + 1 };
    struct hub_scene x;
    struct symm_message m;
    int fds[MANY];

    hub_scene_open(&x, 2);
    client_hello(&x.clients[0], x.boot_id);
    for (int i = 0; i < MANY; i++)
        fds[i] = hub_scene_connect(&x);
    ck_assert(!hub_scene_hear(&x, x.clients[1].fd, SYMM_MESSAGE_ENDED, &m));
    hub_scene_wait(1000);
    ck_assert(hub_scene_hear(&x, x.clients[1].fd, SYMM_MESSAGE_ENDED, &m));
    ck_assert_int_eq(m.status, SYMM_ERROR_TIMEOUT);
    ck_assert(strstr(m.reason, "other connections wait"));
    hub_scene_close(&x);
    symm__fd_close_all(fds, MANY);
}

/* The hub's token is 16 bytes of 0. */
static const struct token {
    bool hub_has, rank_has;
    unsigned char byte; /* of rank 1's token, its last one */
    bool joins;
} tokens[] = {
    {true, true, 0, true},   {true, true, 1, false},  {true, false, 0, false},
    {false, true, 0, false}, {false, false, 0, true},
};

static void say_hello(struct hub_scene *x, int rank, bool has_token, unsigned char byte)
{
    struct symm_hello hello = {.token = {[15] = byte}};
    const struct symm_message m = {.type = SYMM_MESSAGE_HELLO,
                                   .rank = rank,
                                   .comm = SYMM_COMM_JOIN,
                                   .args = {2, 0, has_token ? SYMM_HELLO_TOKEN : 0},
                                   .payload = &hello,
                                   .payload_nbytes = sizeof hello};

    snprintf(hello.boot_id, sizeof hello.boot_id, "%s", x->boot_id);
    client_send(&x->clients[rank], &m);
}

TEST_LOOP(hub_join, a_rank_joins_with_the_token_only, 0, sizeof tokens / sizeof tokens[0])
{
    const struct token *t = &tokens[_i];
    struct hub_scene x;
    struct symm_message m;

    hub_scene_open(&x, 2);
    x.join.has_token = t->hub_has;
    say_hello(&x, 0, t->hub_has, 0);
    say_hello(&x, 1, t->rank_has, t->byte);
    ck_assert(hub_scene_hear(&x, x.clients[1].fd,
                             t->joins ? SYMM_MESSAGE_RESULT : SYMM_MESSAGE_ENDED, &m));
    if (!t->joins) {
        ck_assert_int_eq(m.status, SYMM_ERROR_MISMATCH);
        ck_assert(strstr(m.reason, "the token (SYMM_TOKEN) of rank 1"));
        ck_assert(hub_scene_is_closed(&x, x.clients[1].fd));
    }
    hub_scene_close(&x);
}
