/* What the environment asks of the stand-in: README.md has the variables. */
#ifndef STANDIN_SETTINGS_H
#define STANDIN_SETTINGS_H

#include "abi/nccl.h"

int settings_version(void);
/* Whether the calls of a new communicator block. */
bool settings_blocking(bool otherwise);
/* ncclCommAbort returns when all ranks have called it. */
bool settings_abort_waits(void);
/* Sleeps for a random time. */
void settings_delay(void);
/*
 * The injected result of this call of this rank, -1 where a call has none; ncclSuccess: none. From
 * STANDIN_LATER on, the call works, and the rest becomes the communicator's asynchronous error.
 * From STANDIN_SLOW on, it sleeps here for the rest in milliseconds, and there is none.
 */
enum { STANDIN_LATER = 100, STANDIN_SLOW = 1000 };
int settings_fault(const char *call, int rank);
/* Appends a line to the record of this rank of this communicator. */
void settings_record(uint64_t id, int rank, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
