/* Absolute deadlines on the monotonic clock. The only code that reads a clock. */
#ifndef SYMM_DEADLINE_H
#define SYMM_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

typedef int64_t symm_deadline; /* microseconds on CLOCK_MONOTONIC; SYMM_NEVER: none */

#define SYMM_NEVER INT64_MAX

int64_t symm__now_us(void);
symm_deadline symm__deadline_in(int64_t timeout_ms); /* -1: SYMM_NEVER */
bool symm__deadline_over(symm_deadline deadline);
int symm__deadline_poll_ms(symm_deadline deadline, int most); /* for poll(2): 0 .. most */
void symm__sleep_us(int64_t us);

#endif
