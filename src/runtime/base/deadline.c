/* Absolute deadlines on the monotonic clock. */
#include "deadline.h"

#include <errno.h>
#include <time.h>

int64_t symm__now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

symm_deadline symm__deadline_in(int64_t timeout_ms)
{
    return timeout_ms < 0 ? SYMM_NEVER : symm__now_us() + timeout_ms * 1000;
}

bool symm__deadline_over(symm_deadline deadline)
{
    return deadline != SYMM_NEVER && symm__now_us() >= deadline;
}

int symm__deadline_poll_ms(symm_deadline deadline, int most)
{
    if (deadline == SYMM_NEVER)
        return most;
    /*
     * Rounds up. A poll that returned just before the deadline would be repeated with a timeout of
     * 0.
     */
    int64_t left_ms = (deadline - symm__now_us() + 999) / 1000;
    return left_ms < 0 ? 0 : left_ms < most ? (int)left_ms : most;
}

void symm__sleep_us(int64_t us)
{
    int64_t until_us = symm__now_us() + us;
    struct timespec until = {.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}
