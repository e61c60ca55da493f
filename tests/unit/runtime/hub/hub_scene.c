/* A hub and its clients in one thread. */
#include "hub_scene.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "runtime/base/fd.h"

static int64_t waited_ms;

/*
 * Replaces the function of the C library. The monotonic clock stands still apart from
 * hub_scene_wait(), so no time limit depends on the load of the machine.
 */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    enum { BEGIN_S = 1000000 };

    if (clock != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, clock, now);
    now->tv_sec = BEGIN_S + waited_ms / 1000;
    now->tv_nsec = waited_ms % 1000 * 1000000;
    return 0;
}

void hub_scene_wait(int ms)
{
    waited_ms += ms;
}

static void note(void *user, int level, const char *line)
{
    struct hub_scene *x = user;
    const size_t used = strlen(x->lines);

    (void)level;
    snprintf(x->lines + used, sizeof x->lines - used, "%s\n", line);
}

int hub_scene_connect(struct hub_scene *x)
{
    int fd = -1;
    pid_t pid;

    ck_assert_int_eq(symm__rendezvous_connect(x->join.session, symm__deadline_in(1000), &x->log,
                                              1000000, &fd, &pid),
                     SYMM_OK);
    return fd;
}

void hub_scene_open(struct hub_scene *x, int nranks)
{
    const struct symm_hub_config config = {
        .join = &x->join, .log = &x->log, .rendezvous = &x->rendezvous};
    int ends[2];

    *x = (struct hub_scene){.join = {.nranks = nranks, .session = "scene"},
                            .log = {.to = note, .user = x}};
    ck_assert_int_eq(symm__boot_id(x->boot_id), SYMM_OK);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends),
                     0);
    ck_assert_int_eq(
        symm__rendezvous_open(&x->rendezvous, x->join.session, symm__deadline_in(1000), &x->log),
        SYMM_OK);
    ck_assert_int_eq(symm__hub_open(&config, ends[1], &x->hub), SYMM_OK);
    client_init(&x->clients[0], ends[0], 0, nranks);
    for (int r = 1; r < nranks; r++)
        client_init(&x->clients[r], hub_scene_connect(x), r, nranks);
}

void hub_scene_join(struct hub_scene *x)
{
    for (int r = 0; r < x->join.nranks; r++)
        client_hello(&x->clients[r], x->boot_id);
    for (int i = 0; i < SCENE_TURNS; i++) {
        client_serve(x->hub);
        for (int r = 0; r < x->join.nranks; r++)
            client_drain(&x->clients[r]);
    }
    for (int r = 0; r < x->join.nranks; r++)
        ck_assert(x->clients[r].joined);
}

void hub_scene_close(struct hub_scene *x)
{
    for (int r = 0; r < x->join.nranks; r++)
        client_close(&x->clients[r]);
    symm__hub_close(x->hub);
}

bool hub_scene_hear(struct hub_scene *x, int fd, enum symm_message_type type,
                    struct symm_message *m)
{
    static unsigned char buffer[SYMM_MESSAGE_MAX];

    for (int i = 0; i < SCENE_TURNS; i++) {
        client_serve(x->hub);
        while (symm__message_receive(fd, buffer, m) == SYMM_RECEIVED) {
            symm__fd_close_all(m->fds, m->nfds);
            if (m->type == type)
                return true;
        }
    }
    return false;
}

bool hub_scene_is_closed(struct hub_scene *x, int fd)
{
    static unsigned char buffer[SYMM_MESSAGE_MAX];
    enum symm_received received = SYMM_RECEIVED_NOTHING;
    struct symm_message m;

    for (int i = 0; i < SCENE_TURNS && received != SYMM_RECEIVED_END; i++) {
        client_serve(x->hub);
        received = symm__message_receive(fd, buffer, &m);
    }
    return received == SYMM_RECEIVED_END;
}
