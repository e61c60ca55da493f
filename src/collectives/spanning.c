/* Checks a call of a group of several domains, chooses its form, and enqueues it. */
#include "spanning.h"

#include "runtime/group/domains.h"
#include "choice.h"

/* ---- The form ---- */

static bool is_deterministic(const struct symm_collective_call *call)
{
    return call->flags & SYMM_DETERMINISTIC && symm__operation_reduces(call->operation);
}

static symm_algo form_of(const struct symm_links *links, const struct symm_collective_call *call)
{
    const struct symm_group *group = links->group;

    if (is_deterministic(call))
        return SYMM_ALGO_HIERARCHICAL; /* the engine has an order of its own */
    if (call->algo != SYMM_ALGO_AUTO)
        return call->algo;
    if (!links->rail)
        return SYMM_ALGO_FLAT;
    if (links->algo != SYMM_ALGO_AUTO)
        return links->algo;
    return symm__choose_form(group->ctx->tuning, call, group->domains->birth.ndomains,
                             (uint32_t)symm__links_width(links));
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
    if (!symm_algo_name(algo))
        return "there is no such algorithm";
    if (algo != SYMM_ALGO_AUTO && !symm__algo_is_form(algo))
        return "a group of several domains has auto, flat and hierarchical";
    if (algo == SYMM_ALGO_HIERARCHICAL && !symm__links_has_rails(group))
        return "hierarchical needs domains of as many ranks each";
    return symm__collective_reason(&limits, operation, SYMM_ALGO_AUTO, dtype, op);
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
    if (!reason && is_deterministic(call) && call->algo == SYMM_ALGO_FLAT)
        reason = "flat has NCCL's order, which SYMM_DETERMINISTIC rules out";
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
    st = form_of(links, call) == SYMM_ALGO_HIERARCHICAL
             ? symm__hierarchical(e, links, call, data->in, data->out)
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
