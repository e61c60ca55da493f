/*
 * The hub: all ranks of a domain connect to it. It lives in the context of the domain's lowest rank
 * and has no thread: its owner polls the descriptors it lists and calls it to serve events. It
 * never blocks, whatever a client does.
 */
#ifndef SYMM_HUB_H
#define SYMM_HUB_H

#include <poll.h>
#include <stdatomic.h>
#include "runtime/base/log.h"
#include "runtime/comm/join.h"
#include "arbiter.h"

struct symm_rendezvous;

enum {
    SYMM_HUB_STRANGERS = 16,    /* most connections without a HELLO */
    SYMM_HUB_REFUSES_MS = 1000, /* how long a refusal waits for missing ranks */
    SYMM_HUB_POLL_MAX = 2 * (SYMM_MAX_RANKS + SYMM_HUB_STRANGERS) + 2,
};

/* The text for a rank whose process has sent EXIT. */
#define SYMM_EXITED "exited without destroying its context"

struct symm_hub;

struct symm_hub_config {
    const struct symm_join *join;
    const struct symm_log *log;
    struct symm_arbiter arbiter;
    bool watches; /* enough descriptors are left to watch every rank's process */
    struct symm_rendezvous *rendezvous; /* the hub closes it, except after a failed open */
    const char *more_devices;           /* how to get more devices, for a text; may be NULL */
};

/* local: rank 0's own connection. Takes ownership of it, also on failure. */
symm_status symm__hub_open(const struct symm_hub_config *config, int local, struct symm_hub **out);
void symm__hub_close(struct symm_hub *hub); /* NULL is fine */

/* Fills in the descriptors to poll and returns their number. *retry: as symm__link_events(). */
int symm__hub_poll(struct symm_hub *hub, struct pollfd fds[SYMM_HUB_POLL_MAX], bool *retry);

/* Whether the next poll must return at once. */
bool symm__hub_hurries(const struct symm_hub *hub);

/* Serves the events of poll and expired timers. Never blocks. */
void symm__hub_serve(struct symm_hub *hub, const struct pollfd *fds, int nfds);

/* Whether every rank has left or died and all frames are sent. */
bool symm__hub_done(struct symm_hub *hub);
/* Whether the hub has sent the EXIT of its own process to the other ranks. Any thread. */
bool symm__hub_exits(const struct symm_hub *hub);
/* Whether a rank has died or a comm was ended. */
bool symm__hub_failed(const struct symm_hub *hub);

#endif
