/* Threads of the emulator. */
#ifndef SYMM_EMULATOR_THREAD_H
#define SYMM_EMULATOR_THREAD_H

#include <stdbool.h>

/*
 * Starts a detached thread that takes no signals except its own faults. The threads are never
 * joined: at the end of the process they may be spinning in a kernel.
 */
bool emu__thread_start(void *(*run)(void *), void *arg);

#endif
