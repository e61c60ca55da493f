/* Actions on a group: create it, destroy it, work on it, check every result. */
#ifndef STORM_ACTION_H
#define STORM_ACTION_H

#include "actor.h"
#include "draw.h"
#include "slot.h"

enum action_kind {
    ACTION_CREATE,
    ACTION_DESTROY,
    ACTION_BURST, /* several collectives, or a graph of them, before the first is waited for */
    ACTION_FLEET, /* a collective in each of many groups at once */
    ACTION_TRIAL, /* one collective at any address, with the bytes around it */
    ACTION_RING,  /* put, signal, wait, get */
    ACTION_EXCHANGE,
    ACTION_ALLOC,
    ACTION_FREE,
    ACTION_TRIM,
    ACTION_PRODUCT
};

struct action {
    enum action_kind kind;
    int slot, parent;
    struct roster roster; /* of a group that is made */
    uint64_t seed;
    const struct storm_event *abort; /* of a fleet, by one of its ranks; or NULL */
};

/* Draws the next action from the members of each slot, and records the new members. */
struct action action_draw(struct draw *d, struct roster rosters[STORM_SLOTS]);

/* Whether others wait for a rank that leaves it out. */
bool action_can_be_missed(const struct action *action);
/* Whether something runs on the devices meanwhile. */
bool action_runs(const struct action *action);

/* Does this rank's part, if it has one. */
void action_run(struct actor *a, struct slot slots[STORM_SLOTS], const struct action *action);

#endif
