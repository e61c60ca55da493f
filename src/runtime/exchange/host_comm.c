/*
 * Host communicators on this rank: creates and frees them, handles messages of the hub, and ends
 * them.
 */
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/cond.h"

/* ---- Objects ---- */

/*
 * Lock held. Sets the sticky status; the first end wins. Returns true if the owner must be told;
 * busy is then raised.
 */
static bool end_comm(struct symm_host_comm *comm, symm_status status, const char *reason,
                     int exited)
{
    if (atomic_load_explicit(&comm->status, memory_order_relaxed) != SYMM_OK)
        return false;
    snprintf(comm->reason, sizeof comm->reason, "%s", reason);
    comm->exited = exited;
    atomic_store_explicit(&comm->status, status, memory_order_release);
    pthread_cond_broadcast(&comm->changed);
    if (!comm->live || !comm->events.ended)
        return false;
    comm->busy++;
    return true;
}

symm_status symm__host_comm_new(struct symm_exchange *x, uint64_t key, int nranks, const int *ranks,
                                struct symm_host_comm **out)
{
    struct symm_host_comm *comm = calloc(1, sizeof *comm);

    if (!comm)
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for a group");
    symm_status st = symm__cond_init(&comm->changed);
    if (st != SYMM_OK) {
        free(comm);
        return st;
    }
    comm->x = x;
    comm->key = key;
    comm->rank = -1;
    comm->nranks = comm->slots = nranks;
    for (int i = 0; i < nranks; i++) {
        comm->ranks[i] = ranks[i];
        comm->names[i] = symm__join_name(&x->join, ranks[i]);
        if (ranks[i] == x->join.rank)
            comm->rank = i;
    }
    comm->members = symm__rank_set(nranks, ranks);
    pthread_mutex_lock(&x->lock);
    comm->next = x->comms;
    x->comms = comm;
    if (x->lost) /* the end came before this comm was in the list */
        end_comm(comm, SYMM_ERROR_PEER, x->lost_reason, x->hub_exits ? 0 : -1);
    pthread_mutex_unlock(&x->lock);
    *out = comm;
    return SYMM_OK;
}

void symm__host_comm_free(struct symm_host_comm *comm)
{
    struct symm_exchange *x = comm->x;

    pthread_mutex_lock(&x->lock);
    for (struct symm_host_comm **at = &x->comms; *at; at = &(*at)->next)
        if (*at == comm) {
            *at = comm->next;
            break;
        }
    while (comm->busy)
        pthread_cond_wait(&comm->changed, &x->lock);
    pthread_mutex_unlock(&x->lock);
    pthread_cond_destroy(&comm->changed);
    free(comm);
}

/* Gives a comm that the exchange has made to its owner. */
static struct symm_host_comm *hand_over(struct symm_exchange *x, struct symm_host_comm **from,
                                        const struct symm_host_comm_events *events)
{
    struct symm_host_comm *comm = *from;
    bool ended;

    pthread_mutex_lock(&x->lock);
    *from = NULL;
    comm->events = *events;
    comm->live = true;
    ended = atomic_load(&comm->status) != SYMM_OK;
    pthread_mutex_unlock(&x->lock);
    if (ended && events->ended)
        events->ended(events->user);
    return comm;
}

symm_status symm__host_comm_world(struct symm_exchange *x,
                                  const struct symm_host_comm_events *events,
                                  struct symm_host_comm **out)
{
    *out = hand_over(x, &x->world, events);
    return SYMM_OK;
}

void symm__host_comm_span(struct symm_exchange *x, const struct symm_host_comm_events *events,
                          struct symm_host_comm **out)
{
    *out = hand_over(x, &x->span, events);
}

void symm__host_comm_close(struct symm_host_comm *comm)
{
    struct symm_message m = {.type = SYMM_MESSAGE_CLOSE};

    if (!comm)
        return;
    m.comm = comm->key;
    symm__exchange_send(comm->x, &m); /* harmless if the hub is gone */
    symm__host_comm_free(comm);
}

int symm__host_comm_rank(const struct symm_host_comm *comm)
{
    return comm->rank;
}

int symm__host_comm_nslots(const struct symm_host_comm *comm)
{
    return comm->slots;
}

int symm__host_comm_nranks(const struct symm_host_comm *comm)
{
    return comm->nranks;
}

const int *symm__host_comm_ranks(const struct symm_host_comm *comm)
{
    return comm->ranks;
}

const int *symm__host_comm_names(const struct symm_host_comm *comm)
{
    return comm->names;
}

struct symm_rank_set symm__host_comm_members(const struct symm_host_comm *comm)
{
    return comm->members;
}

/* ---- The end of a comm ---- */

/*
 * Callbacks run without the lock, so that they may call the exchange. busy keeps the comm alive
 * until they return.
 */
static void leave_callback(struct symm_host_comm *comm)
{
    pthread_mutex_lock(&comm->x->lock);
    comm->busy--;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->x->lock);
}

static void tell_ended(struct symm_host_comm *comm)
{
    comm->events.ended(comm->events.user);
    leave_callback(comm);
}

void symm__host_comm_abort(struct symm_host_comm *comm, symm_status status, const char *text)
{
    struct symm_message m = {
        .type = SYMM_MESSAGE_ABORT, .comm = comm->key, .status = status, .reason = text};
    struct symm_exchange *x = comm->x;

    if (atomic_load_explicit(&comm->status, memory_order_acquire) == SYMM_OK)
        symm__exchange_send(x, &m);
    pthread_mutex_lock(&x->lock);
    bool tell = end_comm(comm, status, text, -1);
    /*
     * The hub must receive the ABORT before this rank's kernels are told: see
     * symm__host_comm_confirm().
     */
    if (tell && !symm__link_idle(&x->link)) {
        comm->busy--;
        comm->tell_by_us = symm__now_us() + SYMM_HUB_ANSWER_US;
        tell = false;
    }
    pthread_mutex_unlock(&x->lock);
    if (tell)
        tell_ended(comm);
}

symm_status symm__host_comm_check(struct symm_host_comm *comm)
{
    symm_status status = atomic_load_explicit(&comm->status, memory_order_acquire);

    return status == SYMM_OK ? status : symm__fail(status, "%s", comm->reason);
}

int symm__host_comm_exited(struct symm_host_comm *comm)
{
    const bool ended = atomic_load_explicit(&comm->status, memory_order_acquire) != SYMM_OK;

    return ended ? comm->exited : -1;
}

/*
 * Lock held. Schedules an end that came from outside: now, or later in tests that make ranks
 * differ.
 */
static void schedule_end(struct symm_host_comm *comm, symm_status status, const char *reason,
                         int exited)
{
    if (comm->end_at_us)
        return;
    comm->end_at_us = symm__now_us() + (comm->live ? comm->x->abort_delay_us : 0);
    comm->end_status = status;
    comm->end_exited = exited;
    snprintf(comm->end_reason, sizeof comm->end_reason, "%s", reason);
}

/* Lock held. Returns a comm with a due end or callback. *next: the time of the next one. */
static struct symm_host_comm *find_due(struct symm_exchange *x, int64_t *next)
{
    const bool sent = symm__link_idle(&x->link);
    int64_t now = symm__now_us();

    *next = SYMM_NEVER;
    for (struct symm_host_comm *comm = x->comms; comm; comm = comm->next) {
        bool ended = atomic_load(&comm->status) != SYMM_OK;
        int64_t due = ended ? comm->tell_by_us : comm->end_at_us;
        if (due && (due <= now || (ended && sent)))
            return comm;
        if (due && due < *next)
            *next = due;
    }
    return NULL;
}

/*
 * Lock held. The owner may be told now: the ABORT is sent, or the hub has not taken it in time. In
 * the second case this rank hangs up. The hub then ends this rank's comms when it has read the rest
 * of the socket.
 */
static void allow_telling(struct symm_host_comm *comm)
{
    struct symm_exchange *x = comm->x;

    comm->tell_by_us = 0;
    comm->busy++;
    if (symm__link_idle(&x->link))
        return;
    x->hub_deaf = true;
    symm__link_hang_up(&x->link);
}

int64_t symm__host_comms_end_due(struct symm_exchange *x)
{
    struct symm_host_comm *comm;
    int64_t next;

    pthread_mutex_lock(&x->lock);
    while ((comm = find_due(x, &next))) {
        bool tell = true;
        if (comm->tell_by_us)
            allow_telling(comm);
        else
            tell = end_comm(comm, comm->end_status, comm->end_reason, comm->end_exited);
        if (tell) {
            pthread_mutex_unlock(&x->lock);
            tell_ended(comm);
            pthread_mutex_lock(&x->lock);
        }
    }
    pthread_mutex_unlock(&x->lock);
    return next;
}

void symm__host_comms_lost(struct symm_exchange *x)
{
    const char *fate = x->hub_left    ? "has left"
                       : x->hub_deaf  ? "does not answer"
                       : x->hub_exits ? SYMM_EXITED
                                      : "died";

    pthread_mutex_lock(&x->lock);
    x->lost = true;
    snprintf(x->lost_reason, sizeof x->lost_reason, "%s %s", symm__exchange_hub(x).text, fate);
    for (struct symm_host_comm *comm = x->comms; comm; comm = comm->next)
        schedule_end(comm, SYMM_ERROR_PEER, x->lost_reason, x->hub_exits ? 0 : -1);
    pthread_mutex_unlock(&x->lock);
}

/* ---- Messages of the hub ---- */

/*
 * Lock held. Hands the result to the waiting thread. Unused descriptors stay in m and are closed by
 * the caller.
 */
static void take_result(struct symm_host_comm *comm, struct symm_message *m)
{
    struct symm_wait *wait = comm->wait;

    if (!wait || wait->done || m->seq != comm->seq)
        return;
    if (m->op == SYMM_RESULT_SETTLED && wait->frees > atomic_load(&comm->x->settled))
        atomic_store(&comm->x->settled, wait->frees);
    wait->verdict = m->status;
    snprintf(wait->text, sizeof wait->text, "%s", m->reason);
    if (m->status == SYMM_OK && m->payload_nbytes != wait->nbytes) {
        wait->verdict = SYMM_ERROR_MISMATCH;
        snprintf(wait->text, sizeof wait->text, "%s answered with %zu bytes instead of %zu",
                 symm__exchange_hub(comm->x).text, m->payload_nbytes, wait->nbytes);
    } else if (m->status == SYMM_OK) {
        struct symm_vote *vote = wait->vote;
        memcpy(vote->answer, m->args, sizeof vote->answer);
        if (wait->makes)
            memcpy(&comm->key, m->payload, sizeof comm->key);
        if (vote->all)
            memcpy(vote->all, m->payload, m->payload_nbytes);
        int n = 0;
        for (int i = 0; vote->fds && i < comm->nranks; i++)
            vote->fds[i] = symm__rank_set_has(m->set, i) && n < m->nfds ? m->fds[n++] : -1;
        for (int i = 0; i < n; i++)
            m->fds[i] = -1;
    }
    comm->live |= wait->verdict == SYMM_OK && comm->key != SYMM_COMM_JOIN;
    wait->done = true;
    pthread_cond_broadcast(&comm->changed);
}

/* Lock held on entry, not on return, since the owner is called without it. */
static void call_owner(struct symm_host_comm *comm, const struct symm_message *m)
{
    struct symm_host_comm_events events = comm->events;
    struct symm_message answer = {
        .type = SYMM_MESSAGE_TOLD, .comm = comm->key, .seq = m->seq, .args = {m->args[0]}};
    struct symm_activity activity = {.awaits = -1};
    int rank = 0;

    comm->busy++;
    pthread_mutex_unlock(&comm->x->lock);
    if (m->type == SYMM_MESSAGE_ASKED) {
        if (events.activity)
            events.activity(events.user, &activity);
        symm__activity_write(&activity, &answer);
        symm__exchange_send(comm->x, &answer);
    } else if (events.told) {
        while (rank < comm->nranks && (uint64_t)comm->ranks[rank] != m->args[0])
            rank++;
        symm__activity_read(m, &activity);
        if (rank < comm->nranks)
            events.told(events.user, rank, &activity);
    }
    leave_callback(comm);
}

void symm__host_comm_message(struct symm_exchange *x, struct symm_message *m)
{
    pthread_mutex_lock(&x->lock);
    struct symm_host_comm *comm = x->comms;
    while (comm && comm->key != m->comm)
        comm = comm->next;
    if (!comm) {
        /* the comm was closed here in the meantime */
    } else if (m->type == SYMM_MESSAGE_RESULT) {
        take_result(comm, m);
    } else if (m->type == SYMM_MESSAGE_CONFIRMED) {
        comm->confirmed = m->seq;
        pthread_cond_broadcast(&comm->changed);
    } else if (m->type == SYMM_MESSAGE_QUIET) {
        comm->quiet = true;
        pthread_cond_broadcast(&comm->changed);
    } else if (m->type == SYMM_MESSAGE_ENDED) {
        schedule_end(comm, m->status, m->reason, (int)m->args[0] - 1);
    } else if (m->type == SYMM_MESSAGE_LATE && comm->wait && comm->seq == m->seq) {
        pthread_mutex_unlock(&x->lock);
        /* the callback may abort */
        symm__log(x->config.log, SYMM_LOG_WARNING, "waiting for %s", m->reason);
        return;
    } else if (m->type == SYMM_MESSAGE_ASKED || (m->type == SYMM_MESSAGE_TOLD && comm->live)) {
        call_owner(comm, m);
        return;
    }
    pthread_mutex_unlock(&x->lock);
}

void symm__host_comm_ask(struct symm_host_comm *comm, int rank)
{
    struct symm_message m = {
        .type = SYMM_MESSAGE_ASK, .comm = comm->key, .args = {(uint64_t)comm->ranks[rank]}};

    symm__exchange_send(comm->x, &m);
}
