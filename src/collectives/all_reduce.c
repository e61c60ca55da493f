/* symm_all_reduce(): checks the call, plans it, says where the data lie, launches. */
#include <symm/collectives.h>

#include "../runtime/enqueue.h"
#include "all_reduce_plan.h"

/* What the plan needs to know of the group. */
static struct symm_all_reduce_machine machine_of(const struct symm_group *group)
{
    const struct symm_context *ctx = group->ctx;
    struct symm_all_reduce_machine m = {
        .nranks = group->nranks,
        .nsms = ctx->agreed.nsms,
        .max_threads = ctx->agreed.max_threads,
        .compute_major = ctx->agreed.compute_major,
        .multicast_off = symm_multicast_off(group),
        .staging_nbytes = group->staging_nbytes,
    };
    const uint64_t staging_off =
        (uint64_t)(group->staging - symm__memory_window(ctx->memory, ctx->join.rank));

    if (!m.multicast_off && !symm__multicast_covers(group->mc, staging_off, group->staging_nbytes))
        m.multicast_off = "the group's staging area could not be bound to its multicast object";
    return m;
}

const char *symm_all_reduce_unavailable(symm_group *group, symm_algo algo, symm_dtype dtype,
                                        symm_redop op)
{
    if (!group)
        return "group is NULL";
    if (symm__forked(group->ctx))
        return "the group belongs to the process this one was forked from";
    const struct symm_all_reduce_machine machine = machine_of(group);
    return symm__all_reduce_reason(&machine, algo, dtype, op);
}

/* -------------------------------------------------------------------------------- the arguments */

static symm_status check_enums(const struct symm_all_reduce_call *call)
{
    if (!symm__dtype_name(call->dtype))
        return symm__fail(SYMM_ERROR_ARGUMENT, "dtype %d is no symm_dtype", (int)call->dtype);
    if (!symm__redop_name(call->op))
        return symm__fail(SYMM_ERROR_ARGUMENT, "op %d is no symm_redop", (int)call->op);
    if (!symm__algo_name(call->algo))
        return symm__fail(SYMM_ERROR_ARGUMENT, "options->algo %d is no symm_algo", (int)call->algo);
    if (call->flags & ~SYMM_DETERMINISTIC)
        return symm__fail(SYMM_ERROR_ARGUMENT, "options->flags 0x%x has unknown bits", call->flags);
    return SYMM_OK;
}

static symm_status check_range(const char *name, const void *ptr, size_t count, size_t size)
{
    if (!ptr)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s is NULL and count is %zu", name, count);
    if ((uintptr_t)ptr % size)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s %p is not aligned to its elements of %zu bytes",
                          name, ptr, size);
    if (count * size > UINTPTR_MAX - (uintptr_t)ptr)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s %p and count %zu run past the address space",
                          name, ptr, count);
    return SYMM_OK;
}

static symm_status check_data(const void *in, const void *out, size_t count, size_t size)
{
    const uintptr_t i = (uintptr_t)in, o = (uintptr_t)out;
    symm_status st;

    if (count > (size_t)INT64_MAX / size)
        return symm__fail(SYMM_ERROR_ARGUMENT, "count %zu of %zu bytes overflows", count, size);
    TRY(check_range("in", in, count, size));
    TRY(check_range("out", out, count, size));
    if (i != o && i < o + count * size && o < i + count * size)
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "in %p and out %p overlap in part, with count %zu: they may be the same "
                          "or apart",
                          in, out, count);
out:
    return st;
}

/* Freed, too short, another rank's or a multicast address: what a kernel must not get. */
static symm_status check_symmetric(const struct symm_group *group, const char *name,
                                   const void *ptr, size_t nbytes)
{
    if (symm__memory_usable(group->ctx->memory, ptr, nbytes))
        return SYMM_OK;
    return symm__fail_in(SYMM_ERROR_ARGUMENT, "%s: ", name);
}

static symm_status check(const struct symm_all_reduce_machine *machine,
                         const struct symm_all_reduce_call *call, const symm_options *options,
                         const void *in, const void *out)
{
    const char *reason;
    symm_status st;

    TRY(check_enums(call));
    for (size_t i = 0; options && i < sizeof options->reserved / sizeof options->reserved[0]; i++)
        if (options->reserved[i])
            return symm__fail(SYMM_ERROR_ARGUMENT, "options->reserved[%zu] is %u, not 0", i,
                              options->reserved[i]);
    if (call->count)
        TRY(check_data(in, out, call->count, symm__dtype_size(call->dtype)));
    reason = symm__all_reduce_reason(machine, call->algo, call->dtype, call->op);
    if (reason)
        return symm__fail(SYMM_ERROR_UNSUPPORTED, "%s of %s with %s: %s",
                          symm__redop_name(call->op), symm__dtype_name(call->dtype),
                          symm__algo_name(call->algo), reason);
    if (call->flags & SYMM_DETERMINISTIC &&
        (call->algo == SYMM_ALGO_MULTIMEM || call->algo == SYMM_ALGO_MULTIMEM_ONE_SHOT))
        return symm__fail(SYMM_ERROR_UNSUPPORTED,
                          "%s adds in the switch's own order, which SYMM_DETERMINISTIC rules out",
                          symm__algo_name(call->algo));
out:
    return st;
}

/* ------------------------------------------------------------------------------------- the work */

/* Part of a hash, begun with 0. */
static uint64_t mix(uint64_t hash, uint64_t x)
{
    hash = (hash ^ x) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    return hash ^ hash >> 32;
}

/* Where the bytes at ptr lie in the windows, if a kernel can use them in place on every rank. */
static bool find(struct symm_group *group, const void *ptr, size_t nbytes, bool by_switch,
                 uint64_t *off)
{
    return (uintptr_t)ptr % 16 == 0 &&
           symm__memory_has(group->ctx->memory, ptr, nbytes, group->members, off) &&
           (!by_switch || symm__multicast_covers(group->mc, *off, nbytes));
}

/*
 * A hash of where in and out lie, to be compared with the other ranks' in the kernel; 0: they need
 * the staging area. One-shot algorithms read `in` while other ranks do and write only their own
 * `out`, which may be any memory but `in`.
 */
static uint32_t place_of(struct symm_group *group, symm_algo algo, const void *in, const void *out,
                         size_t nbytes)
{
    const bool by_switch = algo == SYMM_ALGO_MULTIMEM || algo == SYMM_ALGO_MULTIMEM_ONE_SHOT;
    const bool one_shot = algo == SYMM_ALGO_ONE_SHOT || algo == SYMM_ALGO_MULTIMEM_ONE_SHOT;
    uint64_t in_off = 0, out_off = 0;
    uint32_t hash;

    if (!find(group, in, nbytes, by_switch, &in_off))
        return 0;
    if (one_shot ? in == out || (uintptr_t)out % 16
                 : !find(group, out, nbytes, by_switch, &out_off))
        return 0;
    hash = (uint32_t)mix(mix(0, in_off), out_off);
    return hash ? hash : 1;
}

static symm_status launch(struct symm_enqueue *e, const struct symm_all_reduce_machine *machine,
                          const struct symm_all_reduce_call *call, const void *in, void *out)
{
    const struct symm_all_reduce_plan plan = symm__all_reduce_plan(machine, call);
    struct symm_group *group = e->group;
    const size_t nbytes = call->count * symm__dtype_size(call->dtype);
    symm_all_reduce_args args = {
        .view = group->view,
        .pad = group->pad,
        .in = in,
        .out = out,
        .staging = group->staging,
        .staging_nbytes = group->staging_nbytes,
        .count = call->count,
        .place = place_of(group, plan.algo, in, out, nbytes),
        .channel = SYMM_CHANNEL_BLOCKS,
    };

    args.call = (uint32_t)mix(mix(mix(0, call->count), plan.kernel),
                              (uint64_t)plan.blocks << 32 | plan.threads);
    return symm__enqueue_kernel(e, plan.kernel, plan.blocks, plan.threads, &args);
}

/* A world of one. */
static symm_status copy(struct symm_enqueue *e, const void *in, void *out, size_t nbytes)
{
    symm_status st = SYMM_OK;

    if (in != out)
        TRY_CU(e->group->ctx->drv, cuMemcpyAsync, (CUdeviceptr)(uintptr_t)out,
               (CUdeviceptr)(uintptr_t)in, nbytes, e->stream);
out:
    return st;
}

symm_status symm_all_reduce(symm_group *group, const void *in, void *out, size_t count,
                            symm_dtype dtype, symm_redop op, const symm_options *options,
                            symm_stream stream)
{
    const struct symm_all_reduce_call call = {
        .algo = options ? options->algo : SYMM_ALGO_AUTO,
        .flags = options ? options->flags : 0,
        .max_blocks = options ? options->max_blocks : 0,
        .dtype = dtype,
        .op = op,
        .count = count,
    };
    struct symm_all_reduce_machine machine;
    struct symm_enqueue e;
    symm_status st;

    TRY(symm__enter(group, "symm_all_reduce"));
    machine = machine_of(group);
    st = check(&machine, &call, options, in, out);
    if (st == SYMM_OK && count)
        st = check_symmetric(group, "in", in, count * symm__dtype_size(dtype));
    if (st == SYMM_OK && count)
        st = check_symmetric(group, "out", out, count * symm__dtype_size(dtype));
    if (st != SYMM_OK)
        return symm__fail_in(st, "symm_all_reduce: rank %d: ", group->rank);
    TRY(symm__enqueue_begin(&e, group, stream, true,
                            "symm_all_reduce(count %zu, %s, %s, %s, flags %u, max_blocks %u)",
                            count, symm__dtype_name(dtype), symm__redop_name(op),
                            symm__algo_name(call.algo), call.flags, call.max_blocks));
    if (count && group->nranks == 1)
        st = copy(&e, in, out, count * symm__dtype_size(dtype));
    else if (count)
        st = launch(&e, &machine, &call, in, out);
    st = symm__enqueue_end(&e, st);
out:
    return st;
}
