#include "collective.h"

#include <stdio.h>
#include "runtime/group/packet_call.h"
#include "choice.h"
#include "copy_engine.h"

/* What the plan needs to know of the group. */
static struct symm_limits limits_of(const struct symm_group *group)
{
    const struct symm_context *ctx = group->ctx;
    struct symm_limits m = {
        .nranks = group->nranks,
        .nsms = ctx->agreed.nsms,
        .max_threads = ctx->agreed.max_threads,
        .compute_major = ctx->agreed.compute_major,
        .multicast_off = symm_multicast_off(group),
        .staging_nbytes = group->staging_nbytes,
        .block_packets = group->block_packets,
        .tuning = ctx->tuning,
    };
    const uint64_t staging_off =
        (uint64_t)(group->staging - symm__memory_window(ctx->memory, ctx->join.rank));

    if (!m.multicast_off && !symm__multicast_covers(group->mc, staging_off, group->staging_nbytes))
        m.multicast_off = "the group's staging area could not be bound to its multicast object";
    return m;
}

const char *symm__collective_unavailable(symm_group *group, enum symm_operation operation,
                                         symm_algo algo, symm_dtype dtype, symm_redop op)
{
    if (!group)
        return "group is NULL";
    if (symm__forked(group->ctx))
        return "the group belongs to the process this one was forked from";
    const struct symm_limits limits = limits_of(group);
    return symm__collective_reason(&limits, operation, algo, dtype, op);
}

/* -------------------------------------------------------------------------------- the arguments */

/* Where the data lie, in bytes. */
struct data {
    const void *in;
    void *out;
    size_t in_nbytes, out_nbytes;
    bool in_place;
};

static bool has_op(const struct symm_collective_call *call)
{
    return call->operation != SYMM_OPERATION_ALL_GATHER;
}

static symm_status check_enums(const struct symm_collective_call *call)
{
    if (!symm__dtype_name(call->dtype))
        return symm__fail(SYMM_ERROR_ARGUMENT, "dtype %d is no symm_dtype", (int)call->dtype);
    if (!symm__redop_name(call->op))
        return symm__fail(SYMM_ERROR_ARGUMENT, "op %d is no symm_redop", (int)call->op);
    if (!symm__algo_name(call->algo))
        return symm__fail(SYMM_ERROR_ARGUMENT, "options->algo %d is no symm_algo", (int)call->algo);
    if (call->flags & ~(SYMM_DETERMINISTIC | SYMM_SYMMETRIC))
        return symm__fail(SYMM_ERROR_ARGUMENT, "options->flags 0x%x has unknown bits", call->flags);
    return SYMM_OK;
}

static symm_status check_options(const struct symm_limits *limits,
                                 const struct symm_collective_call *call,
                                 const symm_options *options)
{
    const char *reason;
    symm_status st;

    TRY(check_enums(call));
    for (size_t i = 0; options && i < sizeof options->reserved / sizeof options->reserved[0]; i++)
        if (options->reserved[i])
            return symm__fail(SYMM_ERROR_ARGUMENT, "options->reserved[%zu] is %u, not 0", i,
                              options->reserved[i]);
    reason = symm__collective_reason(limits, call->operation, call->algo, call->dtype, call->op);
    if (reason)
        return symm__fail(SYMM_ERROR_UNSUPPORTED, "%s cannot run here (%s%s%s): %s",
                          symm__algo_name(call->algo),
                          has_op(call) ? symm__redop_name(call->op) : "",
                          has_op(call) ? " of " : "", symm__dtype_name(call->dtype), reason);
    if (call->flags & SYMM_DETERMINISTIC && has_op(call) && symm__algo_by_switch(call->algo))
        return symm__fail(SYMM_ERROR_UNSUPPORTED,
                          "%s adds in the switch's own order, which SYMM_DETERMINISTIC rules out",
                          symm__algo_name(call->algo));
out:
    return st;
}

static symm_status check_range(const char *name, const void *ptr, size_t nbytes, size_t count,
                               size_t size)
{
    if (!ptr)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s is NULL and count is %zu", name, count);
    if ((uintptr_t)ptr % size)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s %p is not aligned to its elements of %zu bytes",
                          name, ptr, size);
    if (nbytes > UINTPTR_MAX - (uintptr_t)ptr)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s %p and count %zu run past the address space",
                          name, ptr, count);
    return SYMM_OK;
}

/* Freed, too short, another rank's or a multicast address: what a kernel must not get. */
static symm_status check_symmetric(const struct symm_group *group, const char *name,
                                   const void *ptr, size_t nbytes)
{
    if (symm__memory_usable(group->ctx->memory, ptr, nbytes))
        return SYMM_OK;
    return symm__fail_in(SYMM_ERROR_ARGUMENT, "%s: ", name);
}

/* Which buffers an algorithm reaches into on other ranks, if they can be used in place. */
struct reach {
    bool in, out;
};

static struct reach reach_of(enum symm_operation operation, symm_algo algo)
{
    if (algo == SYMM_ALGO_COPY_ENGINE)
        return (struct reach){.out = symm__needs_symmetric(operation, algo)};
    switch (operation) {
    case SYMM_OPERATION_ALL_REDUCE:
        return (struct reach){.in = algo == SYMM_ALGO_ONE_SHOT || symm__algo_by_switch(algo),
                              .out = algo == SYMM_ALGO_TWO_SHOT || algo == SYMM_ALGO_MULTIMEM};
    case SYMM_OPERATION_REDUCE_SCATTER:
        return (struct reach){.in = algo == SYMM_ALGO_MULTIMEM};
    default:
        return (struct reach){.out = algo == SYMM_ALGO_ONE_SHOT || algo == SYMM_ALGO_MULTIMEM};
    }
}

/* What SYMM_SYMMETRIC promises and copy_engine needs, as far as this rank can tell. */
static symm_status check_promise(const struct symm_group *group,
                                 const struct symm_collective_call *call, const struct data *data)
{
    uint64_t off;

    if (call->algo != SYMM_ALGO_COPY_ENGINE && !(call->flags & SYMM_SYMMETRIC))
        return SYMM_OK;
    if (reach_of(call->operation, SYMM_ALGO_COPY_ENGINE).out &&
        !symm__memory_find(group->ctx->memory, data->out, data->out_nbytes, group->members, &off))
        return symm__fail_in(SYMM_ERROR_ARGUMENT, "out must be symmetric memory here: ");
    return SYMM_OK;
}

/* How many shares in and out have, and where they are the same memory. */
static void place_data(const struct symm_group *group, const struct symm_collective_call *call,
                       struct data *data)
{
    const size_t nbytes = call->count * symm__dtype_size(call->dtype),
                 all = nbytes * (size_t)group->nranks, mine = nbytes * (size_t)group->rank;
    const uintptr_t in = (uintptr_t)data->in, out = (uintptr_t)data->out;

    data->in_nbytes = call->operation == SYMM_OPERATION_REDUCE_SCATTER ? all : nbytes;
    data->out_nbytes = call->operation == SYMM_OPERATION_ALL_GATHER ? all : nbytes;
    data->in_place = call->operation == SYMM_OPERATION_REDUCE_SCATTER ? out == in + mine
                     : call->operation == SYMM_OPERATION_ALL_GATHER   ? in == out + mine
                                                                      : in == out;
}

static symm_status check_data(const struct symm_group *group,
                              const struct symm_collective_call *call, const void *in, void *out)
{
    static const char *const in_place[] = {
        [SYMM_OPERATION_ALL_REDUCE] = "out == in",
        [SYMM_OPERATION_REDUCE_SCATTER] = "out == in + rank * count",
        [SYMM_OPERATION_ALL_GATHER] = "in == out + rank * count",
    };
    const size_t size = symm__dtype_size(call->dtype);
    const size_t most = (size_t)INT64_MAX / size /
                        (call->operation == SYMM_OPERATION_ALL_REDUCE ? 1 : (size_t)group->nranks);
    const uintptr_t i = (uintptr_t)in, o = (uintptr_t)out;
    struct data data = {.in = in, .out = out};
    symm_status st;

    if (call->count > most)
        return symm__fail(SYMM_ERROR_ARGUMENT, "count %zu of %zu bytes overflows",
                          (size_t)call->count, size);
    place_data(group, call, &data);
    TRY(check_range("in", data.in, data.in_nbytes, call->count, size));
    TRY(check_range("out", data.out, data.out_nbytes, call->count, size));
    if (!data.in_place && i < o + data.out_nbytes && o < i + data.in_nbytes)
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "in %p and out %p overlap, with count %zu: they must be apart, or in "
                          "place, which is %s",
                          data.in, data.out, (size_t)call->count, in_place[call->operation]);
    TRY(check_symmetric(group, "in", data.in, data.in_nbytes));
    TRY(check_symmetric(group, "out", data.out, data.out_nbytes));
    TRY(check_promise(group, call, &data));
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
 * the staging area, or nothing is reached into. Where everyone's `in` is read while `out` is
 * written, that must be other memory, and aligned as packs are. Shares must be whole packs.
 */
static uint32_t place_of(struct symm_group *group, const struct symm_collective_call *call,
                         symm_algo algo, const struct data *data)
{
    const struct reach reach = reach_of(call->operation, algo);
    const bool by_switch = symm__algo_by_switch(algo),
               shares = call->operation != SYMM_OPERATION_ALL_REDUCE;
    uint64_t in_off = 0, out_off = 0;
    uint32_t hash;

    if (!reach.in && !reach.out)
        return 0;
    if (shares && call->count * symm__dtype_size(call->dtype) % 16)
        return 0;
    if (reach.in && !find(group, data->in, data->in_nbytes, by_switch, &in_off))
        return 0;
    if (reach.out && !find(group, data->out, data->out_nbytes, by_switch, &out_off))
        return 0;
    if (!reach.out && !shares && (data->in_place || (uintptr_t)data->out % 16))
        return 0;
    hash = (uint32_t)mix(mix(0, in_off), out_off);
    return hash ? hash : 1;
}

/* Whether the shares are as many whole packs each, and aligned on this rank: simpler loops do. */
static bool whole_packs(const struct symm_group *group, const struct symm_collective_call *call,
                        const struct data *data)
{
    const uint64_t nbytes = call->count * symm__dtype_size(call->dtype),
                   nshares =
                       call->operation == SYMM_OPERATION_ALL_REDUCE ? (uint64_t)group->nranks : 1;

    return ((uintptr_t)data->in | (uintptr_t)data->out) % 16 == 0 && nbytes % (16 * nshares) == 0;
}

/* What the ranks' kernels compare of a call. */
static uint32_t call_word(const struct symm_collective_call *call, const struct symm_plan *plan)
{
    if (plan->algo == SYMM_ALGO_LOW_LATENCY || plan->algo == SYMM_ALGO_LOW_LATENCY_TWO_SHOT)
        return symm__packet_call(&(struct symm_packet_call){
            call->operation, plan->algo, call->dtype, call->op, call->count, plan->blocks});
    return (uint32_t)mix(mix(mix(mix(0, plan->count), plan->kernel), (uint64_t)call->op),
                         (uint64_t)plan->blocks << 32 | plan->threads);
}

static symm_status launch(struct symm_call *e, const struct symm_collective_call *call,
                          const struct symm_plan *plan, const struct data *data)
{
    struct symm_group *group = e->group;
    symm_collective_args args = {
        .view = group->view,
        .pad = group->pad,
        .in = data->in,
        .out = data->out,
        .staging = group->staging,
        .results = group->staging + group->staging_nbytes / 2,
        .packets = group->packets,
        .count = plan->count,
        .stride = plan->stride,
        .share = plan->share,
        .slice = plan->slice,
        .room = plan->room,
        .block_packets = group->block_packets,
        .op = (uint32_t)call->op,
        .call = call_word(call, plan),
        .place = place_of(group, call, plan->algo, data),
        .channel = SYMM_CHANNEL_BLOCKS,
        .whole = whole_packs(group, call, data),
    };
    return symm__call_launch(e, plan->kernel, plan->blocks, plan->threads, plan->early, &args);
}

/* By the copy engines: check_promise has found what they reach into. */
static symm_status run_copies(struct symm_call *e, const struct symm_limits *limits,
                              const struct symm_collective_call *call, const struct data *data)
{
    uint64_t out_off = 0, word;

    if (reach_of(call->operation, SYMM_ALGO_COPY_ENGINE).out)
        symm__memory_has(e->group->ctx->memory, data->out, data->out_nbytes, e->group->members,
                         &out_off);
    word = mix(mix(0, SYMM_ALGO_COPY_ENGINE), (uint64_t)call->operation);
    word = mix(mix(mix(word, call->count), (uint64_t)call->dtype), (uint64_t)call->op);
    word = mix(word, out_off);
    return symm__copy_engine_run(e, limits, call, (uint32_t)word, data->in, data->out);
}

/* A world of one: whatever the operation, out is what in is. */
static symm_status copy(struct symm_call *e, const struct data *data)
{
    symm_status st = SYMM_OK;

    if (!data->in_place)
        TRY_CU(e->group->ctx->drv, cuMemcpyAsync, (CUdeviceptr)(uintptr_t)data->out,
               (CUdeviceptr)(uintptr_t)data->in, data->in_nbytes, e->stream);
out:
    return st;
}

symm_status symm__collective_enqueue(struct symm_call *e, const struct symm_collective_call *call,
                                     const void *in, void *out)
{
    const struct symm_limits limits = limits_of(e->group);
    struct data data = {.in = in, .out = out};
    struct symm_plan plan;

    if (call->count == 0)
        return SYMM_OK;
    place_data(e->group, call, &data);
    if (e->group->nranks == 1)
        return copy(e, &data);
    plan = symm__plan(&limits, call);
    if (plan.algo == SYMM_ALGO_COPY_ENGINE)
        return run_copies(e, &limits, call, &data);
    return launch(e, call, &plan, &data);
}

symm_status symm__collective(symm_group *group, struct symm_collective_call call, const void *in,
                             void *out, const symm_options *options, symm_stream stream)
{
    struct symm_limits limits;
    struct symm_call e;
    char name[32];
    symm_status st;

    call.algo = options ? options->algo : SYMM_ALGO_AUTO;
    call.flags = options ? options->flags : 0;
    call.max_blocks = options ? options->max_blocks : 0;
    snprintf(name, sizeof name, "symm_%s", symm__operation_name(call.operation));
    TRY(symm__enter(group, name));
    limits = limits_of(group);
    st = check_options(&limits, &call, options);
    if (st == SYMM_OK && call.count)
        st = check_data(group, &call, in, out);
    if (st != SYMM_OK)
        return symm__fail_on(group->rank, st, "%s: ", name);
    TRY(symm__call_begin(&e, group, stream, true,
                         "%s(count %zu, %s, %s%s%s, flags %u, max_blocks %u)", name,
                         (size_t)call.count, symm__dtype_name(call.dtype),
                         has_op(&call) ? symm__redop_name(call.op) : "", has_op(&call) ? ", " : "",
                         symm__algo_name(call.algo), call.flags, call.max_blocks));
    st = symm__call_end(&e, symm__collective_enqueue(&e, &call, in, out));
out:
    return st;
}
