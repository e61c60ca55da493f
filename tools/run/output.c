/* One pipe for each stream of each rank, and a thread that reads them all and tags their lines. */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <symm/types.h>
#include <unistd.h>

enum { NSTREAMS = 2 * SYMM_MAX_RANKS, LINE = 4096, TAG = 16, LOOK_MS = 100 };

/* A stream of a rank, and the beginning of its current line behind the room for the tag. */
struct stream {
    int used;
    char bytes[TAG + LINE + 1];
};

struct output {
    const struct launch *job;
    struct pollfd polled[NSTREAMS]; /* 2 * rank + (0: output, 1: error); fd -1: none */
    struct stream streams[NSTREAMS];
    pthread_t thread;
    bool started;
    atomic_bool ended; /* the ranks have: whatever is not in the pipes by now never comes */
};

int output_create(const struct launch *job, struct output **out)
{
    struct output *o;

    *out = NULL;
    if (!job->tag_output && !job->output_dir)
        return 0;
    if (job->output_dir && ((mkdir(job->output_dir, 0777) != 0 && errno != EEXIST) ||
                            access(job->output_dir, W_OK | X_OK) != 0))
        return errno;
    o = calloc(1, sizeof *o);
    if (!o)
        return ENOMEM;
    o->job = job;
    for (int i = 0; i < NSTREAMS; i++)
        o->polled[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    *out = o;
    return 0;
}

static int open_file(const char *folder, int rank, int fds[2])
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/rank-%d.log", folder, rank) >= (int)sizeof path)
        return ENAMETOOLONG;
    fds[0] = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (fds[0] < 0)
        return errno;
    fds[1] = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
    return fds[1] < 0 ? errno : 0;
}

int output_open(struct output *o, int rank, int fds[2])
{
    fds[0] = fds[1] = -1;
    if (o && o->job->output_dir)
        return open_file(o->job->output_dir, rank, fds);
    for (int i = 0; o && i < 2; i++) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) != 0)
            return errno;
        o->polled[2 * rank + i].fd = ends[0];
        fds[i] = ends[1];
    }
    return 0;
}

void output_close(const int fds[2])
{
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* Writes all bytes. False: nobody reads them. */
static bool write_all(int fd, const char *bytes, int nbytes)
{
    while (nbytes > 0) {
        const ssize_t n = write(fd, bytes, (size_t)nbytes);

        if (n < 0 && errno != EINTR)
            return false;
        bytes += n > 0 ? n : 0;
        nbytes -= n > 0 ? (int)n : 0;
    }
    return true;
}

/* Writes the first nbytes of the stream's line behind its tag, and keeps the others. */
static bool write_line(struct output *o, int i, int nbytes, bool whole)
{
    struct stream *s = &o->streams[i];
    char tag[TAG], *line = s->bytes + TAG;
    const int tagged = snprintf(tag, sizeof tag, "[%d] ", i / 2), kept = s->used - nbytes;
    const char next = line[nbytes];

    memcpy(line - tagged, tag, (size_t)tagged);
    line[nbytes] = '\n'; /* one write, so that lines of streams do not mix */
    const bool written =
        write_all(i % 2 ? STDERR_FILENO : STDOUT_FILENO, line - tagged, tagged + nbytes + 1);
    line[nbytes] = next;
    memmove(line, line + nbytes + whole, (size_t)(kept - whole));
    s->used = kept - whole;
    return written;
}

/* Writes the whole lines of the stream, and a line that has no room for more. */
static bool write_lines(struct output *o, int i)
{
    struct stream *s = &o->streams[i];
    const char *line = s->bytes + TAG, *end;
    bool written = true;

    while (written && (end = memchr(line, '\n', (size_t)s->used)))
        written = write_line(o, i, (int)(end - line), true);
    if (written && s->used == LINE)
        written = write_line(o, i, LINE, false);
    return written;
}

/* If nobody reads symm-run's output any more, the rank gets SIGPIPE, as without tags. */
static void read_stream(struct output *o, int i)
{
    struct stream *s = &o->streams[i];
    const ssize_t n = read(o->polled[i].fd, s->bytes + TAG + s->used, (size_t)(LINE - s->used));

    s->used += n > 0 ? (int)n : 0;
    if (n > 0 && write_lines(o, i))
        return;
    if (n < 0 && errno == EINTR)
        return;
    if (n == 0 && s->used > 0)
        write_line(o, i, s->used, false); /* the last line has no end */
    close(o->polled[i].fd);
    o->polled[i].fd = -1;
}

static void *pass_on(void *arg)
{
    struct output *o = arg;
    sigset_t pipe;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, NULL);
    for (;;) {
        const bool ended = o->ended;
        const int n = poll(o->polled, NSTREAMS, ended ? 0 : LOOK_MS);

        for (int i = 0; n > 0 && i < NSTREAMS; i++)
            if (o->polled[i].fd >= 0 && o->polled[i].revents)
                read_stream(o, i);
        if (ended && n <= 0)
            return NULL;
    }
}

int output_start(struct output *o)
{
    if (!o || !o->job->tag_output)
        return 0;
    const int error = pthread_create(&o->thread, NULL, pass_on, o);
    o->started = error == 0;
    return error;
}

void output_destroy(struct output *o)
{
    if (!o)
        return;
    o->ended = true;
    if (o->started)
        pthread_join(o->thread, NULL);
    for (int i = 0; i < NSTREAMS; i++)
        if (o->polled[i].fd >= 0)
            close(o->polled[i].fd);
    free(o);
}
