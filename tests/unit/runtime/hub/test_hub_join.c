/* Joining: connections that say nothing, and refusals. */
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
