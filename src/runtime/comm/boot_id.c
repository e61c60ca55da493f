/* Reads the boot id of the Linux kernel. */
#include "boot_id.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "runtime/base/fd.h"

symm_status symm__boot_id(char out[40])
{
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return symm__fail_errno(errno, "opening %s", path);
    memset(out, 0, 40);
    do
        n = read(fd, out, 36);
    while (n < 0 && errno == EINTR);
    symm_status st = n == 36 ? SYMM_OK : symm__fail_errno(n < 0 ? errno : EIO, "reading %s", path);
    symm__fd_close(&fd);
    return st;
}
