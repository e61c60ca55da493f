/* Runs in the I/O thread, about every 50 ms. Never blocks and never calls the driver. */
#include "stall.h"

#include <stdio.h>
#include <string.h>
#include "abort_line.h"
#include "call.h"
#include "group.h"
#include "packet_call.h"

/* Time limit of the asked rank. It is alive, else the comm would have ended. */
enum { ANSWER_US = 1000000 };

/* Time limit of the I/O thread to end a group after a mismatch. */
enum { SETTLE_MS = 5000 };

/* ---------------------------------------------------------------------------------- activity */

/* Describes a wait: its object, expected and seen values. */
static int describe(const struct symm_group *group, const struct symm_wait_record *r, char *text,
                    size_t nbytes)
{
    const unsigned long long at = r->pad;
    const int from = symm__group_world_rank(group, r->from);

    switch (r->kind) {
    case SYMM_WAIT_PACKET:
        return snprintf(text, nbytes, "rank %d, a packet at %#llx: expected flag %u, seen %u", from,
                        at, r->expected, r->seen);
    case SYMM_WAIT_PACK:
        return snprintf(text, nbytes, "rank %d, a pack at %#llx", from, at);
    case SYMM_WAIT_GRID:
        return snprintf(text, nbytes,
                        "the blocks of its own grid, pad %#llx channel %d: expected %u, seen %u "
                        "(all of them must be resident together)",
                        at, (int)r->channel, r->expected, r->seen);
    default:
        return snprintf(text, nbytes, "rank %d, pad %#llx channel %d: expected %u, seen %u", from,
                        at, (int)r->channel, r->expected, r->seen);
    }
}

/* Describes the wait seen at the last tick. Returns whether it is still in progress. */
static bool tell_wait(struct symm_group *group, struct symm_activity *out)
{
    const struct symm_stall *s = &group->stall;
    struct symm_wait_record now;
    char enqueued[SYMM_CALL_MAX];
    int n;

    if (!s->seen.valid || s->seen.kind == SYMM_WAIT_MISMATCH ||
        !symm__abort_line_record(group->line, &now) || now.valid != s->seen.valid)
        return false;
    pthread_mutex_lock(&group->lock);
    symm__enqueued_write(&group->enqueued, enqueued, sizeof enqueued);
    n = snprintf(out->text, sizeof out->text, "%s%s for ", *enqueued ? enqueued : "a kernel",
                 group->has_graphs ? ", or in a graph," : "");
    pthread_mutex_unlock(&group->lock);
    describe(group, &s->seen, out->text + n, sizeof out->text - (size_t)n);
    out->kind = SYMM_ACTIVITY_WAIT;
    out->awaits =
        s->seen.kind == SYMM_WAIT_GRID ? -1 : symm__group_domain_rank(group, s->seen.from);
    out->since_ms = (uint64_t)(symm__now_us() - s->since_us) / 1000;
    return true;
}

/*
 * Describes the group's collective call in progress; if none and `last`, its last call. Returns
 * whether one is in progress.
 */
static bool tell_call(struct symm_group *group, bool last, struct symm_activity *out)
{
    pthread_mutex_lock(&group->lock);
    bool inside = group->in_collective;
    if (inside || (last && group->collective_last))
        snprintf(out->text, sizeof out->text, "%s", group->collective);
    else if (last)
        symm__enqueued_write(&group->enqueued, out->text, sizeof out->text);
    pthread_mutex_unlock(&group->lock);
    if (inside)
        out->kind = SYMM_ACTIVITY_CALL;
    return inside;
}

static void begin_telling(struct symm_group *group, struct symm_activity *out)
{
    *out = (struct symm_activity){.awaits = -1};
    pthread_mutex_lock(&group->lock);
    symm__enqueued_write(&group->enqueued, out->enqueued, sizeof out->enqueued);
    pthread_mutex_unlock(&group->lock);
}

/*
 * Looks at this group first, then at the others. A wait of the device comes before a call of the
 * host.
 */
void symm__stall_activity(void *user, struct symm_activity *out)
{
    struct symm_group *group = user;
    struct symm_context *ctx = group->ctx;
    bool found;

    begin_telling(group, out);
    pthread_mutex_lock(&ctx->groups_lock);
    found = tell_wait(group, out);
    for (struct symm_group *g = ctx->groups; g && !found; g = g->next)
        found = tell_wait(g, out);
    found = found || tell_call(group, true, out);
    for (struct symm_group *g = ctx->groups; g && !found; g = g->next)
        found = tell_call(g, false, out);
    pthread_mutex_unlock(&ctx->groups_lock);
}

/* ----------------------------------------------------------------------------------- judging */

/* Whether two calls have the same number and differ. */
static bool differ(const char *mine, const char *theirs)
{
    unsigned long a, b;

    return sscanf(mine, "call %lu:", &a) == 1 && sscanf(theirs, "call %lu:", &b) == 1 && a == b &&
           strcmp(mine, theirs) != 0;
}

void symm__stall_told(void *user, int rank, const struct symm_activity *activity)
{
    struct symm_group *group = user;
    struct symm_stall *s = &group->stall;

    if (!s->asked_us || rank != s->seen.from)
        return;
    s->told = true;
    s->answer = *activity;
}

static void ask(struct symm_group *group, int64_t now)
{
    struct symm_stall *s = &group->stall;

    s->asked_us = now;
    s->told = false;
    symm__host_comm_ask(group->comm, s->seen.from);
}

/* Whether an address lies in the areas' packets. */
static bool is_packet(const struct symm_areas *areas, uint64_t at)
{
    return at >= (uint64_t)(uintptr_t)areas->packets && at < (uint64_t)(uintptr_t)areas->staging;
}

/*
 * Whether a wait found a packet of another call in its slot. Only the library's own packets have
 * the call in their flags.
 */
static bool found_other_call(struct symm_group *group, const struct symm_wait_record *r)
{
    bool own;

    pthread_mutex_lock(&group->lock);
    own = is_packet(&group->first, r->pad) || is_packet(&group->full, r->pad);
    pthread_mutex_unlock(&group->lock);
    return own && r->kind == SYMM_WAIT_PACKET && symm__packet_calls_differ(r->expected, r->seen);
}

/*
 * "rank 0 and rank 1 made the same call with buffers at different places (offsets in the window);
 * the last call of both is call 5: ..."
 */
static void say_places(const struct symm_group *group, const char *call, struct symm_text *text)
{
    symm__text_add(text,
                   "rank %d and rank %d made the same call with buffers at different places "
                   "(offsets in the window)%s; the last call of both is %s",
                   symm__group_world_rank(group, group->rank),
                   symm__group_world_rank(group, group->stall.seen.from),
                   group->ctx->agreed.check ? "" : ", or different calls before", call);
}

/* Whether both ranks made the same collective last. */
static bool same_last_call(const struct symm_stall *s, const struct symm_activity *mine)
{
    return s->told && strncmp(mine->enqueued, "call ", 5) == 0 &&
           strcmp(mine->enqueued, s->answer.enqueued) == 0;
}

/*
 * "ranks called different things: rank 0 is in all_reduce(...), rank 1 in all_gather(...); the last
 * call of rank 0 is call 5: ...; that of rank 1 is call 5: ..."
 */
static void say_mismatch(struct symm_group *group, const struct symm_activity *mine,
                         struct symm_text *text)
{
    const struct symm_stall *s = &group->stall;
    const struct symm_wait_record *r = &s->seen;
    const int me = symm__group_world_rank(group, group->rank),
              other = symm__group_world_rank(group, r->from);
    char my_call[96], their_call[96];

    if (found_other_call(group, r)) {
        symm__packet_call_texts(r->expected, r->seen, my_call, their_call, sizeof my_call);
        symm__text_add(text, "ranks called different things: rank %d is in %s, rank %d in %s", me,
                       my_call, other, their_call);
    } else if (same_last_call(s, mine)) {
        say_places(group, mine->enqueued, text);
        return;
    } else {
        symm__text_add(text, "rank %d and rank %d called different things", me, other);
    }
    symm__text_add(text, "; the last call of rank %d is %s", me, mine->enqueued);
    if (s->told)
        symm__text_add(text, "; that of rank %d is %s", other, s->answer.enqueued);
}

static void say_stalled(struct symm_group *group, struct symm_activity *mine,
                        struct symm_text *text)
{
    const struct symm_stall *s = &group->stall;

    tell_wait(group, mine);
    symm__activity_add(text, symm__group_world_rank(group, group->rank), mine);
    if (!s->told)
        return;
    symm__text_add(text, "; ");
    symm__activity_add(text, symm__group_world_rank(group, s->seen.from), &s->answer);
}

static void end(struct symm_group *group)
{
    const struct symm_stall *s = &group->stall;
    const bool gone = s->told && s->answer.kind == SYMM_ACTIVITY_GONE;
    struct symm_activity mine;
    struct symm_text text = {.used = 0};
    bool mismatch = s->seen.kind == SYMM_WAIT_MISMATCH || found_other_call(group, &s->seen);

    begin_telling(group, &mine);
    if (mismatch)
        say_mismatch(group, &mine, &text);
    else
        say_stalled(group, &mine, &text);
    mismatch = mismatch || (s->told && !gone && differ(mine.enqueued, s->answer.enqueued));
    symm__host_comm_abort(group->comm,
                          mismatch ? SYMM_ERROR_MISMATCH
                          : gone   ? SYMM_ERROR_PEER
                                   : SYMM_ERROR_TIMEOUT,
                          text.bytes);
}

static void report(struct symm_group *group)
{
    struct symm_activity mine;
    struct symm_text text = {.used = 0};

    begin_telling(group, &mine);
    tell_wait(group, &mine);
    symm__activity_add(&text, symm__group_world_rank(group, group->rank), &mine);
    symm__log(&group->ctx->log, SYMM_LOG_WARNING, "%s", text.bytes);
}

/* Stores the record. Returns whether there is one and it is the same as at the last tick. */
static bool unchanged(struct symm_group *group, int64_t now)
{
    struct symm_stall *s = &group->stall;
    struct symm_wait_record r = {0};

    if (!group->line || !symm__abort_line_record(group->line, &r) || r.from < 0 ||
        r.from >= group->nranks)
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
        if (s->told || now - s->asked_us >= ANSWER_US)
            end(group);
    } else if (s->seen.kind == SYMM_WAIT_MISMATCH || found_other_call(group, &s->seen) ||
               (ctx->timeout_ms >= 0 && waited >= ctx->timeout_ms * INT64_C(1000))) {
        if (s->seen.kind == SYMM_WAIT_GRID) /* this rank waits for its own blocks */
            end(group);
        else
            ask(group, now);
    } else if (now - s->reported_us >= ctx->slow_ms * INT64_C(1000)) {
        s->reported_us = now;
        report(group);
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

    if (symm__exchange_is_here(group->ctx->exchange))
        return; /* a callback of the log asks, and the thread would wait for itself */
    while (group->line && !atomic_load(&group->ended) && symm__abort_line_record(group->line, &r) &&
           r.kind == SYMM_WAIT_MISMATCH) {
        if (symm__deadline_over(deadline))
            symm__host_comm_abort(group->comm, SYMM_ERROR_MISMATCH,
                                  "ranks called different things");
        symm__sleep_us(1000);
    }
}
