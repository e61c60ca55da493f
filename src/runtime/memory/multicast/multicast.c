/*
 * Creates multicast objects. Each driver result travels as a report in the next vote, so a failure
 * does not fail the vote. All ranks read the same reports and reach the same result: multicast, or
 * no multicast with the reason of the first failing rank. Bind and map block in the driver until
 * every device is added. So no rank calls them before the reports show that.
 */
#include "runtime/memory/state.h"

#if SYMM_MULTICAST

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/fd.h"
#include "binding.h"
#include "report.h"

/* Most segments bound to a new object; the others stay without multicast. */
enum { OFFERED_MAX = 60 };

struct symm_reason {
    struct symm_reason *next;
    char text[];
};

/* Copies a reason so that it lives as long as the memory; keeps each text once. */
static const char *keep_reason(struct symm_memory *m, const char *text)
{
    struct symm_reason *r;

    pthread_rwlock_wrlock(&m->lock);
    for (r = m->reasons; r && strcmp(r->text, text) != 0; r = r->next)
        ;
    if (!r) {
        r = malloc(sizeof *r + strlen(text) + 1);
        if (r) {
            strcpy(r->text, text);
            r->next = m->reasons;
            m->reasons = r;
        }
    }
    pthread_rwlock_unlock(&m->lock);
    return r ? r->text : "multicast setup failed, and host memory is out";
}

/*
 * A rank's contribution to the first vote: its object of these ranks and the segments it could
 * bind.
 */
struct offer {
    uint64_t object; /* 0: none */
    uint64_t n;
    uint64_t off[OFFERED_MAX];
};

struct setup {
    struct symm_memory *m;
    struct symm_host_comm *comm;
    const char *call;
    char text[96]; /* of the vote in progress */
    int n;
    struct symm_multicast *mc;
    bool shared;                                /* mc existed before */
    struct symm_segment *segments[OFFERED_MAX]; /* with a reference each */
    size_t nsegments;
    struct symm_multicast_report mine, *all;
    char why[256]; /* the reason for no multicast; empty: none */
};

/* The text of a vote: "symm_group_create: multicast offer". */
static const char *text_of(struct setup *u, const char *step)
{
    snprintf(u->text, sizeof u->text, "%.*s: multicast %s", (int)strcspn(u->call, "(:"), u->call,
             step);
    return u->text;
}

/*
 * Collects the segments that all of these ranks have. Segments of exactly these ranks come first,
 * in case of too many.
 */
static void collect_segments(struct setup *u)
{
    struct symm_memory *m = u->m;
    struct symm_rank_set members = symm__host_comm_members(u->comm);

    pthread_rwlock_wrlock(&m->lock);
    for (int covering = 0; covering < 2; covering++)
        for (struct symm_segment *s = m->segments; s && u->nsegments < OFFERED_MAX; s = s->next) {
            bool equal = symm__rank_set_equal(members, s->members);
            bool fits = covering ? !equal && symm__rank_set_within(members, s->members) : equal;
            if (s->hidden || !fits)
                continue;
            s->refs++;
            u->segments[u->nsegments++] = s;
        }
    pthread_rwlock_unlock(&m->lock);
}

static bool offered(const struct offer *o, uint64_t off)
{
    for (uint64_t i = 0; i < o->n && i < OFFERED_MAX; i++)
        if (o->off[i] == off)
            return true;
    return false;
}

/*
 * Keeps the segments that all ranks have offered. Another thread may be creating or trimming one.
 */
static void keep_common(struct setup *u, const struct offer *all)
{
    size_t kept = 0;

    for (size_t i = 0; i < u->nsegments; i++) {
        bool common = true;
        for (int r = 0; r < u->n; r++)
            common = common && offered(&all[r], u->segments[i]->off);
        if (common)
            u->segments[kept++] = u->segments[i];
        else
            symm__memory_put_segment(u->m, u->segments[i]);
    }
    u->nsegments = kept;
}

/* The first vote: the ranks share an existing object or create a new one. */
static symm_status offer(struct setup *u)
{
    symm_status st = SYMM_OK;
    struct symm_multicast *mc = symm__multicast_object_get(u->m, symm__host_comm_members(u->comm));
    struct offer mine = {.object = mc ? mc->id : 0};
    struct offer *all = calloc((size_t)u->n, sizeof *all);
    struct symm_vote vote = {
        .text = text_of(u, "offer"), .mine = &mine, .nbytes = sizeof mine, .all = all};
    bool same = mc != NULL;

    u->all = calloc((size_t)u->n, sizeof *u->all);
    if (!all || !u->all)
        vote.status = symm__fail(SYMM_ERROR_MEMORY, "multicast: out of host memory");
    collect_segments(u);
    mine.n = u->nsegments;
    for (size_t i = 0; i < u->nsegments; i++)
        mine.off[i] = u->segments[i]->off;
    TRY(symm__host_comm_vote(u->comm, &vote, symm__deadline_in(u->m->config.timeout_ms)));
    for (int r = 0; r < u->n; r++)
        same = same && all[r].object == mine.object;
    keep_common(u, all);
    if (same) {
        u->shared = true;
        u->mc = mc;
        mc = NULL;
    }
out:
    symm__multicast_put_back(u->m, mc);
    free(all);
    return st;
}

/*
 * Votes with the ranks' reports. Sets u->why if one of them failed. Hands out rank 0's *fd, unless
 * fd is NULL.
 */
static symm_status report_vote(struct setup *u, const char *step, int *fd)
{
    const symm_deadline deadline = symm__deadline_in(u->m->config.timeout_ms);
    struct symm_vote vote = {
        .text = text_of(u, step), .mine = &u->mine, .nbytes = sizeof u->mine, .all = u->all};
    symm_status st = fd ? symm__host_comm_hand_out(u->comm, &vote, deadline, fd)
                        : symm__host_comm_vote(u->comm, &vote, deadline);

    if (st == SYMM_OK)
        symm__multicast_first_failure(u->all, u->n, symm__host_comm_names(u->comm), u->why,
                                      sizeof u->why);
    return st;
}

/*
 * The first rank creates the object and sends its descriptor. It keeps its reference, which keeps
 * the object alive.
 */
static symm_status create(struct setup *u, int *fd)
{
    struct symm_memory *m = u->m;
    bool creator = symm__host_comm_rank(u->comm) == 0;
    CUresult result = CUDA_SUCCESS;
    symm_status st = SYMM_OK;

    u->mc = symm__multicast_object_new(m, symm__host_comm_members(u->comm));
    if (!u->mc)
        st = symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    for (size_t i = 0; i < u->nsegments && st == SYMM_OK; i++)
        st = symm__multicast_binding_add(u->mc, u->segments[i]);
    if (creator && st == SYMM_OK) {
        st = symm__multicast_object_create(u->mc, u->n, fd, &result);
        pthread_rwlock_wrlock(&m->lock);
        u->mine.object = ++m->nobjects * SYMM_MAX_RANKS + (uint64_t)m->config.rank;
        pthread_rwlock_unlock(&m->lock);
    }
    symm__multicast_report(&u->mine, st, result);
    TRY(report_vote(u, "object", fd));
    u->mine.object = u->all[0].object;
    if (u->mc)
        u->mc->id = u->mine.object;
out:
    return st;
}

/*
 * The other ranks import the object, and all add their devices. After this vote, bind and map
 * return.
 */
static symm_status add_devices(struct setup *u, int *fd)
{
    CUresult result = CUDA_SUCCESS;
    symm_status st = SYMM_OK;

    if (symm__host_comm_rank(u->comm) != 0)
        st = symm__multicast_object_import(u->mc, *fd, &result);
    symm__fd_close(fd);
    if (st == SYMM_OK)
        st = symm__multicast_object_add_device(u->mc, &result);
    symm__multicast_report(&u->mine, st, result);
    return report_vote(u, "devices", NULL);
}

/*
 * Runs all votes that create an object. If u->why is set, there is no object and everything is
 * undone.
 */
static symm_status make(struct setup *u)
{
    symm_status st = SYMM_OK;
    size_t nbound = 0;
    int fd = -1;

    TRY(create(u, &fd));
    if (u->why[0])
        goto out;
    TRY(add_devices(u, &fd));
    if (u->why[0])
        goto out;
    TRY(symm__multicast_bind_and_map(u->mc, u->comm, u->segments, u->nsegments, &nbound, true,
                                     &u->mine));
    TRY(report_vote(u, "map", NULL));
out:
    symm__fd_close(&fd);
    if ((st != SYMM_OK || u->why[0]) && u->mc) {
        char text[SYMM_TEXT_MAX];
        snprintf(text, sizeof text, "%s", symm__failure_text());
        symm__multicast_object_destroy(u->mc);
        u->mc = NULL;
        if (st != SYMM_OK)
            symm__fail(st, "%s", text);
    }
    return st;
}

static void publish(struct setup *u)
{
    struct symm_memory *m = u->m;

    pthread_rwlock_wrlock(&m->lock);
    for (size_t i = 0; i < u->mc->nbindings; i++)
        u->mc->bindings[i].agreed = true;
    u->mc->next = m->objects;
    m->objects = u->mc;
    pthread_rwlock_unlock(&m->lock);
    /* Another thread may have begun to trim a segment without knowing of this object. */
    for (size_t i = 0; i < u->nsegments; i++) {
        pthread_rwlock_rdlock(&m->lock);
        bool hidden = u->segments[i]->hidden;
        pthread_rwlock_unlock(&m->lock);
        if (hidden)
            symm__multicast_unbind_segment(m, u->segments[i]);
    }
}

symm_status symm__multicast_obtain(struct symm_memory *m, struct symm_host_comm *comm,
                                   const char *call, struct symm_multicast **out, const char **off)
{
    symm_status st = SYMM_OK;
    struct setup u = {.m = m, .comm = comm, .call = call, .n = symm__host_comm_nranks(comm)};

    *out = NULL;
    *off = m->config.multicast_off;
    if (*off)
        return SYMM_OK;
    if (u.n < 2) {
        *off = "multicast needs two ranks or more";
        return SYMM_OK;
    }
    TRY(offer(&u));
    if (!u.shared) {
        TRY(make(&u));
        for (int i = 0;
             i < SYMM_MULTICAST_RETRIES && u.why[0] && symm__multicast_transient(u.all, u.n); i++) {
            symm__multicast_back_off(i);
            u.mine = (struct symm_multicast_report){.object = 0};
            TRY(make(&u));
        }
        if (u.mc)
            publish(&u);
    }
    if (u.mc)
        *out = u.mc;
    else
        *off = keep_reason(m, u.why);
out:
    for (size_t i = 0; i < u.nsegments; i++)
        symm__memory_put_segment(m, u.segments[i]);
    free(u.all);
    return st;
}

void symm__multicast_close(struct symm_memory *m)
{
    while (m->objects) {
        struct symm_multicast *mc = m->objects;
        m->objects = mc->next;
        symm__multicast_object_destroy(mc);
    }
    while (m->reasons) {
        struct symm_reason *r = m->reasons;
        m->reasons = r->next;
        free(r);
    }
}

#else

typedef int symm_multicast_is_not_in_this_build; /* ISO C wants a declaration */

#endif
