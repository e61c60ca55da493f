/* Keeps the list of multicast objects and their bound segments, and binds later segments. */
#include "binding.h"

#if SYMM_MULTICAST

#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/array.h"
#include "report.h"

/* ---------------------------------------------------------------------------------------------- */
/* Objects                                                                                        */

struct symm_multicast *symm__multicast_object_new(struct symm_memory *m,
                                                  struct symm_rank_set members)
{
    struct symm_multicast *mc = calloc(1, sizeof *mc);

    if (!mc)
        return NULL;
    mc->memory = m;
    mc->members = members;
    mc->refs = 1;
    return mc;
}

struct symm_multicast *symm__multicast_object_get(struct symm_memory *m,
                                                  struct symm_rank_set members)
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

void symm__multicast_object_destroy(struct symm_multicast *mc)
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
        symm__multicast_object_destroy(mc);
}

symm_status symm__multicast_binding_add(struct symm_multicast *mc, struct symm_segment *s)
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

/* Unbinds the segment if it is bound, and removes its entry. */
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

/*
 * Time limit of a driver call: shorter than the timeout after which other ranks give up on this
 * one.
 */
static symm_deadline call_deadline(const struct symm_memory *m)
{
    int timeout = m->config.timeout_ms;
    return symm__deadline_in(timeout < 0 ? timeout : timeout - timeout / 4);
}

symm_status symm__multicast_bind_and_map(struct symm_multicast *mc, struct symm_host_comm *comm,
                                         struct symm_segment *const *segments, size_t n,
                                         size_t *nbound, bool map,
                                         struct symm_multicast_report *mine)
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
        const int rank = symm__host_comm_rank(comm);
        symm__fail_on(rank, symm__host_comm_names(comm)[rank], st, "multicast: ");
        symm__host_comm_abort(comm, st, symm__failure_text());
        return st;
    }
    symm__multicast_report(mine, st, result);
    return SYMM_OK;
}

/* ---------------------------------------------------------------------------------------------- */
/* New segments                                                                                   */

static symm_status bind_one(struct symm_host_comm *comm, struct symm_multicast_bind *bind)
{
    size_t nbound = 0;
    return symm__multicast_bind_and_map(bind->mc, comm, &bind->segment, 1, &nbound, false,
                                        &bind->mine);
}

symm_status symm__multicast_bind_begin(struct symm_memory *m, struct symm_host_comm *comm,
                                       struct symm_segment *s, struct symm_multicast_bind *bind)
{
    struct symm_multicast *mc = symm__multicast_object_get(m, s->members);

    *bind = (struct symm_multicast_bind){.mc = mc, .segment = s};
    if (!mc)
        return SYMM_OK;
    bind->mine.object = mc->id;
    symm_status st = symm__multicast_binding_add(mc, s);
    if (st == SYMM_OK)
        return bind_one(comm, bind);
    symm__multicast_report(&bind->mine, st, CUDA_SUCCESS);
    return SYMM_OK;
}

symm_status symm__multicast_bind_end(struct symm_memory *m, struct symm_host_comm *comm,
                                     const char *what, struct symm_multicast_bind *bind,
                                     struct symm_multicast_report *all)
{
    struct symm_multicast *mc = bind->mc;
    symm_status st = SYMM_OK;
    int n = symm__host_comm_nranks(comm);
    char why[256];

    /* Another thread may have created or released an object of these ranks on some ranks only. */
    bool same = true;
    for (int r = 0; r < n; r++)
        same = same && all[r].object == all[0].object;
    for (int i = 0; same && i < SYMM_MULTICAST_RETRIES && symm__multicast_transient(all, n); i++) {
        struct symm_vote vote = {
            .text = what, .mine = &bind->mine, .nbytes = sizeof bind->mine, .all = all};
        symm__multicast_back_off(i);
        if (bind->mine.result != 0)
            TRY(bind_one(comm, bind));
        TRY(symm__host_comm_vote(comm, &vote, symm__deadline_in(m->config.timeout_ms)));
    }
    symm__multicast_first_failure(all, n, symm__host_comm_names(comm), why, sizeof why);
    if (!same)
        snprintf(why, sizeof why, "the ranks have different multicast objects at this moment");
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

typedef int symm_multicast_binding_is_not_in_this_build; /* ISO C wants a declaration */

#endif
