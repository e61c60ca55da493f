/* The hub's votes: collects the contributions of a comm's ranks and gives verdicts. */
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/fd.h"

/* ---- Contributions to a vote ---- */

/* Copies the message and takes its descriptor, since the receive buffer is used again. */
static struct symm_message *keep(struct symm_message *m)
{
    size_t text = strlen(m->text) + 1, reason = strlen(m->reason) + 1;
    struct symm_message *copy = malloc(sizeof *copy + text + reason + m->payload_nbytes);

    if (!copy)
        return NULL;
    *copy = *m;
    m->nfds = 0; /* now owned by the copy */
    char *at = (char *)(copy + 1);
    copy->text = memcpy(at, m->text, text);
    copy->reason = memcpy(at + text, m->reason, reason);
    copy->payload = at + text + reason;
    if (m->payload_nbytes)
        memcpy(at + text + reason, m->payload, m->payload_nbytes);
    return copy;
}

void symm__hub_forget_vote(struct symm_hub *hub, struct symm_hub_comm *comm)
{
    symm__hub_forget_inquiry(hub, comm);
    for (int i = 0; i < comm->nranks; i++) {
        if (comm->came[i])
            symm__fd_close_all(comm->came[i]->fds, comm->came[i]->nfds);
        free(comm->came[i]);
        comm->came[i] = NULL;
    }
    comm->ncame = 0;
    if (comm->arm)
        comm->arm->sent = false;
}

/* ---- The verdict ---- */

/* Whether two contributions to a new comm name its ranks in the same order. */
static bool same_ranks(const struct symm_message *a, const struct symm_message *b)
{
    if (a->type != SYMM_MESSAGE_CREATE && a->type != SYMM_MESSAGE_SPAN)
        return true;
    return a->payload_nbytes == b->payload_nbytes &&
           !memcmp(a->payload, b->payload, a->payload_nbytes);
}

/* A rank that refuses its arguments brings no op. */
static bool same_call(const struct symm_message *a, const struct symm_message *b)
{
    const bool refused = a->status != SYMM_OK || b->status != SYMM_OK;

    return (a->op == b->op || refused) && a->type == b->type && !strcmp(a->text, b->text) &&
           same_ranks(a, b);
}

/* "rank 0, 2: symm_alloc(4096); rank 1: symm_trim()" */
static void add_calls(struct symm_text *text, const struct symm_hub *hub,
                      const struct symm_hub_comm *comm)
{
    struct symm_rank_set named = {{0}};

    for (int r = 0; r < SYMM_MAX_RANKS; r++) {
        struct symm_rank_set alike = {{0}};
        if (!symm__rank_set_has(comm->members, r) || symm__rank_set_has(named, r))
            continue;
        const struct symm_message *call = comm->came[symm__hub_comm_rank(comm, r)];
        for (int i = 0; i < comm->nranks; i++)
            if (same_call(call, comm->came[i]))
                symm__rank_set_add(&alike, comm->ranks[i]);
        symm__text_add(text, "%s", symm__rank_set_empty(named) ? "" : "; ");
        symm__text_add_ranks(text, alike, hub->config.join->names);
        symm__text_add(text, ": %.*s", SYMM_HUB_CALL_SHOWN, call->text);
        for (int b = 0; b < 2; b++)
            named.bits[b] |= alike.bits[b];
    }
}

/*
 * For a new comm with equal texts, which may be truncated: appends the first position at which two
 * ranks name different ranks.
 */
static void add_order(struct symm_text *text, const struct symm_hub *hub,
                      const struct symm_hub_comm *comm)
{
    const struct symm_message *a = comm->came[0], *b = a;
    size_t at = sizeof comm->key;

    for (int i = 1; i < comm->nranks && b == a; i++)
        if (!same_call(a, comm->came[i]))
            b = comm->came[i];
    if (comm->formed || comm->arm || strcmp(a->text, b->text) || a->op != b->op)
        return;
    const unsigned char *mine = a->payload, *theirs = b->payload;
    while (at < a->payload_nbytes && mine[at] == theirs[at])
        at++;
    if (at < a->payload_nbytes)
        symm__text_add(text,
                       "; position %d of the new group: rank %d names rank %d, rank %d rank %d",
                       (int)(at - sizeof comm->key), symm__hub_name(hub, a->rank),
                       symm__hub_name(hub, mine[at]), symm__hub_name(hub, b->rank),
                       symm__hub_name(hub, theirs[at]));
}

/* " (on rank 1)" with the rank's number in the comm, or in the world if the comm has more ranks. */
static struct symm_on_rank on(const struct symm_hub *hub, const struct symm_hub_comm *comm, int i)
{
    const int world = symm__hub_name(hub, comm->ranks[i]);

    return symm__on_rank(comm->arm ? world : i, world);
}

symm_status symm__hub_judge(const struct symm_hub *hub, const struct symm_hub_comm *comm,
                            struct symm_text *text)
{
    const struct symm_message *first = comm->came[0];

    for (int i = 1; i < comm->nranks; i++)
        if (!same_call(first, comm->came[i])) {
            symm__text_add(text, "ranks called different things: ");
            add_calls(text, hub, comm);
            add_order(text, hub, comm);
            return SYMM_ERROR_MISMATCH;
        }
    for (int i = 0; i < comm->nranks; i++)
        if (comm->came[i]->status != SYMM_OK) {
            symm__text_add(text, "%.960s%s", comm->came[i]->reason, on(hub, comm, i).text);
            return comm->came[i]->status;
        }
    for (int i = 1; i < comm->nranks; i++)
        if (comm->came[i]->payload_nbytes != first->payload_nbytes) {
            symm__text_add(text, "%.*s: rank %d brought %zu bytes, rank %d %zu bytes",
                           SYMM_HUB_CALL_SHOWN, first->text, symm__hub_name(hub, comm->ranks[0]),
                           first->payload_nbytes, symm__hub_name(hub, comm->ranks[i]),
                           comm->came[i]->payload_nbytes);
            return SYMM_ERROR_MISMATCH;
        }
    return SYMM_OK;
}

/* Calls the arbiter with the arguments of the lowest rank that has an op. */
static symm_status arbitrate(struct symm_hub *hub, const struct symm_hub_comm *comm,
                             symm_status status, struct symm_text *text, uint64_t answer[4])
{
    const struct symm_arbiter *arbiter = &hub->config.arbiter;
    const struct symm_message *m = NULL;
    symm_status verdict;

    for (int i = 0; i < comm->nranks && !m; i++)
        m = comm->came[i]->op ? comm->came[i] : NULL;
    if (!m || !arbiter->decide)
        return status;
    verdict = arbiter->decide(arbiter->self, m->op, comm->members, status, m->args, answer);
    if (status == SYMM_OK && verdict != SYMM_OK)
        symm__text_add(text, "%s", symm__failure_text());
    return status == SYMM_OK ? verdict : status;
}

/*
 * Gathers bytes and descriptors of all ranks into one frame for all. Returns NULL if memory is out.
 */
static struct symm_frame *gather(struct symm_hub_comm *comm, struct symm_message *result)
{
    size_t each = comm->came[0]->payload_nbytes;
    unsigned char *all = NULL;
    struct symm_frame *frame;

    if (result->status == SYMM_OK && each && !comm->arm) {
        all = malloc(each * (size_t)comm->nranks);
        if (!all)
            return NULL;
        for (int i = 0; i < comm->nranks; i++)
            memcpy(all + (size_t)i * each, comm->came[i]->payload, each);
        result->payload = all;
        result->payload_nbytes = each * (size_t)comm->nranks;
    }
    for (int i = 0; result->status == SYMM_OK && i < comm->nranks; i++)
        if (comm->came[i]->nfds && !comm->arm) {
            result->fds[result->nfds++] = comm->came[i]->fds[0];
            symm__rank_set_add(&result->set, i); /* by comm rank */
            comm->came[i]->nfds = 0;
        }
    frame = symm__frame_make(result);
    free(all);
    if (frame)
        frame->owns_fds = true;
    else
        symm__fd_close_all(result->fds, result->nfds);
    return frame;
}

/* Sends the verdict with all contributions. Returns false if memory is out. */
static bool send_result(struct symm_hub *hub, struct symm_hub_comm *comm,
                        struct symm_message *result)
{
    struct symm_frame *frame = gather(comm, result);

    if (frame)
        symm__hub_send_comm(hub, comm, frame);
    return frame;
}

/*
 * Sends the verdict of the first vote. Each rank knows the comm by its provisional key and gets the
 * final one.
 */
static bool send_key(struct symm_hub *hub, struct symm_hub_comm *comm, struct symm_message *result)
{
    result->payload = &comm->key;
    result->payload_nbytes = sizeof comm->key;
    for (int i = 0; i < comm->nranks; i++) {
        struct symm_hub_client *client = hub->ranks[comm->ranks[i]].client;
        result->comm = comm->names[i];
        if (client && !client->over)
            symm__hub_send(hub, client, result);
    }
    return true;
}

void symm__hub_publish(struct symm_hub *hub, struct symm_hub_comm *comm,
                       struct symm_message *result)
{
    result->type = SYMM_MESSAGE_RESULT;
    result->comm = comm->key;
    result->seq = comm->seq + 1;
    if (hub->config.arbiter.settled && hub->config.arbiter.settled(hub->config.arbiter.self))
        result->op = SYMM_RESULT_SETTLED;
    for (int i = 0; i < comm->nranks; i++)
        snprintf(hub->ranks[comm->ranks[i]].last_done, sizeof hub->ranks[0].last_done, "%s",
                 comm->came[i]->text);
    bool sent = comm->formed ? send_result(hub, comm, result) : send_key(hub, comm, result);
    if (!sent) {
        symm__hub_end_comm(hub, comm, SYMM_ERROR_MEMORY, "rank 0 has no memory for a vote");
        return;
    }
    comm->seq++;
    if (result->status != SYMM_OK && !comm->formed)
        comm->gone = comm->members;
    comm->formed = true;
    symm__hub_forget_vote(hub, comm);
}

/* All ranks have come: gives the verdict and begins the next vote. */
static void conclude(struct symm_hub *hub, struct symm_hub_comm *comm)
{
    const size_t each = comm->came[0]->payload_nbytes;
    struct symm_text text = {.used = 0};
    struct symm_message result = {.type = SYMM_MESSAGE_RESULT};
    symm_status status = symm__hub_judge(hub, comm, &text);

    status = arbitrate(hub, comm, status, &text, result.args);
    if (status == SYMM_OK && comm->formed && each * (size_t)comm->nranks > SYMM_PAYLOAD_MAX) {
        status = SYMM_ERROR_ARGUMENT;
        symm__text_add(&text, "%zu bytes from each rank are too many for one vote", each);
    }
    result.status = status;
    result.reason = status == SYMM_OK ? NULL : text.bytes;
    symm__hub_publish(hub, comm, &result);
}

void symm__hub_arrive(struct symm_hub *hub, struct symm_hub_client *client,
                      struct symm_hub_comm *comm, struct symm_message *m)
{
    int comm_rank = symm__hub_comm_rank(comm, client->rank);

    if (comm->status != SYMM_OK) {
        symm__hub_send_end(hub, comm, client);
        return;
    }
    if (comm_rank < 0 || comm->came[comm_rank] || m->seq != comm->seq + 1) {
        symm__hub_drop(hub, client, "sent a VOTE out of sequence");
        return;
    }
    comm->came[comm_rank] = keep(m);
    if (!comm->came[comm_rank]) {
        symm__hub_end_comm(hub, comm, SYMM_ERROR_MEMORY, "rank 0 has no memory for a vote");
        symm__hub_send_end(hub, comm, client);
        return;
    }
    comm->ncame++;
    for (int i = 0; i < comm->nranks; i++)
        if (symm__rank_set_has(comm->gone, comm->ranks[i])) {
            symm__hub_end_for(hub, comm, comm->ranks[i]);
            return;
        }
    if (comm->ncame == comm->nranks && comm->arm)
        symm__hub_relay_vote(hub, comm);
    else if (comm->ncame == comm->nranks)
        conclude(hub, comm);
}
