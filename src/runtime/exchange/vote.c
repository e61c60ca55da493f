/* Taking part in a step, as the first one of a new lane too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "state.h"
#include "runtime/base/fd.h"

size_t symm__step_max(int nranks)
{
    return SYMM_PAYLOAD_MAX / (size_t)nranks;
}

/* freed_lock held. On failure the offsets stay, for the next attempt. */
static void send_freed(struct symm_exchange *x)
{
    struct symm_message m = {.type = SYMM_MESSAGE_FREED,
                             .lane = SYMM_LANE_WORLD, /* of none: but nobody is joining any more */
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

/* Lock held. Waits for news of the lane until then. */
static void wait_until(struct symm_lane *lane, int64_t until_us)
{
    struct timespec at = {.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000};

    if (until_us == SYMM_NEVER)
        pthread_cond_wait(&lane->changed, &lane->x->lock);
    else
        pthread_cond_timedwait(&lane->changed, &lane->x->lock, &at);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

symm_status symm__lane_wait(struct symm_lane *lane, struct symm_wait *wait, symm_deadline deadline)
{
    struct symm_exchange *x = lane->x;
    int64_t slow = symm__now_us() + x->slow_us, answer = SYMM_NEVER;
    int64_t began = wait->began_us ? wait->began_us : symm__now_us();
    char text[64];

    pthread_mutex_lock(&x->lock);
    while (!wait->done && atomic_load(&lane->status) == SYMM_OK) {
        int64_t now = symm__now_us();
        struct symm_message m = {.lane = lane->key, .seq = lane->seq};
        if (now >= answer) {
            snprintf(text, sizeof text, "rank 0 (pid %d) does not answer", (int)x->hub_pid);
            pthread_mutex_unlock(&x->lock);
            symm__lane_abort(lane, SYMM_ERROR_TIMEOUT, text);
            pthread_mutex_lock(&x->lock);
        } else if (now >= deadline && answer == SYMM_NEVER) {
            m.type = SYMM_MESSAGE_EXPIRED;
            m.args[0] = (uint64_t)(now - began) / 1000;
            answer = now + SYMM_HUB_ANSWER_US + x->abort_delay_us;
        } else if (now >= slow) {
            m.type = SYMM_MESSAGE_SLOW;
            slow = now + x->slow_us;
        } else {
            wait_until(lane, earlier(slow, answer == SYMM_NEVER ? deadline : answer));
        }
        if (m.type) {
            pthread_mutex_unlock(&x->lock);
            symm__exchange_send(x, &m);
            pthread_mutex_lock(&x->lock);
        }
    }
    lane->wait = NULL;
    pthread_mutex_unlock(&x->lock);
    if (!wait->done)
        return symm__lane_check(lane);
    return wait->verdict == SYMM_OK ? SYMM_OK : symm__fail(wait->verdict, "%s", wait->text);
}

symm_status symm__lane_confirm(struct symm_lane *lane, symm_deadline deadline)
{
    struct symm_exchange *x = lane->x;
    struct symm_message m = {.type = SYMM_MESSAGE_CONFIRM, .lane = lane->key};
    symm_status st;

    TRY(symm__lane_check(lane));
    if (lane->nranks == 1)
        return SYMM_OK;
    pthread_mutex_lock(&x->lock);
    m.seq = ++lane->confirms;
    pthread_mutex_unlock(&x->lock);
    TRY(symm__exchange_send(x, &m));
    pthread_mutex_lock(&x->lock);
    while (lane->confirmed < m.seq && atomic_load(&lane->status) == SYMM_OK) {
        if (symm__deadline_over(deadline)) {
            pthread_mutex_unlock(&x->lock);
            return symm__fail(SYMM_ERROR_TIMEOUT, "rank 0 (pid %d) does not answer",
                              (int)x->hub_pid);
        }
        wait_until(lane, deadline);
    }
    pthread_mutex_unlock(&x->lock);
    st = symm__lane_check(lane);
out:
    return st;
}

bool symm__lane_quiet(struct symm_lane *lane, symm_deadline deadline)
{
    struct symm_exchange *x = lane->x;
    struct symm_message m = {.type = SYMM_MESSAGE_QUIET, .lane = lane->key};
    bool quiet = lane->nranks == 1;

    if (quiet || symm__exchange_send(x, &m) != SYMM_OK)
        return quiet;
    pthread_mutex_lock(&x->lock);
    while (!lane->quiet && !x->lost && !symm__deadline_over(deadline))
        wait_until(lane, deadline);
    quiet = lane->quiet;
    pthread_mutex_unlock(&x->lock);
    return quiet;
}

/* Brings this rank's part of a step, which m has the rest of, and waits for the verdict. */
static symm_status take_part(struct symm_lane *lane, struct symm_wait *wait, struct symm_message *m,
                             symm_deadline deadline)
{
    struct symm_exchange *x = lane->x;
    struct symm_step *step = wait->step;
    char reason[SYMM_TEXT_MAX];
    symm_status st;

    m->lane = lane->key;
    m->text = step->what;
    m->op = step->op;
    m->status = step->status;
    memcpy(m->args, step->args, sizeof m->args);
    if (m->status == SYMM_OK && step->nbytes > symm__step_max(lane->nranks))
        m->status =
            symm__fail(SYMM_ERROR_ARGUMENT, "%zu bytes are too many for one step of %d ranks",
                       step->nbytes, lane->nranks);
    if (m->status == SYMM_OK && step->fds)
        m->status = symm__fd_reserve(lane->nranks);
    if (m->status != SYMM_OK) {
        snprintf(reason, sizeof reason, "%s", symm__failure_text());
        m->reason = reason;
        m->nfds = 0;
        if (m->type == SYMM_MESSAGE_STEP)
            m->payload_nbytes = 0;
    }
    TRY(symm__lane_check(lane));

    pthread_mutex_lock(&x->lock);
    bool taken = lane->wait;
    if (!taken) {
        lane->wait = wait;
        m->seq = ++lane->seq;
    }
    pthread_mutex_unlock(&x->lock);
    if (taken)
        return symm__fail(SYMM_ERROR_STATE, "%s: another thread is in a call on this group",
                          step->what);

    pthread_mutex_lock(&x->freed_lock);
    send_freed(x);
    wait->frees = x->frees - x->nfreed;
    pthread_mutex_unlock(&x->freed_lock);
    st = symm__exchange_send(x, m);
    if (st != SYMM_OK) {
        snprintf(reason, sizeof reason, "%.960s (on rank %d)", symm__failure_text(), x->join.rank);
        symm__lane_abort(lane, st, reason);
    }
    return symm__lane_wait(lane, wait, deadline);
out:
    return st;
}

symm_status symm__lane_step(struct symm_lane *lane, struct symm_step *step, symm_deadline deadline)
{
    struct symm_wait wait = {.step = step, .nbytes = step->nbytes * (size_t)lane->nranks};
    struct symm_message m = {.type = SYMM_MESSAGE_STEP,
                             .payload = step->mine,
                             .payload_nbytes = step->nbytes,
                             .nfds = step->gives_fd,
                             .fds = {step->fd}};

    return take_part(lane, &wait, &m, deadline);
}

/* A name for a lane until it is made, different for each attempt of this rank. */
static uint64_t next_name(struct symm_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    uint64_t name = SYMM_LANE_FORMING | ++x->attempts;
    pthread_mutex_unlock(&x->lock);
    return name;
}

symm_status symm__lane_create(struct symm_lane *parent, int nranks, const int *ranks,
                              const struct symm_lane_events *events, struct symm_step *step,
                              symm_deadline deadline, struct symm_lane **out)
{
    struct symm_lane *lane = NULL;
    struct symm_wait wait = {.step = step, .nbytes = sizeof lane->key, .makes = true};
    unsigned char payload[8 + SYMM_MAX_RANKS];
    struct symm_message m = {
        .type = SYMM_MESSAGE_CREATE, .payload = payload, .payload_nbytes = 8 + (size_t)nranks};
    int world[SYMM_MAX_RANKS];
    symm_status st;

    TRY(symm__lane_check(parent));
    for (int i = 0; i < nranks; i++)
        world[i] = parent->ranks[ranks[i]];
    TRY(symm__lane_new(parent->x, next_name(parent->x), nranks, world, &lane));
    lane->events = *events;
    memcpy(payload, &parent->key, sizeof parent->key);
    for (int i = 0; i < nranks; i++)
        payload[8 + i] = (unsigned char)world[i];
    TRY(take_part(lane, &wait, &m, deadline));
    *out = lane;
    lane = NULL;
out:
    if (lane)
        symm__lane_free(lane);
    return st;
}
