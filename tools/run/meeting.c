/* Session, token and folder of one job. */
#include "meeting.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

static int random_hex(char out[33])
{
    unsigned char bytes[16];

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return errno;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

/*
 * Finds a free port and binds a socket to it, which never listens. While it is open, Linux gives
 * the port to nobody by itself, and lets rank 0 listen, since both sockets have SO_REUSEADDR.
 */
static int keep_port(struct meeting *m)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t nbytes = sizeof a;
    const int on = 1;

    m->port = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (m->port < 0 || setsockopt(m->port, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        bind(m->port, (const struct sockaddr *)&a, sizeof a) ||
        getsockname(m->port, (struct sockaddr *)&a, &nbytes))
        return errno;
    snprintf(m->address, sizeof m->address, "127.0.0.1:%d", ntohs(a.sin_port));
    return 0;
}

int meeting_create(struct meeting *m, int nranks, int nhosts)
{
    const char *tmp = getenv("TMPDIR"), *chosen = getenv("SYMM_DIR");
    int error;

    *m = (struct meeting){.nranks = nranks, .nhosts = nhosts, .port = -1};
    error = random_hex(m->session);
    if (!error)
        error = random_hex(m->token);
    if (!error && nhosts)
        error = keep_port(m);
    if (error || (chosen && *chosen))
        return error;
    int length = snprintf(m->dir, sizeof m->dir, "%s/symm-run-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    /* Without its own folder the job still runs, in the folder that all jobs share. */
    if (length >= (int)sizeof m->dir || !mkdtemp(m->dir))
        m->dir[0] = 0;
    return 0;
}

void meeting_destroy(struct meeting *m)
{
    DIR *dir = m->dir[0] ? opendir(m->dir) : NULL;

    if (m->port >= 0)
        close(m->port);
    m->port = -1;
    if (!dir)
        return;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    closedir(dir);
    rmdir(m->dir);
    m->dir[0] = 0;
}

/* Ranks in order, in blocks whose sizes differ by one at most. */
static int host_of(const struct meeting *m, int rank)
{
    return (int)((long)rank * m->nhosts / m->nranks);
}

int meeting_describe(const struct meeting *m, int rank)
{
    char text[2][16], host[32] = "";

    snprintf(text[0], sizeof text[0], "%d", rank);
    snprintf(text[1], sizeof text[1], "%d", m->nranks);
    if (m->nhosts)
        snprintf(host, sizeof host, "host %d", host_of(m, rank));
    const char *variables[][2] = {
        {"SYMM_RANK", text[0]},
        {"SYMM_NRANKS", text[1]},
        {"SYMM_SESSION", m->session},
        {"SYMM_TOKEN", m->token},
        {"LOCAL_RANK", text[0]},
        {"SYMM_DIR", m->dir[0] ? m->dir : NULL},
        {"SYMM_HOSTID", m->nhosts ? host : NULL},
        {"NCCL_HOSTID", m->nhosts ? host : NULL},
        {"SYMM_ADDRESS", m->nhosts ? m->address : NULL},
    };
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        if (variables[i][1] && setenv(variables[i][0], variables[i][1], 1) != 0)
            return -1;
    }
    return 0;
}
