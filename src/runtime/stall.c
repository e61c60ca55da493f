/*
 * Tells slow from stalled. Runs in the I/O thread, about every 50 ms; never blocks and never calls
 * the driver.
 */
#include "stall.h"

#include <stdio.h>
#include <string.h>
#include "context.h"
#include "control.h"
#include "packet_call.h"

enum {
    ANSWER_US =
        1000000, /* how long the asked rank may take: it is alive, or the lane would have ended */
    SETTLE_MS =
        5000 /* how long the I/O thread may take to end a group of which a kernel says it must */
};

void symm__stall_last_call(void *user, char *text, size_t nbytes)
{
    struct symm_group *group = user;

    pthread_mutex_lock(&group->lock);
    snprintf(text, nbytes, "%s",
             group->ncalls > 0 || group->last_call[0] ? group->last_call : "none yet");
    pthread_mutex_unlock(&group->lock);
}

/* Whether both are the ranks' call of the same number and yet not the same call. */
static bool differ(const char *mine, const char *theirs)
{
    unsigned long a, b;

    return sscanf(mine, "call %lu:", &a) == 1 && sscanf(theirs, "call %lu:", &b) == 1 && a == b &&
           strcmp(mine, theirs) != 0;
}

void symm__stall_told(void *user, int rank, const char *text)
{
    struct symm_group *group = user;
    struct symm_stall *s = &group->stall;

    if (!s->asked_us || rank != s->seen.from)
        return;
    s->answer_from = rank;
    snprintf(s->answer, sizeof s->answer, "%s", text);
}

static void ask(struct symm_group *group, int64_t now)
{
    struct symm_stall *s = &group->stall;

    s->asked_us = now;
    s->answer_from = -1;
    symm__lane_ask(group->lane, s->seen.from);
}

/* What a kernel waits for, and how far it has come. */
static int describe(const struct symm_wait_record *r, char *text, size_t nbytes)
{
    const unsigned long long at = r->pad;

    switch (r->kind) {
    case SYMM_WAIT_PACKET:
        return snprintf(text, nbytes, "a packet of rank %d at %#llx: expected flag %u, seen %u",
                        (int)r->from, at, r->expected, r->seen);
    case SYMM_WAIT_GRID:
        return snprintf(text, nbytes,
                        "the blocks of its own grid, pad %#llx channel %d: expected %u, seen %u "
                        "(all of them must be resident together)",
                        at, (int)r->channel, r->expected, r->seen);
    default:
        return snprintf(text, nbytes, "rank %d, pad %#llx channel %d: expected %u, seen %u",
                        (int)r->from, at, (int)r->channel, r->expected, r->seen);
    }
}

/*
 * Whether a wait found a packet of another call where its own must come. Only the library's own
 * packets have the call in their flags.
 */
static bool found_other_call(const struct symm_group *group, const struct symm_wait_record *r)
{
    const uint64_t first = (uint64_t)(uintptr_t)group->packets,
                   end = (uint64_t)(uintptr_t)group->staging;

    return r->kind == SYMM_WAIT_PACKET && r->pad >= first && r->pad < end &&
           symm__packet_calls_differ(r->expected, r->seen);
}

/* "rank 0 is in all_reduce(...), rank 1 in all_gather(...)" */
static int describe_calls(const struct symm_group *group, const struct symm_wait_record *r,
                          char *text, size_t nbytes)
{
    char mine[96], theirs[96];

    symm__packet_call_texts(r->expected, r->seen, mine, theirs, sizeof mine);
    return snprintf(text, nbytes, "ranks called different things: rank %d is in %s, rank %d in %s",
                    group->rank, mine, (int)r->from, theirs);
}

static void end(struct symm_group *group)
{
    const struct symm_stall *s = &group->stall;
    const struct symm_wait_record *r = &s->seen;
    const bool other_call = found_other_call(group, r);
    bool mismatch = r->kind == SYMM_WAIT_MISMATCH || other_call;
    char mine[SYMM_CALL_MAX], text[SYMM_TEXT_MAX];
    int n;

    symm__stall_last_call(group, mine, sizeof mine);
    if (other_call) {
        n = describe_calls(group, r, text, sizeof text);
    } else if (mismatch) {
        n = snprintf(text, sizeof text, "rank %d and rank %d called different things: rank %d %s",
                     group->rank, (int)r->from, group->rank, mine);
    } else {
        n = snprintf(text, sizeof text, "rank %d waits in %s for ", group->rank, mine);
        n += describe(r, text + n, sizeof text - (size_t)n);
    }
    if (s->answer_from >= 0)
        snprintf(text + n, sizeof text - (size_t)n, "; rank %d's last call: %s", s->answer_from,
                 s->answer);
    if (s->answer_from >= 0 && differ(mine, s->answer))
        mismatch = true;
    symm__lane_abort(group->lane, mismatch ? SYMM_ERROR_MISMATCH : SYMM_ERROR_TIMEOUT, text);
}

static void report(struct symm_group *group, int64_t waited_us)
{
    const struct symm_wait_record *r = &group->stall.seen;
    char mine[SYMM_CALL_MAX], what[256];

    symm__stall_last_call(group, mine, sizeof mine);
    describe(r, what, sizeof what);
    symm__log(&group->ctx->log, SYMM_LOG_WARNING,
              "rank %d has waited %.1f s for %s; its last call: %s", group->rank,
              (double)waited_us * 1e-6, what, mine);
}

/* Takes note of the record; returns whether there is one and it is that of the last look. */
static bool unchanged(struct symm_group *group, int64_t now)
{
    struct symm_stall *s = &group->stall;
    struct symm_wait_record r = {0};

    if (!symm__control_record(group->line, &r) || r.from < 0 || r.from >= group->nranks)
        r = (struct symm_wait_record){0};
    if (r.valid == s->seen.valid && r.seen == s->seen.seen)
        return r.valid != 0;
    s->seen = r;
    s->since_us = s->reported_us = now;
    s->asked_us = 0;
    return false;
}

static void judge(struct symm_group *group, int64_t now)
{
    const struct symm_context *ctx = group->ctx;
    struct symm_stall *s = &group->stall;
    int64_t waited;

    if (!unchanged(group, now))
        return;
    waited = now - s->since_us;
    if (s->asked_us) {
        if (s->answer_from >= 0 || now - s->asked_us >= ANSWER_US)
            end(group);
    } else if (s->seen.kind == SYMM_WAIT_MISMATCH || found_other_call(group, &s->seen) ||
               (ctx->timeout_ms >= 0 && waited >= ctx->timeout_ms * INT64_C(1000))) {
        if (s->seen.kind == SYMM_WAIT_GRID) /* nobody else could say anything */
            end(group);
        else
            ask(group, now);
    } else if (now - s->reported_us >= ctx->slow_ms * INT64_C(1000)) {
        s->reported_us = now;
        report(group, waited);
    }
}

void symm__stall_tick(void *user)
{
    struct symm_context *ctx = user;
    int64_t now = symm__now_us();

    pthread_mutex_lock(&ctx->groups_lock);
    for (struct symm_group *g = ctx->groups; g; g = g->next)
        if (!atomic_load(&g->ended))
            judge(g, now);
    pthread_mutex_unlock(&ctx->groups_lock);
}

void symm__stall_settle(struct symm_group *group)
{
    const symm_deadline deadline = symm__deadline_in(SETTLE_MS);
    struct symm_wait_record r;

    while (!atomic_load(&group->ended) && symm__control_record(group->line, &r) &&
           r.kind == SYMM_WAIT_MISMATCH) {
        if (symm__deadline_over(deadline))
            symm__lane_abort(group->lane, SYMM_ERROR_MISMATCH, "ranks called different things");
        symm__sleep_us(1000);
    }
}
