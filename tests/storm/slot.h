/* A place for a group in a life, with all that a rank needs for working on it. */
#ifndef STORM_SLOT_H
#define STORM_SLOT_H

#include "roster.h"
#include "trial.h"

struct actor;

enum { STORM_SLOTS = 5, SLOT_MOST = 32 << 10, SLOT_BLOCKS = 3, SLOT_CHANNELS = 2 };

struct block {
    char *at; /* NULL: none */
    size_t nbytes;
    uint64_t round; /* of the bytes in it */
};

struct slot {
    struct roster roster;
    symm_group *group; /* NULL: none on this rank */
    bool unsure;       /* a rank has skipped a call: results are not known */
    struct trial_buffers b;
    symm_signal_pad *pad;
    struct block blocks[SLOT_BLOCKS];
};

/* Creates the group's buffers and streams. */
symm_status slot_open(struct actor *a, struct slot *slot);
/* Ends the group on all ranks, and waits for this rank's enqueued work. */
void slot_abandon(struct actor *a, struct slot *slot);
/* Gives everything back; the group itself only if `destroys`, else its context does. */
void slot_close(struct actor *a, struct slot *slot, bool destroys);

#endif
