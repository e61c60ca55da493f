/* Messages that a connection may not send, and how it ends. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "hub_scene.h"
#include "folder.h"
#include "test.h"

static void open_joined(struct hub_scene *x)
{
    hub_scene_open(x, 2);
    hub_scene_join(x);
}

/* The world has ended because of rank 1. */
static void assert_rank_1_died(struct hub_scene *x)
{
    struct symm_message m;

    ck_assert(hub_scene_hear(x, x->clients[0].fd, SYMM_MESSAGE_ENDED, &m));
    ck_assert_uint_eq(m.comm, SYMM_COMM_WORLD);
    ck_assert_int_eq(m.status, SYMM_ERROR_PEER);
    ck_assert_msg(!strncmp(m.reason, "rank 1 (pid ", 12) && strstr(m.reason, " died"), "%s",
                  m.reason);
}

TEST_GROUP(hub_messages, 20, IN_A_FOLDER);

TEST(hub_messages, a_rank_speaks_for_itself_only)
{
    struct hub_scene x;
    const struct symm_message m = {.type = SYMM_MESSAGE_ABORT,
                                   .rank = 0,
                                   .comm = SYMM_COMM_WORLD,
                                   .status = SYMM_ERROR_DRIVER,
                                   .reason = "in another rank's name"};

    open_joined(&x);
    client_send(&x.clients[1], &m);
    assert_rank_1_died(&x);
    hub_scene_close(&x);
}

static const uint32_t of_hubs[] = {SYMM_MESSAGE_DOMAIN, SYMM_MESSAGE_RESULT,    SYMM_MESSAGE_ENDED,
                                   SYMM_MESSAGE_LATE,   SYMM_MESSAGE_CONFIRMED, SYMM_MESSAGE_ASKED,
                                   SYMM_MESSAGE_MEET};
enum { NOF_HUBS = sizeof of_hubs / sizeof of_hubs[0] };

/* They were forwarded to rank 0 once, which took them for nonsense of the hub. */
TEST_LOOP(hub_messages, a_rank_sends_no_message_of_hubs, 0, NOF_HUBS)
{
    struct hub_scene x;
    struct symm_message m = {.type = of_hubs[_i], .rank = 1, .comm = SYMM_COMM_WORLD};

    if (m.type == SYMM_MESSAGE_RESULT || m.type == SYMM_MESSAGE_MEET) {
        m.payload = "payload";
        m.payload_nbytes = 8;
    }
    open_joined(&x);
    client_send(&x.clients[1], &m);
    assert_rank_1_died(&x);
    hub_scene_close(&x);
}

TEST(hub_messages, a_connection_has_one_hello)
{
    struct hub_scene x;

    open_joined(&x);
    x.clients[1].said_hello = false;
    client_hello(&x.clients[1], x.boot_id);
    assert_rank_1_died(&x);
    hub_scene_close(&x);
}

TEST(hub_messages, the_first_message_is_a_hello)
{
    struct hub_scene x;

    hub_scene_open(&x, 2);
    client_send(&x.clients[1],
                &(struct symm_message){.type = SYMM_MESSAGE_BYE, .rank = 1, .comm = 1});
    ck_assert(hub_scene_is_closed(&x, x.clients[1].fd));
    hub_scene_close(&x);
}

/* The log has a line about a connection that ends without BYE, and about no other one. */
TEST_LOOP(hub_messages, an_end_without_bye_is_reported, 0, 2)
{
    const bool says_bye = _i;
    struct hub_scene x;
    char want[64];

    open_joined(&x);
    if (says_bye)
        client_leave(&x.clients[1]);
    client_close(&x.clients[1]);
    for (int i = 0; i < SCENE_TURNS; i++)
        client_serve(x.hub);
    snprintf(want, sizeof want, "rank 1 (pid %d): ended without BYE", (int)getpid());
    ck_assert_msg(!strstr(x.lines, want) == says_bye, "%s", x.lines);
    ck_assert(symm__hub_failed(x.hub) == !says_bye);
    hub_scene_close(&x);
}

/* Sets the limit of descriptors to those that are open now; -1: undoes it. */
static void limit_descriptors(int next)
{
    static struct rlimit old;
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (next >= 0) {
        old = limit;
        limit.rlim_cur = (rlim_t)next;
    }
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, next < 0 ? &old : &limit), 0);
}

TEST(hub_messages, a_descriptor_that_is_lost_fails_the_vote)
{
    struct hub_scene x;
    struct symm_message m;

    open_joined(&x);
    client_step(&x.clients[1], 0, 0, true);
    client_step(&x.clients[0], 0, 0, false);
    const int next = dup(0); /* the lowest that is free */
    close(next);
    limit_descriptors(next);
    const bool heard = hub_scene_hear(&x, x.clients[0].fd, SYMM_MESSAGE_RESULT, &m);
    limit_descriptors(-1);
    ck_assert(heard);
    ck_assert_int_eq(m.status, SYMM_ERROR_SYSTEM);
    ck_assert_str_eq(
        m.reason, "rank 0 could not take a descriptor: its RLIMIT_NOFILE is reached (on rank 1)");
    hub_scene_close(&x);
}
