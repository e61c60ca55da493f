/*
 * Creates comms. Attempts are matched by parent and set of ranks, not by a count of attempts. So a
 * rank whose earlier attempt failed before or after it asked still meets the others. The hub
 * forgets an attempt that has ended.
 */
#include "state.h"

#include <string.h>

struct birth {
    struct symm_hub_comm *parent;
    int nranks;
    int ranks[SYMM_MAX_RANKS]; /* of this domain */
    struct symm_rank_set members;
    const struct symm_span_birth *span; /* NULL: all ranks are in this domain */
};

static bool read_ranks(struct symm_hub *hub, int rank, const unsigned char *bytes, size_t n,
                       struct birth *b)
{
    b->nranks = (int)n;
    if (!b->parent || n > SYMM_MAX_RANKS)
        return false;
    for (int i = 0; i < b->nranks; i++) {
        int r = b->ranks[i] = bytes[i];
        if (r >= hub->nranks || !symm__rank_set_has(b->parent->members, r) ||
            symm__rank_set_has(b->members, r))
            return false;
        symm__rank_set_add(&b->members, r);
    }
    return symm__rank_set_has(b->members, rank);
}

/* The payload of CREATE: the parent's key, then a byte for each rank. */
static bool read_birth(struct symm_hub *hub, int rank, const struct symm_message *m,
                       struct birth *b)
{
    uint64_t key;

    memcpy(&key, m->payload, sizeof key);
    *b = (struct birth){.parent = symm__hub_find_comm(hub, rank, key)};
    return read_ranks(hub, rank, (const unsigned char *)m->payload + sizeof key,
                      m->payload_nbytes - sizeof key, b);
}

/* The payload of SPAN: *span, then domains, then a byte for each rank of this domain. */
static bool read_span(struct symm_hub *hub, int rank, const struct symm_message *m,
                      struct symm_span_birth *span, struct birth *b)
{
    size_t before;

    memcpy(span, m->payload, sizeof *span);
    before = sizeof *span + (size_t)span->ndomains * sizeof(uint32_t);
    if (!hub->up || span->ndomains > SYMM_PAYLOAD_MAX / sizeof(uint32_t) ||
        before + span->nranks != m->payload_nbytes || span->most < span->nranks ||
        span->most > SYMM_MAX_RANKS)
        return false;
    *b = (struct birth){.parent = symm__hub_find_comm(hub, rank, span->parent), .span = span};
    return b->parent && b->parent->arm &&
           read_ranks(hub, rank, (const unsigned char *)m->payload + before, span->nranks, b);
}

/* Whether an attempt is at the same comm. */
static bool is_attempt(const struct symm_hub_comm *comm, const struct birth *b)
{
    return !comm->formed && comm->status == SYMM_OK && comm->parent == b->parent->key &&
           symm__rank_set_equal(comm->members, b->members) && !comm->arm == !b->span &&
           (!b->span || comm->arm->birth.hash == b->span->hash);
}

/* The oldest attempt that this rank has not joined; NULL: none. */
static struct symm_hub_comm *find_attempt(struct symm_hub *hub, int rank, const struct birth *b)
{
    struct symm_hub_comm *oldest = NULL;

    for (struct symm_hub_comm *comm = hub->comms; comm; comm = comm->next)
        if (is_attempt(comm, b) && !comm->came[symm__hub_comm_rank(comm, rank)])
            oldest = comm; /* new comms come first in the list */
    return oldest;
}

/* domains: behind a SPAN's birth. */
static symm_status begin_attempt(struct symm_hub *hub, const struct birth *b, const void *domains,
                                 struct symm_hub_comm **out)
{
    symm_status st;

    TRY(symm__hub_comm_add(hub, b->parent->key, b->nranks, b->ranks, out));
    for (int i = 0; i < b->nranks; i++)
        if (symm__rank_set_has(b->parent->gone, b->ranks[i]))
            symm__rank_set_add(&(*out)->gone, b->ranks[i]);
    if (b->span)
        TRY(symm__hub_relay_add(*out, b->span, domains));
    if (b->parent->status != SYMM_OK)
        symm__hub_end_comm(hub, *out, b->parent->status, b->parent->reason);
out:
    return st;
}

void symm__hub_create(struct symm_hub *hub, struct symm_hub_client *client, struct symm_message *m)
{
    const bool spans = m->type == SYMM_MESSAGE_SPAN;
    struct symm_span_birth span;
    struct symm_hub_comm *comm;
    struct birth b;

    if (!(m->comm & SYMM_COMM_FORMING) || !(spans ? read_span(hub, client->rank, m, &span, &b)
                                                  : read_birth(hub, client->rank, m, &b))) {
        symm__hub_drop(hub, client, "sent a CREATE with wrong ranks");
        return;
    }
    comm = find_attempt(hub, client->rank, &b);
    if (!comm && begin_attempt(hub, &b, (const char *)m->payload + sizeof span, &comm) != SYMM_OK) {
        symm__hub_drop(hub, client, symm__failure_text());
        return;
    }
    comm->inner = !spans && m->args[3] == SYMM_CREATE_INNER;
    comm->names[symm__hub_comm_rank(comm, client->rank)] = m->comm;
    symm__hub_arrive(hub, client, comm, m);
}
