/*
 * Reports on slow and expired votes. When a rank reports that a vote is slow or has expired, the
 * hub asks all ranks of the comm for their activity. It answers when all have told, or after a time
 * limit without the rest.
 */
#include "state.h"

#include <stdlib.h>
#include <string.h>
#include "runtime/comm/activity.h"

/* Time limit of an answer. The asked rank is alive, else the comm would have ended. */
enum { TELL_US = 1000000 };

struct symm_hub_inquiry {
    uint64_t id;
    int64_t until_us;
    int by; /* comm rank of a waiting rank: the first that has expired, if any; -1: none */
    bool expired;
    bool for_root; /* the root wants to know it */
    uint64_t expired_ms;
    struct symm_rank_set slow;       /* ranks that sent SLOW */
    struct symm_rank_set silent;     /* asked ranks that have not answered */
    struct symm_activity activity[]; /* by comm rank */
};

/* ---- The text ---- */

static void separate(struct symm_text *text)
{
    if (text->used)
        symm__text_add(text, "; ");
}

/* Whether a vote belongs to a call, as "symm_alloc(4 bytes): share" to "symm_alloc(4 bytes)". */
static bool same_call(const char *call, const char *vote)
{
    size_t n = strcspn(call, "(");

    return !strncmp(call, vote, n) && (!vote[n] || strchr("(:", vote[n]));
}

/* Comm rank of the rank that this one's device waits for; -1: none. */
static int awaited_by(const struct symm_hub_comm *comm, int comm_rank)
{
    const struct symm_activity *activity = &comm->inquiry->activity[comm_rank];

    return activity->kind == SYMM_ACTIVITY_WAIT ? symm__hub_comm_rank(comm, activity->awaits) : -1;
}

/*
 * Whether a missing rank is not to blame: its device waits for a rank that has come, or its host
 * works in the same call.
 */
static bool excused(const struct symm_hub_comm *comm, int comm_rank)
{
    const struct symm_hub_inquiry *inquiry = comm->inquiry;
    const struct symm_activity *activity = &inquiry->activity[comm_rank];
    int awaited = awaited_by(comm, comm_rank);

    if (activity->kind == SYMM_ACTIVITY_CALL)
        return same_call(activity->text, comm->came[inquiry->by]->text);
    return awaited >= 0 && comm->came[awaited];
}

/* The text of the vote, on any comm, in which the rank waits; NULL: none. */
static const char *waits_elsewhere(const struct symm_hub *hub, int rank)
{
    for (const struct symm_hub_comm *comm = hub->comms; comm; comm = comm->next) {
        int comm_rank = symm__hub_comm_rank(comm, rank);
        if (comm_rank >= 0 && comm->came[comm_rank])
            return comm->came[comm_rank]->text;
    }
    return NULL;
}

/* Appends the activity of a missing rank: its own answer, else the hub's knowledge. */
static void add_missing(struct symm_text *text, const struct symm_hub *hub,
                        const struct symm_hub_comm *comm, int comm_rank)
{
    const struct symm_activity *activity = &comm->inquiry->activity[comm_rank];
    const int member = comm->ranks[comm_rank], rank = symm__hub_name(hub, member);
    const char *elsewhere =
        activity->kind == SYMM_ACTIVITY_WAIT ? NULL : waits_elsewhere(hub, member);

    separate(text);
    if (symm__rank_set_has(comm->inquiry->silent, member))
        symm__text_add(text, "rank %d does not answer; ", rank);
    if (elsewhere)
        symm__text_add(text, "rank %d waits in %.*s, on another group", rank, SYMM_HUB_CALL_SHOWN,
                       elsewhere);
    else if (activity->kind == SYMM_ACTIVITY_CALL)
        symm__text_add(text, "rank %d is still working in %s", rank, activity->text);
    else if (*activity->text)
        symm__activity_add(text, rank, activity);
    else if (*hub->ranks[member].last_done)
        symm__text_add(text, "the last call that rank %d finished is %.*s", rank,
                       SYMM_HUB_CALL_SHOWN, hub->ranks[member].last_done);
    else
        symm__text_add(text, "rank %d has finished no call yet", rank);
}

/* "rank 2 is in symm_context_destroy() since 3000 ms, after call 5: symm_all_reduce(...)" */
static void add_comer(struct symm_text *text, const struct symm_hub *hub,
                      const struct symm_hub_comm *comm, int comm_rank)
{
    const struct symm_hub_inquiry *inquiry = comm->inquiry;

    separate(text);
    symm__text_add(text, "rank %d is in %.*s", symm__hub_name(hub, comm->ranks[comm_rank]),
                   SYMM_HUB_CALL_SHOWN, comm->came[comm_rank]->text);
    if (comm_rank == inquiry->by)
        symm__text_add(text, " since %llu ms", (unsigned long long)inquiry->expired_ms);
    if (*inquiry->activity[comm_rank].enqueued)
        symm__text_add(text, ", after %s", inquiry->activity[comm_rank].enqueued);
}

/*
 * Appends the excused ranks. The rank that they wait for follows the first of them, so that
 * truncation does not lose it.
 */
static void add_excused(struct symm_text *text, const struct symm_hub *hub,
                        const struct symm_hub_comm *comm)
{
    struct symm_rank_set named = {{0}};

    for (int i = 0; i < comm->nranks; i++) {
        if (comm->came[i] || !excused(comm, i))
            continue;
        int comer = awaited_by(comm, i) < 0 ? comm->inquiry->by : awaited_by(comm, i);
        add_missing(text, hub, comm, i);
        if (!symm__rank_set_has(named, comm->ranks[comer]))
            add_comer(text, hub, comm, comer);
        symm__rank_set_add(&named, comm->ranks[comer]);
    }
}

/* "rank 1 did not reach symm_trim() within 3000 ms; the last call of rank 1 is ..." */
static void say_expired(struct symm_text *text, const struct symm_hub *hub,
                        const struct symm_hub_comm *comm)
{
    const struct symm_hub_inquiry *inquiry = comm->inquiry;
    struct symm_rank_set blamed = {{0}};

    for (int i = 0; i < comm->nranks; i++)
        if (!comm->came[i] && !excused(comm, i))
            symm__rank_set_add(&blamed, comm->ranks[i]);
    if (!symm__rank_set_empty(blamed)) {
        symm__text_add_ranks(text, blamed, hub->config.join->names);
        symm__text_add(text, " did not reach %.*s within %llu ms", SYMM_HUB_CALL_SHOWN,
                       comm->came[inquiry->by]->text, (unsigned long long)inquiry->expired_ms);
    }
    for (int i = 0; i < comm->nranks; i++)
        if (symm__rank_set_has(blamed, comm->ranks[i]))
            add_missing(text, hub, comm, i);
    add_excused(text, hub, comm);
}

/* "rank 1 in symm_trim(); the last call of rank 1 is ..." */
static void say_slow(struct symm_text *text, const struct symm_hub *hub,
                     const struct symm_hub_comm *comm)
{
    struct symm_rank_set missing = {{0}};

    for (int i = 0; i < comm->nranks; i++)
        if (!comm->came[i])
            symm__rank_set_add(&missing, comm->ranks[i]);
    symm__text_add_ranks(text, missing, hub->config.join->names);
    if (comm->inquiry->by >= 0) /* -1: the root asks, and no rank of this domain has come */
        symm__text_add(text, " in %.*s", SYMM_HUB_CALL_SHOWN, comm->came[comm->inquiry->by]->text);
    for (int i = 0; i < comm->nranks; i++)
        if (!comm->came[i])
            add_missing(text, hub, comm, i);
}

/* ---- The inquiry ---- */

void symm__hub_forget_inquiry(struct symm_hub *hub, struct symm_hub_comm *comm)
{
    hub->ninquiries -= comm->inquiry != NULL;
    free(comm->inquiry);
    comm->inquiry = NULL;
}

static void finish(struct symm_hub *hub, struct symm_hub_comm *comm)
{
    struct symm_hub_inquiry *inquiry = comm->inquiry;
    struct symm_text text = {.used = 0};
    struct symm_message late = {.type = SYMM_MESSAGE_LATE, .seq = comm->seq + 1};

    if (inquiry->expired) {
        say_expired(&text, hub, comm);
        symm__hub_end_comm(hub, comm, SYMM_ERROR_TIMEOUT, text.bytes);
        return;
    }
    say_slow(&text, hub, comm);
    if (inquiry->for_root)
        symm__hub_relay_missing(hub, comm, text.bytes);
    late.reason = text.bytes;
    for (int i = 0; i < comm->nranks; i++) {
        struct symm_hub_client *client = hub->ranks[comm->ranks[i]].client;
        late.comm = symm__hub_key_for(comm, i);
        if (client && symm__rank_set_has(inquiry->slow, comm->ranks[i]))
            symm__hub_send(hub, client, &late);
    }
    symm__hub_forget_inquiry(hub, comm);
}

/* The comm on which to ask. While a comm is being made, a missing rank knows only its parent. */
static const struct symm_hub_comm *asks_on(struct symm_hub *hub, const struct symm_hub_comm *comm)
{
    return comm->formed ? comm : symm__hub_find_comm(hub, -1, comm->parent);
}

static void ask(struct symm_hub *hub, const struct symm_hub_comm *comm)
{
    struct symm_hub_inquiry *inquiry = comm->inquiry;
    const struct symm_hub_comm *on = asks_on(hub, comm);
    struct symm_message m = {.type = SYMM_MESSAGE_ASKED,
                             .comm = on ? on->key : SYMM_COMM_WORLD,
                             .seq = inquiry->id,
                             .args = {SYMM_ASKED_BY_HUB}};

    for (int i = 0; i < comm->nranks; i++) {
        struct symm_hub_client *client = hub->ranks[comm->ranks[i]].client;
        if (!client || client->over || !on || symm__rank_set_has(on->gone, comm->ranks[i]))
            continue;
        symm__rank_set_add(&inquiry->silent, comm->ranks[i]);
        symm__hub_send(hub, client, &m);
    }
}

static bool inquire(struct symm_hub *hub, struct symm_hub_comm *comm, int by)
{
    struct symm_hub_inquiry *inquiry =
        calloc(1, sizeof *inquiry + (size_t)comm->nranks * sizeof inquiry->activity[0]);

    if (!inquiry)
        return false;
    inquiry->id = ++hub->last_inquiry;
    inquiry->until_us = symm__now_us() + TELL_US;
    inquiry->by = by;
    comm->inquiry = inquiry;
    hub->ninquiries++;
    ask(hub, comm);
    return true;
}

void symm__hub_late(struct symm_hub *hub, struct symm_hub_client *client,
                    struct symm_hub_comm *comm, const struct symm_message *m)
{
    int comm_rank = symm__hub_comm_rank(comm, client->rank);

    if (comm_rank < 0 || !comm->came[comm_rank] || m->seq != comm->seq + 1)
        return; /* the result has been sent */
    if (comm->ncame == comm->nranks) {
        symm__hub_relay_late(hub, comm, client->rank, m);
        return;
    }
    if (!comm->inquiry && !inquire(hub, comm, comm_rank)) {
        symm__hub_end_comm(hub, comm, SYMM_ERROR_MEMORY, "rank 0 has no memory for a question");
        return;
    }
    if (comm->inquiry->by < 0)
        comm->inquiry->by = comm_rank;
    if (m->type == SYMM_MESSAGE_SLOW) {
        symm__rank_set_add(&comm->inquiry->slow, client->rank);
    } else if (!comm->inquiry->expired) {
        comm->inquiry->expired = true;
        comm->inquiry->expired_ms = m->args[0];
        comm->inquiry->by = comm_rank;
    }
}

void symm__hub_late_for_root(struct symm_hub *hub, struct symm_hub_comm *comm)
{
    int by = -1;

    for (int i = 0; i < comm->nranks; i++)
        by = comm->came[i] ? i : by;
    if (comm->ncame == comm->nranks)
        symm__hub_relay_missing(hub, comm, "its contribution is on its way");
    else if (comm->inquiry || inquire(hub, comm, by))
        comm->inquiry->for_root = true;
}

void symm__hub_told(struct symm_hub *hub, struct symm_hub_client *client,
                    const struct symm_message *m)
{
    struct symm_hub_comm *comm = hub->comms;

    while (comm && (!comm->inquiry || comm->inquiry->id != m->seq))
        comm = comm->next;
    int comm_rank = comm ? symm__hub_comm_rank(comm, client->rank) : -1;
    if (comm_rank < 0)
        return; /* a late answer */
    symm__activity_read(m, &comm->inquiry->activity[comm_rank]);
    symm__rank_set_remove(&comm->inquiry->silent, client->rank);
}

void symm__hub_late_tick(struct symm_hub *hub)
{
    int64_t now = hub->ninquiries ? symm__now_us() : 0;

    for (struct symm_hub_comm *comm = hub->comms; comm && hub->ninquiries; comm = comm->next)
        if (comm->inquiry &&
            (symm__rank_set_empty(comm->inquiry->silent) || now >= comm->inquiry->until_us))
            finish(hub, comm);
}
