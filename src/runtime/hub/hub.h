/*
 * The hub: the one place where all ranks of a job meet, in the context of rank 0. It has no thread
 * of its own; whoever owns it polls what it names and lets it serve what came. It never blocks,
 * whatever a client does.
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
    SYMM_HUB_STRANGERS = 16,    /* connections that have not said who they are */
    SYMM_HUB_REFUSES_MS = 1000, /* how long a refusal waits for ranks that have not come */
    SYMM_HUB_POLL_MAX = 2 * (SYMM_MAX_RANKS + SYMM_HUB_STRANGERS) + 1,
};

/* What texts say of a rank whose process said that it exits. */
#define SYMM_EXITED "exited without destroying its context"

struct symm_hub;

struct symm_hub_config {
    const struct symm_join *join;
    const struct symm_log *log;
    struct symm_arbiter arbiter;
    bool watches; /* there are descriptors enough to watch every rank's process */
    struct symm_rendezvous *rendezvous; /* the hub closes it, but not where it fails to open */
};

/* local is rank 0's own connection, taken in every case. */
symm_status symm__hub_open(const struct symm_hub_config *config, int local, struct symm_hub **out);
void symm__hub_close(struct symm_hub *hub); /* NULL is fine */

/* Fills in what to poll for. *retry as with symm__link_events. Returns how many. */
int symm__hub_poll(struct symm_hub *hub, struct pollfd fds[SYMM_HUB_POLL_MAX], bool *retry);

/* Whether the next poll must not wait. */
bool symm__hub_hurries(const struct symm_hub *hub);

/* Serves what poll found, and what is due. Never blocks. */
void symm__hub_serve(struct symm_hub *hub, const struct pollfd *fds, int nfds);

/* Whether every rank has left or died and nothing waits to be sent. */
bool symm__hub_done(struct symm_hub *hub);
/* Whether the hub has told the others that its own process exits. Any thread. */
bool symm__hub_exits(const struct symm_hub *hub);
/* Whether some rank died or some comm was ended. */
bool symm__hub_failed(const struct symm_hub *hub);

#endif
