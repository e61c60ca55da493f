/*
 * This rank's symmetric memory: allocates, looks up, frees and closes. The arbiter (heap.h) assigns
 * the offsets. A rank never takes a size or an offset from another rank.
 */
#include "state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap.h"

symm_status symm__memory_open(const struct symm_memory_config *config, struct symm_memory **out)
{
    symm_status st = SYMM_OK;
    struct symm_memory *m = calloc(1, sizeof *m);

    if (!m)
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    m->config = *config;
    TRY(symm__windows_open(config->drv, config->nranks, config->window_nbytes, config->alignment,
                           &m->windows));
    pthread_rwlock_init(&m->lock, NULL);
    *out = m;
    m = NULL;
out:
    free(m);
    return st;
}

void symm__memory_note(struct symm_memory *m, symm_status st, const char *action)
{
    symm__log(m->config.log, SYMM_LOG_ERROR, "%s: %s", action, symm__failure_text());
    pthread_rwlock_wrlock(&m->lock);
    if (m->failed == SYMM_OK) {
        m->failed = st;
        snprintf(m->failed_text, sizeof m->failed_text, "%s: %s", action, symm__failure_text());
    }
    pthread_rwlock_unlock(&m->lock);
}

/* ---------------------------------------------------------------------------------------------- */
/* Allocations                                                                                    */

static uint64_t rounded(size_t nbytes)
{
    return ((uint64_t)nbytes + SYMM_HEAP_ALIGNMENT - 1) / SYMM_HEAP_ALIGNMENT * SYMM_HEAP_ALIGNMENT;
}

symm_status symm__memory_reserve_slot(struct symm_memory *m)
{
    pthread_rwlock_wrlock(&m->lock);
    symm_status st = symm__blocks_reserve(&m->blocks);
    pthread_rwlock_unlock(&m->lock);
    return st;
}

void symm__memory_unreserve_slot(struct symm_memory *m)
{
    pthread_rwlock_wrlock(&m->lock);
    symm__blocks_unreserve(&m->blocks);
    pthread_rwlock_unlock(&m->lock);
}

void symm__memory_insert(struct symm_memory *m, const struct symm_block *block)
{
    pthread_rwlock_wrlock(&m->lock);
    symm__blocks_insert(&m->blocks, block);
    pthread_rwlock_unlock(&m->lock);
}

/*
 * Completes an allocation that the arbiter has granted: creates the segment if it is new, and
 * inserts the block. A slot of the table must be reserved.
 */
static symm_status take(struct symm_memory *m, struct symm_host_comm *comm, const char *what,
                        const struct symm_block *block, const uint64_t answer[4], void **out)
{
    symm_status st = SYMM_OK;
    bool kept = false;

    if (answer[3])
        st = symm__memory_make_segment(m, comm, what, answer[1], answer[2], 0, &kept);
    if (st != SYMM_OK) {
        symm__memory_unreserve_slot(m);
        if (!kept)
            symm__exchange_freed(m->config.exchange, block->off);
        return st;
    }
    symm__memory_insert(m, block);
    *out = symm__memory_window(m, m->config.rank) + block->off;
    return SYMM_OK;
}

symm_status symm__memory_alloc(struct symm_memory *m, struct symm_host_comm *comm,
                               const void *owner, enum symm_block_kind kind, size_t nbytes,
                               const char *what, void **out)
{
    symm_status slot = symm__memory_reserve_slot(m);
    struct symm_vote vote = {
        .text = what,
        .op = SYMM_HEAP_ALLOC,
        .status = slot,
        .args = {nbytes, kind == SYMM_BLOCK_USER ? 0 : SYMM_HEAP_ANY_SEGMENT},
    };
    symm_status st = symm__host_comm_vote(comm, &vote, symm__deadline_in(m->config.timeout_ms));
    if (st != SYMM_OK) {
        if (slot == SYMM_OK)
            symm__memory_unreserve_slot(m);
        return st;
    }
    struct symm_block block = {.off = vote.answer[0],
                               .nbytes = rounded(nbytes),
                               .requested = nbytes,
                               .owner = owner,
                               .members = symm__host_comm_members(comm),
                               .kind = kind};
    return take(m, comm, what, &block, vote.answer, out);
}

symm_status symm__memory_adopt(struct symm_memory *m, struct symm_host_comm *comm,
                               const void *owner, enum symm_block_kind kind, size_t nbytes,
                               const uint64_t answer[4], void **out)
{
    symm_status st = symm__memory_reserve_slot(m);
    struct symm_block block = {.off = answer[0],
                               .nbytes = rounded(nbytes),
                               .requested = nbytes,
                               .owner = owner,
                               .members = symm__host_comm_members(comm),
                               .kind = kind};
    if (st != SYMM_OK) {
        /* The other ranks have their block. Ending the comm tells them without another vote. */
        symm__host_comm_abort(comm, st, symm__failure_text());
        symm__exchange_freed(m->config.exchange, answer[0]);
        return st;
    }
    char what[64];
    snprintf(what, sizeof what, "memory of a new group (%zu bytes)", nbytes);
    return take(m, comm, what, &block, answer, out);
}

/* ---------------------------------------------------------------------------------------------- */
/* Looking up and freeing                                                                         */

/* Facts about an address, gathered under the lock and reported without it. */
struct location {
    const void *ptr;
    int window; /* rank of the window; -1: in no window */
    uint64_t at;
    bool multicast, found, known; /* known: foreign memory that the device can access */
    struct symm_block block;
};

/* `known` is about all nbytes, the other members about ptr. */
static struct location locate(struct symm_memory *m, const void *ptr, size_t nbytes)
{
    CUdeviceptr addr = (CUdeviceptr)(uintptr_t)ptr;
    struct location p = {.ptr = ptr};

    p.window = symm__windows_find(&m->windows, addr, &p.at);
    pthread_rwlock_rdlock(&m->lock);
    p.multicast = p.window < 0 && symm__multicast_owns(m, addr);
    p.known = p.window < 0 && !p.multicast && symm__memory_is_known(m, addr, nbytes);
    struct symm_block *b = p.window < 0 ? NULL : symm__blocks_find(&m->blocks, p.at);
    if (b && p.at - b->off < b->nbytes) {
        p.found = true;
        p.block = *b;
    }
    pthread_rwlock_unlock(&m->lock);
    return p;
}

/* The world rank, for texts. */
static int name_of(const struct symm_memory *m, int rank)
{
    return m->config.names ? m->config.names[rank] : rank;
}

/* If p does not lie in a live block of this rank, records why and returns true. */
static bool refuse(const struct symm_memory *m, const struct location *p)
{
    if (p->multicast)
        symm__fail(SYMM_ERROR_ARGUMENT, "%p is a multicast address: give this rank's own address",
                   p->ptr);
    else if (p->window < 0)
        symm__fail(SYMM_ERROR_ARGUMENT, "%p is not symmetric memory of this context", p->ptr);
    else if (p->window != m->config.rank)
        symm__fail(SYMM_ERROR_ARGUMENT,
                   "%p is rank %d's copy of an object: give this rank's own address of it", p->ptr,
                   name_of(m, p->window));
    else if (!p->found)
        symm__fail(SYMM_ERROR_ARGUMENT, "%p is not in any allocation of symmetric memory", p->ptr);
    else if (p->block.freed)
        symm__fail(SYMM_ERROR_ARGUMENT, "%p is freed memory, of an allocation of %" PRIu64 " bytes",
                   p->ptr, p->block.requested);
    else
        return false;
    return true;
}

static int first_missing(struct symm_rank_set few, struct symm_rank_set many)
{
    for (int r = 0; r < SYMM_MAX_RANKS; r++)
        if (symm__rank_set_has(few, r) && !symm__rank_set_has(many, r))
            return r;
    return -1;
}

struct symm_buffer symm__memory_resolve(struct symm_memory *m, const void *ptr, size_t nbytes,
                                        struct symm_rank_set members)
{
    struct symm_buffer buffer = {.address = (void *)(uintptr_t)ptr, .nbytes = nbytes};
    /* Unsigned, so an address below the window exceeds its size. */
    const uint64_t at = (CUdeviceptr)(uintptr_t)ptr - m->windows.base[m->config.rank];

    if (at >= m->windows.nbytes)
        return buffer;
    pthread_rwlock_rdlock(&m->lock);
    const struct symm_block *b = symm__blocks_find(&m->blocks, at);
    buffer.own =
        b && !b->freed && at - b->off <= b->requested && nbytes <= b->requested - (at - b->off);
    buffer.left = buffer.own ? b->requested - (at - b->off) : 0;
    buffer.symmetric = buffer.own && symm__rank_set_within(members, b->members);
    buffer.registered = buffer.own && b->kind == SYMM_BLOCK_REGISTERED;
    pthread_rwlock_unlock(&m->lock);
    buffer.offset = at;
    return buffer;
}

bool symm__memory_find(struct symm_memory *m, const void *ptr, size_t nbytes,
                       struct symm_rank_set members, uint64_t *off)
{
    const struct symm_buffer buffer = symm__memory_resolve(m, ptr, nbytes, members);

    *off = buffer.offset;
    if (buffer.symmetric)
        return true;

    struct location p = locate(m, ptr, 0);
    if (refuse(m, &p))
        return false;
    const struct symm_block *b = &p.block;
    if (p.at - b->off > b->requested || nbytes > b->requested - (p.at - b->off))
        symm__fail(SYMM_ERROR_ARGUMENT,
                   "%zu bytes at %p run beyond the end of their allocation: it has %" PRIu64
                   " bytes, and this begins %" PRIu64 " bytes into it",
                   nbytes, ptr, b->requested, p.at - b->off);
    else
        symm__fail(SYMM_ERROR_ARGUMENT, "%p is in an allocation that rank %d does not have", ptr,
                   name_of(m, first_missing(members, b->members)));
    return false;
}

bool symm__memory_usable(struct symm_memory *m, const void *ptr, size_t nbytes)
{
    const struct symm_rank_set no_ranks = {{0}};
    uint64_t off;

    if (symm__memory_resolve(m, ptr, nbytes, no_ranks).own)
        return true;
    struct location p = locate(m, ptr, nbytes);
    if (p.window < 0 && !p.multicast)
        return p.known || symm__memory_ask(m, ptr, nbytes);
    return symm__memory_find(m, ptr, nbytes, no_ranks, &off);
}

bool symm__memory_reachable(struct symm_memory *m, const void *ptr, size_t nbytes)
{
    uint64_t off;
    int rank = symm__windows_find(&m->windows, (CUdeviceptr)(uintptr_t)ptr, &off);

    if (rank < 0)
        return symm__memory_usable(m, ptr, nbytes);
    return symm__memory_find(m, symm__memory_window(m, m->config.rank) + off, nbytes,
                             symm__rank_set(1, &rank), &off);
}

/*
 * The live block of this owner and keeper that begins at ptr; NULL: none. internal: a block of symm
 * itself. Under the lock.
 */
static struct symm_block *block_of(struct symm_memory *m, const void *owner, const void *ptr,
                                   const void *keeper, bool internal)
{
    uint64_t at = (CUdeviceptr)(uintptr_t)ptr - m->windows.base[m->config.rank];
    struct symm_block *b = at < m->windows.nbytes ? symm__blocks_find(&m->blocks, at) : NULL;

    return b && b->off == at && !b->freed && b->owner == owner && b->keeper == keeper &&
                   (b->kind == SYMM_BLOCK_INTERNAL) == internal
               ? b
               : NULL;
}

/* Records why block_of() found no block. */
static symm_status no_block(struct symm_memory *m, const void *owner, const void *ptr)
{
    struct location p = locate(m, ptr, 0);

    if (refuse(m, &p))
        return SYMM_ERROR_ARGUMENT;
    if (p.block.off != p.at)
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "%p is %" PRIu64 " bytes into an allocation, not the start of it", ptr,
                          p.at - p.block.off);
    if (p.block.owner == owner && p.block.keeper)
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "%p has been given to a DLPack tensor, whose deleter frees it", ptr);
    return symm__fail(SYMM_ERROR_ARGUMENT, "%p is memory of another group, or of symm itself", ptr);
}

/* In place of the number of a free that the hub gets: of registered memory it gets another one. */
enum { FREED = 1 };

/* Marks a block as free. Registered memory is reported when its segment is released. */
static void mark_freed(struct symm_memory *m, struct symm_block *b)
{
    b->freed =
        b->kind == SYMM_BLOCK_REGISTERED ? FREED : symm__exchange_freed(m->config.exchange, b->off);
}

symm_status symm__memory_free(struct symm_memory *m, const void *owner, void *ptr,
                              const void *keeper)
{
    struct symm_block freed = {.kind = SYMM_BLOCK_USER};

    pthread_rwlock_wrlock(&m->lock);
    struct symm_block *b = block_of(m, owner, ptr, keeper, false);
    if (b) {
        mark_freed(m, b);
        freed = *b;
    }
    pthread_rwlock_unlock(&m->lock);
    if (!b)
        return no_block(m, owner, ptr);
    if (freed.kind == SYMM_BLOCK_REGISTERED)
        symm__memory_retire_segment(m, freed.segment);
    return SYMM_OK;
}

void symm__memory_free_internal(struct symm_memory *m, const void *owner, const void *ptr)
{
    pthread_rwlock_wrlock(&m->lock);
    struct symm_block *b = block_of(m, owner, ptr, NULL, true);
    if (b)
        b->freed = symm__exchange_freed(m->config.exchange, b->off);
    pthread_rwlock_unlock(&m->lock);
}

symm_status symm__memory_give(struct symm_memory *m, const void *owner, void *ptr,
                              const void *keeper)
{
    pthread_rwlock_wrlock(&m->lock);
    struct symm_block *b = block_of(m, owner, ptr, NULL, false);
    if (b && b->kind != SYMM_BLOCK_USER && b->kind != SYMM_BLOCK_REGISTERED)
        b = NULL;
    if (b)
        b->keeper = keeper;
    pthread_rwlock_unlock(&m->lock);
    return b ? SYMM_OK : no_block(m, owner, ptr);
}

/* Frees the blocks of an owner, but no more than one registered block, whose segment it returns. */
static bool free_some(struct symm_memory *m, const void *owner, uint64_t *segment)
{
    bool registered = false;

    pthread_rwlock_wrlock(&m->lock);
    for (size_t i = 0; i < m->blocks.count && !registered; i++) {
        struct symm_block *b = &m->blocks.at[i];
        if (b->owner != owner || b->freed)
            continue;
        mark_freed(m, b);
        registered = b->kind == SYMM_BLOCK_REGISTERED;
        *segment = b->segment;
    }
    pthread_rwlock_unlock(&m->lock);
    return registered;
}

void symm__memory_free_owner(struct symm_memory *m, const void *owner)
{
    uint64_t segment;

    while (free_some(m, owner, &segment))
        symm__memory_retire_segment(m, segment);
}

/* ---------------------------------------------------------------------------------------------- */
/* Trimming                                                                                       */

symm_status symm__memory_trim(struct symm_memory *m, struct symm_host_comm *comm)
{
    for (;;) {
        struct symm_vote vote = {.text = "symm_trim()", .op = SYMM_HEAP_TRIM};
        symm_status st = symm__host_comm_vote(comm, &vote, symm__deadline_in(m->config.timeout_ms));
        if (st != SYMM_OK)
            return st;
        if (!vote.answer[1])
            return SYMM_OK;
        symm__memory_retire_segment(m, vote.answer[0]);
    }
}

/* ---------------------------------------------------------------------------------------------- */

char *symm__memory_window(const struct symm_memory *m, int rank)
{
    return (char *)(uintptr_t)m->windows.base[rank];
}

void symm__memory_usage(struct symm_memory *m, symm_usage *out)
{
    symm_usage u = {.window = m->windows.nbytes};
    uint64_t settled = symm__exchange_settled(m->config.exchange);

    pthread_rwlock_rdlock(&m->lock);
    for (const struct symm_segment *s = m->segments; s; s = s->next) {
        if (s->registered)
            continue;
        u.segments += s->nbytes;
        u.nsegments++;
    }
    for (size_t i = 0; i < m->blocks.count; i++) {
        const struct symm_block *b = &m->blocks.at[i];
        if (b->kind == SYMM_BLOCK_REGISTERED) {
            u.registered += b->freed ? 0 : b->requested;
            continue;
        }
        if (b->freed > settled)
            u.pending += b->nbytes;
        if (b->freed)
            continue;
        u.allocated += b->nbytes;
        u.requested += b->requested;
        if (b->kind != SYMM_BLOCK_USER)
            u.internal += b->nbytes;
    }
    pthread_rwlock_unlock(&m->lock);
    *out = u;
}

symm_status symm__memory_close(struct symm_memory *m)
{
    symm_status st;

    if (!m)
        return SYMM_OK;
    symm__multicast_close(m);
    while (m->segments) {
        struct symm_segment *s = m->segments;
        m->segments = s->next;
        symm__memory_destroy_segment(m, s);
    }
    st = symm__windows_close(m->config.drv, &m->windows);
    if (st != SYMM_OK)
        symm__memory_note(m, st, "releasing the windows");
    st = m->failed == SYMM_OK ? SYMM_OK : symm__fail(m->failed, "%s", m->failed_text);
    symm__blocks_clear(&m->blocks);
    pthread_rwlock_destroy(&m->lock);
    free(m);
    return st;
}
