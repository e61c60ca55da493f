/* The public functions on symmetric memory. */
#include <symm/symm.h>

#include "runtime/group/call.h"
#include "runtime/group/domains.h"
#include "runtime/group/group.h"
#include "runtime/group/pad.h"

symm_status symm_alloc(symm_group *group, size_t nbytes, void **out)
{
    struct symm_call call;
    void *block = NULL;
    symm_status st;

    TRY(symm__collective_begin(&call, group, true, "symm_alloc(%zu bytes)", nbytes));
    if (nbytes == 0 || !out)
        return symm__collective_refuse(&call, "%s", out ? "nbytes is 0" : "out is NULL");
    if (nbytes > group->ctx->agreed.window_nbytes)
        return symm__collective_refuse(&call, "nbytes is %zu; the window has %llu", nbytes,
                                       (unsigned long long)group->ctx->agreed.window_nbytes);
    TRY(symm__collective_end(&call,
                             symm__memory_alloc(group->ctx->memory, group->comm, group,
                                                SYMM_BLOCK_USER, nbytes, call.text, &block)));
    *out = block;
out:
    return st;
}

symm_status symm_free(symm_group *group, void *ptr)
{
    symm_status st;

    if (!ptr)
        return SYMM_OK;
    if (!group || symm__forked(group->ctx))
        return symm__enter(group, "symm_free");
    symm__pads_forget(group->ctx, group, ptr);
    st = symm__memory_free(group->ctx->memory, group, ptr, NULL);
    return st == SYMM_OK ? SYMM_OK : symm__fail_on(SYMM_ON(group), st, "symm_free: ptr: ");
}

symm_status symm_trim(symm_group *group)
{
    struct symm_call call;
    symm_status st;

    TRY(symm__collective_begin(&call, group, true, "symm_trim()"));
    st = symm__collective_end(&call, symm__memory_trim(group->ctx->memory, group->comm));
out:
    return st;
}

symm_status symm_register(symm_group *group, void *theirs, size_t nbytes, void **out)
{
    struct symm_call call;
    void *block = NULL;
    symm_status st;

    TRY(symm__collective_begin(&call, group, true, "symm_register(%zu bytes)", nbytes));
    if (!theirs || nbytes == 0 || !out)
        return symm__collective_refuse(&call, "%s",
                                       !theirs  ? "theirs is NULL"
                                       : nbytes ? "out is NULL"
                                                : "nbytes is 0");
    TRY(symm__collective_end(&call, symm__memory_register(group->ctx->memory, group->comm, group,
                                                          theirs, nbytes, call.text, &block)));
    *out = block;
out:
    return st;
}

void *symm_peer(const symm_group *group, const void *local, int rank)
{
    uint64_t off;

    if (!group || symm__forked(group->ctx)) {
        symm__enter(group, "symm_peer");
        return NULL;
    }
    if (rank < 0 || rank >= group->nranks) {
        symm__fail(SYMM_ERROR_ARGUMENT, "rank is %d; the group has 0 to %d", rank,
                   group->nranks - 1);
        symm__fail_on(SYMM_ON(group), SYMM_ERROR_ARGUMENT, "symm_peer: ");
        return NULL;
    }
    if (!symm__group_is_near(group, rank)) {
        symm__fail(SYMM_ERROR_ARGUMENT, "rank %d is in another domain", rank);
        symm__fail_on(SYMM_ON(group), SYMM_ERROR_ARGUMENT, "symm_peer: ");
        return NULL;
    }
    if (!symm__memory_find(group->ctx->memory, local, 1, group->members, &off)) {
        symm__fail_on(SYMM_ON(group), SYMM_ERROR_ARGUMENT, "symm_peer: local: ");
        return NULL;
    }
    return symm__memory_window(group->ctx->memory, symm__group_domain_rank(group, rank)) + off;
}

size_t symm_alloc_nbytes(const symm_group *group, const void *local)
{
    uint64_t off;

    if (!group || symm__forked(group->ctx)) {
        symm__enter(group, "symm_alloc_nbytes");
        return 0;
    }
    if (!symm__memory_find(group->ctx->memory, local, 1, group->members, &off)) {
        symm__fail_on(SYMM_ON(group), SYMM_ERROR_ARGUMENT, "symm_alloc_nbytes: local: ");
        return 0;
    }
    return symm__memory_resolve(group->ctx->memory, local, 1, group->members).left;
}

void *symm_multicast(const symm_group *group, const void *local)
{
    uint64_t off;

    if (!group || symm__forked(group->ctx)) {
        symm__enter(group, "symm_multicast");
        return NULL;
    }
    if (!group->mc) {
        symm__fail(SYMM_ERROR_UNSUPPORTED, "multicast is off: %s", group->multicast_off);
        symm__fail_on(SYMM_ON(group), SYMM_ERROR_UNSUPPORTED, "symm_multicast: ");
        return NULL;
    }
    if (!symm__memory_find(group->ctx->memory, local, 1, group->members, &off)) {
        symm__fail_on(SYMM_ON(group), SYMM_ERROR_ARGUMENT, "symm_multicast: local: ");
        return NULL;
    }
    if (!symm__multicast_covers(group->mc, off, 1)) {
        symm__fail(SYMM_ERROR_UNSUPPORTED,
                   "the segment of %p is not bound to the group's multicast object", local);
        symm__fail_on(SYMM_ON(group), SYMM_ERROR_UNSUPPORTED, "symm_multicast: local: ");
        return NULL;
    }
    return symm__multicast_window(group->mc) + off;
}

symm_status symm_memory_usage(symm_context *ctx, symm_usage *out)
{
    if (!ctx || !out)
        return symm__fail(SYMM_ERROR_ARGUMENT, "symm_memory_usage: %s is NULL",
                          ctx ? "out" : "the context");
    if (symm__forked(ctx))
        return symm__fail(SYMM_ERROR_STATE, "symm_memory_usage: " SYMM_GONE("context"));
    symm__memory_usage(ctx->memory, out);
    return SYMM_OK;
}
