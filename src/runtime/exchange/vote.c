/* Takes part in votes, including the first vote of a new comm. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/cond.h"
#include "runtime/base/fd.h"
#include "state.h"

size_t symm__vote_max(int nslots)
{
    return SYMM_PAYLOAD_MAX / (size_t)nslots;
}

/* freed_lock held. On failure the offsets stay for the next attempt. */
static void send_freed(struct symm_exchange *x)
{
    struct symm_message m = {.type = SYMM_MESSAGE_FREED,
                             /*
                              * FREED concerns no comm; the hub must only see that this rank has
                              * joined
                              */
                             .comm = SYMM_COMM_WORLD,
                             .payload = x->freed,
                             .payload_nbytes = x->nfreed * sizeof x->freed[0]};

    if (x->nfreed && symm__exchange_send(x, &m) == SYMM_OK)
        x->nfreed = 0;
}

uint64_t symm__exchange_freed(struct symm_exchange *x, uint64_t off)
{
    pthread_mutex_lock(&x->freed_lock);
    uint64_t number = ++x->frees;
    if (x->nfreed == SYMM_FREED_MAX)
        send_freed(x);
    if (x->nfreed < SYMM_FREED_MAX)
        x->freed[x->nfreed++] = off;
    else
        symm__log(x->config.log, SYMM_LOG_ERROR, "no memory to free offset %llu on all ranks",
                  (unsigned long long)off);
    pthread_mutex_unlock(&x->freed_lock);
    return number;
}

uint64_t symm__exchange_settled(struct symm_exchange *x)
{
    return atomic_load(&x->settled);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

symm_status symm__host_comm_wait(struct symm_host_comm *comm, struct symm_wait *wait,
                                 symm_deadline deadline)
{
    struct symm_exchange *x = comm->x;
    int64_t slow = symm__now_us() + x->slow_us, answer = SYMM_NEVER;
    int64_t began = wait->began_us ? wait->began_us : symm__now_us();
    char text[64];

    pthread_mutex_lock(&x->lock);
    while (!wait->done && atomic_load(&comm->status) == SYMM_OK) {
        int64_t now = symm__now_us();
        struct symm_message m = {.comm = comm->key, .seq = comm->seq};
        if (now >= answer) {
            snprintf(text, sizeof text, "%s does not answer", symm__exchange_hub(x).text);
            pthread_mutex_unlock(&x->lock);
            symm__host_comm_abort(comm, SYMM_ERROR_TIMEOUT, text);
            pthread_mutex_lock(&x->lock);
        } else if (now >= deadline && answer == SYMM_NEVER) {
            m.type = SYMM_MESSAGE_EXPIRED;
            m.args[0] = (uint64_t)(now - began) / 1000;
            answer = now + SYMM_HUB_ANSWER_US + x->abort_delay_us;
        } else if (now >= slow) {
            m.type = SYMM_MESSAGE_SLOW;
            slow = now + x->slow_us;
        } else {
            symm__cond_wait(&comm->changed, &x->lock,
                            earlier(slow, answer == SYMM_NEVER ? deadline : answer));
        }
        if (m.type) {
            pthread_mutex_unlock(&x->lock);
            symm__exchange_send(x, &m);
            pthread_mutex_lock(&x->lock);
        }
    }
    comm->wait = NULL;
    pthread_mutex_unlock(&x->lock);
    if (!wait->done)
        return symm__host_comm_check(comm);
    return wait->verdict == SYMM_OK ? SYMM_OK : symm__fail(wait->verdict, "%s", wait->text);
}

symm_status symm__host_comm_confirm(struct symm_host_comm *comm, symm_deadline deadline)
{
    struct symm_exchange *x = comm->x;
    struct symm_message m = {.type = SYMM_MESSAGE_CONFIRM, .comm = comm->key};
    symm_status st;

    TRY(symm__host_comm_check(comm));
    if (comm->slots == 1)
        return SYMM_OK;
    pthread_mutex_lock(&x->lock);
    m.seq = ++comm->confirms;
    pthread_mutex_unlock(&x->lock);
    TRY(symm__exchange_send(x, &m));
    pthread_mutex_lock(&x->lock);
    while (comm->confirmed < m.seq && atomic_load(&comm->status) == SYMM_OK) {
        if (symm__deadline_over(deadline)) {
            pthread_mutex_unlock(&x->lock);
            return symm__fail(SYMM_ERROR_TIMEOUT, "%s does not answer", symm__exchange_hub(x).text);
        }
        symm__cond_wait(&comm->changed, &x->lock, deadline);
    }
    pthread_mutex_unlock(&x->lock);
    st = symm__host_comm_check(comm);
out:
    return st;
}

bool symm__host_comm_quiet(struct symm_host_comm *comm, symm_deadline deadline)
{
    struct symm_exchange *x = comm->x;
    struct symm_message m = {.type = SYMM_MESSAGE_QUIET, .comm = comm->key};
    bool quiet = comm->nranks == 1;

    if (quiet || symm__exchange_send(x, &m) != SYMM_OK)
        return quiet;
    pthread_mutex_lock(&x->lock);
    while (!comm->quiet && !x->lost && !symm__deadline_over(deadline))
        symm__cond_wait(&comm->changed, &x->lock, deadline);
    quiet = comm->quiet;
    pthread_mutex_unlock(&x->lock);
    return quiet;
}

/*
 * Sends this rank's contribution to a vote and waits for the verdict. m has the type, payload and
 * descriptors.
 */
static symm_status take_part(struct symm_host_comm *comm, struct symm_wait *wait,
                             struct symm_message *m, symm_deadline deadline)
{
    struct symm_exchange *x = comm->x;
    struct symm_vote *vote = wait->vote;
    char reason[SYMM_TEXT_MAX];
    symm_status st;

    m->comm = comm->key;
    m->text = vote->text;
    m->op = vote->op;
    m->status = vote->status;
    memcpy(m->args, vote->args, sizeof m->args);
    if (m->status == SYMM_OK && vote->nbytes > symm__vote_max(comm->slots))
        m->status =
            symm__fail(SYMM_ERROR_ARGUMENT, "%zu bytes are too many for one vote of %d ranks",
                       vote->nbytes, comm->slots);
    if (m->status == SYMM_OK && vote->fds)
        m->status = symm__fd_reserve(comm->nranks);
    if (m->status != SYMM_OK) {
        snprintf(reason, sizeof reason, "%s", symm__failure_text());
        m->reason = reason;
        m->nfds = 0;
        if (m->type == SYMM_MESSAGE_VOTE)
            m->payload_nbytes = 0;
    }
    TRY(symm__host_comm_check(comm));

    pthread_mutex_lock(&x->lock);
    bool taken = comm->wait;
    if (!taken) {
        comm->wait = wait;
        m->seq = ++comm->seq;
    }
    pthread_mutex_unlock(&x->lock);
    if (taken)
        return symm__fail(SYMM_ERROR_STATE, "%s: another thread is in a call on this group",
                          vote->text);

    pthread_mutex_lock(&x->freed_lock);
    send_freed(x);
    wait->frees = x->frees - x->nfreed;
    pthread_mutex_unlock(&x->freed_lock);
    st = symm__exchange_send(x, m);
    if (st != SYMM_OK) {
        snprintf(reason, sizeof reason, "%.960s%s", symm__failure_text(),
                 symm__on_rank(symm__host_comm_rank(comm), x->join.world_rank).text);
        symm__host_comm_abort(comm, st, reason);
    }
    return symm__host_comm_wait(comm, wait, deadline);
out:
    return st;
}

symm_status symm__host_comm_vote(struct symm_host_comm *comm, struct symm_vote *vote,
                                 symm_deadline deadline)
{
    struct symm_wait wait = {.vote = vote, .nbytes = vote->nbytes * (size_t)comm->slots};
    struct symm_message m = {.type = SYMM_MESSAGE_VOTE,
                             .payload = vote->mine,
                             .payload_nbytes = vote->nbytes,
                             .nfds = vote->gives_fd,
                             .fds = {vote->fd}};

    return take_part(comm, &wait, &m, deadline);
}

symm_status symm__host_comm_hand_out(struct symm_host_comm *comm, struct symm_vote *vote,
                                     symm_deadline deadline, int *fd)
{
    const bool gives = symm__host_comm_rank(comm) == 0;
    int fds[SYMM_MAX_RANKS];

    for (int r = 0; r < comm->nranks; r++)
        fds[r] = -1;
    vote->gives_fd = gives && *fd >= 0;
    vote->fd = *fd;
    vote->fds = fds;
    const symm_status st = symm__host_comm_vote(comm, vote, deadline);
    if (!gives) {
        *fd = fds[0];
        fds[0] = -1;
    }
    symm__fd_close_all(fds, comm->nranks);
    return st;
}

/* A provisional key for a comm, different for each attempt of this rank. */
static uint64_t next_name(struct symm_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    uint64_t name = SYMM_COMM_FORMING | ++x->attempts;
    pthread_mutex_unlock(&x->lock);
    return name;
}

/* The comm of a first vote, whose payload the caller makes. *out: not created yet. */
static symm_status begin_comm(struct symm_host_comm *parent, int nranks, const int *ranks,
                              const struct symm_host_comm_events *events,
                              struct symm_host_comm **out)
{
    int members[SYMM_MAX_RANKS];
    symm_status st;

    TRY(symm__host_comm_check(parent));
    for (int i = 0; i < nranks; i++)
        members[i] = parent->ranks[ranks[i]];
    TRY(symm__host_comm_new(parent->x, next_name(parent->x), nranks, members, out));
    (*out)->events = *events;
out:
    return st;
}

/* The first vote. Frees the comm if it fails. */
static symm_status create(struct symm_host_comm *comm, struct symm_vote *vote,
                          struct symm_message *m, symm_deadline deadline,
                          struct symm_host_comm **out)
{
    struct symm_wait wait = {.vote = vote, .nbytes = sizeof comm->key, .makes = true};
    const symm_status st = take_part(comm, &wait, m, deadline);

    if (st == SYMM_OK)
        *out = comm;
    else
        symm__host_comm_free(comm);
    return st;
}

symm_status symm__host_comm_create(struct symm_host_comm *parent, int nranks, const int *ranks,
                                   const struct symm_host_comm_events *events,
                                   struct symm_vote *vote, symm_deadline deadline,
                                   struct symm_host_comm **out)
{
    struct symm_host_comm *comm = NULL;
    unsigned char payload[8 + SYMM_MAX_RANKS];
    struct symm_message m = {
        .type = SYMM_MESSAGE_CREATE, .payload = payload, .payload_nbytes = 8 + (size_t)nranks};
    symm_status st;

    TRY(begin_comm(parent, nranks, ranks, events, &comm));
    memcpy(payload, &parent->key, sizeof parent->key);
    for (int i = 0; i < nranks; i++)
        payload[8 + i] = (unsigned char)comm->ranks[i];
    st = create(comm, vote, &m, deadline, out);
out:
    return st;
}

symm_status symm__host_comm_create_span(struct symm_host_comm *parent, int nranks, const int *ranks,
                                        const struct symm_span_birth *birth,
                                        const uint32_t *domains,
                                        const struct symm_host_comm_events *events,
                                        struct symm_vote *vote, symm_deadline deadline,
                                        struct symm_host_comm **out)
{
    const size_t nwords = birth->ndomains * sizeof domains[0];
    struct symm_host_comm *comm = NULL;
    struct symm_span_birth own = *birth;
    unsigned char *payload = malloc(sizeof own + nwords + (size_t)nranks);
    struct symm_message m = {.type = SYMM_MESSAGE_SPAN,
                             .payload = payload,
                             .payload_nbytes = sizeof own + nwords + (size_t)nranks};
    symm_status st;

    if (!payload)
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for a group");
    TRY(begin_comm(parent, nranks, ranks, events, &comm));
    comm->slots = (int)(birth->ndomains * birth->most);
    own.parent = parent->key;
    own.nranks = (uint32_t)nranks;
    memcpy(payload, &own, sizeof own);
    memcpy(payload + sizeof own, domains, nwords);
    for (int i = 0; i < nranks; i++)
        payload[sizeof own + nwords + (size_t)i] = (unsigned char)comm->ranks[i];
    st = create(comm, vote, &m, deadline, out);
out:
    free(payload);
    return st;
}
