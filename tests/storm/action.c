/* Actions: drawing them, groups, and host calls on a group. work.c has the stream-ordered calls. */
#include "action.h"

#include <stdlib.h>
#include <string.h>
#include "fleet.h"
#include "reference.h"
#include "work.h"

enum { ALLOC_MOST = 100000, EXCHANGE_MOST = 20000 };

/* ---- Drawing ---- */

/* Some of the parent's members, in any order. */
static struct roster draw_roster(struct draw *d, const struct roster *parent)
{
    struct roster out = *parent;

    for (int i = out.n - 1; i > 0; i--) {
        const int other = (int)draw_below(d, (uint32_t)i + 1), rank = out.ranks[i];
        out.ranks[i] = out.ranks[other];
        out.ranks[other] = rank;
    }
    if (draw_below(d, 3)) /* a third are all of them */
        out.n = 1 + (int)draw_below(d, (uint32_t)out.n);
    return out;
}

struct action action_draw(struct draw *d, struct roster rosters[STORM_SLOTS])
{
    static const enum action_kind kinds[] = {
        ACTION_CREATE,   ACTION_CREATE,   ACTION_DESTROY, ACTION_BURST, ACTION_BURST,
        ACTION_BURST,    ACTION_BURST,    ACTION_TRIAL,   ACTION_TRIAL, ACTION_RING,
        ACTION_RING,     ACTION_EXCHANGE, ACTION_ALLOC,   ACTION_ALLOC, ACTION_FREE,
        ACTION_EXCHANGE, ACTION_TRIM,     ACTION_PRODUCT, ACTION_FLEET,
    };
    struct action out = {
        .kind = kinds[draw_below(d, sizeof kinds / sizeof kinds[0])],
        .slot = (int)draw_below(d, STORM_SLOTS),
        .parent = (int)draw_below(d, STORM_SLOTS),
        .seed = draw_next(d),
    };

    if (out.slot == 0 && (out.kind == ACTION_CREATE || out.kind == ACTION_DESTROY))
        out.slot = 1;
    if (rosters[out.slot].n == 0)
        out.kind = ACTION_CREATE;
    if (out.parent == out.slot || rosters[out.parent].n == 0)
        out.parent = 0;
    if (out.kind == ACTION_CREATE)
        rosters[out.slot] = out.roster = draw_roster(d, &rosters[out.parent]);
    if (out.kind == ACTION_DESTROY)
        rosters[out.slot].n = 0;
    return out;
}

bool action_can_be_missed(const struct action *action)
{
    return action->kind != ACTION_CREATE && action->kind != ACTION_DESTROY &&
           action->kind != ACTION_FREE;
}

bool action_runs(const struct action *action)
{
    return action->kind == ACTION_BURST || action->kind == ACTION_FLEET ||
           action->kind == ACTION_TRIAL || action->kind == ACTION_PRODUCT;
}

/* ---- Groups ---- */

static void destroy(struct actor *a, struct slot *slot)
{
    slot_close(a, slot, true);
    actor_judge(a, roster_bits(&slot->roster));
    slot->roster.n = 0;
}

static void create(struct actor *a, struct slot *slot, struct slot *parent,
                   const struct roster *roster)
{
    const uint32_t ranks = roster_bits(roster) | roster_bits(&parent->roster);
    int places[STORM_RANKS];

    destroy(a, slot);
    slot->roster = *roster;
    if (!parent->group || roster_place(roster, a->post->rank) < 0)
        return;
    for (int i = 0; i < roster->n; i++)
        places[i] = roster_place(&parent->roster, roster->ranks[i]);
    CALL(a, symm_group_create(parent->group, roster->n, places, &slot->group));
    actor_judge(a, ranks);
    if (slot->group && slot_open(a, slot) != SYMM_OK)
        slot_abandon(a, slot);
    actor_judge(a, roster_bits(roster));
}

/* ---- Hosts ---- */

static symm_status exchange(struct actor *a, struct slot *slot, struct draw *d)
{
    const size_t nbytes = draw_below(d, draw_below(d, 4) ? 200 : EXCHANGE_MOST);
    const int n = symm_nranks(slot->group);
    const uint64_t round = draw_next(d) >> 28;
    char *mine = malloc(nbytes + 1), *all = malloc(nbytes * (size_t)n + 1);
    symm_status st = SYMM_ERROR_MEMORY;

    if (mine && all) {
        reference_bits(mine, nbytes, round, symm_rank(slot->group));
        st = CALL(a, symm_exchange(slot->group, mine, nbytes, all));
        for (int r = 0; r < n && st == SYMM_OK; r++)
            if (!slot->unsure &&
                reference_bits_wrong(all + (size_t)r * nbytes, nbytes, round, r) > 0)
                board_report(a->post, STORM_WRONG, "symm_exchange of %zu bytes, of rank %d of %d",
                             nbytes, r, n);
    }
    free(mine);
    free(all);
    return st;
}

/* Checks that a block still has this rank's data, and gives it back. */
static symm_status give_back(struct actor *a, struct slot *slot, struct block *block)
{
    char *got = malloc(block->nbytes + 1);
    symm_status st = CALL(a, symm_copy(got, block->at, block->nbytes, slot->b.stream));

    if (st == SYMM_OK)
        st = CALL(a, symm_synchronize(slot->group, slot->b.stream));
    if (st == SYMM_OK && reference_bits_wrong(got, block->nbytes, block->round, 0) > 0)
        board_report(a->post, STORM_WRONG, "a block of %zu bytes has changed", block->nbytes);
    free(got);
    if (st == SYMM_OK && CALL(a, symm_free(slot->group, block->at)) != SYMM_OK)
        board_report(a->post, STORM_UNJUST, "%s", a->failed);
    if (st == SYMM_OK)
        block->at = NULL;
    return st;
}

static symm_status allocate(struct actor *a, struct slot *slot, struct block *block, struct draw *d)
{
    const size_t nbytes = 1 + draw_below(d, ALLOC_MOST);
    const uint64_t round = draw_next(d) >> 28;
    symm_status st = block->at ? give_back(a, slot, block) : SYMM_OK;
    char *bytes = malloc(nbytes);

    if (st == SYMM_OK)
        st = CALL(a, symm_alloc(slot->group, nbytes, (void **)&block->at));
    if (st == SYMM_OK) {
        *block = (struct block){block->at, nbytes, round};
        reference_bits(bytes, nbytes, round, 0);
        st = CALL(a, symm_copy(block->at, bytes, nbytes, slot->b.stream));
    }
    free(bytes);
    return st;
}

/* ---- A whole plan ---- */

static symm_status run(struct actor *a, struct slot *slot, const struct action *action)
{
    struct draw d = {action->seed};
    struct block *block = &slot->blocks[draw_below(&d, SLOT_BLOCKS)];

    switch (action->kind) {
    case ACTION_FLEET:
        return fleet_run(a, slot, &d, action->abort);
    case ACTION_BURST:
        return work_burst(a, slot, &d);
    case ACTION_TRIAL:
        return work_trial(a, slot, &d);
    case ACTION_RING:
        return work_ring(a, slot, &d);
    case ACTION_PRODUCT:
        return work_product(a, slot, &d);
    case ACTION_EXCHANGE:
        return exchange(a, slot, &d);
    case ACTION_ALLOC:
        return allocate(a, slot, block, &d);
    case ACTION_FREE:
        return block->at ? give_back(a, slot, block) : SYMM_OK;
    case ACTION_TRIM:
        return CALL(a, symm_trim(slot->group));
    default:
        return SYMM_OK;
    }
}

/* A verdict of all ranks alike, after which the group goes on. */
static bool is_verdict(const struct action *action, const struct slot *slot)
{
    return (action->kind == ACTION_EXCHANGE || action->kind == ACTION_TRIM) &&
           symm_check(slot->group) == SYMM_OK;
}

void action_run(struct actor *a, struct slot slots[STORM_SLOTS], const struct action *action)
{
    struct slot *slot = &slots[action->slot];

    if (action->kind == ACTION_CREATE) {
        create(a, slot, &slots[action->parent], &action->roster);
    } else if (action->kind == ACTION_DESTROY) {
        destroy(a, slot);
    } else if (!slot->group) {
        /* this rank is not in it, or it could not be made */
    } else if (symm_check(slot->group) != SYMM_OK) {
        if (CALL(a, symm_exchange(slot->group, NULL, 0, NULL)) == SYMM_OK)
            board_report(a->post, STORM_WRONG, "symm_exchange is OK on a group that has ended");
        actor_forget(a);
    } else {
        if (run(a, slot, action) != SYMM_OK && !is_verdict(action, slot))
            slot_abandon(a, slot);
        actor_judge(a, roster_bits(&slot->roster));
    }
}
