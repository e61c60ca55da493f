/* Keeps the descriptors 0, 1 and 2 occupied. */
#include "stdio_guard.h"

#include <fcntl.h>
#include <unistd.h>

void stdio_guard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        /* open() returns the lowest free descriptor: all below this one are open by now. */
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return;
    }
}
