/* The hub's lanes: who has come to a step with what, the verdict, and what ends a lane. */
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/comm/doing.h"
#include "runtime/base/fd.h"

int symm__hub_place_of(const struct symm_hub_lane *lane, int rank)
{
    for (int i = 0; i < lane->nranks; i++)
        if (lane->ranks[i] == rank)
            return i;
    return -1;
}

struct symm_hub_lane *symm__hub_find_lane(struct symm_hub *hub, int rank, uint64_t key)
{
    for (struct symm_hub_lane *lane = hub->lanes; lane; lane = lane->next) {
        int place = key & SYMM_LANE_FORMING ? symm__hub_place_of(lane, rank) : -1;
        if (lane->key == key || (place >= 0 && lane->names[place] == key))
            return lane;
    }
    return NULL;
}

uint64_t symm__hub_key_for(const struct symm_hub_lane *lane, int place)
{
    return lane->formed ? lane->key : lane->names[place];
}

symm_status symm__hub_lane_add(struct symm_hub *hub, uint64_t parent, int nranks, const int *ranks,
                               struct symm_hub_lane **out)
{
    struct symm_hub_lane *lane = calloc(1, sizeof *lane);

    if (!lane)
        return symm__fail(SYMM_ERROR_MEMORY, "rank 0 has no memory for a group");
    lane->key = ++hub->last_key;
    lane->parent = parent;
    lane->nranks = nranks;
    memcpy(lane->ranks, ranks, (size_t)nranks * sizeof ranks[0]);
    lane->members = symm__rank_set(nranks, ranks);
    lane->next = hub->lanes;
    hub->lanes = lane;
    *out = lane;
    return SYMM_OK;
}

/* ---- What ranks bring ---- */

/* A copy that outlives the receive buffer, with its descriptor. */
static struct symm_message *keep(struct symm_message *m)
{
    size_t text = strlen(m->text) + 1, reason = strlen(m->reason) + 1;
    struct symm_message *copy = malloc(sizeof *copy + text + reason + m->payload_nbytes);

    if (!copy)
        return NULL;
    *copy = *m;
    m->nfds = 0; /* the copy's now */
    char *at = (char *)(copy + 1);
    copy->text = memcpy(at, m->text, text);
    copy->reason = memcpy(at + text, m->reason, reason);
    copy->payload = at + text + reason;
    if (m->payload_nbytes)
        memcpy(at + text + reason, m->payload, m->payload_nbytes);
    return copy;
}

static void forget_step(struct symm_hub *hub, struct symm_hub_lane *lane)
{
    symm__hub_forget_inquiry(hub, lane);
    for (int i = 0; i < lane->nranks; i++) {
        if (lane->came[i])
            symm__fd_close_all(lane->came[i]->fds, lane->came[i]->nfds);
        free(lane->came[i]);
        lane->came[i] = NULL;
    }
    lane->ncame = 0;
}

/* ---- The end of lanes ---- */

void symm__hub_send_end(struct symm_hub *hub, struct symm_hub_lane *lane,
                        struct symm_hub_client *client)
{
    struct symm_message m = {.type = SYMM_MESSAGE_ENDED,
                             .lane =
                                 symm__hub_key_for(lane, symm__hub_place_of(lane, client->rank)),
                             .status = lane->status,
                             .reason = lane->reason};

    symm__hub_send(hub, client, &m);
}

void symm__hub_end_lane(struct symm_hub *hub, struct symm_hub_lane *lane, symm_status status,
                        const char *reason)
{
    if (lane->status != SYMM_OK)
        return;
    hub->failed = true;
    lane->status = status;
    snprintf(lane->reason, sizeof lane->reason, "%s", reason);
    for (int i = 0; i < lane->nranks; i++) {
        struct symm_hub_client *client = hub->ranks[lane->ranks[i]].client;
        bool knows = lane->formed || lane->came[i];
        if (client && !client->over && knows && !symm__rank_set_has(lane->gone, lane->ranks[i]))
            symm__hub_send_end(hub, lane, client);
    }
    forget_step(hub, lane);
    if (!lane->formed) /* nobody has it to close: forgotten, and who comes now begins anew */
        lane->gone = lane->members;
    for (struct symm_hub_lane *l = hub->lanes; l; l = l->next)
        if (l->parent == lane->key && !l->formed)
            symm__hub_end_lane(hub, l, status, lane->reason);
}

/* Why a rank is not with us any more. */
static void add_fate(struct symm_text *text, const struct symm_hub *hub, int rank)
{
    const struct symm_hub_rank *r = &hub->ranks[rank];

    if (r->fate == SYMM_HUB_DIED)
        symm__text_add(text, "rank %d (pid %d) %s", rank, (int)r->pid,
                       r->exits ? SYMM_EXITED : "died");
    else
        symm__text_add(text, "rank %d has left", rank);
}

static void abort_for(struct symm_hub *hub, struct symm_hub_lane *lane, int rank)
{
    struct symm_text text = {.used = 0};

    add_fate(&text, hub, rank);
    symm__hub_end_lane(hub, lane, SYMM_ERROR_PEER, text.bytes);
}

/* Tells those who wait for it when all that are still there are quiet. */
static void tell_quiet(struct symm_hub *hub, struct symm_hub_lane *lane)
{
    struct symm_message m = {.type = SYMM_MESSAGE_QUIET, .lane = lane->key};

    for (int i = 0; i < lane->nranks; i++)
        if (!symm__rank_set_has(lane->quiet, lane->ranks[i]) &&
            !symm__rank_set_has(lane->gone, lane->ranks[i]))
            return;
    for (int i = 0; i < lane->nranks; i++)
        if (hub->ranks[lane->ranks[i]].client && !symm__rank_set_has(lane->gone, lane->ranks[i]))
            symm__hub_send(hub, hub->ranks[lane->ranks[i]].client, &m);
}

/*
 * A rank closes a lane. Nobody is disturbed who does not wait for it: in a destroy that all ranks
 * call, some are through before the others.
 */
static void close_lane(struct symm_hub *hub, struct symm_hub_lane *lane, int rank)
{
    if (!symm__rank_set_has(lane->members, rank) || symm__rank_set_has(lane->gone, rank))
        return;
    symm__rank_set_add(&lane->gone, rank);
    if (lane->ncame || hub->ranks[rank].fate == SYMM_HUB_DIED)
        abort_for(hub, lane, rank);
    if (lane->formed)
        tell_quiet(hub, lane);
    for (struct symm_hub_lane *l = hub->lanes; l; l = l->next)
        if (l->parent == lane->key && !l->formed && symm__rank_set_has(l->members, rank))
            abort_for(hub, l, rank);
}

void symm__hub_rank_gone(struct symm_hub *hub, int rank, enum symm_hub_fate fate)
{
    struct symm_text text = {.used = 0};

    hub->ranks[rank].fate = fate;
    hub->failed |= fate == SYMM_HUB_DIED;
    if (hub->phase == SYMM_HUB_JOINING) {
        add_fate(&text, hub, rank);
        symm__text_add(&text, " while joining");
        symm__hub_refuse(hub, SYMM_ERROR_PEER, text.bytes);
    }
    for (struct symm_hub_lane *l = hub->lanes; l && hub->phase == SYMM_HUB_RUNNING; l = l->next)
        close_lane(hub, l, rank);
}

void symm__hub_sweep(struct symm_hub *hub, bool all)
{
    for (struct symm_hub_lane **at = &hub->lanes; *at;) {
        struct symm_hub_lane *lane = *at;
        if (all || symm__rank_set_within(lane->members, lane->gone)) {
            *at = lane->next;
            forget_step(hub, lane);
            free(lane);
        } else {
            at = &lane->next;
        }
    }
}

/* ---- Steps ---- */

/* A group of the same ranks in another order is another call. */
static bool same_call(const struct symm_message *a, const struct symm_message *b)
{
    return a->op == b->op && a->type == b->type && !strcmp(a->text, b->text) &&
           (a->type != SYMM_MESSAGE_CREATE || !memcmp(a->payload, b->payload, a->payload_nbytes));
}

/* "rank 0, 2: symm_alloc(4096); rank 1: symm_trim()" */
static void add_calls(struct symm_text *text, const struct symm_hub_lane *lane)
{
    struct symm_rank_set named = {{0}};

    for (int r = 0; r < SYMM_MAX_RANKS; r++) {
        struct symm_rank_set alike = {{0}};
        if (!symm__rank_set_has(lane->members, r) || symm__rank_set_has(named, r))
            continue;
        const struct symm_message *call = lane->came[symm__hub_place_of(lane, r)];
        for (int i = 0; i < lane->nranks; i++)
            if (same_call(call, lane->came[i]))
                symm__rank_set_add(&alike, lane->ranks[i]);
        symm__text_add(text, "%s", symm__rank_set_empty(named) ? "" : "; ");
        symm__text_add_ranks(text, alike);
        symm__text_add(text, ": %.*s", SYMM_HUB_CALL_SHOWN, call->text);
        for (int b = 0; b < 2; b++)
            named.bits[b] |= alike.bits[b];
    }
}

/*
 * Of a new lane whose ranks' texts are the same, perhaps because they are cut: the first place of
 * which two ranks say different things.
 */
static void add_order(struct symm_text *text, const struct symm_hub_lane *lane)
{
    const struct symm_message *a = lane->came[0], *b = a;
    size_t at = sizeof lane->key;

    for (int i = 1; i < lane->nranks && b == a; i++)
        if (!same_call(a, lane->came[i]))
            b = lane->came[i];
    if (lane->formed || strcmp(a->text, b->text) || a->op != b->op)
        return;
    const unsigned char *mine = a->payload, *theirs = b->payload;
    while (at < a->payload_nbytes && mine[at] == theirs[at])
        at++;
    if (at < a->payload_nbytes)
        symm__text_add(text, "; place %d of the new group: rank %d names rank %d, rank %d rank %d",
                       (int)(at - sizeof lane->key), a->rank, mine[at], b->rank, theirs[at]);
}

/* The verdict before the arbiter has a say. */
static symm_status judge(const struct symm_hub_lane *lane, struct symm_text *text)
{
    const struct symm_message *first = lane->came[0];

    for (int i = 1; i < lane->nranks; i++)
        if (!same_call(first, lane->came[i])) {
            symm__text_add(text, "ranks called different things: ");
            add_calls(text, lane);
            add_order(text, lane);
            return SYMM_ERROR_MISMATCH;
        }
    for (int i = 0; i < lane->nranks; i++)
        if (lane->came[i]->status != SYMM_OK) {
            symm__text_add(text, "%.960s (on rank %d)", lane->came[i]->reason, lane->ranks[i]);
            return lane->came[i]->status;
        }
    for (int i = 1; i < lane->nranks; i++)
        if (lane->came[i]->payload_nbytes != first->payload_nbytes) {
            symm__text_add(text, "%.*s: rank %d brought %zu bytes, rank %d %zu bytes",
                           SYMM_HUB_CALL_SHOWN, first->text, lane->ranks[0], first->payload_nbytes,
                           lane->ranks[i], lane->came[i]->payload_nbytes);
            return SYMM_ERROR_MISMATCH;
        }
    return SYMM_OK;
}

/* Lets the arbiter decide for the lowest rank that wants something decided. */
static symm_status arbitrate(struct symm_hub *hub, const struct symm_hub_lane *lane,
                             symm_status status, struct symm_text *text, uint64_t answer[4])
{
    const struct symm_arbiter *arbiter = &hub->config.arbiter;
    const struct symm_message *m = NULL;
    symm_status verdict;

    for (int i = 0; i < lane->nranks && !m; i++)
        m = lane->came[i]->op ? lane->came[i] : NULL;
    if (!m || !arbiter->decide)
        return status;
    verdict = arbiter->decide(arbiter->self, m->op, lane->members, status, m->args, answer);
    if (status == SYMM_OK && verdict != SYMM_OK)
        symm__text_add(text, "%s", symm__failure_text());
    return status == SYMM_OK ? verdict : status;
}

/*
 * Gathers bytes and descriptors of all ranks into one frame, which is the same for all. NULL: out
 * of memory.
 */
static struct symm_frame *gather(struct symm_hub_lane *lane, struct symm_message *result)
{
    size_t each = lane->came[0]->payload_nbytes;
    unsigned char *all = NULL;
    struct symm_frame *frame;

    if (result->status == SYMM_OK && each) {
        all = malloc(each * (size_t)lane->nranks);
        if (!all)
            return NULL;
        for (int i = 0; i < lane->nranks; i++)
            memcpy(all + (size_t)i * each, lane->came[i]->payload, each);
        result->payload = all;
        result->payload_nbytes = each * (size_t)lane->nranks;
    }
    for (int i = 0; result->status == SYMM_OK && i < lane->nranks; i++)
        if (lane->came[i]->nfds) {
            result->fds[result->nfds++] = lane->came[i]->fds[0];
            symm__rank_set_add(&result->set, i); /* by place in the lane */
            lane->came[i]->nfds = 0;
        }
    frame = symm__frame_make(result);
    free(all);
    if (frame)
        frame->owns_fds = true;
    else
        symm__fd_close_all(result->fds, result->nfds);
    return frame;
}

/* The verdict of a step, with all that was brought to it. Returns whether there was memory. */
static bool send_result(struct symm_hub *hub, struct symm_hub_lane *lane,
                        struct symm_message *result)
{
    struct symm_frame *frame = gather(lane, result);

    if (frame)
        symm__hub_send_lane(hub, lane, frame);
    return frame;
}

/* The verdict of the first step: each rank knows the lane by its own name, and hears of its key. */
static bool send_key(struct symm_hub *hub, struct symm_hub_lane *lane, struct symm_message *result)
{
    result->payload = &lane->key;
    result->payload_nbytes = sizeof lane->key;
    for (int i = 0; i < lane->nranks; i++) {
        struct symm_hub_client *client = hub->ranks[lane->ranks[i]].client;
        result->lane = lane->names[i];
        if (client && !client->over)
            symm__hub_send(hub, client, result);
    }
    return true;
}

/* Everyone has come. */
static void conclude(struct symm_hub *hub, struct symm_hub_lane *lane)
{
    const size_t each = lane->came[0]->payload_nbytes;
    struct symm_text text = {.used = 0};
    struct symm_message result = {
        .type = SYMM_MESSAGE_RESULT, .lane = lane->key, .seq = lane->seq + 1};
    symm_status status = judge(lane, &text);

    status = arbitrate(hub, lane, status, &text, result.args);
    if (hub->config.arbiter.settled && hub->config.arbiter.settled(hub->config.arbiter.self))
        result.op = SYMM_RESULT_SETTLED;
    if (status == SYMM_OK && lane->formed && each * (size_t)lane->nranks > SYMM_PAYLOAD_MAX) {
        status = SYMM_ERROR_ARGUMENT;
        symm__text_add(&text, "%zu bytes from each rank are too many for one step", each);
    }
    result.status = status;
    result.reason = status == SYMM_OK ? NULL : text.bytes;
    for (int i = 0; i < lane->nranks; i++)
        snprintf(hub->ranks[lane->ranks[i]].last_done, sizeof hub->ranks[0].last_done, "%s",
                 lane->came[i]->text);
    bool sent = lane->formed ? send_result(hub, lane, &result) : send_key(hub, lane, &result);
    if (!sent) {
        symm__hub_end_lane(hub, lane, SYMM_ERROR_MEMORY, "rank 0 has no memory for a step");
        return;
    }
    lane->seq++;
    if (status != SYMM_OK && !lane->formed)
        lane->gone = lane->members;
    lane->formed = true;
    forget_step(hub, lane);
}

void symm__hub_arrive(struct symm_hub *hub, struct symm_hub_client *client,
                      struct symm_hub_lane *lane, struct symm_message *m)
{
    int place = symm__hub_place_of(lane, client->rank);

    if (lane->status != SYMM_OK) {
        symm__hub_send_end(hub, lane, client);
        return;
    }
    if (place < 0 || lane->came[place] || m->seq != lane->seq + 1) {
        symm__hub_drop(hub, client, "takes part in a step out of turn");
        return;
    }
    lane->came[place] = keep(m);
    if (!lane->came[place]) {
        symm__hub_end_lane(hub, lane, SYMM_ERROR_MEMORY, "rank 0 has no memory for a step");
        symm__hub_send_end(hub, lane, client);
        return;
    }
    lane->ncame++;
    for (int i = 0; i < lane->nranks; i++)
        if (symm__rank_set_has(lane->gone, lane->ranks[i])) {
            abort_for(hub, lane, lane->ranks[i]);
            return;
        }
    if (lane->ncame == lane->nranks)
        conclude(hub, lane);
}

/* ---- The other messages ---- */

/* Carries a question, and the answer, between two ranks of a lane. */
static void forward(struct symm_hub *hub, struct symm_hub_client *client,
                    struct symm_hub_lane *lane, const struct symm_message *m)
{
    const struct symm_doing gone = {.kind = SYMM_DOING_GONE, .awaits = -1};
    uint64_t other = m->args[0];
    struct symm_message to_other = *m;
    struct symm_message told_gone = {.type = SYMM_MESSAGE_TOLD, .lane = lane->key, .args = {other}};

    if (other >= SYMM_MAX_RANKS || symm__hub_place_of(lane, (int)other) < 0)
        return;
    to_other.type = m->type == SYMM_MESSAGE_ASK ? SYMM_MESSAGE_ASKED : SYMM_MESSAGE_TOLD;
    to_other.args[0] = (uint64_t)client->rank;
    symm__doing_write(&gone, &told_gone);
    if (hub->ranks[other].client && !symm__rank_set_has(lane->gone, (int)other))
        symm__hub_send(hub, hub->ranks[other].client, &to_other);
    else if (m->type == SYMM_MESSAGE_ASK)
        symm__hub_send(hub, client, &told_gone);
}

static void freed(struct symm_hub *hub, int rank, const struct symm_message *m)
{
    const struct symm_arbiter *arbiter = &hub->config.arbiter;

    for (size_t at = 0; at + 8 <= m->payload_nbytes && arbiter->freed; at += 8) {
        uint64_t off;
        memcpy(&off, (const char *)m->payload + at, sizeof off);
        arbiter->freed(arbiter->self, rank, off);
    }
}

void symm__hub_lane_message(struct symm_hub *hub, struct symm_hub_client *client,
                            struct symm_message *m)
{
    struct symm_hub_lane *lane = symm__hub_find_lane(hub, client->rank, m->lane);

    if (m->type == SYMM_MESSAGE_FREED) {
        freed(hub, client->rank, m);
    } else if (m->type == SYMM_MESSAGE_CREATE) {
        symm__hub_create(hub, client, m);
    } else if (!lane || symm__hub_place_of(lane, client->rank) < 0 ||
               symm__rank_set_has(lane->gone, client->rank)) {
        return; /* a last word about a lane that is over */
    } else if (m->type == SYMM_MESSAGE_CLOSE) {
        close_lane(hub, lane, client->rank);
    } else if (m->type == SYMM_MESSAGE_QUIET) {
        symm__rank_set_add(&lane->quiet, client->rank);
        tell_quiet(hub, lane);
    } else if (lane->status != SYMM_OK) {
        symm__hub_send_end(hub, lane, client);
    } else if (m->type == SYMM_MESSAGE_STEP) {
        symm__hub_arrive(hub, client, lane, m);
    } else if (m->type == SYMM_MESSAGE_CONFIRM) {
        symm__hub_ask(hub, lane, symm__hub_place_of(lane, client->rank), m->seq);
    } else if (m->type == SYMM_MESSAGE_ABORT) {
        symm__hub_end_lane(hub, lane, m->status == SYMM_OK ? SYMM_ERROR_PEER : m->status,
                           m->reason);
    } else if (m->type == SYMM_MESSAGE_SLOW || m->type == SYMM_MESSAGE_EXPIRED) {
        symm__hub_late(hub, client, lane, m);
    } else if (m->type == SYMM_MESSAGE_TOLD && m->args[0] == SYMM_ASKED_BY_HUB) {
        symm__hub_told(hub, client, m);
    } else {
        forward(hub, client, lane, m);
    }
}
