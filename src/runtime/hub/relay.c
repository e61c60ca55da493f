/*
 * Comms of several domains. This hub has the comm's ranks of its own domain. When they have come to
 * a vote, it sends their contributions to the root, which decides for all domains. Ends go to the
 * root and come from it; questions whether a comm is alive make a round through all hubs.
 */
#include <stdlib.h>
#include <string.h>
#include "state.h"

static void send_up(struct symm_hub *hub, uint64_t key, struct symm_message *m)
{
    struct symm_frame *frame;

    m->comm = key;
    m->rank = -1;
    frame = symm__frame_make(m);
    if (frame)
        symm__wire_send(hub->up, frame);
    else
        hub->mute = true; /* at the next pass all these comms end */
}

/* ---- Objects ---- */

symm_status symm__hub_relay_add(struct symm_hub_comm *comm, const struct symm_span_birth *birth,
                                const void *domains)
{
    const size_t nwords = birth->ndomains;
    const size_t checks = 2 * nwords * sizeof(struct symm_hub_check); /* in a round, and after it */
    struct symm_hub_arm *arm = calloc(1, sizeof *arm + checks + nwords * sizeof(uint32_t));

    if (!arm)
        return symm__fail(SYMM_ERROR_MEMORY, "rank 0 has no memory for a group");
    arm->birth = *birth;
    arm->birth.nranks = 0;
    arm->domains = (uint32_t *)(void *)((char *)(arm + 1) + checks);
    memcpy(arm->domains, domains, nwords * sizeof(uint32_t));
    comm->arm = arm;
    return SYMM_OK;
}

void symm__hub_relay_forget(struct symm_hub_comm *comm)
{
    free(comm->arm);
    comm->arm = NULL;
}

/* The comm of all domains. */
static symm_status add_world(struct symm_hub *hub)
{
    const struct symm_span *span = hub->config.join->span;
    struct symm_span_birth birth = {.ndomains = (uint32_t)span->ndomains};
    uint32_t *domains = calloc((size_t)span->ndomains, sizeof *domains);
    struct symm_hub_comm *comm;
    int ranks[SYMM_MAX_RANKS];
    symm_status st;

    if (!domains)
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for %d domains", span->ndomains);
    for (int d = 0; d < span->ndomains; d++) {
        const uint32_t n = (uint32_t)symm__span_nmembers(span, d);
        domains[d] = (uint32_t)d;
        birth.most = n > birth.most ? n : birth.most;
    }
    for (int r = 0; r < hub->nranks; r++)
        ranks[r] = r;
    TRY(symm__hub_comm_add(hub, SYMM_COMM_JOIN, hub->nranks, ranks, &comm)); /* SYMM_COMM_SPAN */
    comm->formed = true;
    TRY(symm__hub_relay_add(comm, &birth, domains));
out:
    free(domains);
    return st;
}

symm_status symm__hub_relay_open(struct symm_hub *hub)
{
    const struct symm_span *span = hub->config.join->span;
    struct symm_message hello = {.type = SYMM_MESSAGE_DOMAIN,
                                 .args = {(uint64_t)span->domain, (uint64_t)span->ndomains}};
    symm_status st;

    TRY(symm__wire_connect(&span->root, &span->key, &hub->up));
    send_up(hub, SYMM_COMM_JOIN, &hello);
    TRY(add_world(hub));
out:
    return st;
}

void symm__hub_relay_close(struct symm_hub *hub)
{
    struct symm_message bye = {.type = SYMM_MESSAGE_BYE};

    if (!hub->up)
        return;
    send_up(hub, SYMM_COMM_JOIN, &bye);
    symm__wire_serve(hub->up, 0);
    symm__wire_close(hub->up);
}

/* ---- Votes ---- */

/* All contributions, each rank's behind the other, then zeros for ranks that other domains have. */
static void *gather(const struct symm_hub_comm *comm, size_t each)
{
    unsigned char *all = calloc(comm->arm->birth.most, each);

    for (int i = 0; all && i < comm->nranks; i++)
        memcpy(all + (size_t)i * each, comm->came[i]->payload, each);
    return all;
}

/* The first vote: the arm's numbers and its domains. */
static void *describe(const struct symm_hub_comm *comm, size_t *nbytes)
{
    struct symm_span_birth birth = comm->arm->birth;
    const size_t domains = birth.ndomains * sizeof(uint32_t);
    unsigned char *all = malloc(sizeof birth + domains);

    birth.parent = comm->parent;
    *nbytes = sizeof birth + domains;
    if (all) {
        memcpy(all, &birth, sizeof birth);
        memcpy(all + sizeof birth, comm->arm->domains, domains);
    }
    return all;
}

void symm__hub_relay_vote(struct symm_hub *hub, struct symm_hub_comm *comm)
{
    const size_t each = comm->came[0]->payload_nbytes;
    struct symm_text why = {.used = 0};
    struct symm_message m = {.type = comm->formed ? SYMM_MESSAGE_VOTE : SYMM_MESSAGE_SPAN,
                             .seq = comm->seq + 1,
                             .text = comm->came[0]->text};
    void *payload = NULL;

    m.status = symm__hub_judge(hub, comm, &why);
    m.reason = why.bytes;
    m.payload_nbytes = m.status == SYMM_OK ? each * comm->arm->birth.most : 0;
    if (!comm->formed)
        payload = describe(comm, &m.payload_nbytes);
    else if (m.payload_nbytes && m.payload_nbytes <= SYMM_PAYLOAD_MAX)
        payload = gather(comm, each);
    if (m.payload_nbytes && !payload) {
        symm__hub_end_comm(hub, comm, SYMM_ERROR_MEMORY, "a hub has no memory for a vote");
        return;
    }
    m.payload = payload;
    comm->arm->sent = true;
    symm__rank_set_clear(&comm->arm->slow);
    send_up(hub, comm->key, &m);
    free(payload);
}

static void take_result(struct symm_hub *hub, struct symm_hub_comm *comm,
                        const struct symm_message *m)
{
    struct symm_message result = {.status = m->status,
                                  .reason = m->reason,
                                  .payload = m->payload,
                                  .payload_nbytes = m->payload_nbytes};

    if (comm->arm->sent && m->seq == comm->seq + 1)
        symm__hub_publish(hub, comm, &result);
}

/* ---- Ends ---- */

void symm__hub_relay_end(struct symm_hub *hub, struct symm_hub_comm *comm)
{
    struct symm_message m = {
        .type = SYMM_MESSAGE_ABORT, .status = comm->status, .reason = comm->reason};

    if (comm->arm->ended || (!comm->formed && !comm->arm->sent))
        return; /* the root knows it, or does not know the comm */
    comm->arm->ended = true;
    send_up(hub, comm->key, &m);
}

void symm__hub_relay_closed(struct symm_hub *hub, struct symm_hub_comm *comm)
{
    const bool all = symm__rank_set_within(comm->members, comm->gone);
    struct symm_message m = {.type = SYMM_MESSAGE_CLOSE, .args = {all}};

    if ((comm->arm->closed && !all) || !comm->formed)
        return;
    comm->arm->closed = true;
    send_up(hub, comm->key, &m);
}

void symm__hub_relay_refuse(struct symm_hub *hub)
{
    struct symm_hub_comm *comm = symm__hub_find_comm(hub, -1, SYMM_COMM_SPAN);

    if (comm)
        symm__hub_end_comm(hub, comm, hub->refusal, hub->refusals.bytes);
}

static void take_end(struct symm_hub *hub, struct symm_hub_comm *comm, const struct symm_message *m)
{
    comm->arm->ended = true;
    symm__hub_end_comm(hub, comm, m->status == SYMM_OK ? SYMM_ERROR_PEER : m->status, m->reason);
}

/* The connection has ended: so do all comms that need it. */
static void cut_off(struct symm_hub *hub)
{
    struct symm_text text = {.used = 0};

    hub->cut = true;
    symm__text_add(&text, "rank 0, which connects the domains: %s",
                   hub->mute ? "no memory for a message to it" : symm__wire_why(hub->up));
    for (struct symm_hub_comm *comm = hub->comms; comm; comm = comm->next)
        if (comm->arm && comm->status == SYMM_OK) {
            comm->arm->ended = true;
            symm__hub_end_comm(hub, comm, SYMM_ERROR_PEER, text.bytes);
        }
}

/* ---- Confirmations ---- */

/* Asks the root for the ranks that have asked, unless it is being asked. */
static void ask_root(struct symm_hub *hub, struct symm_hub_comm *comm)
{
    struct symm_hub_arm *arm = comm->arm;
    struct symm_message m = {.type = SYMM_MESSAGE_CONFIRM};
    bool any = false;

    for (int i = 0; i < comm->nranks; i++)
        any |= arm->asks[i] != 0;
    if (!any || arm->confirming)
        return;
    memcpy(arm->asked, arm->asks, sizeof arm->asked);
    memset(arm->asks, 0, sizeof arm->asks);
    arm->confirming = true;
    m.seq = ++arm->confirms;
    send_up(hub, comm->key, &m);
}

void symm__hub_relay_ask(struct symm_hub *hub, struct symm_hub_comm *comm, int comm_rank,
                         uint64_t seq)
{
    comm->arm->asks[comm_rank] = seq;
    ask_root(hub, comm);
}

static void take_confirmed(struct symm_hub *hub, struct symm_hub_comm *comm,
                           const struct symm_message *m)
{
    struct symm_hub_arm *arm = comm->arm;
    struct symm_message answer = {.type = SYMM_MESSAGE_CONFIRMED, .comm = comm->key};

    if (!arm->confirming || m->seq != arm->confirms)
        return;
    arm->confirming = false;
    for (int i = 0; i < comm->nranks; i++) {
        struct symm_hub_client *client = hub->ranks[comm->ranks[i]].client;
        answer.seq = arm->asked[i];
        if (arm->asked[i] && client && !client->over)
            symm__hub_send(hub, client, &answer);
    }
    ask_root(hub, comm);
}

/* The root asks for another domain. The answer needs a round: what ranks here have sent counts. */
static void take_check(struct symm_hub *hub, struct symm_hub_comm *comm,
                       const struct symm_message *m)
{
    struct symm_hub_arm *arm = comm->arm;
    int i = arm->ndue; /* a later question of the same domain takes the place of an earlier one */

    while (i < arm->nchecks && arm->checks[i].args[0] != m->args[0])
        i++;
    if (i == 2 * (int)arm->birth.ndomains)
        return; /* more questions than domains that ask one at a time */
    arm->nchecks += i == arm->nchecks;
    arm->checks[i] = (struct symm_hub_check){m->seq, {m->args[0], m->args[1]}};
    hub->asked = true;
}

void symm__hub_relay_round(struct symm_hub_comm *comm)
{
    comm->arm->ndue = comm->arm->nchecks;
}

static void send_check(struct symm_hub *hub, uint64_t key, const struct symm_hub_check *check)
{
    struct symm_message m = {.type = SYMM_MESSAGE_CONFIRMED,
                             .seq = check->seq,
                             .args = {check->args[0], check->args[1]}};

    send_up(hub, key, &m);
}

void symm__hub_relay_answer(struct symm_hub *hub, struct symm_hub_comm *comm)
{
    struct symm_hub_arm *arm = comm->arm;

    for (int i = 0; i < arm->ndue && comm->status == SYMM_OK; i++)
        send_check(hub, comm->key, &arm->checks[i]);
    memmove(arm->checks, arm->checks + arm->ndue,
            (size_t)(arm->nchecks - arm->ndue) * sizeof arm->checks[0]);
    arm->nchecks -= arm->ndue;
    arm->ndue = 0;
}

/* ---- Late votes ---- */

void symm__hub_relay_late(struct symm_hub *hub, struct symm_hub_comm *comm, int rank,
                          const struct symm_message *m)
{
    struct symm_message up = {.type = m->type, .seq = m->seq, .args = {m->args[0]}};

    symm__rank_set_add(&comm->arm->slow, rank);
    send_up(hub, comm->key, &up);
}

void symm__hub_relay_missing(struct symm_hub *hub, struct symm_hub_comm *comm, const char *text)
{
    struct symm_message m = {.type = SYMM_MESSAGE_LATE, .seq = comm->seq + 1, .reason = text};

    send_up(hub, comm->key, &m);
}

static void take_late(struct symm_hub *hub, struct symm_hub_comm *comm,
                      const struct symm_message *m)
{
    struct symm_message late = {.type = SYMM_MESSAGE_LATE, .seq = m->seq, .reason = m->reason};

    for (int i = 0; i < comm->nranks && m->seq == comm->seq + 1; i++) {
        struct symm_hub_client *client = hub->ranks[comm->ranks[i]].client;
        late.comm = symm__hub_key_for(comm, i);
        if (client && symm__rank_set_has(comm->arm->slow, comm->ranks[i]))
            symm__hub_send(hub, client, &late);
    }
    symm__rank_set_clear(&comm->arm->slow);
}

/* ---- Messages of the root ---- */

/* Ranks that closed a comm in order have nothing against it. */
static void answer_for_closed(struct symm_hub *hub, const struct symm_message *m)
{
    const struct symm_hub_check check = {m->seq, {m->args[0], m->args[1]}};

    send_check(hub, m->comm, &check);
}

static void take(struct symm_hub *hub, const struct symm_message *m)
{
    struct symm_hub_comm *comm = symm__hub_find_comm(hub, -1, m->comm);

    if (!comm || !comm->arm) { /* its ranks have closed it meanwhile */
        if (m->type == SYMM_MESSAGE_CONFIRM)
            answer_for_closed(hub, m);
    } else if (m->type == SYMM_MESSAGE_RESULT) {
        take_result(hub, comm, m);
    } else if (m->type == SYMM_MESSAGE_ENDED) {
        take_end(hub, comm, m);
    } else if (m->type == SYMM_MESSAGE_CONFIRMED) {
        take_confirmed(hub, comm, m);
    } else if (m->type == SYMM_MESSAGE_CONFIRM) {
        take_check(hub, comm, m);
    } else if (m->type == SYMM_MESSAGE_LATE) {
        take_late(hub, comm, m);
    } else if (m->type == SYMM_MESSAGE_SLOW) {
        symm__hub_late_for_root(hub, comm);
    }
}

void symm__hub_relay_serve(struct symm_hub *hub, short revents)
{
    struct symm_message m;

    if (hub->cut)
        return;
    symm__wire_serve(hub->up, revents);
    while (symm__wire_next(hub->up, &m))
        take(hub, &m);
    if (symm__wire_state(hub->up) == SYMM_WIRE_ENDED || hub->mute)
        cut_off(hub);
}
