/*
 * The public functions on contexts and groups: check arguments and call the other folders. Memory,
 * streams, signals, kernels and DLPack have their own files.
 */
#include <symm/symm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/settings.h"
#include "runtime/group/call.h"
#include "runtime/group/domains.h"
#include "runtime/group/gather.h"
#include "runtime/group/group.h"
#include "runtime/group/pad.h"

/* --------------------------------------------------------------------------------- failures */

const char *symm_error_text(void)
{
    return symm__failure_text();
}

const char *symm_status_name(symm_status status)
{
    return symm__status_name(status);
}

int symm_setting_at(int index, symm_setting *out)
{
    static const symm_setting settings[] = {
#define SETTING_(id, name, type, fallback, help) {name, type, fallback, help, NULL},
        SYMM_SETTINGS(SETTING_)
#undef SETTING_
    };

    if (index < 0 || index >= SYMM_SETTING_COUNT || !out)
        return 0;
    *out = settings[index];
    if (symm__setting_is_set((enum symm_setting_id)index))
        out->value = symm__setting((enum symm_setting_id)index);
    return 1;
}

const char *symm_setting_unknown(int index)
{
    return index < 0 ? NULL : symm__setting_unknown(index);
}

/* --------------------------------------------------------------------------------- context */

symm_group *symm_context_world(symm_context *ctx)
{
    return ctx ? ctx->world : NULL;
}

symm_group *symm_context_domain(symm_context *ctx)
{
    return ctx ? ctx->domain : NULL;
}

const char *symm_context_driver(const symm_context *ctx)
{
    return ctx ? ctx->drv->name : NULL;
}

int symm_context_device(const symm_context *ctx)
{
    return ctx ? ctx->device : -1;
}

symm_device_context symm_context_primary(const symm_context *ctx)
{
    return ctx ? ctx->primary : NULL;
}

void *symm_context_driver_symbol(symm_context *ctx, const char *name)
{
    return ctx && name ? symm__driver_symbol(ctx->drv, name) : NULL;
}

/* ----------------------------------------------------------------------------------- groups */

/* Each rank is one of the group, and comes once. seen: a flag for each rank of the group. */
static symm_status check_each(const struct symm_group *of, int nranks, const int *ranks, bool *seen)
{
    for (int i = 0; i < nranks; i++) {
        if (ranks[i] < 0 || ranks[i] >= of->nranks)
            return symm__fail(SYMM_ERROR_ARGUMENT, "ranks[%d] is %d; the group has 0 to %d", i,
                              ranks[i], of->nranks - 1);
        if (seen[ranks[i]])
            return symm__fail(SYMM_ERROR_ARGUMENT, "ranks[%d] is %d for the second time", i,
                              ranks[i]);
        seen[ranks[i]] = true;
    }
    if (!seen[of->rank])
        return symm__fail(SYMM_ERROR_ARGUMENT, "rank %d is not in ranks: only members call it",
                          of->rank);
    return SYMM_OK;
}

/* Checks the list of ranks and writes it as text, on which the members must agree. */
static symm_status check_ranks(const struct symm_group *of, int nranks, const int *ranks,
                               char *text, size_t nbytes)
{
    size_t used = 0;
    symm_status st;
    bool *seen;

    if (!ranks || nranks < 1 || nranks > of->nranks)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s; nranks is %d of %d",
                          ranks ? "nranks is wrong" : "ranks is NULL", nranks, of->nranks);
    seen = calloc((size_t)of->nranks, sizeof *seen);
    if (!seen)
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    st = check_each(of, nranks, ranks, seen);
    for (int i = 0; st == SYMM_OK && i < nranks && used < nbytes; i++)
        used += (size_t)snprintf(text + used, nbytes - used, " %d", ranks[i]);
    free(seen);
    return st;
}

symm_status symm_group_create(symm_group *of, int nranks, const int *ranks, symm_group **out)
{
    char text[4 * SYMM_MAX_RANKS];
    struct symm_group *group = NULL;
    struct symm_call call;
    symm_status st, begun, mine;

    TRY(symm__enter(of, "symm_group_create"));
    st = check_ranks(of, nranks, ranks, text, sizeof text);
    if (st != SYMM_OK)
        return symm__fail_on(SYMM_ON(of), st, "symm_group_create: ");
    /*
     * Only members call this, so it is not counted. A failure is voted, so the members hear of it.
     */
    begun = symm__collective_begin_spanning(&call, of, false, "symm_group_create(ranks%s)", text);
    mine = begun == SYMM_OK && !out ? symm__fail(SYMM_ERROR_ARGUMENT, "out is NULL") : begun;
    st = symm__group_create(of, nranks, ranks, call.text, mine, &group);
    TRY(begun == SYMM_OK ? symm__collective_end(&call, st) : st);
    *out = group;
out:
    return st;
}

/*
 * After the first vote this rank frees the group's memory. After the second vote, all ranks have
 * freed it and its bytes can be used again.
 */
static symm_status leave_together(struct symm_call *call)
{
    struct symm_group *group = call->group;
    struct symm_vote agree = {.text = call->text, .fd = -1};
    struct symm_vote let_go = {.text = "symm_group_destroy: memory", .fd = -1};
    symm_status st;

    agree.status = symm__group_quiesce(group);
    TRY(symm__host_comm_vote(group->comm, &agree, symm__deadline_in(group->ctx->timeout_ms)));
    symm__group_let_go(group);
    st = symm__host_comm_vote(group->comm, &let_go, symm__deadline_in(group->ctx->timeout_ms));
out:
    return symm__collective_end(call, st);
}

/* Releases this rank's part of a group. st: the result of the call until now, with its text. */
static symm_status release(symm_group *group, const char *name, symm_status st)
{
    symm_context *ctx = group->ctx;
    char why[SYMM_TEXT_MAX];
    CUcontext popped;

    strcpy(why, symm__failure_text());
    const bool pushed = ctx->drv->cuCtxPushCurrent(ctx->primary) == CUDA_SUCCESS;
    symm__group_quiesce(group);
    if (st != SYMM_OK && group->mc &&
        !symm__host_comm_quiet(group->comm, symm__deadline_in(SYMM_QUIET_MS)))
        group->mc = NULL; /* a peer may use it still: it stays until the context ends */
    const symm_status released = symm__group_release(group);
    if (pushed)
        ctx->drv->cuCtxPopCurrent(&popped);
    if (st != SYMM_OK)
        return symm__fail(st, "%s", why); /* the first failure, not later ones */
    return released == SYMM_OK ? SYMM_OK : symm__fail_in(released, "%s: ", name);
}

static symm_status refuse_world(const symm_group *group, const char *name)
{
    if (symm__forked(group->ctx) || (group != group->ctx->world && group != group->ctx->domain))
        return SYMM_OK;
    return symm__fail(SYMM_ERROR_ARGUMENT, "%s: the %s group lives as long as its context", name,
                      group == group->ctx->world ? "world" : "domain's");
}

symm_status symm_group_destroy(symm_group *group)
{
    struct symm_call call;
    symm_status st;

    if (!group)
        return SYMM_OK;
    if (refuse_world(group, "symm_group_destroy") != SYMM_OK)
        return SYMM_ERROR_ARGUMENT;
    st = symm__collective_begin_spanning(&call, group, true, "symm_group_destroy()");
    if (st != SYMM_ERROR_STATE)
        symm__group_hold_no_more(group);
    if (st == SYMM_OK)
        st = leave_together(&call);
    if (st == SYMM_ERROR_STATE)
        return st; /* forked, or a rank is capturing a stream: nothing has happened on any rank */
    return release(group, "symm_group_destroy", st);
}

symm_status symm_group_leave(symm_group *group)
{
    struct symm_call call;
    symm_status st;

    if (!group)
        return SYMM_OK;
    if (refuse_world(group, "symm_group_leave") != SYMM_OK)
        return SYMM_ERROR_ARGUMENT;
    st = symm__collective_begin_spanning(&call, group, false, "symm_group_leave()");
    if (st == SYMM_ERROR_STATE)
        return st;
    symm__group_hold_no_more(group);
    if (st == SYMM_OK) {
        st = symm__collective_end(&call, symm__group_quiesce(group));
        group->mc = NULL; /* the other ranks use it still: it stays until the context ends */
    }
    return release(group, "symm_group_leave", st);
}

int symm_rank(const symm_group *group)
{
    return group ? group->rank : -1;
}

int symm_nranks(const symm_group *group)
{
    return group ? group->nranks : 0;
}

uint32_t symm_group_ndomains(const symm_group *group)
{
    if (!group)
        return 0;
    return group->domains ? group->domains->birth.ndomains : 1;
}

uint32_t symm_group_domain_of(const symm_group *group, int rank)
{
    return group && group->domains && rank >= 0 && rank < group->nranks
               ? (uint32_t)group->domains->domain[rank]
               : 0;
}

symm_context *symm_group_context(const symm_group *group)
{
    return group ? group->ctx : NULL;
}

int symm_world_rank(const symm_group *group, int rank)
{
    return group && rank >= 0 && rank < group->nranks ? symm__group_world_rank(group, rank) : -1;
}

symm_status symm_check(symm_group *group)
{
    if (group && !symm__forked(group->ctx))
        symm__stall_settle(group);
    return symm__enter(group, "symm_check");
}

void symm_abort(symm_group *group, const char *why)
{
    char text[SYMM_TEXT_MAX];

    if (!group || symm__forked(group->ctx))
        return;
    symm__group_hold_no_more(group);
    snprintf(text, sizeof text, "rank %d aborted: %s", group->ctx->join.world_rank,
             why ? why : "no reason given");
    symm__host_comm_abort(group->comm, SYMM_ERROR_PEER, text);
}

const char *symm_multicast_off(const symm_group *group)
{
    return group ? group->multicast_off : "the group is NULL";
}

symm_status symm_group_view(symm_group *group, symm_view *out)
{
    if (!group || !out)
        return symm__fail(SYMM_ERROR_ARGUMENT, "symm_group_view: %s is NULL",
                          group ? "out" : "group");
    if (symm__forked(group->ctx))
        return symm__enter(group, "symm_group_view");
    if (symm__domains_refuse(group) != SYMM_OK)
        return symm__fail_in(SYMM_ERROR_ARGUMENT, "symm_group_view: ");
    *out = group->view;
    return SYMM_OK;
}

/*
 * A failed device sends no more signals. Aborting tells the other ranks now instead of after the
 * timeout.
 */
static symm_status device_failed(struct symm_group *group, CUresult cu)
{
    symm_status st = symm__driver_fail(group->ctx->drv, cu, "cuStreamSynchronize");
    char text[SYMM_TEXT_MAX];

    snprintf(text, sizeof text, "rank %d: its device has failed: %.900s",
             group->ctx->join.world_rank, symm__failure_text());
    symm__host_comm_abort(group->comm, SYMM_ERROR_PEER, text);
    return symm__fail(st, "symm_synchronize: %s", text);
}

symm_status symm_synchronize(symm_group *group, symm_stream stream)
{
    const struct symm_driver *drv;
    int capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    CUcontext popped;
    symm_status st = SYMM_OK;
    CUresult cu;

    if (!group || symm__forked(group->ctx))
        return symm__enter(group, "symm_synchronize");
    drv = group->ctx->drv;
    TRY_CU(drv, cuCtxPushCurrent, group->ctx->primary);
    cu = drv->cuStreamIsCapturing(stream, &capturing);
    if (cu != CUDA_SUCCESS)
        st = symm__driver_fail(drv, cu, "cuStreamIsCapturing");
    else if (capturing != CU_STREAM_CAPTURE_STATUS_NONE)
        st = symm__fail(SYMM_ERROR_STATE, "the stream is being captured");
    else
        cu = drv->cuStreamSynchronize(stream);
    drv->cuCtxPopCurrent(&popped);
    if (st == SYMM_OK && cu >= CUDA_ERROR_ILLEGAL_ADDRESS && cu < CUDA_ERROR_NOT_PERMITTED)
        return device_failed(group, cu);
    if (st == SYMM_OK && cu != CUDA_SUCCESS)
        st = symm__driver_fail(drv, cu, "cuStreamSynchronize");
    symm__stall_settle(group);
    /*
     * An end reaches the ranks at different times. A peer that already has it may have overwritten
     * the data that this rank was reading. Only the hub can confirm that no rank has ended.
     */
    if (st == SYMM_OK)
        st = symm__host_comm_confirm(group->comm, symm__deadline_in(group->ctx->timeout_ms));
out:
    if (st != SYMM_OK)
        st = symm__fail_on(SYMM_ON(group), st, "symm_synchronize: ");
    return st;
}

symm_status symm_synchronize_groups(int ngroups, symm_group *const *groups,
                                    const symm_stream *streams)
{
    char why[SYMM_TEXT_MAX] = "";
    symm_status first = SYMM_OK;

    if (ngroups < 0 || (ngroups > 0 && (!groups || !streams)))
        return symm__fail(SYMM_ERROR_ARGUMENT, "symm_synchronize_groups: %s",
                          ngroups < 0 ? "ngroups is negative"
                          : groups    ? "streams is NULL"
                                      : "groups is NULL");
    for (int i = 0; i < ngroups; i++) {
        const symm_status st = symm_synchronize(groups[i], streams[i]);
        if (st != SYMM_OK && first == SYMM_OK) {
            first = st;
            snprintf(why, sizeof why, "groups[%d]: %.980s", i, symm__failure_text());
        }
    }
    return first == SYMM_OK ? SYMM_OK : symm__fail(first, "symm_synchronize_groups: %s", why);
}

/* --------------------------------------------------------------------------------- exchange */

symm_status symm_exchange(symm_group *group, const void *mine, size_t nbytes, void *all)
{
    struct symm_call call;
    size_t total;
    symm_status st;

    TRY(symm__collective_begin_spanning(&call, group, true, "symm_exchange(%zu bytes)", nbytes));
    if (nbytes > 0 && (!mine || !all))
        return symm__collective_refuse(&call, "%s is NULL; nbytes is %zu", mine ? "all" : "mine",
                                       nbytes);
    if (__builtin_mul_overflow(nbytes, (size_t)group->nranks, &total))
        return symm__collective_refuse(&call, "nbytes is %zu: too many", nbytes);
    st = symm__group_gather(group, call.text, SYMM_OK, mine, nbytes, all);
    st = symm__collective_end(&call, st);
out:
    return st;
}
