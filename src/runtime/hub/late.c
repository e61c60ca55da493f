/*
 * Whom a step waits for, and what the ranks do instead. When a rank reports that a step is slow, or
 * that its time is over, the hub asks all ranks of the lane what they do, and answers when all have
 * told, or after a while without those that have not.
 */
#include "state.h"

#include <stdlib.h>
#include <string.h>
#include "runtime/comm/doing.h"

enum {
    TELL_US = 1000000
}; /* how long a rank may take: it is alive, or the lane would have ended */

struct symm_hub_inquiry {
    uint64_t id;
    int64_t until_us;
    int by; /* the place of a rank that waits: the first whose time was over, if any */
    bool expired;
    uint64_t expired_ms;
    struct symm_rank_set slow;   /* who wants a LATE */
    struct symm_rank_set silent; /* who has been asked and has not told yet */
    struct symm_doing doing[];   /* by place */
};

/* ---- The text ---- */

static void separate(struct symm_text *text)
{
    if (text->used)
        symm__text_add(text, "; ");
}

/* "symm_alloc(4 bytes)" and the step "symm_alloc(4 bytes): share". */
static bool same_call(const char *call, const char *step)
{
    size_t n = strcspn(call, "(");

    return !strncmp(call, step, n) && (!step[n] || strchr("(:", step[n]));
}

/* Where in the lane the rank stands that this one's device waits for; -1: it waits for none. */
static int awaited_by(const struct symm_hub_lane *lane, int place)
{
    const struct symm_doing *doing = &lane->inquiry->doing[place];

    return doing->kind == SYMM_DOING_WAIT ? symm__hub_place_of(lane, doing->awaits) : -1;
}

/*
 * Whether a rank that has not come is not to blame: it waits for one that has, or works in the same
 * call.
 */
static bool excused(const struct symm_hub_lane *lane, int place)
{
    const struct symm_hub_inquiry *inquiry = lane->inquiry;
    const struct symm_doing *doing = &inquiry->doing[place];
    int awaited = awaited_by(lane, place);

    if (doing->kind == SYMM_DOING_CALL)
        return same_call(doing->text, lane->came[inquiry->by]->text);
    return awaited >= 0 && lane->came[awaited];
}

/* In which step of another lane the rank waits; NULL: in none. */
static const char *waits_elsewhere(const struct symm_hub *hub, int rank)
{
    for (const struct symm_hub_lane *lane = hub->lanes; lane; lane = lane->next) {
        int place = symm__hub_place_of(lane, rank);
        if (place >= 0 && lane->came[place])
            return lane->came[place]->text;
    }
    return NULL;
}

/* What a rank that has not come does instead: as it says, or as far as the hub knows. */
static void add_missing(struct symm_text *text, const struct symm_hub *hub,
                        const struct symm_hub_lane *lane, int place)
{
    const struct symm_doing *doing = &lane->inquiry->doing[place];
    const int rank = lane->ranks[place];
    const char *elsewhere = doing->kind == SYMM_DOING_WAIT ? NULL : waits_elsewhere(hub, rank);

    separate(text);
    if (symm__rank_set_has(lane->inquiry->silent, rank))
        symm__text_add(text, "rank %d does not answer; ", rank);
    if (elsewhere)
        symm__text_add(text, "rank %d waits in %.*s, on another group", rank, SYMM_HUB_CALL_SHOWN,
                       elsewhere);
    else if (doing->kind == SYMM_DOING_CALL)
        symm__text_add(text, "rank %d is still working in %s", rank, doing->text);
    else if (*doing->text)
        symm__doing_add(text, rank, doing);
    else if (*hub->ranks[rank].last_done)
        symm__text_add(text, "the last call that rank %d finished is %.*s", rank,
                       SYMM_HUB_CALL_SHOWN, hub->ranks[rank].last_done);
    else
        symm__text_add(text, "rank %d has finished no call yet", rank);
}

/* "rank 2 is in symm_context_destroy() since 3000 ms, after call 5: symm_all_reduce(...)" */
static void add_comer(struct symm_text *text, const struct symm_hub_lane *lane, int place)
{
    const struct symm_hub_inquiry *inquiry = lane->inquiry;

    separate(text);
    symm__text_add(text, "rank %d is in %.*s", lane->ranks[place], SYMM_HUB_CALL_SHOWN,
                   lane->came[place]->text);
    if (place == inquiry->by)
        symm__text_add(text, " since %llu ms", (unsigned long long)inquiry->expired_ms);
    if (*inquiry->doing[place].enqueued)
        symm__text_add(text, ", after %s", inquiry->doing[place].enqueued);
}

/* Who is excused, and behind the first of them, so that it is not cut off, whom they wait for. */
static void add_excused(struct symm_text *text, const struct symm_hub *hub,
                        const struct symm_hub_lane *lane)
{
    struct symm_rank_set named = {{0}};

    for (int i = 0; i < lane->nranks; i++) {
        if (lane->came[i] || !excused(lane, i))
            continue;
        int comer = awaited_by(lane, i) < 0 ? lane->inquiry->by : awaited_by(lane, i);
        add_missing(text, hub, lane, i);
        if (!symm__rank_set_has(named, lane->ranks[comer]))
            add_comer(text, lane, comer);
        symm__rank_set_add(&named, lane->ranks[comer]);
    }
}

/* "rank 1 did not come to symm_trim() within 3000 ms; the last call of rank 1 is ..." */
static void say_expired(struct symm_text *text, const struct symm_hub *hub,
                        const struct symm_hub_lane *lane)
{
    const struct symm_hub_inquiry *inquiry = lane->inquiry;
    struct symm_rank_set blamed = {{0}};

    for (int i = 0; i < lane->nranks; i++)
        if (!lane->came[i] && !excused(lane, i))
            symm__rank_set_add(&blamed, lane->ranks[i]);
    if (!symm__rank_set_empty(blamed)) {
        symm__text_add_ranks(text, blamed);
        symm__text_add(text, " did not come to %.*s within %llu ms", SYMM_HUB_CALL_SHOWN,
                       lane->came[inquiry->by]->text, (unsigned long long)inquiry->expired_ms);
    }
    for (int i = 0; i < lane->nranks; i++)
        if (symm__rank_set_has(blamed, lane->ranks[i]))
            add_missing(text, hub, lane, i);
    add_excused(text, hub, lane);
}

/* "rank 1 in symm_trim(); the last call of rank 1 is ..." */
static void say_slow(struct symm_text *text, const struct symm_hub *hub,
                     const struct symm_hub_lane *lane)
{
    struct symm_rank_set missing = {{0}};

    for (int i = 0; i < lane->nranks; i++)
        if (!lane->came[i])
            symm__rank_set_add(&missing, lane->ranks[i]);
    symm__text_add_ranks(text, missing);
    symm__text_add(text, " in %.*s", SYMM_HUB_CALL_SHOWN, lane->came[lane->inquiry->by]->text);
    for (int i = 0; i < lane->nranks; i++)
        if (!lane->came[i])
            add_missing(text, hub, lane, i);
}

/* ---- The inquiry ---- */

void symm__hub_forget_inquiry(struct symm_hub *hub, struct symm_hub_lane *lane)
{
    hub->ninquiries -= lane->inquiry != NULL;
    free(lane->inquiry);
    lane->inquiry = NULL;
}

static void finish(struct symm_hub *hub, struct symm_hub_lane *lane)
{
    struct symm_hub_inquiry *inquiry = lane->inquiry;
    struct symm_text text = {.used = 0};
    struct symm_message late = {.type = SYMM_MESSAGE_LATE, .seq = lane->seq + 1};

    if (inquiry->expired) {
        say_expired(&text, hub, lane);
        symm__hub_end_lane(hub, lane, SYMM_ERROR_TIMEOUT, text.bytes);
        return;
    }
    say_slow(&text, hub, lane);
    late.reason = text.bytes;
    for (int i = 0; i < lane->nranks; i++) {
        struct symm_hub_client *client = hub->ranks[lane->ranks[i]].client;
        late.lane = symm__hub_key_for(lane, i);
        if (client && symm__rank_set_has(inquiry->slow, lane->ranks[i]))
            symm__hub_send(hub, client, &late);
    }
    symm__hub_forget_inquiry(hub, lane);
}

/* A rank that has not come to a lane that is being made knows only its parent. */
static const struct symm_hub_lane *asks_on(struct symm_hub *hub, const struct symm_hub_lane *lane)
{
    return lane->formed ? lane : symm__hub_find_lane(hub, -1, lane->parent);
}

static void ask(struct symm_hub *hub, const struct symm_hub_lane *lane)
{
    struct symm_hub_inquiry *inquiry = lane->inquiry;
    const struct symm_hub_lane *on = asks_on(hub, lane);
    struct symm_message m = {.type = SYMM_MESSAGE_ASKED,
                             .lane = on ? on->key : SYMM_LANE_WORLD,
                             .seq = inquiry->id,
                             .args = {SYMM_ASKED_BY_HUB}};

    for (int i = 0; i < lane->nranks; i++) {
        struct symm_hub_client *client = hub->ranks[lane->ranks[i]].client;
        if (!client || client->over || !on || symm__rank_set_has(on->gone, lane->ranks[i]))
            continue;
        symm__rank_set_add(&inquiry->silent, lane->ranks[i]);
        symm__hub_send(hub, client, &m);
    }
}

static bool inquire(struct symm_hub *hub, struct symm_hub_lane *lane, int by)
{
    struct symm_hub_inquiry *inquiry =
        calloc(1, sizeof *inquiry + (size_t)lane->nranks * sizeof inquiry->doing[0]);

    if (!inquiry)
        return false;
    inquiry->id = ++hub->last_inquiry;
    inquiry->until_us = symm__now_us() + TELL_US;
    inquiry->by = by;
    lane->inquiry = inquiry;
    hub->ninquiries++;
    ask(hub, lane);
    return true;
}

void symm__hub_late(struct symm_hub *hub, struct symm_hub_client *client,
                    struct symm_hub_lane *lane, const struct symm_message *m)
{
    int place = symm__hub_place_of(lane, client->rank);

    if (place < 0 || !lane->came[place] || m->seq != lane->seq + 1)
        return; /* the result is on its way */
    if (!lane->inquiry && !inquire(hub, lane, place)) {
        symm__hub_end_lane(hub, lane, SYMM_ERROR_MEMORY, "rank 0 has no memory for a question");
        return;
    }
    if (m->type == SYMM_MESSAGE_SLOW) {
        symm__rank_set_add(&lane->inquiry->slow, client->rank);
    } else if (!lane->inquiry->expired) {
        lane->inquiry->expired = true;
        lane->inquiry->expired_ms = m->args[0];
        lane->inquiry->by = place;
    }
}

void symm__hub_told(struct symm_hub *hub, struct symm_hub_client *client,
                    const struct symm_message *m)
{
    struct symm_hub_lane *lane = hub->lanes;

    while (lane && (!lane->inquiry || lane->inquiry->id != m->seq))
        lane = lane->next;
    int place = lane ? symm__hub_place_of(lane, client->rank) : -1;
    if (place < 0)
        return; /* too late */
    symm__doing_read(m, &lane->inquiry->doing[place]);
    symm__rank_set_remove(&lane->inquiry->silent, client->rank);
}

void symm__hub_late_tick(struct symm_hub *hub)
{
    int64_t now = hub->ninquiries ? symm__now_us() : 0;

    for (struct symm_hub_lane *lane = hub->lanes; lane && hub->ninquiries; lane = lane->next)
        if (lane->inquiry &&
            (symm__rank_set_empty(lane->inquiry->silent) || now >= lane->inquiry->until_us))
            finish(hub, lane);
}
