#include "proxy.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHUNK = 1 << 16, POLL_MS = 5, BACKLOG = 128 };

/* A connection, and the one that the proxy has made for it. Each of two threads has one way. */
struct forward {
    struct proxy_control *control;
    int from_rank, to_rank0;
    atomic_int users;
};

struct way {
    struct forward *forward;
    int from, to;
    enum proxy_mode swallows;
};

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static bool write_all(int fd, const char *at, size_t n)
{
    while (n > 0) {
        const ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += sent;
        n -= (size_t)sent;
    }
    return true;
}

/* Returns when something has come; false: nothing will any more. */
static bool await(const struct way *way)
{
    struct pollfd p = {way->from, POLLIN, 0};

    while (atomic_load(&way->forward->control->mode) != PROXY_CUT)
        if (poll(&p, 1, POLL_MS) > 0)
            return true;
    return false;
}

/* An end of one way is the end of both, and of the connections, unless it is swallowed, too. */
static void *run_way(void *arg)
{
    struct way *way = arg;
    struct forward *f = way->forward;
    char *bytes = malloc(CHUNK);
    bool open = bytes != NULL, swallows = false;

    while (open && await(way)) {
        const ssize_t n = recv(way->from, bytes, CHUNK, 0);
        usleep((useconds_t)atomic_load(&f->control->delay_ms) * 1000);
        const enum proxy_mode mode = atomic_load(&f->control->mode);
        swallows = mode == PROXY_SWALLOWS || mode == way->swallows;
        open = n > 0 && (swallows || write_all(way->to, bytes, (size_t)n));
    }
    if (!swallows) {
        shutdown(f->from_rank, SHUT_RDWR);
        shutdown(f->to_rank0, SHUT_RDWR);
    }
    if (atomic_fetch_sub(&f->users, 1) == 1) {
        close(f->from_rank);
        close(f->to_rank0);
        free(f);
    }
    free(bytes);
    free(way);
    return NULL;
}

static void start_way(struct forward *f, int from, int to, enum proxy_mode swallows)
{
    struct way *way = malloc(sizeof *way);
    pthread_t thread;

    if (!way)
        _exit(1);
    *way = (struct way){f, from, to, swallows};
    if (pthread_create(&thread, NULL, run_way, way))
        _exit(1);
    pthread_detach(thread);
}

static void forward(struct proxy_control *control, int from_rank, int port)
{
    const struct sockaddr_in a = loopback(port);
    const int to_rank0 = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    struct forward *f = malloc(sizeof *f);

    if (!f || atomic_load(&control->mode) == PROXY_CUT ||
        connect(to_rank0, (const struct sockaddr *)&a, sizeof a)) {
        close(from_rank);
        close(to_rank0);
        free(f);
        return;
    }
    setsockopt(from_rank, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(to_rank0, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    *f = (struct forward){control, from_rank, to_rank0, 2};
    atomic_fetch_add(&control->nforwards, 1);
    start_way(f, from_rank, to_rank0, PROXY_SWALLOWS_UP);
    start_way(f, to_rank0, from_rank, PROXY_SWALLOWS_DOWN);
}

static void run(struct proxy_control *control, int listener, int port)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        const int fd = accept(listener, NULL, NULL);
        if (fd >= 0)
            forward(control, fd, port);
    }
}

void proxy_start(struct proxy *proxy, const char *to, int delay_ms)
{
    struct sockaddr_in a = loopback(0);
    socklen_t nbytes = sizeof a;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    ck_assert_int_eq(listen(listener, BACKLOG), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&a, &nbytes), 0);
    snprintf(proxy->address, sizeof proxy->address, "127.0.0.1:%d", ntohs(a.sin_port));
    proxy->control = mmap(NULL, sizeof *proxy->control, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(proxy->control != MAP_FAILED);
    atomic_store(&proxy->control->delay_ms, delay_ms);
    proxy->pid = fork();
    ck_assert_int_ge(proxy->pid, 0);
    if (proxy->pid == 0)
        run(proxy->control, listener, atoi(strchr(to, ':') + 1));
    close(listener);
}

void proxy_end(struct proxy *proxy)
{
    kill(proxy->pid, SIGKILL);
    waitpid(proxy->pid, NULL, 0);
    munmap(proxy->control, sizeof *proxy->control);
}
