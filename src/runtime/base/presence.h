/*
 * A pipe that tells when the last of several processes has left or died. Each process holds the
 * writing end. The reading end is at its end when no process holds the writing end. No process has
 * to count.
 */
#ifndef SYMM_PRESENCE_H
#define SYMM_PRESENCE_H

#include <stdbool.h>
#include "deadline.h"
#include "status.h"

struct symm_presence {
    int own; /* the writing end; -1: this process has left */
    int all; /* the reading end */
};

#define SYMM_NO_PRESENCE ((struct symm_presence){-1, -1})

/* Makes both ends. The other processes need copies of them. */
symm_status symm__presence_create(struct symm_presence *presence);
void symm__presence_leave(struct symm_presence *presence);
/*
 * Waits until all processes have left. Returns false after the deadline. Without a reading end only
 * the deadline ends the wait.
 */
bool symm__presence_await(const struct symm_presence *presence, symm_deadline deadline);
void symm__presence_close(struct symm_presence *presence);

#endif
