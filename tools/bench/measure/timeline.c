/* A traced run of a product, and its events brought to rank 0. */
#include "timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "timeline_file.h"

/* The events of this rank, or their number on any rank. */
struct part {
    const symm_matmul_event *events;
    uint64_t n, dropped;
};

/* The first run loads what later ones find in caches. The ranks begin the second one together. */
static symm_status run_traced(const struct session *s, struct product_call *call, struct part *out)
{
    size_t n, dropped;
    symm_status st;

    TRY(product_prepare(call));
    TRY(product_enqueue(call));
    TRY(symm_barrier(s->group, s->stream));
    TRY(product_enqueue(call));
    TRY(symm_synchronize(s->group, s->stream));
    TRY(symm_matmul_trace(call->ours, &out->events, &n, &dropped));
    out->n = n;
    out->dropped = dropped;
out:
    return st;
}

static size_t nbytes_of(const struct part *part)
{
    return part->n * sizeof *part->events;
}

/* Rank 0 copies the events of all ranks from `symmetric`, which has room for the most. */
static symm_status collect(struct session *s, const struct part *all, char *symmetric,
                           struct timeline *out)
{
    symm_status st = SYMM_OK;

    for (int r = 0; r < s->nranks && s->rank == 0; r++) {
        struct timeline_rank *to = &out->ranks[r];
        *to = (struct timeline_rank){malloc(nbytes_of(&all[r]) + 1), all[r].n, all[r].dropped};
        if (!to->events) {
            snprintf(s->trouble, sizeof s->trouble, "no memory for the events of rank %d", r);
            return SYMM_ERROR_MEMORY;
        }
        TRY(symm_copy(to->events, symm_peer(s->group, symmetric, r), nbytes_of(&all[r]),
                      s->stream));
        TRY(symm_synchronize(s->group, s->stream));
    }
out:
    return st;
}

/* Brings all events to rank 0. Collective. */
static symm_status gather(struct session *s, const struct part *mine, struct timeline *out)
{
    struct part all[SYMM_MAX_RANKS];
    size_t most = 1;
    char *symmetric = NULL;
    symm_status st;

    TRY(symm_exchange(s->group, mine, sizeof *mine, all));
    for (int r = 0; r < s->nranks; r++)
        most = nbytes_of(&all[r]) > most ? nbytes_of(&all[r]) : most;
    TRY(symm_alloc(s->group, most, (void **)&symmetric));
    TRY(symm_copy(symmetric, mine->events, nbytes_of(mine), s->stream));
    TRY(symm_synchronize(s->group, s->stream));
    TRY(symm_exchange(s->group, NULL, 0, NULL)); /* all ranks' events are there */
    TRY(collect(s, all, symmetric, out));
    TRY(symm_exchange(s->group, NULL, 0, NULL)); /* and have been read */
    st = symm_free(s->group, symmetric);
out:
    return st;
}

/* Only rank 0 can fail; all ranks return its status. Collective. */
static symm_status write_file(struct session *s, const struct timeline *t, const char *path)
{
    int failed = s->rank == 0 && !timeline_file_write(t, path), all[SYMM_MAX_RANKS];
    symm_status st;

    if (failed)
        snprintf(s->trouble, sizeof s->trouble, "%s: %s", path, strerror(errno));
    TRY(symm_exchange(s->group, &failed, sizeof failed, all));
    if (all[0]) {
        st = SYMM_ERROR_SYSTEM;
        if (!failed)
            snprintf(s->trouble, sizeof s->trouble, "rank 0 cannot write %s", path);
    }
out:
    return st;
}

static void report(const struct session *s, const struct timeline *t, const char *path)
{
    for (int r = 0; r < s->nranks && s->rank == 0; r++) {
        report_say(s->report, "# %s: %s, rank %d: %zu events", path, t->title, r, t->ranks[r].n);
        if (t->ranks[r].dropped > 0)
            report_say(s->report, "# %s: rank %d: %zu more found no room", path, r,
                       t->ranks[r].dropped);
    }
}

symm_status timeline_make(struct session *s, const struct product_call *call, const char *path)
{
    struct product_call traced = *call;
    struct timeline t = {
        .driver = symm_context_driver(s->ctx), .one_clock = s->emulated, .nranks = s->nranks};
    struct part mine;
    char title[128];
    symm_status st;

    traced.traced = true;
    traced.ours = NULL;
    TRY(run_traced(s, &traced, &mine));
    snprintf(title, sizeof title, "%s, %d x %d x %d, %d ranks", call->variant->name, call->shape.m,
             call->shape.n, call->shape.k, s->nranks);
    t.title = title;
    TRY(gather(s, &mine, &t));
    TRY(write_file(s, &t, path));
    report(s, &t, path);
out:
    product_release(&traced);
    for (int r = 0; r < s->nranks; r++)
        free(t.ranks[r].events);
    return st;
}
