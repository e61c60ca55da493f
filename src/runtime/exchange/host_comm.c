/* Lanes on this rank's side: the objects, what the hub says about them, and what ends them. */
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Lanes as objects ---- */

static symm_status init_cond(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int err = pthread_condattr_init(&attr);

    if (!err) {
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        err = pthread_cond_init(cond, &attr);
        pthread_condattr_destroy(&attr);
    }
    return err ? symm__fail_errno(err, "pthread_cond_init") : SYMM_OK;
}

/*
 * Lock held. The first end wins; true if this one did and its owner is to be told (busy is raised).
 */
static bool end_lane(struct symm_lane *lane, symm_status status, const char *reason)
{
    if (atomic_load_explicit(&lane->status, memory_order_relaxed) != SYMM_OK)
        return false;
    snprintf(lane->reason, sizeof lane->reason, "%s", reason);
    atomic_store_explicit(&lane->status, status, memory_order_release);
    pthread_cond_broadcast(&lane->changed);
    if (!lane->live || !lane->events.ended)
        return false;
    lane->busy++;
    return true;
}

symm_status symm__lane_new(struct symm_exchange *x, uint64_t key, int nranks, const int *ranks,
                           struct symm_lane **out)
{
    struct symm_lane *lane = calloc(1, sizeof *lane);

    if (!lane)
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for a group");
    symm_status st = init_cond(&lane->changed);
    if (st != SYMM_OK) {
        free(lane);
        return st;
    }
    lane->x = x;
    lane->key = key;
    lane->rank = -1;
    lane->nranks = nranks;
    for (int i = 0; i < nranks; i++) {
        lane->ranks[i] = ranks[i];
        if (ranks[i] == x->join.rank)
            lane->rank = i;
    }
    lane->members = symm__rank_set(nranks, ranks);
    pthread_mutex_lock(&x->lock);
    lane->next = x->lanes;
    x->lanes = lane;
    if (x->lost) /* it would not hear of it any more */
        end_lane(lane, SYMM_ERROR_PEER, x->lost_reason);
    pthread_mutex_unlock(&x->lock);
    *out = lane;
    return SYMM_OK;
}

void symm__lane_free(struct symm_lane *lane)
{
    struct symm_exchange *x = lane->x;

    pthread_mutex_lock(&x->lock);
    for (struct symm_lane **at = &x->lanes; *at; at = &(*at)->next)
        if (*at == lane) {
            *at = lane->next;
            break;
        }
    while (lane->busy)
        pthread_cond_wait(&lane->changed, &x->lock);
    pthread_mutex_unlock(&x->lock);
    pthread_cond_destroy(&lane->changed);
    free(lane);
}

symm_status symm__lane_world(struct symm_exchange *x, const struct symm_lane_events *events,
                             struct symm_lane **out)
{
    struct symm_lane *lane = x->world;
    bool ended;

    pthread_mutex_lock(&x->lock);
    x->world = NULL; /* its owner's from now on */
    lane->events = *events;
    lane->live = true;
    ended = atomic_load(&lane->status) != SYMM_OK;
    pthread_mutex_unlock(&x->lock);
    *out = lane;
    if (ended && events->ended)
        events->ended(events->user);
    return SYMM_OK;
}

void symm__lane_close(struct symm_lane *lane)
{
    struct symm_message m = {.type = SYMM_MESSAGE_CLOSE};

    if (!lane)
        return;
    m.lane = lane->key;
    symm__exchange_send(lane->x, &m); /* a hub that is gone does not mind */
    symm__lane_free(lane);
}

int symm__lane_rank(const struct symm_lane *lane)
{
    return lane->rank;
}

int symm__lane_nranks(const struct symm_lane *lane)
{
    return lane->nranks;
}

const int *symm__lane_ranks(const struct symm_lane *lane)
{
    return lane->ranks;
}

struct symm_rank_set symm__lane_members(const struct symm_lane *lane)
{
    return lane->members;
}

/* ---- The end of a lane ---- */

/*
 * Callbacks run without the lock, so that they may call the exchange; busy keeps the lane until
 * they are through.
 */
static void leave_callback(struct symm_lane *lane)
{
    pthread_mutex_lock(&lane->x->lock);
    lane->busy--;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->x->lock);
}

static void tell_ended(struct symm_lane *lane)
{
    lane->events.ended(lane->events.user);
    leave_callback(lane);
}

void symm__lane_abort(struct symm_lane *lane, symm_status status, const char *text)
{
    struct symm_message m = {
        .type = SYMM_MESSAGE_ABORT, .lane = lane->key, .status = status, .reason = text};
    struct symm_exchange *x = lane->x;

    if (atomic_load_explicit(&lane->status, memory_order_acquire) == SYMM_OK)
        symm__exchange_send(x, &m);
    pthread_mutex_lock(&x->lock);
    bool tell = end_lane(lane, status, text);
    /* The hub hears of it before this rank's kernels do: see symm__lane_confirm. */
    if (tell && !symm__link_idle(&x->link)) {
        lane->busy--;
        lane->tell_by_us = symm__now_us() + SYMM_HUB_ANSWER_US;
        tell = false;
    }
    pthread_mutex_unlock(&x->lock);
    if (tell)
        tell_ended(lane);
}

symm_status symm__lane_check(struct symm_lane *lane)
{
    symm_status status = atomic_load_explicit(&lane->status, memory_order_acquire);

    return status == SYMM_OK ? status : symm__fail(status, "%s", lane->reason);
}

/*
 * Lock held. An end that came from elsewhere: acted on at once, or later where a test wants ranks
 * to differ.
 */
static void schedule_end(struct symm_lane *lane, symm_status status, const char *reason)
{
    if (lane->end_at_us)
        return;
    lane->end_at_us = symm__now_us() + (lane->live ? lane->x->abort_delay_us : 0);
    lane->end_status = status;
    snprintf(lane->end_reason, sizeof lane->end_reason, "%s", reason);
}

/* Lock held. A lane of which something is due now; *next: when something of another one will be. */
static struct symm_lane *find_due(struct symm_exchange *x, int64_t *next)
{
    const bool sent = symm__link_idle(&x->link);
    int64_t now = symm__now_us();

    *next = SYMM_NEVER;
    for (struct symm_lane *lane = x->lanes; lane; lane = lane->next) {
        bool ended = atomic_load(&lane->status) != SYMM_OK;
        int64_t due = ended ? lane->tell_by_us : lane->end_at_us;
        if (due && (due <= now || (ended && sent)))
            return lane;
        if (due && due < *next)
            *next = due;
    }
    return NULL;
}

/*
 * Lock held. The owner of this lane hears of the end now: the ABORT is sent, or the hub has not
 * taken it in time. Then this rank hangs up, so that the hub ends its lanes all the same once it
 * has read what lies in the socket.
 */
static void allow_telling(struct symm_lane *lane)
{
    struct symm_exchange *x = lane->x;

    lane->tell_by_us = 0;
    lane->busy++;
    if (symm__link_idle(&x->link))
        return;
    x->hub_deaf = true;
    symm__link_hang_up(&x->link);
}

int64_t symm__lanes_end_due(struct symm_exchange *x)
{
    struct symm_lane *lane;
    int64_t next;

    pthread_mutex_lock(&x->lock);
    while ((lane = find_due(x, &next))) {
        bool tell = true;
        if (lane->tell_by_us)
            allow_telling(lane);
        else
            tell = end_lane(lane, lane->end_status, lane->end_reason);
        if (tell) {
            pthread_mutex_unlock(&x->lock);
            tell_ended(lane);
            pthread_mutex_lock(&x->lock);
        }
    }
    pthread_mutex_unlock(&x->lock);
    return next;
}

void symm__lanes_lost(struct symm_exchange *x)
{
    const char *fate = x->hub_left    ? "has left"
                       : x->hub_deaf  ? "does not answer"
                       : x->hub_exits ? SYMM_EXITED
                                      : "died";

    pthread_mutex_lock(&x->lock);
    x->lost = true;
    snprintf(x->lost_reason, sizeof x->lost_reason, "rank 0 (pid %d) %s", (int)x->hub_pid, fate);
    for (struct symm_lane *lane = x->lanes; lane; lane = lane->next)
        schedule_end(lane, SYMM_ERROR_PEER, x->lost_reason);
    pthread_mutex_unlock(&x->lock);
}

/* ---- What the hub says ---- */

/*
 * Lock held. Hands the result to whoever waits for it; descriptors that nobody wants stay in m, to
 * be closed.
 */
static void take_result(struct symm_lane *lane, struct symm_message *m)
{
    struct symm_wait *wait = lane->wait;

    if (!wait || wait->done || m->seq != lane->seq)
        return;
    if (m->op == SYMM_RESULT_SETTLED && wait->frees > atomic_load(&lane->x->settled))
        atomic_store(&lane->x->settled, wait->frees);
    wait->verdict = m->status;
    snprintf(wait->text, sizeof wait->text, "%s", m->reason);
    if (m->status == SYMM_OK && m->payload_nbytes != wait->nbytes) {
        wait->verdict = SYMM_ERROR_MISMATCH;
        snprintf(wait->text, sizeof wait->text, "rank 0 answers with %zu bytes in place of %zu",
                 m->payload_nbytes, wait->nbytes);
    } else if (m->status == SYMM_OK) {
        struct symm_step *step = wait->step;
        memcpy(step->answer, m->args, sizeof step->answer);
        if (wait->makes)
            memcpy(&lane->key, m->payload, sizeof lane->key);
        if (step->all)
            memcpy(step->all, m->payload, m->payload_nbytes);
        int n = 0;
        for (int i = 0; step->fds && i < lane->nranks; i++)
            step->fds[i] = symm__rank_set_has(m->set, i) && n < m->nfds ? m->fds[n++] : -1;
        for (int i = 0; i < n; i++)
            m->fds[i] = -1;
    }
    lane->live |= wait->verdict == SYMM_OK && lane->key != SYMM_LANE_JOIN;
    wait->done = true;
    pthread_cond_broadcast(&lane->changed);
}

/* Lock held on entry, not on return: the owner is called without it. */
static void call_owner(struct symm_lane *lane, const struct symm_message *m)
{
    struct symm_lane_events events = lane->events;
    struct symm_message answer = {
        .type = SYMM_MESSAGE_TOLD, .lane = lane->key, .seq = m->seq, .args = {m->args[0]}};
    struct symm_doing doing = {.awaits = -1};
    int place = 0;

    lane->busy++;
    pthread_mutex_unlock(&lane->x->lock);
    if (m->type == SYMM_MESSAGE_ASKED) {
        if (events.doing)
            events.doing(events.user, &doing);
        symm__doing_write(&doing, &answer);
        symm__exchange_send(lane->x, &answer);
    } else if (events.told) {
        while (place < lane->nranks && (uint64_t)lane->ranks[place] != m->args[0])
            place++;
        symm__doing_read(m, &doing);
        if (place < lane->nranks)
            events.told(events.user, place, &doing);
    }
    leave_callback(lane);
}

void symm__lane_message(struct symm_exchange *x, struct symm_message *m)
{
    pthread_mutex_lock(&x->lock);
    struct symm_lane *lane = x->lanes;
    while (lane && lane->key != m->lane)
        lane = lane->next;
    if (!lane) {
        /* closed here while the message was under way */
    } else if (m->type == SYMM_MESSAGE_RESULT) {
        take_result(lane, m);
    } else if (m->type == SYMM_MESSAGE_CONFIRMED) {
        lane->confirmed = m->seq;
        pthread_cond_broadcast(&lane->changed);
    } else if (m->type == SYMM_MESSAGE_QUIET) {
        lane->quiet = true;
        pthread_cond_broadcast(&lane->changed);
    } else if (m->type == SYMM_MESSAGE_ENDED) {
        schedule_end(lane, m->status, m->reason);
    } else if (m->type == SYMM_MESSAGE_LATE && lane->wait && lane->seq == m->seq) {
        pthread_mutex_unlock(&x->lock);
        symm__log(x->config.log, SYMM_LOG_WARNING, "waiting for %s", m->reason); /* may abort */
        return;
    } else if (m->type == SYMM_MESSAGE_ASKED || (m->type == SYMM_MESSAGE_TOLD && lane->live)) {
        call_owner(lane, m);
        return;
    }
    pthread_mutex_unlock(&x->lock);
}

void symm__lane_ask(struct symm_lane *lane, int rank)
{
    struct symm_message m = {
        .type = SYMM_MESSAGE_ASK, .lane = lane->key, .args = {(uint64_t)lane->ranks[rank]}};

    symm__exchange_send(lane->x, &m);
}
