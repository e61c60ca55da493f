/* Opens and finds the socket where ranks meet, and removes sockets of dead jobs. */
#include "rendezvous.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include "runtime/base/fd.h"
#include "runtime/base/settings.h"
#include "message.h"

enum { RETRY_US = 2000, BACKLOG = 128, SESSION_DIGITS = 32 };

/* ---- The folder ---- */

/* Whether /run/user/UID exists and only this user can enter it. */
static bool has_runtime_folder(const char *path)
{
    struct stat s;

    return !lstat(path, &s) && S_ISDIR(s.st_mode) && s.st_uid == geteuid() && !(s.st_mode & 077);
}

/* SYMM_DIR, else a folder below /run/user/UID, else none. */
static symm_status choose_folder(char path[PATH_MAX], bool *given)
{
    const int most = PATH_MAX - SESSION_DIGITS - 1; /* leaves space for the socket's name */
    char runtime[64];

    path[0] = 0;
    *given = symm__setting_is_set(SYMM_SETTING_DIR);
    snprintf(runtime, sizeof runtime, "/run/user/%u", (unsigned)geteuid());
    if (*given && snprintf(path, PATH_MAX, "%s", symm__setting(SYMM_SETTING_DIR)) >= most)
        return symm__fail(SYMM_ERROR_ARGUMENT, "SYMM_DIR is longer than %d bytes", most - 1);
    if (!*given && has_runtime_folder(runtime))
        snprintf(path, PATH_MAX, "%s/symm", runtime);
    return SYMM_OK;
}

/* Opens the folder if only this user can create sockets in it. *out is -1 if it does not exist. */
static symm_status open_folder(const char *path, int *out)
{
    struct stat s;
    symm_status st = SYMM_OK;

    *out = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*out < 0 && errno == ENOENT)
        return SYMM_OK;
    if (*out < 0 && (errno == ELOOP || errno == ENOTDIR))
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s (SYMM_DIR) is not a folder", path);
    if (*out < 0)
        return symm__fail_errno(errno, "opening the folder %s", path);
    if (fstat(*out, &s))
        st = symm__fail_errno(errno, "fstat %s", path);
    else if (s.st_uid != geteuid() || s.st_mode & 077)
        st = symm__fail(SYMM_ERROR_ARGUMENT,
                        "the folder %s is not safe: it belongs to user %u, mode %03o; it must be "
                        "user %u's with mode 700 (SYMM_DIR chooses another)",
                        path, (unsigned)s.st_uid, s.st_mode & 0777u, (unsigned)geteuid());
    if (st != SYMM_OK)
        symm__fd_close(out);
    return st;
}

/* Opens the folder, and creates it if needed. */
static symm_status make_folder(const char *path, int *out)
{
    symm_status st;

    do { /* repeats if another job has removed it meanwhile */
        if (mkdir(path, 0700) && errno != EEXIST) {
            *out = -1;
            return symm__fail_errno(errno, "mkdir %s (SYMM_DIR chooses another folder)", path);
        }
        st = open_folder(path, out);
    } while (st == SYMM_OK && *out < 0);
    return st;
}

/* ---- The socket ---- */

/*
 * In a folder, the address goes through /proc, because a path may be longer than a socket address.
 * Without a folder it is abstract. Returns the length of the address.
 */
static socklen_t address_of(struct sockaddr_un *a, int folder_fd, const char *name)
{
    int n;

    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (folder_fd >= 0) {
        snprintf(a->sun_path, sizeof a->sun_path, "/proc/self/fd/%d/%.64s", folder_fd, name);
        return sizeof *a;
    }
    n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "symm-%.64s", name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* The address as text: "/run/user/1000/symm/3f..." or "@symm-3f...". */
struct address_text {
    char bytes[PATH_MAX + 80];
};

static struct address_text describe_address(const char *folder, const char *name)
{
    struct address_text text;

    snprintf(text.bytes, sizeof text.bytes, *folder ? "%s/%.64s" : "%s@symm-%.64s", folder, name);
    return text;
}

static symm_status make_socket(int *out)
{
    *out = symm__fd_above_stdio(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (*out < 0)
        return symm__fail_errno(errno, "socket(AF_UNIX, SOCK_SEQPACKET)");
    return SYMM_OK;
}

/*
 * Locks the folder while old sockets are probed and removed. Without the lock, two jobs could
 * remove each other's socket.
 */
static symm_status lock_folder(int folder_fd, symm_deadline deadline)
{
    while (flock(folder_fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return symm__fail_errno(errno, "flock on the rendezvous folder");
        if (symm__deadline_over(deadline))
            return symm__fail(SYMM_ERROR_TIMEOUT, "another process holds the rendezvous folder");
        symm__sleep_us(RETRY_US);
    }
    return SYMM_OK;
}

/*
 * Whether this is a socket without a process. The probe has another socket type, so a living
 * process refuses it and sees no connection.
 */
static bool is_dead(int folder_fd, const char *name)
{
    struct sockaddr_un a;
    struct stat s;
    int probe;
    bool dead;

    if (strlen(name) != SESSION_DIGITS || strspn(name, "0123456789abcdef") != SESSION_DIGITS ||
        fstatat(folder_fd, name, &s, AT_SYMLINK_NOFOLLOW) || !S_ISSOCK(s.st_mode))
        return false;
    probe = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0)
        return false;
    dead = connect(probe, (struct sockaddr *)&a, address_of(&a, folder_fd, name)) &&
           errno == ECONNREFUSED;
    symm__fd_close(&probe);
    return dead;
}

/* Removes sockets of jobs whose rank 0 was killed while joining. Lock held. */
static void sweep(int folder_fd)
{
    int copy = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);

    if (!dir) {
        symm__fd_close(&copy);
        return;
    }
    for (const struct dirent *e; (e = readdir(dir));)
        if (is_dead(folder_fd, e->d_name))
            unlinkat(folder_fd, e->d_name, 0);
    closedir(dir);
}

/* Binds in the folder or to the abstract name, and listens. Returns 0 or errno. */
static int bind_and_listen(struct symm_rendezvous *r, int folder_fd)
{
    struct sockaddr_un a;
    socklen_t nbytes = address_of(&a, folder_fd, r->name);
    int err;

    if (bind(r->listener, (struct sockaddr *)&a, nbytes))
        return errno;
    if (!listen(r->listener, BACKLOG))
        return 0;
    err = errno;
    if (folder_fd >= 0)
        unlinkat(folder_fd, r->name, 0);
    return err;
}

/* *gone: a job that ended has removed the folder; create it again. */
static symm_status bind_in_folder(struct symm_rendezvous *r, symm_deadline deadline, bool *gone)
{
    const struct address_text where = describe_address(r->folder, r->name);
    symm_status st;
    int folder_fd = -1, err = 0;

    TRY(make_folder(r->folder, &folder_fd));
    TRY(lock_folder(folder_fd, deadline));
    sweep(folder_fd);
    TRY(make_socket(&r->listener));
    err = bind_and_listen(r, folder_fd);
    if (err == EADDRINUSE)
        st = symm__fail(SYMM_ERROR_STATE,
                        "another job uses this session, or another process is its rank 0 (%s)",
                        where.bytes);
    else if (err)
        st = symm__fail_errno(err, "bind %s", where.bytes);
out:
    *gone = err == ENOENT;
    if (folder_fd >= 0)
        flock(folder_fd, LOCK_UN); /* a child forked meanwhile may also hold the lock */
    symm__fd_close(&folder_fd);
    if (st != SYMM_OK)
        symm__fd_close(&r->listener);
    return st;
}

/* ---- The abstract socket ---- */

/* Connects if a process listens, else sets *fd to -1. Does not check the other process's user. */
static symm_status try_connect(int folder_fd, const char *name, int *fd)
{
    struct sockaddr_un a;
    symm_status st;
    int err;

    TRY(make_socket(fd));
    err = connect(*fd, (struct sockaddr *)&a, address_of(&a, folder_fd, name)) ? errno : 0;
    if (err)
        symm__fd_close(fd);
    if (err && err != ENOENT && err != ECONNREFUSED && err != EAGAIN && err != EINTR)
        st = symm__fail_errno(err, "connect to %s",
                              folder_fd < 0 ? describe_address("", name).bytes : name);
out:
    return st;
}

/* Appends advice on SYMM_DIR, since any user can take an abstract name. */
static symm_status advise(symm_status st)
{
    return symm__fail(st, "%s; set SYMM_DIR on all ranks to a folder of this user with mode 700",
                      symm__failure_text());
}

static symm_status report_owner(const char *name)
{
    int fd = -1;
    pid_t pid;
    symm_status st;

    TRY(try_connect(-1, name, &fd));
    if (fd >= 0 && symm__rendezvous_peer(fd, &pid) != SYMM_OK)
        st = advise(SYMM_ERROR_ARGUMENT);
    else
        st = symm__fail(SYMM_ERROR_STATE,
                        "another job uses this session, or another process is its rank 0, or has "
                        "only taken its name (@symm-%s): another SYMM_SESSION or SYMM_DIR helps",
                        name);
out:
    symm__fd_close(&fd);
    return st;
}

static symm_status bind_abstract(struct symm_rendezvous *r)
{
    symm_status st;
    int err;

    r->folder[0] = 0;
    TRY(make_socket(&r->listener));
    err = bind_and_listen(r, -1);
    if (err == EADDRINUSE)
        st = report_owner(r->name);
    else if (err)
        st = symm__fail_errno(err, "bind @symm-%s", r->name);
out:
    if (st != SYMM_OK)
        symm__fd_close(&r->listener);
    return st;
}

/* ---- Rank 0 ---- */

symm_status symm__rendezvous_open(struct symm_rendezvous *r, const char *session,
                                  symm_deadline deadline, const struct symm_log *log)
{
    char why[SYMM_TEXT_MAX];
    symm_status st;
    bool gone;

    *r = (struct symm_rendezvous){.listener = -1};
    snprintf(r->name, sizeof r->name, "%.64s", session);
    TRY(choose_folder(r->folder, &r->given));
    if (!*r->folder)
        return bind_abstract(r);
    do
        st = bind_in_folder(r, deadline, &gone);
    while (st != SYMM_OK && gone && !symm__deadline_over(deadline));
    if (st != SYMM_ERROR_SYSTEM)
        return st;
    strcpy(why, symm__failure_text());
    if (!r->given)
        symm__log(log, SYMM_LOG_WARNING, "meeting at an abstract socket, because of %s", why);
    if (bind_abstract(r) != SYMM_OK || r->given)
        st = symm__fail(SYMM_ERROR_SYSTEM, "%s", why);
    else
        st = SYMM_OK;
out:
    return st;
}

void symm__rendezvous_refuse(struct symm_rendezvous *r, symm_status status, const char *why, int n,
                             symm_deadline deadline)
{
    const struct symm_message m = {
        .type = SYMM_MESSAGE_ENDED, .comm = SYMM_COMM_JOIN, .status = status, .reason = why};
    struct symm_frame *frame = symm__frame_make(&m);
    struct pollfd p = {r->listener, POLLIN, 0};
    pid_t pid;

    while (r->listener >= 0 && n > 0 && frame &&
           poll(&p, 1, symm__deadline_poll_ms(deadline, INT_MAX)) != 0) {
        int fd = accept4(r->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && symm__deadline_over(deadline))
            break;
        if (fd < 0 && errno != EAGAIN)
            /* perhaps no descriptor is left: closing the socket must do */
            symm__sleep_us(RETRY_US);
        if (fd >= 0 && symm__rendezvous_peer(fd, &pid) == SYMM_OK) {
            symm__frame_send(fd, frame);
            n--;
        }
        symm__fd_close(&fd);
    }
    symm__frame_put(frame);
}

void symm__rendezvous_close(struct symm_rendezvous *r, symm_status status, const char *why)
{
    if (!r || r->listener < 0)
        return;
    if (*r->folder)
        unlink(describe_address(r->folder, r->name).bytes);
    if (*r->folder && !r->given)
        rmdir(r->folder);           /* fails while other jobs use it */
    shutdown(r->listener, SHUT_RD); /* no rank can connect after this, and none is missed */
    symm__rendezvous_refuse(r, status, why, BACKLOG, symm__deadline_in(0));
    symm__fd_close(&r->listener);
}

/* ---- The other ranks ---- */

symm_status symm__rendezvous_peer(int fd, pid_t *pid)
{
    struct ucred cred;
    socklen_t nbytes = sizeof cred;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &nbytes))
        return symm__fail_errno(errno, "getsockopt(SO_PEERCRED)");
    if (cred.uid != geteuid())
        return symm__fail(SYMM_ERROR_ARGUMENT, "process %d at the rendezvous is user %u's",
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

static symm_status connect_in_folder(const char *folder, const char *session, int *fd, pid_t *hub)
{
    int folder_fd = -1;
    symm_status st;

    TRY(open_folder(folder, &folder_fd)); /* at each attempt, since the folder may be replaced */
    if (folder_fd >= 0)
        TRY(try_connect(folder_fd, session, fd));
    if (*fd >= 0)
        TRY(symm__rendezvous_peer(*fd, hub));
out:
    symm__fd_close(&folder_fd);
    return st;
}

/* alone: there is no folder either, so another user's socket is an error. */
static symm_status connect_abstract(const char *session, bool alone, int *fd, pid_t *hub)
{
    symm_status st;

    TRY(try_connect(-1, session, fd));
    if (*fd >= 0 && symm__rendezvous_peer(*fd, hub) != SYMM_OK) {
        symm__fd_close(fd);
        st = alone ? advise(SYMM_ERROR_ARGUMENT) : SYMM_OK;
    }
out:
    return st;
}

symm_status symm__rendezvous_connect(const char *session, symm_deadline deadline,
                                     const struct symm_log *log, int64_t slow_us, int *out,
                                     pid_t *hub)
{
    int64_t slow = symm__now_us() + slow_us;
    struct address_text where;
    char folder[PATH_MAX];
    symm_status st;
    bool given;
    int fd = -1;

    for (;;) {
        TRY(choose_folder(folder, &given));
        if (*folder)
            TRY(connect_in_folder(folder, session, &fd, hub));
        if (fd < 0)
            TRY(connect_abstract(session, !*folder, &fd, hub));
        if (fd >= 0)
            break;
        where = describe_address(folder, session);
        if (symm__deadline_over(deadline)) {
            st = symm__fail(SYMM_ERROR_TIMEOUT, "rank 0 has not come to %s", where.bytes);
            goto out;
        }
        if (symm__now_us() >= slow) {
            symm__log(log, SYMM_LOG_WARNING, "waiting for rank 0 at %s", where.bytes);
            slow += slow_us;
        }
        symm__sleep_us(RETRY_US);
    }
    *out = fd;
    fd = -1;
out:
    symm__fd_close(&fd);
    return st;
}
