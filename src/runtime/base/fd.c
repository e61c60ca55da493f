/* File descriptors: always close-on-exec, one owner each, -1 when empty. */
#include "fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

void symm__fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd); /* never repeated on EINTR: on Linux the descriptor is gone by then */
    *fd = -1;
}

void symm__fd_close_all(int *fds, int n)
{
    for (int i = 0; i < n; i++)
        symm__fd_close(&fds[i]);
}

int symm__fd_above_stdio(int fd)
{
    int moved;

    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(fd);
    return moved;
}

symm_status symm__fd_cloexec(int fd)
{
    int flags = fcntl(fd, F_GETFD);

    if (flags < 0 || (!(flags & FD_CLOEXEC) && fcntl(fd, F_SETFD, flags | FD_CLOEXEC) < 0))
        return symm__fail_errno(errno, "making descriptor %d close-on-exec", fd);
    return SYMM_OK;
}

/*
 * Counts the open descriptors of this process. Returns RLIM_INFINITY if none is left for the count
 * itself.
 */
static rlim_t count_open(void)
{
    DIR *dir = opendir("/proc/self/fd");
    rlim_t n = 0;

    if (!dir)
        return errno == EMFILE ? RLIM_INFINITY
                               : 0; /* without /proc, later calls report the failure */
    for (const struct dirent *e; (e = readdir(dir));)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n - 1; /* without the descriptor of the count */
}

symm_status symm__fd_reserve(int needed)
{
    struct rlimit limit;
    rlim_t open_now = count_open(), before;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return symm__fail_errno(errno, "getrlimit(RLIMIT_NOFILE)");
    before = limit.rlim_cur;
    if (open_now < before && before - open_now >= (rlim_t)needed)
        return SYMM_OK;
    limit.rlim_cur = limit.rlim_max;
    if (limit.rlim_cur > before && setrlimit(RLIMIT_NOFILE, &limit))
        return symm__fail_errno(errno, "raising RLIMIT_NOFILE from %llu to %llu",
                                (unsigned long long)before, (unsigned long long)limit.rlim_max);
    if (open_now == RLIM_INFINITY)
        open_now = before;
    if (limit.rlim_cur < open_now + (rlim_t)needed)
        return symm__fail_errno(EMFILE,
                                "%d more descriptors are needed, %llu are open, "
                                "RLIMIT_NOFILE is %llu",
                                needed, (unsigned long long)open_now,
                                (unsigned long long)limit.rlim_max);
    return SYMM_OK;
}
