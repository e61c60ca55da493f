/*
 * An abort reaches the ranks one after the other. A rank that ends early spoils its input while
 * slower ranks still read it, so each group has its own chance that one of them is told OK. The
 * hub's rank is the slowest where it is stopped meanwhile, and has many aborts to hear of.
 */
#include "fleet.h"

#include <stdlib.h>
#include <string.h>
#include "exercise.h"
#include "work.h"

enum { SHIPS = 16, ROOM = 32 << 10 };

struct ship {
    symm_group *group;
    symm_stream stream;
    struct collective call;
    char *in, *out; /* in symmetric memory */
};

struct fleet {
    struct ship ships[SHIPS];
    char *memory, *host;
};

static symm_status build(struct actor *a, struct slot *slot, struct draw *d, struct fleet *f)
{
    symm_status st;

    f->host = malloc(ROOM);
    for (int i = 0; i < SHIPS; i++) {
        struct ship *ship = &f->ships[i];
        TRY(group_of_all(slot->group, &ship->group));
        TRY(symm_group_reserve(ship->group, 0)); /* so that no call waits for the other ranks */
        TRY(symm_stream_create(a->ctx, &ship->stream));
        if (i == 0) /* for all of them */
            TRY(symm_alloc(ship->group, (size_t)2 * SHIPS * ROOM, (void **)&f->memory));
        ship->in = f->memory + (size_t)2 * i * ROOM;
        ship->out = ship->in + ROOM;
        ship->call = work_draw(d, ship->group, ROOM);
        ship->call.max_blocks = 1; /* all of them must be resident together */
        if (draw_below(d, 2))
            ship->call.algo = SYMM_ALGO_ONE_SHOT; /* reads what the others have, in place */
    }
out:
    return st;
}

static symm_status load(struct actor *a, const struct fleet *f)
{
    symm_status st;

    for (const struct ship *ship = f->ships; ship < f->ships + SHIPS; ship++) {
        collective_fill(&ship->call, symm_rank(ship->group), symm_nranks(ship->group), f->host);
        TRY(symm_copy(ship->in, f->host, ROOM, ship->stream));
    }
out:
    return st;
}

/* The collectives, and the input of each spoilt right behind it. */
static symm_status launch(struct actor *a, const struct fleet *f)
{
    symm_status st;

    for (const struct ship *ship = f->ships; ship < f->ships + SHIPS; ship++) {
        TRY(collective_call(&ship->call, ship->group, ship->in, ship->out, ship->stream));
        TRY(symm_fill(ship->in, 0xff, ROOM, ship->stream));
    }
out:
    return st;
}

/* Whether the ranks compare their calls: then each call waits for the other ranks. */
static bool hosts_meet(void)
{
    return strcmp(getenv("SYMM_CHECK"), "0") != 0;
}

/* The rank that aborts is the last one, so that all of them run when it does. */
static symm_status set_out(struct actor *a, struct slot *slot, const struct fleet *f, bool last)
{
    symm_status st;

    st = load(a, f);
    if (st == SYMM_OK && !last)
        st = launch(a, f);
    if (st != SYMM_OK)
        goto out;
    TRY(symm_exchange(slot->group, NULL, 0, NULL));
    if (last)
        st = launch(a, f);
out:
    return st;
}

static symm_status await(struct actor *a, const struct slot *slot, const struct ship *ship,
                         char *host)
{
    symm_status st;

    TRY(symm_copy(host, ship->out, ROOM, ship->stream));
    TRY(symm_synchronize(ship->group, ship->stream));
    if (!slot->unsure)
        work_look(a, &ship->call, ship->group, host);
out:
    return st;
}

static void scrap(struct actor *a, struct fleet *f)
{
    for (int i = SHIPS - 1; i >= 0; i--) { /* the first one has the memory */
        symm_stream_destroy(f->ships[i].stream);
        if (f->ships[i].group)
            CALL_FOR(a, actor_destroy_limit_ms(a), symm_group_destroy(f->ships[i].group));
    }
    free(f->host);
}

static void abort_some(const struct fleet *f, int first, bool backwards)
{
    for (int i = first; i < SHIPS; i++)
        symm_abort(f->ships[backwards ? first + SHIPS - 1 - i : i].group, "the storm ends it");
}

/* Ships from `first` to before `last`, those that were launched. Returns the first failure. */
static symm_status await_all(struct actor *a, const struct slot *slot, const struct fleet *f,
                             int first, int last)
{
    symm_status st = SYMM_OK, one;

    for (int i = first; i < last && f->ships[i].stream; i++) {
        one = await(a, slot, &f->ships[i], f->host);
        st = st == SYMM_OK ? one : st;
    }
    return st;
}

symm_status fleet_run(struct actor *a, struct slot *slot, struct draw *d,
                      const struct storm_event *abort)
{
    const bool aborts = abort && abort->rank == a->post->rank;
    const int first = draw_below(d, 2) ? (int)draw_below(d, SHIPS) : 0; /* that is aborted */
    struct fleet f = {.memory = NULL};
    symm_status st, rest;

    st = build(a, slot, d, &f);
    if (st == SYMM_OK)
        st = set_out(a, slot, &f, aborts && !hosts_meet());
    if (st == SYMM_OK)
        st = await_all(a, slot, &f, 0, first);
    else /* perhaps on this rank alone: the others wait in a call of this group */
        symm_abort(slot->group, "the fleet of a rank has failed");
    if (aborts)
        actor_await_moment(a, abort);
    if (st != SYMM_OK)
        abort_some(&f, 0, false);
    else if (aborts)
        abort_some(&f, first, abort->nth % 2);
    rest = await_all(a, slot, &f, first, SHIPS);
    scrap(a, &f);
    return st == SYMM_OK ? rest : st;
}
