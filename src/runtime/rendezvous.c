/* Where ranks meet: the folder, the socket in it, and what may be left of an earlier job. */
#include "rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include "fd.h"
#include "settings.h"

enum { RETRY_US = 2000, BACKLOG = 128 };

static symm_status folder_path(char path[PATH_MAX])
{
    const char *tmp = getenv("TMPDIR");
    int n;

    if (symm__setting_is_set(SYMM_SETTING_DIR))
        n = snprintf(path, PATH_MAX, "%s", symm__setting(SYMM_SETTING_DIR));
    else
        n = snprintf(path, PATH_MAX, "%s/symm-%u", tmp && *tmp ? tmp : "/tmp", (unsigned)geteuid());
    if (n >= PATH_MAX)
        return symm__fail(SYMM_ERROR_ARGUMENT, "SYMM_DIR or TMPDIR is longer than %d bytes",
                          PATH_MAX - 1);
    return SYMM_OK;
}

/* Makes the folder if there is none, and makes sure that nobody else can put a socket into it. */
static symm_status open_folder(char path[PATH_MAX], int *out)
{
    struct stat s;
    symm_status st;
    int fd = -1;

    TRY(folder_path(path));
    do {
        if (mkdir(path, 0700) && errno != EEXIST) {
            st = symm__fail_errno(errno, "mkdir %s", path);
            goto out;
        }
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    } while (fd < 0 && errno == ENOENT); /* another job took it away in between */
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        st = symm__fail(SYMM_ERROR_ARGUMENT, "%s (SYMM_DIR, or symm-%u in TMPDIR) is not a folder",
                        path, (unsigned)geteuid());
    else if (fd < 0)
        st = symm__fail_errno(errno, "opening the folder %s", path);
    else if (fstat(fd, &s))
        st = symm__fail_errno(errno, "fstat %s", path);
    else if (s.st_uid != geteuid() || s.st_mode & 077)
        st = symm__fail(SYMM_ERROR_ARGUMENT,
                        "the folder %s is not safe: it belongs to user %u, mode %03o; it must be "
                        "user %u's with mode 700",
                        path, (unsigned)s.st_uid, s.st_mode & 0777u, (unsigned)geteuid());
    if (st == SYMM_OK) {
        *out = fd;
        fd = -1;
    }
out:
    symm__fd_close(&fd);
    return st;
}

/* By way of /proc, because the path of a folder may be longer than a socket's address can be. */
static struct sockaddr_un address_of(int folder_fd, const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/%.64s", folder_fd, name);
    return a;
}

static symm_status make_socket(int *out)
{
    *out = symm__fd_above_stdio(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (*out < 0)
        return symm__fail_errno(errno, "socket(AF_UNIX, SOCK_SEQPACKET)");
    return SYMM_OK;
}

/* Returns 0 or errno. */
static int try_connect(int fd, int folder_fd, const char *name)
{
    struct sockaddr_un a = address_of(folder_fd, name);

    return connect(fd, (struct sockaddr *)&a, sizeof a) ? errno : 0;
}

/*
 * Held while looking at an old socket and replacing it: two jobs that do so at once would take each
 * other's away.
 */
static symm_status lock_folder(int folder_fd, symm_deadline deadline)
{
    while (flock(folder_fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return symm__fail_errno(errno, "flock on the meeting folder");
        if (symm__deadline_over(deadline))
            return symm__fail(SYMM_ERROR_TIMEOUT, "another process holds the meeting folder");
        symm__sleep_us(RETRY_US);
    }
    return SYMM_OK;
}

/* Whether a socket is left of a job that is dead; takes it away if so. */
static symm_status remove_stale(const struct symm_rendezvous *r)
{
    int probe = -1, err;
    symm_status st = make_socket(&probe);

    if (st != SYMM_OK)
        return st;
    err = try_connect(probe, r->folder_fd, r->name);
    symm__fd_close(&probe);
    if (err == 0 || err == EAGAIN)
        return symm__fail(SYMM_ERROR_STATE,
                          "another job uses this session, or another process is its rank 0 (%s/%s)",
                          r->folder, r->name);
    if (unlinkat(r->folder_fd, r->name, 0) && errno != ENOENT)
        return symm__fail_errno(errno, "removing the old socket %s/%s", r->folder, r->name);
    return SYMM_OK;
}

/* Binds and listens. *gone: the folder was taken away by a job that ended; make it again. */
static symm_status bind_socket(struct symm_rendezvous *r, symm_deadline deadline, bool *gone)
{
    struct sockaddr_un a = address_of(r->folder_fd, r->name);
    symm_status st;
    int err;

    *gone = false;
    TRY(lock_folder(r->folder_fd, deadline));
    TRY(make_socket(&r->listener));
    err = bind(r->listener, (struct sockaddr *)&a, sizeof a) ? errno : 0;
    if (err == EADDRINUSE) {
        TRY(remove_stale(r));
        err = bind(r->listener, (struct sockaddr *)&a, sizeof a) ? errno : 0;
    }
    *gone = err == ENOENT;
    if (err)
        st = symm__fail_errno(err, "bind %s/%s", r->folder, r->name);
    else if (listen(r->listener, BACKLOG)) {
        st = symm__fail_errno(errno, "listen on %s/%s", r->folder, r->name);
        unlinkat(r->folder_fd, r->name, 0);
    }
out:
    flock(r->folder_fd, LOCK_UN);
    if (st != SYMM_OK)
        symm__fd_close(&r->listener);
    return st;
}

symm_status symm__rendezvous_open(struct symm_rendezvous *r, const char *session,
                                  symm_deadline deadline)
{
    symm_status st;
    bool gone;

    *r = (struct symm_rendezvous){.listener = -1, .folder_fd = -1};
    r->named = symm__setting_is_set(SYMM_SETTING_DIR);
    snprintf(r->name, sizeof r->name, "%.64s", session);
    do {
        symm__fd_close(&r->folder_fd);
        TRY(open_folder(r->folder, &r->folder_fd));
        st = bind_socket(r, deadline, &gone);
    } while (st != SYMM_OK && gone && !symm__deadline_over(deadline));
out:
    if (st != SYMM_OK)
        symm__fd_close(&r->folder_fd);
    return st;
}

void symm__rendezvous_close(struct symm_rendezvous *r)
{
    if (r->listener >= 0) {
        unlinkat(r->folder_fd, r->name, 0);
        if (!r->named)
            rmdir(r->folder); /* fails while other jobs use it */
    }
    symm__fd_close(&r->listener);
    symm__fd_close(&r->folder_fd);
}

symm_status symm__rendezvous_peer(int fd, pid_t *pid)
{
    struct ucred cred;
    socklen_t nbytes = sizeof cred;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &nbytes))
        return symm__fail_errno(errno, "getsockopt(SO_PEERCRED)");
    if (cred.uid != geteuid())
        return symm__fail(SYMM_ERROR_ARGUMENT, "process %d at the meeting place is user %u's",
                          (int)cred.pid, (unsigned)cred.uid);
    *pid = cred.pid;
    return SYMM_OK;
}

int symm__rendezvous_watch(pid_t pid)
{
    if (pid == getpid() || pid == 0)
        return -1;
    return symm__fd_above_stdio((int)syscall(SYS_pidfd_open, pid, 0));
}

symm_status symm__rendezvous_connect(const char *session, symm_deadline deadline,
                                     const struct symm_log *log, int64_t slow_us, int *out,
                                     pid_t *hub)
{
    int64_t slow = symm__now_us() + slow_us;
    char folder[PATH_MAX];
    symm_status st;
    int folder_fd = -1, fd = -1, err;

    for (;;) {
        TRY(open_folder(folder, &folder_fd));
        TRY(make_socket(&fd));
        err = try_connect(fd, folder_fd, session);
        symm__fd_close(&folder_fd); /* the next attempt may find another one there */
        if (!err)
            break;
        symm__fd_close(&fd);
        if (err != ENOENT && err != ECONNREFUSED && err != EAGAIN && err != EINTR) {
            st = symm__fail_errno(err, "connect to %s/%s", folder, session);
            goto out;
        }
        if (symm__deadline_over(deadline)) {
            st = symm__fail(SYMM_ERROR_TIMEOUT, "rank 0 has not come to %s/%s", folder, session);
            if (!symm__setting_is_set(SYMM_SETTING_DIR))
                rmdir(folder); /* made by the first attempt, perhaps */
            goto out;
        }
        if (symm__now_us() >= slow) {
            symm__log(log, SYMM_LOG_WARNING, "waiting for rank 0 at %s/%s", folder, session);
            slow += slow_us;
        }
        symm__sleep_us(RETRY_US);
    }
    TRY(symm__rendezvous_peer(fd, hub));
    *out = fd;
    fd = -1;
out:
    symm__fd_close(&folder_fd);
    symm__fd_close(&fd);
    return st;
}
