/* The hub's comms: collects votes, gives verdicts, and ends comms. */
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

static void forget_vote(struct symm_hub *hub, struct symm_hub_comm *comm)
{
    symm__hub_forget_inquiry(hub, comm);
    for (int i = 0; i < comm->nranks; i++) {
        if (comm->came[i])
            symm__fd_close_all(comm->came[i]->fds, comm->came[i]->nfds);
        free(comm->came[i]);
        comm->came[i] = NULL;
    }
    comm->ncame = 0;
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
    forget_vote(hub, comm);
    if (!comm->formed) /* no rank has it to close: forget it, and later ranks begin a new attempt */
        comm->gone = comm->members;
    for (struct symm_hub_comm *child = hub->comms; child; child = child->next)
        if (child->parent == comm->key && !child->formed)
            symm__hub_end_comm(hub, child, status, comm->reason);
}

/* Appends why a rank is gone. */
static void add_fate(struct symm_text *text, const struct symm_hub *hub, int rank)
{
    const struct symm_hub_rank *r = &hub->ranks[rank];

    if (r->fate == SYMM_HUB_DIED)
        symm__text_add(text, "rank %d (pid %d) %s", rank, (int)r->pid,
                       r->exits ? SYMM_EXITED : "died");
    else
        symm__text_add(text, "rank %d has left", rank);
}

static void abort_for(struct symm_hub *hub, struct symm_hub_comm *comm, int rank)
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
        abort_for(hub, comm, rank);
    if (comm->formed)
        tell_quiet(hub, comm);
    for (struct symm_hub_comm *child = hub->comms; child; child = child->next)
        if (child->parent == comm->key && !child->formed &&
            symm__rank_set_has(child->members, rank))
            abort_for(hub, child, rank);
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
            forget_vote(hub, comm);
            free(comm);
        } else {
            at = &comm->next;
        }
    }
}

/* ---- Votes ---- */

/* For CREATE, the order of the ranks counts. A rank that refuses its arguments brings no op. */
static bool same_call(const struct symm_message *a, const struct symm_message *b)
{
    const bool refused = a->status != SYMM_OK || b->status != SYMM_OK;

    return (a->op == b->op || refused) && a->type == b->type && !strcmp(a->text, b->text) &&
           (a->type != SYMM_MESSAGE_CREATE || !memcmp(a->payload, b->payload, a->payload_nbytes));
}

/* "rank 0, 2: symm_alloc(4096); rank 1: symm_trim()" */
static void add_calls(struct symm_text *text, const struct symm_hub_comm *comm)
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
        symm__text_add_ranks(text, alike);
        symm__text_add(text, ": %.*s", SYMM_HUB_CALL_SHOWN, call->text);
        for (int b = 0; b < 2; b++)
            named.bits[b] |= alike.bits[b];
    }
}

/*
 * For a new comm with equal texts, which may be truncated: appends the first position at which two
 * ranks name different ranks.
 */
static void add_order(struct symm_text *text, const struct symm_hub_comm *comm)
{
    const struct symm_message *a = comm->came[0], *b = a;
    size_t at = sizeof comm->key;

    for (int i = 1; i < comm->nranks && b == a; i++)
        if (!same_call(a, comm->came[i]))
            b = comm->came[i];
    if (comm->formed || strcmp(a->text, b->text) || a->op != b->op)
        return;
    const unsigned char *mine = a->payload, *theirs = b->payload;
    while (at < a->payload_nbytes && mine[at] == theirs[at])
        at++;
    if (at < a->payload_nbytes)
        symm__text_add(text,
                       "; position %d of the new group: rank %d names rank %d, rank %d rank %d",
                       (int)(at - sizeof comm->key), a->rank, mine[at], b->rank, theirs[at]);
}

/* The verdict before the arbiter decides. */
static symm_status judge(const struct symm_hub_comm *comm, struct symm_text *text)
{
    const struct symm_message *first = comm->came[0];

    for (int i = 1; i < comm->nranks; i++)
        if (!same_call(first, comm->came[i])) {
            symm__text_add(text, "ranks called different things: ");
            add_calls(text, comm);
            add_order(text, comm);
            return SYMM_ERROR_MISMATCH;
        }
    for (int i = 0; i < comm->nranks; i++)
        if (comm->came[i]->status != SYMM_OK) {
            symm__text_add(text, "%.960s%s", comm->came[i]->reason,
                           symm__on_rank(i, comm->ranks[i]).text);
            return comm->came[i]->status;
        }
    for (int i = 1; i < comm->nranks; i++)
        if (comm->came[i]->payload_nbytes != first->payload_nbytes) {
            symm__text_add(text, "%.*s: rank %d brought %zu bytes, rank %d %zu bytes",
                           SYMM_HUB_CALL_SHOWN, first->text, comm->ranks[0], first->payload_nbytes,
                           comm->ranks[i], comm->came[i]->payload_nbytes);
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

    if (result->status == SYMM_OK && each) {
        all = malloc(each * (size_t)comm->nranks);
        if (!all)
            return NULL;
        for (int i = 0; i < comm->nranks; i++)
            memcpy(all + (size_t)i * each, comm->came[i]->payload, each);
        result->payload = all;
        result->payload_nbytes = each * (size_t)comm->nranks;
    }
    for (int i = 0; result->status == SYMM_OK && i < comm->nranks; i++)
        if (comm->came[i]->nfds) {
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

/* All ranks have come: gives the verdict and begins the next vote. */
static void conclude(struct symm_hub *hub, struct symm_hub_comm *comm)
{
    const size_t each = comm->came[0]->payload_nbytes;
    struct symm_text text = {.used = 0};
    struct symm_message result = {
        .type = SYMM_MESSAGE_RESULT, .comm = comm->key, .seq = comm->seq + 1};
    symm_status status = judge(comm, &text);

    status = arbitrate(hub, comm, status, &text, result.args);
    if (hub->config.arbiter.settled && hub->config.arbiter.settled(hub->config.arbiter.self))
        result.op = SYMM_RESULT_SETTLED;
    if (status == SYMM_OK && comm->formed && each * (size_t)comm->nranks > SYMM_PAYLOAD_MAX) {
        status = SYMM_ERROR_ARGUMENT;
        symm__text_add(&text, "%zu bytes from each rank are too many for one vote", each);
    }
    result.status = status;
    result.reason = status == SYMM_OK ? NULL : text.bytes;
    for (int i = 0; i < comm->nranks; i++)
        snprintf(hub->ranks[comm->ranks[i]].last_done, sizeof hub->ranks[0].last_done, "%s",
                 comm->came[i]->text);
    bool sent = comm->formed ? send_result(hub, comm, &result) : send_key(hub, comm, &result);
    if (!sent) {
        symm__hub_end_comm(hub, comm, SYMM_ERROR_MEMORY, "rank 0 has no memory for a vote");
        return;
    }
    comm->seq++;
    if (status != SYMM_OK && !comm->formed)
        comm->gone = comm->members;
    comm->formed = true;
    forget_vote(hub, comm);
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
            abort_for(hub, comm, comm->ranks[i]);
            return;
        }
    if (comm->ncame == comm->nranks)
        conclude(hub, comm);
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
    } else if (m->type == SYMM_MESSAGE_CREATE) {
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
