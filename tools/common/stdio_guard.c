/* Keeps the numbers of closed standard files from being used for something else. */
#include "stdio_guard.h"

#include <fcntl.h>
#include <unistd.h>

void stdio_guard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        /* The lowest free number is this one, since those below it are open by now. */
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return;
    }
}
