/* Addresses: texts that are read, texts that are refused, and listening. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "runtime/base/fd.h"
#include "runtime/comm/address.h"
#include "test.h"

TEST_GROUP(address, 20);

static const struct good {
    const char *text;
    int port;
    const char *name;
} good[] = {
    {"127.0.0.1:4242", -1, "127.0.0.1:4242"},
    {"127.0.0.1:0", 7, "127.0.0.1:0"},
    {"127.0.0.1", 4243, "127.0.0.1:4243"},
    {"10.1.2.3:65535", 0, "10.1.2.3:65535"},
    {"localhost:1", -1, "127.0.0.1:1"},
    {"[::1]:4242", -1, "[::1]:4242"},
    {"[::1]", 5, "[::1]:5"},
    {"[fd00::12]:80", -1, "[fd00::12]:80"},
};

TEST_LOOP(address, texts_are_read, 0, sizeof good / sizeof good[0])
{
    struct symm_address a;

    ck_assert_msg(symm__address_read("SYMM_ADDRESS", good[_i].text, good[_i].port, &a) == SYMM_OK,
                  "%s", symm__failure_text());
    ck_assert_str_eq(symm__address_name(&a).text, good[_i].name);
    ck_assert_int_eq(symm__address_port(&a), atoi(strrchr(good[_i].name, ':') + 1));
    a = symm__address_with_port(&a, 40000);
    ck_assert_int_eq(symm__address_port(&a), 40000);
}

static const struct bad {
    const char *text, *why;
} bad[] = {
    {"", "names no host"},
    {":4242", "names no host"},
    {"[]:4242", "names no host"},
    {"127.0.0.1", "names no port"},
    {"[::1]", "names no port"},
    {"127.0.0.1:", "\"\" is not a port within 0 to 65535"},
    {"127.0.0.1:65536", "\"65536\" is not a port"},
    {"127.0.0.1:-1", "\"-1\" is not a port"},
    {"127.0.0.1:+1", "\"+1\" is not a port"},
    {"127.0.0.1:80x", "\"80x\" is not a port"},
    {"127.0.0.1:99999999999999999999", "is not a port"},
    {"::1", "must be in brackets"},
    {"fd00::12:4242", "must be in brackets"},
    {"[::1", "is not HOST:PORT or [IPv6]:PORT"},
    {"[::1]4242", "is not HOST:PORT or [IPv6]:PORT"},
    {"[300.0.0.1]:1", "names an unknown host"},
    {"no host at all:1", "names an unknown host, no host at all: "},
    {"0.0.0.0:4242", "names no host"},
    {"[::]:4242", "names no host"},
};

TEST_LOOP(address, wrong_texts_are_refused, 0, sizeof bad / sizeof bad[0])
{
    struct symm_address a;

    ck_assert_int_eq(symm__address_read("SYMM_ADDRESS", bad[_i].text, -1, &a), SYMM_ERROR_ARGUMENT);
    ck_assert_msg(strstr(symm__failure_text(), bad[_i].why) != NULL, "%s", symm__failure_text());
    ck_assert_ptr_nonnull(strstr(symm__failure_text(), "SYMM_ADDRESS"));
}

TEST(address, a_host_of_any_length_is_refused)
{
    static char text[5000];
    struct symm_address a;

    memset(text, 'a', sizeof text - 1);
    ck_assert_int_eq(symm__address_read("SYMM_ADDRESS", text, 1, &a), SYMM_ERROR_ARGUMENT);
}

TEST(address, this_host_can_listen_at_its_own_address)
{
    struct symm_address own, at;
    int fd;

    ck_assert_int_eq(symm__address_own(&own), SYMM_OK);
    ck_assert_int_eq(symm__address_port(&own), 0);
    ck_assert_msg(symm__address_listen(&own, &at, &fd) == SYMM_OK, "%s", symm__failure_text());
    ck_assert_int_ne(symm__address_port(&at), 0);
    symm__fd_close(&fd);
}

static struct symm_address loopback(void)
{
    struct symm_address a;

    ck_assert_int_eq(symm__address_read("SYMM_ADDRESS", "127.0.0.1:0", -1, &a), SYMM_OK);
    return a;
}

TEST(address, a_listener_gets_a_port_and_keeps_it_for_itself)
{
    const struct symm_address a = loopback();
    struct symm_address at, again;
    int fd, other;

    ck_assert_int_eq(symm__address_listen(&a, &at, &fd), SYMM_OK);
    ck_assert_int_gt(fd, 2);
    ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    ck_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
    ck_assert_int_ne(symm__address_port(&at), 0);
    ck_assert_int_eq(symm__address_listen(&at, &again, &other), SYMM_ERROR_STATE);
    ck_assert_int_eq(other, -1);
    ck_assert_ptr_nonnull(strstr(symm__failure_text(), symm__address_name(&at).text));
    ck_assert_ptr_nonnull(strstr(symm__failure_text(), "is in use"));
    symm__fd_close(&fd);
}

TEST(address, a_port_with_ended_connections_is_free)
{
    const struct symm_address a = loopback();
    struct symm_address at, again;
    int fd, client, server;

    ck_assert_int_eq(symm__address_listen(&a, &at, &fd), SYMM_OK);
    client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(client, (struct sockaddr *)&at.sock, at.nbytes), 0);
    while ((server = accept(fd, NULL, NULL)) < 0)
        ck_assert_int_eq(errno, EAGAIN);
    symm__fd_close(&server); /* first, so that the port is in TIME_WAIT */
    symm__fd_close(&client);
    symm__fd_close(&fd);
    ck_assert_msg(symm__address_listen(&at, &again, &fd) == SYMM_OK, "%s", symm__failure_text());
    ck_assert_str_eq(symm__address_name(&again).text, symm__address_name(&at).text);
    symm__fd_close(&fd);
}

TEST(address, another_hosts_address_is_refused)
{
    struct symm_address a, at;
    int fd;

    ck_assert_int_eq(symm__address_read("SYMM_ADDRESS", "192.0.2.1:4242", -1, &a), SYMM_OK);
    ck_assert_int_eq(symm__address_listen(&a, &at, &fd), SYMM_ERROR_SYSTEM);
    ck_assert_str_eq(symm__failure_text(), "192.0.2.1:4242 is not an address of this host");
}

TEST(address, a_listener_is_above_standard_output)
{
    const struct symm_address a = loopback();
    struct symm_address at;
    int fd, kept = fcntl(0, F_DUPFD_CLOEXEC, 10);

    close(0);
    ck_assert_int_eq(symm__address_listen(&a, &at, &fd), SYMM_OK);
    ck_assert_int_gt(fd, 2);
    symm__fd_close(&fd);
    dup2(kept, 0);
    symm__fd_close(&kept);
}
