/* Checks a call of a group of several domains, chooses its form, and enqueues it. */
#include "spanning.h"

#include "runtime/group/domains.h"

/* ---- The form ---- */

enum { KIB = 1 << 10, MIB = 1 << 20 };

/*
 * By the model of docs/hosts.md, which was measured on no cluster: three short steps win where the
 * engine's many steps cost more than their bytes.
 */
bool symm__spanning_prefers_hierarchy(enum symm_operation operation, uint64_t nbytes, int ndomains,
                                      int width)
{
    if (width == 1 || ndomains == 1)
        return false;
    if (operation == SYMM_OPERATION_ALL_REDUCE)
        return nbytes >= 32 * KIB && nbytes <= 2 * MIB;
    if (operation == SYMM_OPERATION_ALL_GATHER || operation == SYMM_OPERATION_REDUCE_SCATTER)
        return nbytes <= (uint64_t)ndomains * 2 * MIB;
    return false;
}

static bool is_deterministic(const struct symm_collective_call *call)
{
    return call->flags & SYMM_DETERMINISTIC && symm__operation_reduces(call->operation);
}

static bool is_hierarchical(const struct symm_links *links, const struct symm_collective_call *call)
{
    const struct symm_group *group = links->group;
    const uint64_t n = symm__operation_has_shares(call->operation) ? (uint64_t)group->nranks : 1;

    if (is_deterministic(call))
        return true; /* the engine has an order of its own */
    if (!links->rail || links->algo == SYMM_SPAN_FLAT)
        return false;
    return links->algo == SYMM_SPAN_HIERARCHICAL ||
           symm__spanning_prefers_hierarchy(
               call->operation, n * call->count * symm_dtype_size(call->dtype),
               (int)group->domains->birth.ndomains, symm__links_width(links));
}

static symm_status flat(struct symm_links *links, const struct symm_collective_call *call,
                        const void *in, void *out, symm_stream stream)
{
    const size_t count = call->count, nbytes = count * symm_dtype_size(call->dtype);

    switch (call->operation) {
    case SYMM_OPERATION_ALL_REDUCE:
        return symm__engine_all_reduce(links->flat, in, out, count, call->dtype, call->op, stream);
    case SYMM_OPERATION_REDUCE_SCATTER:
        return symm__engine_reduce_scatter(links->flat, in, out, count, call->dtype, call->op,
                                           stream);
    case SYMM_OPERATION_ALL_GATHER:
        return symm__engine_all_gather(links->flat, in, out, nbytes, stream);
    default:
        return symm__engine_broadcast(links->flat, in, out, nbytes, call->root, stream);
    }
}

/* ---- The call ---- */

const char *symm__spanning_reason(const struct symm_group *group, enum symm_operation operation,
                                  symm_algo algo, symm_dtype dtype, symm_redop op)
{
    const struct symm_limits limits = symm__collective_limits(group->ctx->domain);

    if (operation == SYMM_OPERATION_ALL_REDUCE_RMS_NORM)
        return "there is no norm between domains";
    if (algo != SYMM_ALGO_AUTO)
        return "a group of several domains has auto alone (SYMM_SPAN_ALGO has its forms)";
    return symm__collective_reason(&limits, operation, algo, dtype, op);
}

static symm_status check(const struct symm_group *group, const struct symm_collective_call *call,
                         const symm_options *options)
{
    const char *reason;
    symm_status st;

    TRY(symm__collective_check_enums(call));
    TRY(symm__collective_check_reserved(options));
    if (call->root < 0 || call->root >= group->nranks)
        return symm__fail(SYMM_ERROR_ARGUMENT, "root is %d; the group has 0 to %d", call->root,
                          group->nranks - 1);
    reason = symm__spanning_reason(group, call->operation, call->algo, call->dtype, call->op);
    if (!reason && call->scaled)
        reason = "elements cannot be scaled between domains";
    if (!reason && is_deterministic(call) && !symm__links_has_rails(group))
        reason = "SYMM_DETERMINISTIC needs domains of as many ranks each";
    if (reason)
        return symm__fail(SYMM_ERROR_UNSUPPORTED, "%s", reason);
    st = symm__collective_check_count(group, call);
out:
    return st;
}

symm_status symm__spanning_provide(struct symm_group *group, const char *name, symm_stream stream)
{
    struct symm_call c;
    bool captured = false;
    symm_status st;

    if (symm__links_of(group))
        return SYMM_OK;
    TRY(symm__collective_is_captured(group, stream, &captured));
    if (captured)
        return symm__fail_on(SYMM_ON(group), SYMM_ERROR_STATE,
                             "%s: a group of several domains makes its communicators at its first "
                             "call, and not in a capture: call symm_group_reserve() before",
                             name);
    TRY(symm__collective_begin_spanning(&c, group, true, "%s: communicators", name));
    st = symm__collective_end(&c, symm__links_make(group, c.text));
out:
    return st;
}

static symm_status enqueue(struct symm_call *e, const struct symm_collective_call *call,
                           const struct symm_data *data)
{
    struct symm_links *links = symm__links_of(e->group);
    symm_status st;

    if (call->count == 0)
        return SYMM_OK;
    TRY(symm__links_enter(links));
    st = is_hierarchical(links, call) ? symm__hierarchical(e, links, call, data->in, data->out)
                                      : flat(links, call, data->in, data->out, e->stream);
    symm__links_leave(links);
    if (st != SYMM_OK)
        st = symm__links_fail(e->group, st); /* others have enqueued their part */
out:
    return st;
}

symm_status symm__spanning(struct symm_group *group, const struct symm_collective_call *call,
                           const struct symm_data *data, const symm_options *options,
                           symm_stream stream)
{
    const char *const name = symm__operation_call(call->operation);
    struct symm_call e;
    symm_status st = check(group, call, options);

    if (st == SYMM_OK && call->count) {
        const struct symm_arguments arguments = symm__arguments_resolve(group, call, data);
        st = symm__arguments_check(group, call, &arguments);
    }
    if (st != SYMM_OK)
        return symm__fail_on(SYMM_ON(group), st, "%s: ", name);
    TRY(symm__spanning_provide(group, name, stream));
    TRY(symm__collective_start(&e, group, call, stream));
    st = symm__call_end(&e, enqueue(&e, call, data));
out:
    return st;
}

symm_status symm__spanning_barrier(struct symm_call *e)
{
    struct symm_links *links = symm__links_of(e->group);
    void *word;
    symm_status st = SYMM_OK;

    TRY(symm__links_enter(links));
    word = (void *)(uintptr_t)links->staging;
    if (links->inner && links->rail)
        st = symm_barrier(links->inner, e->stream);
    if (st == SYMM_OK)
        st = symm__engine_all_reduce(links->rail ? links->rail : links->flat, word, word, 1,
                                     SYMM_INT32, SYMM_MAX, e->stream);
    if (st == SYMM_OK && links->inner && links->rail)
        st = symm_barrier(links->inner, e->stream);
    symm__links_leave(links);
    if (st != SYMM_OK)
        st = symm__links_fail(e->group, st); /* others have enqueued their part */
out:
    return st;
}
