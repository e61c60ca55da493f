/* Drawing a round. */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include "draw.h"
#include "leaks.h"
#include "test.h"

enum {
    PATIENT_MS = 10000,      /* where nothing should time out */
    SLOW_PATIENT_MS = 30000, /* the same with a sanitizer */
    IMPATIENT_MS = 1500,     /* where something must */
    SHORT_STOP_MS = 300,
    ACTIONS_MOST = 25,
    MOMENTS_US = 400000, /* how long after a life began something may happen */
    ABORT_US = 20000,    /* and after an action */
    DEAF_MS = 40,
};

/*
 * Together less than the 3 s for which a rank that leaves waits for the kernels of the others: the
 * emulated kernels of a stopped rank stop, too, and would find unbound memory later.
 */
enum { LEAST_LONG_STOP_MS = IMPATIENT_MS / 2, MORE_LONG_STOP_MS = IMPATIENT_MS };

static const struct {
    bool loses;
    const char *text;
} kinds[] = {
#define KIND_(name, loses, text) {loses, text},
    STORM_EVENT_KINDS(KIND_)
#undef KIND_
};

bool plan_loses(enum storm_event_kind kind)
{
    return kinds[kind].loses;
}

const char *plan_event_text(enum storm_event_kind kind)
{
    return kinds[kind].text;
}

/* ---- One life ---- */

static bool needs_timeout(enum storm_event_kind kind)
{
    return kind == STORM_SKIP || kind == STORM_LONG_STOP || kind == STORM_LEAVE;
}

static bool aborts(enum storm_event_kind kind)
{
    return kind == STORM_ABORT || kind == STORM_ABORT_ALL;
}

/* A third are aborts: what they do depends most on the moment. */
static enum storm_event_kind draw_kind(struct draw *d)
{
    if (draw_below(d, 3) == 0)
        return draw_below(d, 2) ? STORM_ABORT : STORM_ABORT_ALL;
    return (enum storm_event_kind)draw_below(d, STORM_EVENTS_KNOWN);
}

static bool has_long_stop(const struct storm_life *life)
{
    for (int i = 0; i < life->nevents; i++)
        if (life->events[i].kind == STORM_LONG_STOP)
            return true;
    return false;
}

static struct storm_event draw_event(struct draw *d, const struct storm_life *life)
{
    static const int codes[] = {2, 999, 801, 304}; /* no memory, unknown, not supported, system */
    struct storm_event e = {
        .kind = draw_kind(d),
        /* Rank 0 has the hub: a third of all events hit it. */
        .rank = life->ranks[draw_below(d, 3) ? draw_below(d, (uint32_t)life->nranks) : 0],
        .action = (int)draw_below(d, (uint32_t)life->nactions),
        .nth = 1 + (int)draw_below(d, draw_below(d, 2) ? 20 : 300),
        .code = codes[draw_below(d, 4)],
    };
    if (e.kind == STORM_LONG_STOP && has_long_stop(life)) /* two would add up */
        e.kind = STORM_STOP;
    e.after_us = (int)draw_below(d, aborts(e.kind)     ? ABORT_US / (draw_below(d, 2) ? 1 : 100)
                                    : draw_below(d, 2) ? MOMENTS_US / 10
                                                       : MOMENTS_US);
    if (aborts(e.kind))
        e.stop_ms = draw_below(d, 2) ? (int)draw_below(d, DEAF_MS) : 0;
    else if (e.kind == STORM_STOP)
        e.stop_ms = 1 + (int)draw_below(d, SHORT_STOP_MS);
    else if (e.kind == STORM_LONG_STOP)
        e.stop_ms = LEAST_LONG_STOP_MS + (int)draw_below(d, MORE_LONG_STOP_MS);
    return e;
}

static void draw_life(struct draw *d, struct storm_life *life)
{
    life->seed = draw_next(d);
    life->nactions = 5 + (int)draw_below(d, ACTIONS_MOST);
    life->together = draw_below(d, 3) != 0;
    life->timeout_ms = leaks_sees_all() ? PATIENT_MS : SLOW_PATIENT_MS;
    life->nevents = draw_below(d, 5) ? 1 + (int)draw_below(d, STORM_EVENTS) : 0;
    for (int i = 0; i < life->nevents; i++) {
        life->events[i] = draw_event(d, life);
        if (needs_timeout(life->events[i].kind))
            life->timeout_ms = IMPATIENT_MS;
    }
}

int life_place(const struct storm_life *life, int rank)
{
    for (int i = 0; i < life->nranks; i++)
        if (life->ranks[i] == rank)
            return i;
    return -1;
}

bool life_loses(const struct storm_life *life, int rank)
{
    for (int i = 0; i < life->nevents; i++)
        if (life->events[i].rank == rank && plan_loses(life->events[i].kind))
            return true;
    return false;
}

int life_survivors(const struct storm_life *life)
{
    int n = 0;

    for (int i = 0; i < life->nranks; i++)
        n += !life_loses(life, life->ranks[i]);
    return n;
}

int life_stops_ms(const struct storm_life *life)
{
    int ms = 0;

    for (int i = 0; i < life->nevents; i++)
        ms += life->events[i].stop_ms;
    return ms;
}

bool life_times_out(const struct storm_life *life)
{
    return life->timeout_ms == IMPATIENT_MS;
}

bool life_may_end(const struct storm_life *life, uint32_t ranks)
{
    if (life_times_out(life)) /* and ranks that wait for a waiting rank do so, too */
        return true;
    for (int i = 0; i < life->nevents; i++) {
        const struct storm_event *e = &life->events[i];
        const bool hub_goes = e->rank == life->ranks[0] && plan_loses(e->kind);
        if (e->kind != STORM_STOP && (hub_goes || ranks >> e->rank & 1))
            return true;
    }
    return false;
}

/* ---- One round ---- */

static void survive(const struct storm_life *life, struct storm_life *next)
{
    next->nranks = 0;
    for (int i = 0; i < life->nranks; i++)
        if (!life_loses(life, life->ranks[i]))
            next->ranks[next->nranks++] = life->ranks[i];
}

void plan_draw(uint64_t seed, int least, int most, struct storm_plan *out)
{
    struct draw d = {seed};
    const int nlives = 1 + (int)draw_below(&d, STORM_LIVES);
    struct storm_life *life = out->lives;

    *out = (struct storm_plan){.seed = seed};
    out->nranks = least + (int)draw_below(&d, (uint32_t)(most - least + 1));
    life->nranks = out->nranks;
    for (int r = 0; r < out->nranks; r++)
        life->ranks[r] = r;
    for (draw_life(&d, life); ++out->nlives < nlives && life_survivors(life) > 0; life++) {
        survive(life, life + 1);
        draw_life(&d, life + 1);
    }
}

static bool skips(const struct storm_plan *plan)
{
    for (int i = 0; i < plan->nlives; i++)
        for (int e = 0; e < plan->lives[i].nevents; e++)
            if (plan->lives[i].events[e].kind == STORM_SKIP)
                return true;
    return false;
}

static void set_number(const char *name, unsigned long long value)
{
    char text[24];

    snprintf(text, sizeof text, "%llu", value);
    setenv(name, text, 1);
}

void plan_environment(const struct storm_plan *plan)
{
    static const char *const always[][2] = {
        {"SYMM_DRIVER", "emulated"},    {"SYMM_EMULATED_MEMORY", "32M"},
        {"SYMM_SEGMENT_BYTES", "256K"}, {"SYMM_EMULATED_GRANULARITY", "64K"},
        {"SYMM_EMULATED_LEAKS", "off"}, {"SYMM_EMULATED_SMS", "16"},
    };
    static const char *const starts[] = {"0", "4294967293", "2147483640"};
    static const char *const orders[] = {"rank", "reverse", "random"};
    static const char *const staging[] = {"1K", "16K", "64K"};
    struct draw d = {plan->seed ^ UINT64_C(0x5707)};

    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        setenv(always[i][0], always[i][1], 1);
    set_number("SYMM_EMULATED_SEED", plan->seed);
    set_number("SYMM_EMULATED_DEVICES", (unsigned)plan->nranks);
    set_number("SYMM_EMULATED_BLOCK", draw_below(&d, 2) ? 16 : 64);
    set_number("SYMM_EMULATED_WEAK", !TEST_TSAN && draw_below(&d, 4) == 0);
    set_number("SYMM_EMULATED_MULTICAST", draw_below(&d, 4) != 0);
    setenv("SYMM_EMULATED_ORDER", orders[draw_below(&d, 3)], 1);
    setenv("SYMM_EPOCH_START", starts[draw_below(&d, 3)], 1);
    setenv("SYMM_STAGING_BYTES", staging[draw_below(&d, 3)], 1);
    /* A call that pairs with another one is garbage unless the ranks compare their calls. */
    set_number("SYMM_CHECK", draw_below(&d, 2) || skips(plan));
}

void plan_print(const struct storm_plan *plan)
{
    printf("# seed %llu: %d ranks\n", (unsigned long long)plan->seed, plan->nranks);
    for (int i = 0; i < plan->nlives; i++) {
        const struct storm_life *life = &plan->lives[i];
        printf("#   life %d: %d ranks, %d actions, timeout %d ms%s", i, life->nranks,
               life->nactions, life->timeout_ms, life->together ? ", together" : "");
        for (int e = 0; e < life->nevents; e++)
            printf("; %s of rank %d at action %d or after %d us, stopped %d ms, call %d = %d",
                   plan_event_text(life->events[e].kind), life->events[e].rank,
                   life->events[e].action, life->events[e].after_us, life->events[e].stop_ms,
                   life->events[e].nth, life->events[e].code);
        printf("\n");
    }
    fflush(stdout);
}
