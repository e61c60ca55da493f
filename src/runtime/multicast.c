/*
 * Agreeing on multicast. Whatever a rank's driver says travels as a report with the next step, so
 * that a failure is no failure of the step: all ranks read the same reports and come to the same
 * verdict, "no multicast" (or none for that segment) with the first failing rank's reason. Nobody
 * binds or maps, which block in the driver, before the reports have said that every device was
 * added.
 */
#include "memory_state.h"

#if SYMM_MULTICAST

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "fd.h"
#include "multicast_object.h"

enum {
    OFFERED_MAX = 60, /* segments that are bound to a new object; more are left without multicast */
    RETRIES = 6,      /* of SYSTEM_NOT_READY, after 50 ms, 100 ms, ...: 3 s in all */
    RETRY_MS = 50,
};

struct symm_reason {
    struct symm_reason *next;
    char text[];
};

/* A reason that lives as long as the memory; the same text is kept once. */
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
    return r ? r->text : "multicast could not be set up, and host memory is out";
}

/* ---------------------------------------------------------------------------------------------- */
/* Reports                                                                                        */

static const char *hint(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return ": no multicast slots left in the switch";
    case CUDA_ERROR_ILLEGAL_STATE:
        return ": is the fabric manager running?";
    case CUDA_ERROR_SYSTEM_NOT_READY:
        return ": the fabric is not ready";
    default:
        return "";
    }
}

/* What this rank says of its part: st, with this thread's failure text; result: of the driver call,
 * if it was one. */
static void report(struct symm_multicast_report *out, symm_status st, CUresult result)
{
    out->result = 0;
    out->text[0] = '\0';
    if (st == SYMM_OK)
        return;
    out->result = result != CUDA_SUCCESS ? result : -1;
    snprintf(out->text, sizeof out->text, "%s%s", symm__failure_text(), hint(result));
}

/* Writes the reason of the first rank that failed; an empty one when none did. */
static void first_failure(const struct symm_multicast_report *all, int n, char *why, size_t nbytes)
{
    why[0] = '\0';
    for (int r = 0; r < n && !why[0]; r++)
        if (all[r].result != 0)
            snprintf(why, nbytes, "rank %d: %.*s", r, (int)sizeof all[r].text, all[r].text);
}

/* Whether trying again, on all ranks alike, may help: nothing failed but for SYSTEM_NOT_READY. */
static bool transient(const struct symm_multicast_report *all, int n)
{
    bool any = false;

    for (int r = 0; r < n; r++) {
        if (all[r].result == CUDA_ERROR_SYSTEM_NOT_READY)
            any = true;
        else if (all[r].result != 0)
            return false;
    }
    return any;
}

/* Before the i-th repetition, counted from 0. */
static void back_off(int i)
{
    symm__sleep_us((int64_t)RETRY_MS * 1000 << i);
}

/* ---------------------------------------------------------------------------------------------- */
/* Objects                                                                                        */

static struct symm_multicast *object_new(struct symm_memory *m, struct symm_rank_set members)
{
    struct symm_multicast *mc = calloc(1, sizeof *mc);

    if (!mc)
        return NULL;
    mc->memory = m;
    mc->members = members;
    mc->refs = 1;
    return mc;
}

/* Takes a reference of the newest object of exactly these ranks. */
static struct symm_multicast *object_get(struct symm_memory *m, struct symm_rank_set members)
{
    struct symm_multicast *mc;

    pthread_rwlock_wrlock(&m->lock);
    for (mc = m->objects; mc && (mc->abandoned || !symm__rank_set_equal(mc->members, members));
         mc = mc->next)
        ;
    if (mc)
        mc->refs++;
    pthread_rwlock_unlock(&m->lock);
    return mc;
}

/* Releases an object that is not in the list (any more). */
static void object_destroy(struct symm_multicast *mc)
{
    struct symm_memory *m = mc->memory;
    symm_status st = symm__multicast_object_release(mc);

    if (st != SYMM_OK)
        symm__memory_note(m, st, "releasing a multicast object");
    for (size_t i = 0; i < mc->nbindings; i++)
        symm__memory_put_segment(m, mc->bindings[i].segment);
    free(mc->bindings);
    free(mc);
}

void symm__multicast_put_back(struct symm_memory *m, struct symm_multicast *mc)
{
    if (!mc)
        return;
    pthread_rwlock_wrlock(&m->lock);
    bool last = --mc->refs == 0;
    for (struct symm_multicast **at = &m->objects; last && *at; at = &(*at)->next) {
        if (*at == mc) {
            *at = mc->next;
            break;
        }
    }
    pthread_rwlock_unlock(&m->lock);
    if (last)
        object_destroy(mc);
}

/* Makes a place for the binding of a segment, so that once it is bound there is nothing left to
 * fail. */
static symm_status binding_add(struct symm_multicast *mc, struct symm_segment *s)
{
    struct symm_memory *m = mc->memory;

    pthread_rwlock_wrlock(&m->lock);
    struct symm_multicast_binding *at =
        symm__array_reserve(mc->bindings, &mc->cap, mc->nbindings + 1, sizeof *at);
    if (at) {
        mc->bindings = at;
        at[mc->nbindings++] = (struct symm_multicast_binding){.segment = s};
        s->refs++;
    }
    pthread_rwlock_unlock(&m->lock);
    return at ? SYMM_OK : symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
}

static struct symm_multicast_binding *binding_of(struct symm_multicast *mc,
                                                 const struct symm_segment *s)
{
    for (size_t i = 0; i < mc->nbindings; i++)
        if (mc->bindings[i].segment == s)
            return &mc->bindings[i];
    return NULL;
}

/* Unbinds the segment if it is bound, and forgets about it. */
static void binding_remove(struct symm_multicast *mc, struct symm_segment *s)
{
    struct symm_memory *m = mc->memory;
    symm_status st = SYMM_OK;
    bool found = false, bound = false;

    pthread_rwlock_wrlock(&m->lock);
    struct symm_multicast_binding *b = binding_of(mc, s);
    if (b) {
        found = true;
        bound = b->bound;
        *b = mc->bindings[--mc->nbindings];
    }
    pthread_rwlock_unlock(&m->lock);
    if (bound)
        st = symm__multicast_object_unbind(mc, s);
    if (st != SYMM_OK)
        symm__memory_note(m, st, "unbinding a segment");
    if (found)
        symm__memory_put_segment(m, s);
}

void symm__multicast_unbind_segment(struct symm_memory *m, struct symm_segment *s)
{
    for (;;) {
        struct symm_multicast *mc;

        pthread_rwlock_wrlock(&m->lock);
        for (mc = m->objects; mc && !binding_of(mc, s); mc = mc->next)
            ;
        if (mc)
            mc->refs++;
        pthread_rwlock_unlock(&m->lock);
        if (!mc)
            return;
        binding_remove(mc, s);
        symm__multicast_put_back(m, mc);
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* Binding and mapping                                                                            */

/* A call that does not come back is given up a little before the others give up waiting for this
 * rank. */
static symm_deadline call_deadline(const struct symm_memory *m)
{
    int timeout = m->config.timeout_ms;
    return symm__deadline_in(timeout < 0 ? timeout : timeout - timeout / 4);
}

/*
 * Binds the segments from *nbound on and, for a new object, maps it. Fails only when the driver
 * does not come back, having ended the lane; else the report says how it went.
 */
static symm_status bind_and_map(struct symm_multicast *mc, struct symm_lane *lane,
                                struct symm_segment *const *segments, size_t n, size_t *nbound,
                                bool map, struct symm_multicast_report *mine)
{
    struct symm_memory *m = mc->memory;
    symm_deadline deadline = call_deadline(m);
    CUresult result = CUDA_SUCCESS;
    symm_status st = symm__multicast_object_bind(mc, segments, n, nbound, deadline, &result);

    if (st == SYMM_OK && map)
        st = symm__multicast_object_map(mc, deadline, &result);
    pthread_rwlock_wrlock(&m->lock);
    for (size_t i = 0; i < *nbound; i++)
        binding_of(mc, segments[i])->bound = true;
    pthread_rwlock_unlock(&m->lock);
    if (st == SYMM_ERROR_TIMEOUT) {
        symm__fail_in(st, "rank %d: ", symm__lane_rank(lane));
        symm__lane_abort(lane, st, symm__failure_text());
        return st;
    }
    report(mine, st, result);
    return SYMM_OK;
}

/* ---------------------------------------------------------------------------------------------- */
/* New segments                                                                                   */

static symm_status bind_one(struct symm_lane *lane, struct symm_multicast_bind *bind)
{
    size_t nbound = 0;
    return bind_and_map(bind->mc, lane, &bind->segment, 1, &nbound, false, &bind->mine);
}

symm_status symm__multicast_bind_begin(struct symm_memory *m, struct symm_lane *lane,
                                       struct symm_segment *s, struct symm_multicast_bind *bind)
{
    struct symm_multicast *mc = object_get(m, s->members);

    *bind = (struct symm_multicast_bind){.mc = mc, .segment = s};
    if (!mc)
        return SYMM_OK;
    bind->mine.object = mc->id;
    symm_status st = binding_add(mc, s);
    if (st == SYMM_OK)
        return bind_one(lane, bind);
    report(&bind->mine, st, CUDA_SUCCESS);
    return SYMM_OK;
}

symm_status symm__multicast_bind_end(struct symm_memory *m, struct symm_lane *lane,
                                     const char *what, struct symm_multicast_bind *bind,
                                     struct symm_multicast_report *all)
{
    struct symm_multicast *mc = bind->mc;
    symm_status st = SYMM_OK;
    int n = symm__lane_nranks(lane);
    char why[256];

    /* Another thread may have made or released an object of these ranks, here but not yet there. */
    bool same = true;
    for (int r = 0; r < n; r++)
        same = same && all[r].object == all[0].object;
    for (int i = 0; same && i < RETRIES && transient(all, n); i++) {
        struct symm_step step = {
            .what = what, .mine = &bind->mine, .nbytes = sizeof bind->mine, .all = all};
        back_off(i);
        if (bind->mine.result != 0)
            TRY(bind_one(lane, bind));
        TRY(symm__lane_step(lane, &step, symm__deadline_in(m->config.timeout_ms)));
    }
    first_failure(all, n, why, sizeof why);
    if (!same)
        snprintf(why, sizeof why, "the ranks have different multicast objects just now");
    if (!mc)
        goto out;
    if (why[0]) {
        symm__log(m->config.log, SYMM_LOG_WARNING, "%s: no multicast for this segment: %s", what,
                  why);
        binding_remove(mc, bind->segment);
    } else {
        pthread_rwlock_wrlock(&m->lock);
        binding_of(mc, bind->segment)->agreed = true;
        pthread_rwlock_unlock(&m->lock);
    }
out:
    symm__multicast_put_back(m, mc);
    bind->mc = NULL;
    return st;
}

void symm__multicast_bind_drop(struct symm_memory *m, struct symm_multicast_bind *bind)
{
    if (!bind->mc)
        return;
    binding_remove(bind->mc, bind->segment);
    symm__multicast_put_back(m, bind->mc);
    bind->mc = NULL;
}

/* ---------------------------------------------------------------------------------------------- */
/* New objects                                                                                    */

/* What a rank brings to the first step: the object it has of these ranks, and the segments it could
 * bind. */
struct offer {
    uint64_t object; /* 0: none */
    uint64_t n;
    uint64_t off[OFFERED_MAX];
};

struct setup {
    struct symm_memory *m;
    struct symm_lane *lane;
    int n;
    struct symm_multicast *mc;
    bool shared;                                /* mc was there before */
    struct symm_segment *segments[OFFERED_MAX]; /* with a reference each */
    size_t nsegments;
    struct symm_multicast_report mine, *all;
    char why[256]; /* why there will be no multicast */
};

/* The segments that all of these ranks have; those of exactly these ranks first, in case there are
 * too many. */
static void collect_segments(struct setup *u)
{
    struct symm_memory *m = u->m;
    struct symm_rank_set members = symm__lane_members(u->lane);

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

/* Keeps the segments that all ranks have offered: another thread may be making or trimming one
 * right now. */
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

/* The first step: either all ranks have the same object already, or they will make one. */
static symm_status offer(struct setup *u)
{
    symm_status st = SYMM_OK;
    struct symm_multicast *mc = object_get(u->m, symm__lane_members(u->lane));
    struct offer mine = {.object = mc ? mc->id : 0};
    struct offer *all = calloc((size_t)u->n, sizeof *all);
    struct symm_step step = {
        .what = "multicast: offer", .mine = &mine, .nbytes = sizeof mine, .all = all};
    bool same = mc != NULL;

    u->all = calloc((size_t)u->n, sizeof *u->all);
    if (!all || !u->all)
        step.status = symm__fail(SYMM_ERROR_MEMORY, "multicast: out of host memory");
    collect_segments(u);
    mine.n = u->nsegments;
    for (size_t i = 0; i < u->nsegments; i++)
        mine.off[i] = u->segments[i]->off;
    TRY(symm__lane_step(u->lane, &step, symm__deadline_in(u->m->config.timeout_ms)));
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

/* A step in which every rank brings its report; u->why says what they come to. */
static symm_status vote(struct setup *u, struct symm_step *step)
{
    step->mine = &u->mine;
    step->nbytes = sizeof u->mine;
    step->all = u->all;
    symm_status st = symm__lane_step(u->lane, step, symm__deadline_in(u->m->config.timeout_ms));
    if (st == SYMM_OK)
        first_failure(u->all, u->n, u->why, sizeof u->why);
    return st;
}

/* The first rank creates the object and passes it round. It keeps its reference: without it there
 * is no object. */
static symm_status create(struct setup *u, int *fd)
{
    struct symm_memory *m = u->m;
    bool creator = symm__lane_rank(u->lane) == 0;
    int own = -1, fds[SYMM_MAX_RANKS];
    CUresult result = CUDA_SUCCESS;
    symm_status st = SYMM_OK;

    for (int r = 0; r < u->n; r++)
        fds[r] = -1;
    u->mc = object_new(m, symm__lane_members(u->lane));
    if (!u->mc)
        st = symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    for (size_t i = 0; i < u->nsegments && st == SYMM_OK; i++)
        st = binding_add(u->mc, u->segments[i]);
    if (creator && st == SYMM_OK) {
        st = symm__multicast_object_create(u->mc, u->n, &own, &result);
        pthread_rwlock_wrlock(&m->lock);
        u->mine.object = ++m->nobjects * SYMM_MAX_RANKS + (uint64_t)m->config.rank;
        pthread_rwlock_unlock(&m->lock);
    }
    report(&u->mine, st, result);
    struct symm_step step = {
        .what = "multicast: create", .gives_fd = own >= 0, .fd = own, .fds = fds};
    st = vote(u, &step);
    symm__fd_close(&own);
    if (st == SYMM_OK) {
        u->mine.object = u->all[0].object;
        if (u->mc)
            u->mc->id = u->mine.object;
        *fd = fds[0];
        fds[0] = -1;
        symm__fd_close_all(fds, u->n);
    }
    return st;
}

/* Everyone else imports the object, and all add their devices. After this vote bind and map come
 * back. */
static symm_status add_devices(struct setup *u, int *fd)
{
    CUresult result = CUDA_SUCCESS;
    symm_status st = SYMM_OK;

    if (symm__lane_rank(u->lane) != 0)
        st = symm__multicast_object_import(u->mc, *fd, &result);
    symm__fd_close(fd);
    if (st == SYMM_OK)
        st = symm__multicast_object_add_device(u->mc, &result);
    report(&u->mine, st, result);
    struct symm_step step = {.what = "multicast: add devices"};
    return vote(u, &step);
}

/* All steps that make an object. With u->why set there is none, and nothing is left of it. */
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
    TRY(bind_and_map(u->mc, u->lane, u->segments, u->nsegments, &nbound, true, &u->mine));
    struct symm_step step = {.what = "multicast: bind and map"};
    TRY(vote(u, &step));
out:
    symm__fd_close(&fd);
    if ((st != SYMM_OK || u->why[0]) && u->mc) {
        char text[SYMM_TEXT_MAX];
        snprintf(text, sizeof text, "%s", symm__failure_text());
        object_destroy(u->mc);
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
    /* Another thread may have begun to trim one of them, not knowing about this object. */
    for (size_t i = 0; i < u->nsegments; i++) {
        pthread_rwlock_rdlock(&m->lock);
        bool hidden = u->segments[i]->hidden;
        pthread_rwlock_unlock(&m->lock);
        if (hidden)
            symm__multicast_unbind_segment(m, u->segments[i]);
    }
}

symm_status symm__multicast_obtain(struct symm_memory *m, struct symm_lane *lane,
                                   struct symm_multicast **out, const char **off)
{
    symm_status st = SYMM_OK;
    struct setup u = {.m = m, .lane = lane, .n = symm__lane_nranks(lane)};

    *out = NULL;
    *off = m->config.multicast_off;
    if (*off)
        return SYMM_OK;
    if (u.n < 2) {
        *off = "one rank alone has no use for multicast";
        return SYMM_OK;
    }
    TRY(offer(&u));
    if (!u.shared) {
        TRY(make(&u));
        for (int i = 0; i < RETRIES && u.why[0] && transient(u.all, u.n); i++) {
            back_off(i);
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

/* ---------------------------------------------------------------------------------------------- */

void symm__multicast_close(struct symm_memory *m)
{
    while (m->objects) {
        struct symm_multicast *mc = m->objects;
        m->objects = mc->next;
        object_destroy(mc);
    }
    while (m->reasons) {
        struct symm_reason *r = m->reasons;
        m->reasons = r->next;
        free(r);
    }
}

char *symm__multicast_window(const struct symm_multicast *mc)
{
    return mc ? (char *)(uintptr_t)mc->base : NULL;
}

bool symm__multicast_covers(const struct symm_multicast *mc, uint64_t off, size_t nbytes)
{
    bool covered = false;

    if (!mc)
        return false;
    pthread_rwlock_rdlock(&mc->memory->lock);
    for (size_t i = 0; i < mc->nbindings && !covered; i++) {
        const struct symm_segment *s = mc->bindings[i].segment;
        covered = mc->bindings[i].agreed && off >= s->off && off - s->off <= s->nbytes &&
                  nbytes <= s->nbytes - (off - s->off);
    }
    pthread_rwlock_unlock(&mc->memory->lock);
    return covered;
}

bool symm__multicast_owns(const struct symm_memory *m, CUdeviceptr addr)
{
    for (const struct symm_multicast *mc = m->objects; mc; mc = mc->next)
        if (mc->base && addr >= mc->base && addr - mc->base < m->config.window_nbytes)
            return true;
    return false;
}

#else

symm_status symm__multicast_obtain(struct symm_memory *m, struct symm_lane *lane,
                                   struct symm_multicast **out, const char **off)
{
    (void)lane;
    *out = NULL;
    *off =
        m->config.multicast_off ? m->config.multicast_off : "this build of symm has no multicast";
    return SYMM_OK;
}

/* There are no objects, so there is nothing to do in any of these. */

void symm__multicast_put_back(struct symm_memory *m, struct symm_multicast *mc)
{
    (void)m;
    (void)mc;
}

char *symm__multicast_window(const struct symm_multicast *mc)
{
    (void)mc;
    return NULL;
}

bool symm__multicast_covers(const struct symm_multicast *mc, uint64_t off, size_t nbytes)
{
    (void)mc;
    (void)off;
    (void)nbytes;
    return false;
}

symm_status symm__multicast_bind_begin(struct symm_memory *m, struct symm_lane *lane,
                                       struct symm_segment *s, struct symm_multicast_bind *bind)
{
    (void)m;
    (void)lane;
    *bind = (struct symm_multicast_bind){.segment = s};
    return SYMM_OK;
}

symm_status symm__multicast_bind_end(struct symm_memory *m, struct symm_lane *lane,
                                     const char *what, struct symm_multicast_bind *bind,
                                     struct symm_multicast_report *all)
{
    (void)m;
    (void)lane;
    (void)what;
    (void)bind;
    (void)all;
    return SYMM_OK;
}

void symm__multicast_bind_drop(struct symm_memory *m, struct symm_multicast_bind *bind)
{
    (void)m;
    (void)bind;
}

void symm__multicast_unbind_segment(struct symm_memory *m, struct symm_segment *s)
{
    (void)m;
    (void)s;
}

void symm__multicast_close(struct symm_memory *m)
{
    (void)m;
}

bool symm__multicast_owns(const struct symm_memory *m, CUdeviceptr addr)
{
    (void)m;
    (void)addr;
    return false;
}

#endif
