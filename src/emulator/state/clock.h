/* The monotonic clock. */
#ifndef SYMM_EMULATOR_CLOCK_H
#define SYMM_EMULATOR_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/*
 * A call that waits for an event which may never come reports that after this time and goes on
 * waiting. The real driver waits silently.
 */
#define EMU_PATIENCE_MS 1000

int64_t emu__now_ns(void);
/* The time `ms` milliseconds from now. */
struct timespec emu__in_ms(int ms);
/* Initialises a condition whose timed waits use this clock. */
void emu__cond_init(pthread_cond_t *cond);

#endif
