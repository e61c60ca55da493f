/* Creates a segment on all ranks of a comm, and releases this rank's side of it. */
#include "state.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/fd.h"
#include "heap.h"

static void list_remove(struct symm_memory *m, const struct symm_segment *s)
{
    for (struct symm_segment **at = &m->segments; *at; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            return;
        }
    }
}

bool symm__memory_destroy_segment(struct symm_memory *m, struct symm_segment *s)
{
    const struct symm_memory_config *c = &m->config;
    symm_status st = symm__segment_release(c->drv, &m->windows, c->rank, s);

    if (st != SYMM_OK)
        symm__memory_note(m, st, "releasing a segment");
    free(s);
    return st == SYMM_OK;
}

void symm__memory_put_segment(struct symm_memory *m, struct symm_segment *s)
{
    pthread_rwlock_wrlock(&m->lock);
    bool last = --s->refs == 0;
    if (last)
        list_remove(m, s);
    pthread_rwlock_unlock(&m->lock);
    if (!last)
        return;
    uint64_t off = s->off;
    bool trimmed = s->trimmed;
    if (symm__memory_destroy_segment(m, s) && trimmed)
        symm__exchange_freed(m->config.exchange, off);
}

void symm__memory_retire_segment(struct symm_memory *m, uint64_t off)
{
    struct symm_segment *s;

    pthread_rwlock_wrlock(&m->lock);
    for (s = m->segments; s && (s->off != off || s->hidden); s = s->next)
        ;
    if (s) {
        s->hidden = true;
        s->trimmed = true;
    }
    pthread_rwlock_unlock(&m->lock);
    if (!s)
        return;
    symm__multicast_unbind_segment(m, s);
    symm__memory_put_segment(m, s);
}

static symm_status import_all(struct symm_memory *m, const struct symm_host_comm *comm, int *fds,
                              struct symm_segment *s)
{
    const struct symm_memory_config *c = &m->config;
    const int *ranks = symm__host_comm_ranks(comm);
    int n = symm__host_comm_nranks(comm);
    symm_status st = SYMM_OK;

    for (int r = 0; r < n && st == SYMM_OK; r++) {
        if (ranks[r] == c->rank)
            continue;
        st = symm__segment_import(c->drv, c->device, &m->windows, ranks[r], fds[r], s);
        if (st != SYMM_OK)
            symm__fail_in(st, "memory of rank %d: ", symm__host_comm_names(comm)[r]);
        symm__fd_close(&fds[r]);
    }
    symm__fd_close_all(fds, n);
    return st;
}

/* Creates this rank's memory of the segment, shares it with the other ranks and maps theirs. */
static symm_status segment_share(struct symm_memory *m, struct symm_host_comm *comm,
                                 const char *what, struct symm_segment *s, symm_status *mine)
{
    const struct symm_memory_config *c = &m->config;
    int n = symm__host_comm_nranks(comm), fd = -1, fds[SYMM_MAX_RANKS];
    char share_text[SYMM_TEXT_MAX];

    *mine = symm__segment_create(c->drv, c->device, &m->windows, c->rank, s);
    if (n == 1)
        return SYMM_OK;
    if (*mine == SYMM_OK)
        *mine = symm__segment_export(c->drv, s, &fd);
    for (int r = 0; r < n; r++)
        fds[r] = -1;
    snprintf(share_text, sizeof share_text, "%s: share", what);
    struct symm_vote vote = {
        .text = share_text, .status = *mine, .gives_fd = fd >= 0, .fd = fd, .fds = fds};
    symm_status st = symm__host_comm_vote(comm, &vote, symm__deadline_in(c->timeout_ms));
    symm__fd_close(&fd);
    if (st != SYMM_OK)
        return st;
    *mine = import_all(m, comm, fds, s);
    return SYMM_OK;
}

static void segment_publish(struct symm_memory *m, struct symm_segment *s, bool hidden)
{
    pthread_rwlock_wrlock(&m->lock);
    s->hidden = hidden;
    s->next = m->segments;
    m->segments = s;
    pthread_rwlock_unlock(&m->lock);
}

symm_status symm__memory_make_segment(struct symm_memory *m, struct symm_host_comm *comm,
                                      const char *what, uint64_t off, uint64_t nbytes,
                                      CUmemGenericAllocationHandle own, bool *kept)
{
    symm_status st = SYMM_OK, mine = SYMM_OK;
    struct symm_multicast_bind bind = {.mc = NULL};
    struct symm_multicast_report *all = calloc((size_t)symm__host_comm_nranks(comm), sizeof *all);
    struct symm_segment *s = calloc(1, sizeof *s);
    char text[SYMM_TEXT_MAX];
    bool voting = false;

    *kept = false;
    if (!s || !all) {
        st = symm__fail(SYMM_ERROR_MEMORY, "%s: out of host memory", what);
        symm__host_comm_abort(comm, st, symm__failure_text());
        if (own)
            m->config.drv->cuMemRelease(own);
        free(s);
        s = NULL;
        goto out;
    }
    *s = (struct symm_segment){.off = off,
                               .nbytes = nbytes,
                               .members = symm__host_comm_members(comm),
                               .own = own,
                               .registered = own != 0,
                               .refs = 1};
    TRY(segment_share(m, comm, what, s, &mine));
    voting = true;
    if (mine == SYMM_OK)
        TRY(symm__multicast_bind_begin(m, comm, s, &bind));
    snprintf(text, sizeof text, "%s: map", what);
    struct symm_vote vote = {.text = text,
                             .op = SYMM_HEAP_COMMIT,
                             .status = mine,
                             .args = {off},
                             .mine = &bind.mine,
                             .nbytes = sizeof bind.mine,
                             .all = all};
    TRY(symm__host_comm_vote(comm, &vote, symm__deadline_in(m->config.timeout_ms)));
    segment_publish(m, s, false);
    s = NULL;
    st = symm__multicast_bind_end(m, comm, what, &bind, all);
    *kept = st != SYMM_OK;
out:
    if (st != SYMM_OK && s) {
        snprintf(text, sizeof text, "%s", symm__failure_text());
        *kept = voting && symm__host_comm_check(comm) != SYMM_OK;
        if (*kept) {
            symm__multicast_put_back(m, bind.mc);
            segment_publish(m, s, true);
        } else {
            symm__multicast_bind_drop(m, &bind);
            symm__memory_destroy_segment(m, s);
        }
        symm__fail(st, "%s", text);
    }
    free(all);
    return st;
}
