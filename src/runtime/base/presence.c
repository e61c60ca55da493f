/* The end of a pipe as the sign that no process holds it any more. */
#include "presence.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include "fd.h"

enum { POLL_MS = 1000 };

symm_status symm__presence_create(struct symm_presence *presence)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return symm__fail_errno(errno, "pipe2");
    presence->all = symm__fd_above_stdio(ends[0]);
    presence->own = symm__fd_above_stdio(ends[1]);
    if (presence->all >= 0 && presence->own >= 0)
        return SYMM_OK;
    const int error = errno;
    symm__presence_close(presence);
    return symm__fail_errno(error, "pipe2");
}

void symm__presence_leave(struct symm_presence *presence)
{
    symm__fd_close(&presence->own);
}

bool symm__presence_await(const struct symm_presence *presence, symm_deadline deadline)
{
    struct pollfd end = {.fd = presence->all}; /* POLLHUP is always reported */

    for (;;) {
        const int n = poll(&end, 1, symm__deadline_poll_ms(deadline, POLL_MS));
        if (n > 0)
            return end.revents & POLLHUP;
        if (symm__deadline_over(deadline))
            return false;
    }
}

void symm__presence_close(struct symm_presence *presence)
{
    symm__fd_close(&presence->own);
    symm__fd_close(&presence->all);
}
