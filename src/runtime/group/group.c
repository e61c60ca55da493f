/* Creates and releases groups. */
#include "group.h"

#include <stdlib.h>
#include <string.h>
#include "runtime/memory/heap.h"
#include "abort_line.h"
#include "call.h"
#include "domains.h"
#include "known_stream.h"
#include "pad.h"
#include "side_stream.h"

int symm__group_domain_rank(const struct symm_group *group, int rank)
{
    return group->domains ? group->ctx->join.span->number[group->domains->world[rank]]
                          : symm__host_comm_ranks(group->comm)[rank];
}

int symm__group_world_rank(const struct symm_group *group, int rank)
{
    return group->domains
               ? group->domains->world[rank]
               : symm__join_name(&group->ctx->join, symm__group_domain_rank(group, rank));
}

struct symm_rank_set symm__group_pair(const struct symm_group *group, int rank)
{
    const int both[] = {symm__group_domain_rank(group, group->rank),
                        symm__group_domain_rank(group, rank)};

    return symm__rank_set(2, both);
}

/*
 * The comm has ended. Perhaps called from the I/O thread, perhaps while the group is being created.
 */
static void comm_ended(void *user)
{
    struct symm_group *group = user;

    atomic_store(&group->ended, true);
    if (group->line && (!group->ctx->hold || atomic_load(&group->released)))
        symm__abort_line_abort(group->line);
}

/* An end at the same time either sees `released`, or is seen here. */
static void hold_no_more(struct symm_group *group)
{
    atomic_store(&group->released, true);
    if (group->line && atomic_load(&group->ended))
        symm__abort_line_abort(group->line);
}

void symm__group_hold_no_more(struct symm_group *group)
{
    struct symm_group *inner = atomic_load(&group->inner);

    hold_no_more(group);
    if (inner)
        hold_no_more(inner);
}

bool symm__group_ended_unnoticed(struct symm_group *group)
{
    const int exited = symm__host_comm_exited(group->comm);
    struct symm_wait_record wait;

    return exited >= 0 && !(group->line && symm__abort_line_record(group->line, &wait) &&
                            symm__group_domain_rank(group, wait.from) == exited);
}

struct symm_host_comm_events symm__group_events(struct symm_group *group)
{
    return (struct symm_host_comm_events){
        .ended = comm_ended,
        .activity = symm__stall_activity,
        .told = symm__stall_told,
        .user = group,
    };
}

struct symm_group *symm__group_new(struct symm_context *ctx)
{
    struct symm_group *group = calloc(1, sizeof *group);

    if (!group) {
        symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
        return NULL;
    }
    group->ctx = ctx;
    pthread_mutex_init(&group->lock, NULL);
    return group;
}

symm_status symm__group_equip_event(struct symm_group *group)
{
    symm_status st = SYMM_OK;

    TRY_CU(group->ctx->drv, cuEventCreate, &group->last, CU_EVENT_DISABLE_TIMING);
out:
    return st;
}

/* Creates the local resources of a group, before the first event of its comm. */
static symm_status equip(struct symm_group *group)
{
    struct symm_context *ctx = group->ctx;
    symm_status st;

    TRY(symm__abort_line_take(ctx->abort_lines, &group->line));
    TRY(symm__group_equip_event(group));
out:
    return st;
}

/* Bytes of a new group's areas. */
static size_t block_nbytes(const struct symm_context *ctx, int nranks)
{
    const struct symm_areas_size size = symm__areas_first(ctx->agreed.staging_nbytes, nranks);

    return symm__areas_nbytes(&size, nranks);
}

static void fill_in_view(struct symm_group *group)
{
    const struct symm_memory *memory = group->ctx->memory;
    const char *own = symm__memory_window(memory, symm__group_domain_rank(group, group->rank));
    symm_view *view = &group->view;

    *view = (symm_view){
        .abi = SYMM_VIEW_ABI,
        .rank = group->rank,
        .nranks = group->nranks,
        .abort = (const uint32_t *)(uintptr_t)group->line->host_address,
        .poison = (uint32_t *)(uintptr_t)group->line->device_address,
        .record = (void *)(uintptr_t)(group->line->host_address +
                                      offsetof(struct symm_host_line, record)),
    };
    for (int r = 0; r < group->nranks; r++)
        view->peer[r] = symm__memory_window(memory, symm__group_domain_rank(group, r)) - own;
    if (group->mc) {
        view->flags |= SYMM_VIEW_MULTICAST;
        view->multicast = symm__multicast_window(group->mc) - own;
    }
}

void symm__group_list(struct symm_group *group)
{
    struct symm_context *ctx = group->ctx;

    pthread_mutex_lock(&ctx->groups_lock);
    group->next = ctx->groups;
    ctx->groups = group;
    pthread_mutex_unlock(&ctx->groups_lock);
}

/* Completes a group from its comm and its block. All ranks come here, or none. */
static symm_status finish(struct symm_group *group, void *block, const char *what)
{
    struct symm_context *ctx = group->ctx;
    struct symm_vote ready = {.text = what, .fd = -1};
    symm_status st = SYMM_OK;

    group->members = symm__host_comm_members(group->comm);
    TRY_CU(ctx->drv, cuMemsetD8Async, group->line->device_address, 0,
           sizeof(struct symm_device_line), ctx->own_stream);
    TRY(symm__group_take_areas(group, block)); /* also waits for the stream */
out:
    /* No rank may signal before all pads are ready. If one rank failed, all ranks fail. */
    ready.status = st;
    st = symm__host_comm_vote(group->comm, &ready, symm__deadline_in(ctx->timeout_ms));
    if (st == SYMM_OK)
        st = symm__multicast_obtain(ctx->memory, group->comm, what, &group->mc,
                                    &group->multicast_off);
    if (st != SYMM_OK)
        return st;
    fill_in_view(group);
    symm__group_list(group);
    return SYMM_OK;
}

symm_status symm__group_join_world(struct symm_context *ctx, symm_status *mine,
                                   struct symm_group **out)
{
    struct symm_group *group = symm__group_new(ctx);
    struct symm_host_comm_events events;
    symm_status st;

    if (!group)
        return SYMM_ERROR_MEMORY;
    group->rank = ctx->join.rank;
    group->nranks = ctx->join.nranks;
    if (*mine == SYMM_OK)
        *mine = equip(group);
    symm__collective_note(group, "symm_context_create");
    events = symm__group_events(group);
    TRY(symm__host_comm_world(ctx->exchange, &events, &group->comm));
    *out = group;
    group = NULL;
out:
    symm__group_release(group);
    return st;
}

symm_status symm__group_furnish_world(struct symm_group *group)
{
    static const char what[] = "symm_context_create: the world group";
    void *block = NULL;
    symm_status st = symm__memory_alloc(group->ctx->memory, group->comm, group, SYMM_BLOCK_INTERNAL,
                                        block_nbytes(group->ctx, group->nranks), what, &block);

    if (st == SYMM_OK)
        st = finish(group, block, what);
    symm__collective_note(group, NULL);
    return st;
}

symm_status symm__group_create(struct symm_group *of, int nranks, const int *ranks,
                               const char *what, symm_status mine, struct symm_group **out)
{
    int rank = 0;

    if (of->domains)
        return symm__domains_create(of, nranks, ranks, what, mine, out);
    while (ranks[rank] != of->rank)
        rank++;
    return symm__group_create_at(of, rank, nranks, ranks, SYMM_CREATE_ORDINARY, what, mine, out);
}

symm_status symm__group_create_at(struct symm_group *of, int rank, int nranks, const int *ranks,
                                  uint64_t kind, const char *what, symm_status mine,
                                  struct symm_group **out)
{
    struct symm_context *ctx = of->ctx;
    struct symm_group *group = symm__group_new(ctx);
    struct symm_vote vote = {.text = what, .op = SYMM_HEAP_ALLOC, .fd = -1};
    struct symm_host_comm_events events;
    size_t nbytes = block_nbytes(ctx, nranks);
    void *block = NULL;
    symm_status st;

    if (!group)
        return SYMM_ERROR_MEMORY;
    group->nranks = nranks;
    group->rank = rank;
    vote.status = mine == SYMM_OK ? equip(group) : mine;
    vote.args[0] = nbytes;
    vote.args[1] = SYMM_HEAP_ANY_SEGMENT;
    vote.args[3] = kind;
    events = symm__group_events(group);
    TRY(symm__host_comm_create(of->comm, nranks, ranks, &events, &vote,
                               symm__deadline_in(ctx->timeout_ms), &group->comm));
    TRY(symm__memory_adopt(ctx->memory, group->comm, group, SYMM_BLOCK_INTERNAL, nbytes,
                           vote.answer, &block));
    TRY(finish(group, block, what));
    *out = group;
    group = NULL;
out:
    symm__group_release(group);
    return st;
}

symm_status symm__group_quiesce(struct symm_group *group)
{
    const struct symm_driver *drv = group->ctx->drv;
    CUevent last;
    CUresult cu;
    symm_status st = SYMM_OK;

    /*
     * The group does not see launches of graphs, and an event may be missing. So only the whole
     * device context can be waited for.
     */
    if (group->has_captured || group->has_unrecorded) {
        cu = drv->cuCtxSynchronize();
        return cu == CUDA_SUCCESS ? SYMM_OK : symm__driver_fail(drv, cu, "cuCtxSynchronize");
    }
    if (group->has_last) {
        TRY(symm__group_last(group, &last));
        TRY_CU(drv, cuEventSynchronize, last);
    }
out:
    return st;
}

static void unlist(struct symm_group *group)
{
    struct symm_context *ctx = group->ctx;

    pthread_mutex_lock(&ctx->groups_lock);
    for (struct symm_group **at = &ctx->groups; *at; at = &(*at)->next)
        if (*at == group) {
            *at = group->next;
            break;
        }
    pthread_mutex_unlock(&ctx->groups_lock);
}

void symm__group_attach(struct symm_group *group, struct symm_attachment *attachment)
{
    pthread_mutex_lock(&group->lock);
    attachment->next = group->attachments;
    group->attachments = attachment;
    pthread_mutex_unlock(&group->lock);
}

struct symm_attachment *symm__group_attachment(struct symm_group *group,
                                               void (*release)(struct symm_attachment *))
{
    struct symm_attachment *at;

    pthread_mutex_lock(&group->lock);
    for (at = group->attachments; at && at->release != release; at = at->next)
        ;
    pthread_mutex_unlock(&group->lock);
    return at;
}

void symm__group_detach(struct symm_group *group, struct symm_attachment *attachment)
{
    pthread_mutex_lock(&group->lock);
    for (struct symm_attachment **at = &group->attachments; *at; at = &(*at)->next)
        if (*at == attachment) {
            *at = attachment->next;
            break;
        }
    pthread_mutex_unlock(&group->lock);
}

void symm__group_let_go(struct symm_group *group)
{
    struct symm_attachment *all, *next;

    pthread_mutex_lock(&group->lock);
    all = group->attachments;
    group->attachments = NULL;
    pthread_mutex_unlock(&group->lock);
    for (; all; all = next) {
        next = all->next;
        all->release(all);
    }
    if (group->ctx->memory)
        symm__memory_free_owner(group->ctx->memory, group);
}

symm_status symm__group_release(struct symm_group *group)
{
    struct symm_context *ctx;
    symm_status st = SYMM_OK;

    if (!group)
        return SYMM_OK;
    ctx = group->ctx;
    unlist(group);
    if (group->mc)
        symm__multicast_put_back(ctx->memory, group->mc);
    symm__group_let_go(group);
    symm__host_comm_close(group->comm);
    symm__abort_line_put_back(ctx->abort_lines, group->line);
    symm__side_streams_release(group, &st);
    if (group->last)
        symm__driver_note(ctx->drv, ctx->drv->cuEventDestroy(group->last), "cuEventDestroy", &st);
    symm__known_stream_let_go(ctx->drv, group->known);
    symm__pads_forget(ctx, group, NULL);
    pthread_mutex_destroy(&group->lock);
    free(group->domains);
    free(group);
    return st;
}
