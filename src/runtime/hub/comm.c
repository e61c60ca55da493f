/* The hub's comms: ends them, and dispatches their messages. */
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/fd.h"
#include "runtime/comm/activity.h"

int symm__hub_comm_rank(const struct symm_hub_comm *comm, int rank)
{
    for (int i = 0; i < comm->nranks; i++)
        if (comm->ranks[i] == rank)
            return i;
    return -1;
}

struct symm_hub_comm *symm__hub_find_comm(struct symm_hub *hub, int rank, uint64_t key)
{
    for (struct symm_hub_comm *comm = hub->comms; comm; comm = comm->next) {
        int comm_rank = key & SYMM_COMM_FORMING ? symm__hub_comm_rank(comm, rank) : -1;
        if (comm->key == key || (comm_rank >= 0 && comm->names[comm_rank] == key))
            return comm;
    }
    return NULL;
}

uint64_t symm__hub_key_for(const struct symm_hub_comm *comm, int comm_rank)
{
    return comm->formed ? comm->key : comm->names[comm_rank];
}

symm_status symm__hub_comm_add(struct symm_hub *hub, uint64_t parent, int nranks, const int *ranks,
                               struct symm_hub_comm **out)
{
    struct symm_hub_comm *comm = calloc(1, sizeof *comm);

    if (!comm)
        return symm__fail(SYMM_ERROR_MEMORY, "rank 0 has no memory for a group");
    comm->key = ++hub->last_key;
    comm->parent = parent;
    comm->nranks = nranks;
    memcpy(comm->ranks, ranks, (size_t)nranks * sizeof ranks[0]);
    comm->members = symm__rank_set(nranks, ranks);
    comm->next = hub->comms;
    hub->comms = comm;
    *out = comm;
    return SYMM_OK;
}

/* ---- The end of comms ---- */

void symm__hub_send_end(struct symm_hub *hub, struct symm_hub_comm *comm,
                        struct symm_hub_client *client)
{
    struct symm_message m = {.type = SYMM_MESSAGE_ENDED,
                             .comm =
                                 symm__hub_key_for(comm, symm__hub_comm_rank(comm, client->rank)),
                             .status = comm->status,
                             .args = {comm->exited},
                             .reason = comm->reason};

    symm__hub_send(hub, client, &m);
}

void symm__hub_end_comm(struct symm_hub *hub, struct symm_hub_comm *comm, symm_status status,
                        const char *reason)
{
    if (comm->status != SYMM_OK)
        return;
    hub->failed = true;
    comm->status = status;
    snprintf(comm->reason, sizeof comm->reason, "%s", reason);
    for (int i = 0; i < comm->nranks; i++) {
        struct symm_hub_client *client = hub->ranks[comm->ranks[i]].client;
        bool knows = comm->formed || comm->came[i];
        if (client && !client->over && knows && !symm__rank_set_has(comm->gone, comm->ranks[i]))
            symm__hub_send_end(hub, comm, client);
    }
    if (comm->arm)
        symm__hub_relay_end(hub, comm);
    symm__hub_forget_vote(hub, comm);
    if (!comm->formed) /* no rank has it to close: forget it, and later ranks begin a new attempt */
        comm->gone = comm->members;
    for (struct symm_hub_comm *other = hub->comms; other; other = other->next)
        if ((other->parent == comm->key && (!other->formed || other->inner)) ||
            (comm->inner && other->key == comm->parent))
            symm__hub_end_comm(hub, other, status, comm->reason);
}

/* Appends why a rank is gone. */
static void add_fate(struct symm_text *text, const struct symm_hub *hub, int rank)
{
    const struct symm_hub_rank *r = &hub->ranks[rank];

    if (r->fate == SYMM_HUB_DIED)
        symm__text_add(text, "rank %d (pid %d) %s", symm__hub_name(hub, rank), (int)r->pid,
                       r->exits ? SYMM_EXITED : "died");
    else
        symm__text_add(text, "rank %d has left", symm__hub_name(hub, rank));
}

void symm__hub_end_for(struct symm_hub *hub, struct symm_hub_comm *comm, int rank)
{
    struct symm_text text = {.used = 0};

    add_fate(&text, hub, rank);
    if (comm->status == SYMM_OK && hub->ranks[rank].exits)
        comm->exited = 1 + (uint64_t)rank;
    symm__hub_end_comm(hub, comm, SYMM_ERROR_PEER, text.bytes);
}

/* Once all remaining ranks are quiet, tells them. */
static void tell_quiet(struct symm_hub *hub, struct symm_hub_comm *comm)
{
    struct symm_message m = {.type = SYMM_MESSAGE_QUIET, .comm = comm->key};

    for (int i = 0; i < comm->nranks; i++)
        if (!symm__rank_set_has(comm->quiet, comm->ranks[i]) &&
            !symm__rank_set_has(comm->gone, comm->ranks[i]))
            return;
    for (int i = 0; i < comm->nranks; i++)
        if (hub->ranks[comm->ranks[i]].client && !symm__rank_set_has(comm->gone, comm->ranks[i]))
            symm__hub_send(hub, hub->ranks[comm->ranks[i]].client, &m);
}

/*
 * A rank closes a comm. This ends the comm only if other ranks wait in a vote: in a collective
 * destroy, some ranks finish before others.
 */
static void close_comm(struct symm_hub *hub, struct symm_hub_comm *comm, int rank)
{
    if (!symm__rank_set_has(comm->members, rank) || symm__rank_set_has(comm->gone, rank))
        return;
    symm__rank_set_add(&comm->gone, rank);
    if (comm->ncame || hub->ranks[rank].fate == SYMM_HUB_DIED)
        symm__hub_end_for(hub, comm, rank);
    if (comm->arm)
        symm__hub_relay_closed(hub, comm);
    if (comm->formed)
        tell_quiet(hub, comm);
    for (struct symm_hub_comm *child = hub->comms; child; child = child->next)
        if (child->parent == comm->key && !child->formed &&
            symm__rank_set_has(child->members, rank))
            symm__hub_end_for(hub, child, rank);
}

void symm__hub_rank_gone(struct symm_hub *hub, int rank, enum symm_hub_fate fate)
{
    struct symm_text text = {.used = 0};

    hub->ranks[rank].fate = fate;
    hub->failed |= fate == SYMM_HUB_DIED;
    if (hub->phase == SYMM_HUB_JOINING) {
        add_fate(&text, hub, rank);
        symm__text_add(&text, " while joining");
        symm__hub_refuse(hub, SYMM_ERROR_PEER, text.bytes);
    }
    for (struct symm_hub_comm *comm = hub->comms; comm && hub->phase == SYMM_HUB_RUNNING;
         comm = comm->next)
        close_comm(hub, comm, rank);
}

void symm__hub_sweep(struct symm_hub *hub, bool all)
{
    for (struct symm_hub_comm **at = &hub->comms; *at;) {
        struct symm_hub_comm *comm = *at;
        if (all || symm__rank_set_within(comm->members, comm->gone)) {
            *at = comm->next;
            symm__hub_forget_vote(hub, comm);
            symm__hub_relay_forget(comm);
            free(comm);
        } else {
            at = &comm->next;
        }
    }
}

/* ---- Other messages ---- */

/* Forwards ASK or TOLD between two ranks of a comm. */
static void forward(struct symm_hub *hub, struct symm_hub_client *client,
                    struct symm_hub_comm *comm, const struct symm_message *m)
{
    const struct symm_activity gone = {.kind = SYMM_ACTIVITY_GONE, .awaits = -1};
    uint64_t other = m->args[0];
    struct symm_message to_other = *m;
    struct symm_message told_gone = {.type = SYMM_MESSAGE_TOLD, .comm = comm->key, .args = {other}};

    if (other >= SYMM_MAX_RANKS || symm__hub_comm_rank(comm, (int)other) < 0)
        return;
    to_other.type = m->type == SYMM_MESSAGE_ASK ? SYMM_MESSAGE_ASKED : SYMM_MESSAGE_TOLD;
    to_other.args[0] = (uint64_t)client->rank;
    symm__activity_write(&gone, &told_gone);
    if (hub->ranks[other].client && !symm__rank_set_has(comm->gone, (int)other))
        symm__hub_send(hub, hub->ranks[other].client, &to_other);
    else if (m->type == SYMM_MESSAGE_ASK)
        symm__hub_send(hub, client, &told_gone);
}

static void freed(struct symm_hub *hub, int rank, const struct symm_message *m)
{
    const struct symm_arbiter *arbiter = &hub->config.arbiter;

    for (size_t at = 0; at + 8 <= m->payload_nbytes && arbiter->freed; at += 8) {
        uint64_t off;
        memcpy(&off, (const char *)m->payload + at, sizeof off);
        arbiter->freed(arbiter->self, rank, off);
    }
}

void symm__hub_comm_message(struct symm_hub *hub, struct symm_hub_client *client,
                            struct symm_message *m)
{
    struct symm_hub_comm *comm = symm__hub_find_comm(hub, client->rank, m->comm);

    if (m->type == SYMM_MESSAGE_FREED) {
        freed(hub, client->rank, m);
    } else if (m->type == SYMM_MESSAGE_CREATE || m->type == SYMM_MESSAGE_SPAN) {
        symm__hub_create(hub, client, m);
    } else if (!comm || symm__hub_comm_rank(comm, client->rank) < 0 ||
               symm__rank_set_has(comm->gone, client->rank)) {
        return; /* a late message on a comm that was freed */
    } else if (m->type == SYMM_MESSAGE_CLOSE) {
        close_comm(hub, comm, client->rank);
    } else if (m->type == SYMM_MESSAGE_QUIET) {
        symm__rank_set_add(&comm->quiet, client->rank);
        tell_quiet(hub, comm);
    } else if (comm->status != SYMM_OK) {
        symm__hub_send_end(hub, comm, client);
    } else if (m->type == SYMM_MESSAGE_VOTE) {
        symm__hub_arrive(hub, client, comm, m);
    } else if (m->type == SYMM_MESSAGE_CONFIRM && comm->arm) {
        symm__hub_relay_ask(hub, comm, symm__hub_comm_rank(comm, client->rank), m->seq);
    } else if (m->type == SYMM_MESSAGE_CONFIRM) {
        symm__hub_ask(hub, comm, symm__hub_comm_rank(comm, client->rank), m->seq);
    } else if (m->type == SYMM_MESSAGE_ABORT) {
        symm__hub_end_comm(hub, comm, m->status == SYMM_OK ? SYMM_ERROR_PEER : m->status,
                           m->reason);
    } else if (m->type == SYMM_MESSAGE_SLOW || m->type == SYMM_MESSAGE_EXPIRED) {
        symm__hub_late(hub, client, comm, m);
    } else if (m->type == SYMM_MESSAGE_TOLD && m->args[0] == SYMM_ASKED_BY_HUB) {
        symm__hub_told(hub, client, m);
    } else {
        forward(hub, client, comm, m);
    }
}
