/* Lives. */
#include "life.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "action.h"
#include "emulated.h"
#include "leaks.h"

struct stay {
    struct actor a;
    struct slot slots[STORM_SLOTS];
    struct roster rosters[STORM_SLOTS];
    struct draw draw;
    bool over[STORM_EVENTS]; /* events that waited for an action */
    bool left;               /* before the others */
    bool tolerates;          /* leaks: a fault was in a call that gives something back */
};

/* ---- Events ---- */

/* No more faults. Whether one has left something behind. */
static bool disarm(void)
{
    const char *last = emulated_last_fault();
    const bool left = last && leaks_gives_back(last);
    emulated_set_fault(NULL);
    return left;
}

/* In place of a fault that was armed before and may have happened. */
static void arm(struct stay *s, const struct storm_event *e)
{
    char spec[48], code[16];

    s->tolerates |= disarm();
    snprintf(code, sizeof code, "%d", e->code);
    snprintf(spec, sizeof spec, "any#%d=%s", e->nth, e->kind == STORM_FAULT ? code : "kill");
    emulated_set_fault(spec);
}

/* Whether the rank itself causes events of this kind, between two actions. */
static bool happens_between(enum storm_event_kind kind)
{
    return kind == STORM_DIE || kind == STORM_EXIT || kind == STORM_FAULT ||
           kind == STORM_FATAL_FAULT || kind == STORM_LEAVE;
}

/* Runs this rank's events before its action-th action. */
static void befall(struct stay *s, int action)
{
    for (int i = 0; i < s->a.life->nevents; i++) {
        const struct storm_event *e = &s->a.life->events[i];
        if (e->rank != s->a.post->rank || e->action != action)
            continue;
        if (happens_between(e->kind))
            s->a.post->happened[e->kind]++;
        if (e->kind == STORM_DIE)
            raise(SIGKILL);
        else if (e->kind == STORM_EXIT)
            _exit(0);
        else if (e->kind == STORM_FAULT || e->kind == STORM_FATAL_FAULT)
            arm(s, e);
        else if (e->kind == STORM_LEAVE)
            s->left = true;
    }
}

/* What another thread of the rank does while this one is at an action. */
struct aborter {
    struct stay *stay;
    const struct storm_event *event;
    int slot; /* of the action: its group, or the first of all, in order */
};

static void *abort_later(void *arg)
{
    const struct aborter *aborter = arg;
    const int n = aborter->event->kind == STORM_ABORT_ALL ? STORM_SLOTS : 1;

    actor_await_moment(&aborter->stay->a, aborter->event);
    for (int i = 0; i < n; i++)
        symm_abort(aborter->stay->slots[(aborter->slot + i) % STORM_SLOTS].group,
                   "the storm ends it");
    return NULL;
}

/* The event of this kind that waited for such an action of its rank, and is over then; or NULL. */
static const struct storm_event *meet(struct stay *s, enum storm_event_kind kind,
                                      const struct action *action, int number)
{
    const struct roster *roster = &s->rosters[action->slot];

    for (int i = 0; i < s->a.life->nevents; i++) {
        const struct storm_event *e = &s->a.life->events[i];
        if (e->kind != kind || s->over[i] || number < e->action || roster->n < 2 ||
            roster_place(roster, e->rank) < 0)
            continue;
        if (kind == STORM_SKIP ? !action_can_be_missed(action) : !action_runs(action))
            continue;
        s->over[i] = true;
        return e;
    }
    return NULL;
}

/* Whether this rank skips the action. All ranks note it: results are not known from then on. */
static bool skips(struct stay *s, const struct action *action, int number)
{
    const struct storm_event *e = meet(s, STORM_SKIP, action, number);

    if (!e)
        return false;
    s->slots[action->slot].unsure = true;
    if (e->rank != s->a.post->rank)
        return false;
    s->a.post->happened[STORM_SKIP]++;
    return true;
}

/* ---- A life ---- */

/* An abort that is due at this action: a fleet makes the most of it. */
static const struct storm_event *find_abort(struct stay *s, struct action *action, int number)
{
    const struct storm_event *e = meet(s, STORM_ABORT, action, number);

    if (!e)
        e = meet(s, STORM_ABORT_ALL, action, number);
    if (e && action->seed % 2)
        action->kind = ACTION_FLEET;
    return e;
}

static void act(struct stay *s, int number)
{
    struct action action = action_draw(&s->draw, s->rosters);
    struct aborter aborter = {.stay = s, .slot = action.slot};
    pthread_t thread;
    bool aborts;

    if (skips(s, &action, number))
        return;
    aborter.event = find_abort(s, &action, number);
    if (action.kind == ACTION_FLEET)
        action.abort = aborter.event;
    aborts = aborter.event && aborter.event->rank == s->a.post->rank && !action.abort &&
             pthread_create(&thread, NULL, abort_later, &aborter) == 0;
    action_run(&s->a, s->slots, &action);
    if (aborts)
        pthread_join(thread, NULL);
}

/* Whether no rank can tell of a death: before the dead connected, or rank 0 before it listened. */
static bool never_came(const struct storm_life *life, const char *text)
{
    return life_loses(life, life->ranks[0]) ||
           (life_survivors(life) < life->nranks && strstr(text, "did not join"));
}

static void join(struct stay *s, const struct storm_plan *plan, int number)
{
    const struct storm_life *life = s->a.life;
    char session[64], device[16];
    symm_config config = {.rank = life_place(life, s->a.post->rank),
                          .nranks = life->nranks,
                          .session = session,
                          .device = device,
                          .timeout_ms = life->timeout_ms};

    snprintf(session, sizeof session, "storm-%d-%llu-%d", (int)getppid(),
             (unsigned long long)plan->seed, number);
    snprintf(device, sizeof device, "%d", s->a.post->rank);
    if (CALL(&s->a, symm_context_create(&config, &s->a.ctx)) == SYMM_ERROR_TIMEOUT &&
        never_came(life, symm_error_text()))
        actor_forget(&s->a);
    s->slots[0].group = symm_context_world(s->a.ctx);
    if (s->a.ctx && slot_open(&s->a, &s->slots[0]) != SYMM_OK)
        slot_abandon(&s->a, &s->slots[0]);
    actor_judge(&s->a, UINT32_MAX);
}

/* All actions, unless it leaves before. */
static void work(struct stay *s)
{
    for (int i = 0; i < s->a.life->nactions; i++) {
        if (i > 0)
            befall(s, i);
        if (s->left)
            return;
        act(s, i);
    }
}

static void leave(struct stay *s)
{
    for (int i = STORM_SLOTS - 1; i >= 0; i--) {
        const bool destroys = i > 0 && !s->left && draw_below(&s->draw, 2);
        slot_close(&s->a, &s->slots[i], destroys);
        actor_judge(&s->a, roster_bits(&s->slots[i].roster));
    }
    CALL_FOR(&s->a, actor_destroy_limit_ms(&s->a), symm_context_destroy(s->a.ctx));
    actor_judge(&s->a, UINT32_MAX);
}

/* Between the actions and the end: the others must not be disturbed too early. */
static void part(struct stay *s, int number)
{
    struct storm_board *board = s->a.post->board;

    if (life_loses(s->a.life, s->a.post->rank))
        raise(SIGKILL); /* what was to kill it comes too late */
    if (s->left)
        board->finished[number]++;
    else if (s->a.life->together)
        board_meet(&board->finished[number], life_survivors(s->a.life));
    if (s->a.life->nevents > 0)
        board->leaving[number] = true;
}

/* Nothing is left, and no rule of the driver was broken. */
static void look_back(struct stay *s, const struct leaks *before)
{
    static bool reported;
    char text[512];

    if (!leaks_none_since(before, text, sizeof text) && !s->tolerates && !s->a.gave_up)
        board_report(s->a.post, STORM_LEAKED, "%s", text);
    const char *rule = emulated_last_rule();
    if (rule && rule[0] && !reported && !s->a.gave_up)
        board_report(s->a.post, STORM_BROKEN, "%s", rule);
    reported = reported || (rule && rule[0]);
}

void life_run(const struct storm_plan *plan, int number, struct storm_post *post)
{
    const struct storm_life *life = &plan->lives[number];
    struct stay s = {.draw = {life->seed}};
    struct leaks before;

    actor_init(&s.a, life, post);
    s.slots[0].roster.n = life->nranks;
    memcpy(s.slots[0].roster.ranks, life->ranks, sizeof life->ranks);
    s.rosters[0] = s.slots[0].roster;
    disarm(); /* loads the driver, too */
    leaks_take(&before);
    post->life = number + 1;
    befall(&s, 0);
    join(&s, plan, number);
    if (s.a.ctx)
        work(&s);
    s.tolerates |= disarm();
    part(&s, number);
    leave(&s);
    look_back(&s, &before);
    board_meet(&post->board->over[number], life_survivors(life));
}
