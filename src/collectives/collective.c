#include "collective.h"

#include "runtime/api/scope.h"
#include "runtime/base/numbers.h"
#include "runtime/group/packet_call.h"
#include "copy_engine.h"
#include "local_reduce.h"
#include "planned.h"
#include "rms_norm.h"
#include "scale.h"
#include "spanning.h"

struct symm_limits symm__collective_limits(const struct symm_group *group)
{
    const struct symm_context *ctx = group->ctx;
    const struct symm_areas *areas = symm__group_areas(group);
    struct symm_limits m = {
        .nranks = group->nranks,
        .nsms = ctx->agreed.nsms,
        .max_threads = ctx->agreed.max_threads,
        .compute_major = ctx->agreed.compute_major,
        .multicast_off = symm_multicast_off(group),
        .areas = areas->size,
        .tuning = ctx->tuning,
    };

    if (!m.multicast_off && !symm__areas_are_bound(group, areas))
        m.multicast_off = "the group's staging area could not be bound to its multicast object";
    return m;
}

const char *symm__collective_unavailable(symm_group *group, enum symm_operation operation,
                                         symm_algo algo, symm_dtype dtype, symm_redop op)
{
    if (!group)
        return "group is NULL";
    if (symm__forked(group->ctx))
        return SYMM_GONE("group");
    if (group->domains)
        return symm__spanning_reason(group, operation, algo, dtype, op);
    const struct symm_limits limits = symm__collective_limits(group);
    return symm__collective_reason(&limits, operation, algo, dtype, op);
}

/* ------------------------------------------------------------------------------------- the call */

symm_status symm__collective_check_enums(const struct symm_collective_call *call)
{
    if (!symm_dtype_name(call->dtype))
        return symm__fail(SYMM_ERROR_ARGUMENT, "dtype %d is no symm_dtype", (int)call->dtype);
    if (!symm_redop_name(call->op))
        return symm__fail(SYMM_ERROR_ARGUMENT, "op %d is no symm_redop", (int)call->op);
    if (!symm_algo_name(call->algo))
        return symm__fail(SYMM_ERROR_ARGUMENT, "options->algo %d is no symm_algo", (int)call->algo);
    if (call->flags & ~(SYMM_DETERMINISTIC | SYMM_SYMMETRIC | SYMM_SCALE_ON_DEVICE))
        return symm__fail(SYMM_ERROR_ARGUMENT, "options->flags 0x%x has unknown bits", call->flags);
    if (call->flags & SYMM_SCALE_ON_DEVICE && !call->scaled)
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "options->flags has SYMM_SCALE_ON_DEVICE, but options->scale is NULL");
    return SYMM_OK;
}

symm_status symm__collective_check_reserved(const symm_options *options)
{
    for (size_t i = 0; options && i < sizeof options->reserved / sizeof options->reserved[0]; i++)
        if (options->reserved[i])
            return symm__fail(SYMM_ERROR_ARGUMENT, "options->reserved[%zu] is %u, not 0", i,
                              options->reserved[i]);
    return SYMM_OK;
}

static symm_status check_call(const struct symm_limits *limits,
                              const struct symm_collective_call *call)
{
    const struct symm_algorithm *named = symm__algorithm_find(call->operation, call->algo);
    const bool reduces = symm__operation_reduces(call->operation);
    const char *reason;
    symm_status st;

    TRY(symm__collective_check_enums(call));
    if (call->root < 0 || call->root >= limits->nranks)
        return symm__fail(SYMM_ERROR_ARGUMENT, "root is %d; the group has 0 to %d", call->root,
                          limits->nranks - 1);
    reason = symm__collective_reason(limits, call->operation, call->algo, call->dtype, call->op);
    if (reason)
        return symm__fail(SYMM_ERROR_UNSUPPORTED, "%s cannot run here (%s%s%s): %s",
                          symm_algo_name(call->algo), reduces ? symm_redop_name(call->op) : "",
                          reduces ? " of " : "", symm_dtype_name(call->dtype), reason);
    if (call->scaled)
        TRY(symm__scale_check(call, named));
    if (call->flags & SYMM_DETERMINISTIC && reduces && named && named->by_switch)
        return symm__fail(SYMM_ERROR_UNSUPPORTED,
                          "%s adds in the switch's own order, which SYMM_DETERMINISTIC rules out",
                          symm_algo_name(call->algo));
out:
    return st;
}

symm_status symm__collective_check_count(const struct symm_group *group,
                                         const struct symm_collective_call *call)
{
    const size_t size = symm_dtype_size(call->dtype);
    const size_t most = (size_t)INT64_MAX / size /
                        (symm__operation_has_shares(call->operation) ? (size_t)group->nranks : 1);

    if (call->count > most)
        return symm__fail(SYMM_ERROR_ARGUMENT, "count %zu of %zu bytes overflows",
                          (size_t)call->count, size);
    return SYMM_OK;
}

/* ------------------------------------------------------------------------------------- the work */

/* Whether all shares are as many whole packs, and aligned on this rank: for simpler loops. */
static bool is_aligned(const struct symm_group *group, const struct symm_planned *planned,
                       const struct symm_arguments *data)
{
    const struct symm_collective_call *call = &planned->call;
    const uint64_t count = call->row ? planned->plan.count : call->count,
                   nbytes = count * symm_dtype_size(call->dtype),
                   nshares =
                       symm__operation_has_shares(call->operation) ? 1 : (uint64_t)group->nranks;

    return data->lacks == 0 &&
           ((uintptr_t)data->in.address | (uintptr_t)data->out.address) % 16 == 0 &&
           nbytes % (16 * nshares) == 0;
}

/* The word of a call, which the kernels of all ranks compare. */
static uint32_t call_word(const struct symm_collective_call *call,
                          const struct symm_algorithm *algorithm, const struct symm_plan *plan)
{
    if (algorithm->transfer == SYMM_TRANSFER_PACKETS)
        return symm__packet_call(
            &(struct symm_packet_call){call->operation, algorithm->algo, call->dtype, call->op,
                                       call->count + call->row, plan->blocks, call->root});
    const uint64_t shape =
        symm__mix(symm__mix(0, call->row ? call->count : plan->count), call->row);

    return (uint32_t)symm__mix(
        symm__mix(symm__mix(shape, (uint64_t)plan->kernel),
                  (uint64_t)call->root << 8 | (uint64_t)call->op * 2 | call->scaled),
        (uint64_t)plan->blocks << 32 | plan->threads);
}

static symm_status launch(struct symm_call *e, const struct symm_planned *planned,
                          const struct symm_arguments *data)
{
    const struct symm_collective_call *call = &planned->call;
    const struct symm_algorithm *algorithm = planned->algorithm;
    const struct symm_plan *plan = &planned->plan;
    const struct symm_group *group = e->group;
    const struct symm_areas *areas = symm__group_areas(group);
    const symm_collective_args args = {
        .view = group->view,
        .pad = areas->pad,
        .in = data->in.address,
        .out = data->out.address,
        .staging = areas->staging,
        .results = areas->staging + areas->size.staging_nbytes / 2,
        .packets = areas->packets,
        .slots = areas->slots,
        .count = plan->count,
        .stride = plan->stride,
        .share = plan->share,
        .block_units = plan->block_units,
        .own = plan->stride - data->lacks / symm__element_nbytes(call),
        .capacity = plan->capacity,
        .block_packets = areas->size.block_packets,
        .block_slots = areas->size.block_slots,
        .op = (uint32_t)call->op,
        .call = call_word(call, algorithm, plan),
        .place = symm__arguments_place(group, call, algorithm, data),
        .channel = SYMM_CHANNEL_BLOCKS,
        .aligned = is_aligned(group, planned, data),
        .root = call->root,
        .scale = data->scale,
    };
    /* The end of a kernel orders the two addresses of registered memory. */
    const bool pdl = plan->pdl && !symm__arguments_registered(data);

    if (call->row)
        return symm__rms_norm_launch(e, planned, pdl, &args, &data->norm);
    return symm__call_launch(e, plan->kernel, plan->blocks, plan->threads, pdl, &args);
}

/* By copy engines. check_promise has checked the memory that they reach into. */
static symm_status run_copies(struct symm_call *e, const struct symm_planned *planned,
                              const struct symm_arguments *data)
{
    const struct symm_limits limits = symm__collective_limits(e->group);
    const struct symm_collective_call *call = &planned->call;
    uint64_t word = symm__mix(symm__mix(0, SYMM_ALGO_COPY_ENGINE), (uint64_t)call->operation);

    word = symm__mix(symm__mix(symm__mix(word, call->count), (uint64_t)call->dtype),
                     (uint64_t)call->op);
    word = symm__mix(symm__mix(word, (uint64_t)call->root),
                     planned->algorithm->reach.out ? data->out.offset : 0);
    return symm__copy_engine_run(e, &limits, call, (uint32_t)word, data);
}

/* A group of one rank: `out` gets the elements of `in`, whatever the operation, or their norm. */
static symm_status copy(struct symm_call *e, const struct symm_collective_call *call,
                        const struct symm_arguments *data)
{
    const struct symm_limits limits = symm__collective_limits(e->group);
    const symm_local_reduce_args args = {.own = data->in.address,
                                         .out = data->out.address,
                                         .count = call->count,
                                         .nranks = 1,
                                         .op = (uint32_t)call->op,
                                         .scale = data->scale};
    symm_status st = SYMM_OK;

    if (call->row)
        return symm__rms_norm_alone(e, &limits, call, data);
    if (call->scaled)
        return symm__local_reduce(e, &limits, call->dtype, &args);
    if (!data->in_place)
        TRY_CU(e->group->ctx->drv, cuMemcpyAsync, (CUdeviceptr)(uintptr_t)data->out.address,
               (CUdeviceptr)(uintptr_t)data->in.address, data->in.nbytes, e->stream);
out:
    return st;
}

static symm_status enqueue(struct symm_call *e, const struct symm_planned *planned,
                           const struct symm_arguments *data)
{
    if (planned->call.count == 0)
        return SYMM_OK;
    if (!planned->algorithm)
        return copy(e, &planned->call, data);
    if (planned->algorithm->transfer == SYMM_TRANSFER_COPIES)
        return run_copies(e, planned, data);
    return launch(e, planned, data);
}

static void make_plan(const struct symm_group *group, const struct symm_collective_call *call,
                      struct symm_planned *out)
{
    const struct symm_limits limits = symm__collective_limits(group);
    const struct symm_areas_size full =
        symm__areas_full(group->ctx->agreed.staging_nbytes, group->nranks);

    symm__planned_make(&limits, group->full.staging ? &limits.areas : &full, call, out);
}

symm_status symm__collective_provide(struct symm_call *c, const struct symm_collective_call *call)
{
    struct symm_group *group = c->group;
    struct symm_planned planned;
    symm_status st;

    make_plan(group, call, &planned);
    if (!planned.slower || group->areas_refused)
        return SYMM_OK;
    st = symm__group_make_areas(group, group->ctx->agreed.staging_nbytes, c->text);
    if (st != SYMM_ERROR_MEMORY && st != SYMM_ERROR_DRIVER && st != SYMM_ERROR_SYSTEM)
        return st;
    symm__log(&group->ctx->log, SYMM_LOG_WARNING, "%s: slower, in areas of 2 MiB: %s", c->text,
              symm__failure_text());
    group->areas_refused = true; /* on all ranks, as the votes have one result */
    return SYMM_OK;
}

symm_status symm__collective_enqueue(struct symm_call *e, const struct symm_collective_call *call,
                                     const struct symm_data *buffers)
{
    const struct symm_arguments data = symm__arguments_resolve(e->group, call, buffers);
    struct symm_planned planned;

    make_plan(e->group, call, &planned);
    return enqueue(e, &planned, &data);
}

/* Checks all of the call but its data, and plans it. */
static symm_status check_and_plan(struct symm_group *group, const struct symm_collective_call *call,
                                  struct symm_planned *out)
{
    struct symm_limits limits;
    symm_status st;

    if (symm__planned_find(group, call, out))
        return SYMM_OK;
    limits = symm__collective_limits(group);
    TRY(check_call(&limits, call));
    TRY(symm__collective_check_count(group, call));
    make_plan(group, call, out);
    symm__planned_keep(group, out);
out:
    return st;
}

symm_status symm__collective_is_captured(const struct symm_group *group, symm_stream stream,
                                         bool *out)
{
    int status = CU_STREAM_CAPTURE_STATUS_NONE;
    struct symm_scope scope = {0};
    symm_status st;

    TRY(symm__scope_begin_in(&scope, group->ctx));
    TRY_CU(scope.drv, cuStreamIsCapturing, stream, &status);
    *out = status != CU_STREAM_CAPTURE_STATUS_NONE;
out:
    return symm__scope_end(&scope, st, "areas");
}

/*
 * Before a call that is slower without the full areas: makes them, once, by a vote, and plans
 * again. In a capture, or if a rank captures another stream, the call stays as it is.
 */
static symm_status provide(symm_group *group, const char *name, symm_stream stream,
                           struct symm_planned *planned)
{
    struct symm_call c;
    bool captured = false;
    symm_status st;

    TRY(symm__collective_is_captured(group, stream, &captured));
    if (captured)
        return SYMM_OK;
    st = symm__collective_begin(&c, group, true, "%s(count %zu, %s): areas", name,
                                (size_t)planned->call.count, symm_dtype_name(planned->call.dtype));
    if (st == SYMM_OK)
        st = symm__collective_end(&c, symm__collective_provide(&c, &planned->call));
    if (st == SYMM_ERROR_STATE)
        return SYMM_OK;
    if (st == SYMM_OK)
        st = check_and_plan(group, &planned->call, planned);
out:
    return st;
}

/* Begins the call; its text has what the ranks must agree on. */
symm_status symm__collective_start(struct symm_call *e, symm_group *group,
                                   const struct symm_collective_call *call, symm_stream stream)
{
    const bool reduces = symm__operation_reduces(call->operation);

    if (call->operation == SYMM_OPERATION_BROADCAST)
        return symm__call_begin_spanning(
            e, group, stream, true,
            "symm_broadcast(count %zu, %s, root %d, %s, flags %u, max_blocks %u)",
            (size_t)call->count, symm_dtype_name(call->dtype), call->root,
            symm_algo_name(call->algo), call->flags, call->max_blocks);
    return symm__call_begin_spanning(
        e, group, stream, true, "%s(count %zu, %s, %s%s%s, flags %u, max_blocks %u%s)",
        symm__operation_call(call->operation), (size_t)call->count, symm_dtype_name(call->dtype),
        reduces ? symm_redop_name(call->op) : "", reduces ? ", " : "", symm_algo_name(call->algo),
        call->flags & ~SYMM_SCALE_ON_DEVICE, call->max_blocks, call->scaled ? ", scaled" : "");
}

symm_status symm__collective(symm_group *group, struct symm_collective_call call,
                             const struct symm_data *buffers, const symm_options *options,
                             symm_stream stream)
{
    const char *const name = symm__operation_call(call.operation);
    struct symm_planned planned;
    struct symm_arguments data = {.in_place = false};
    struct symm_call e;
    symm_status st;

    call.algo = options ? options->algo : SYMM_ALGO_AUTO;
    call.flags = options ? options->flags : 0;
    call.max_blocks = options ? options->max_blocks : 0;
    call.scaled = options && options->scale;
    TRY(symm__enter(group, name));
    if (group->domains)
        return symm__spanning(group, &call, buffers, options, stream);
    st = check_and_plan(group, &call, &planned);
    if (st == SYMM_OK)
        st = symm__collective_check_reserved(options);
    if (st == SYMM_OK && call.count) {
        data = symm__arguments_resolve(group, &call, buffers);
        st = symm__arguments_check(group, &call, &data);
        if (st == SYMM_OK && call.scaled)
            st = symm__scale_read(group, options, call.dtype, &data.scale);
    }
    if (st != SYMM_OK)
        return symm__fail_on(SYMM_ON(group), st, "%s: ", name);
    if (planned.slower && !group->areas_refused)
        TRY(provide(group, name, stream, &planned));
    TRY(call.row ? symm__rms_norm_begin(&e, group, &call, buffers->norm, stream)
                 : symm__collective_start(&e, group, &call, stream));
    st = symm__call_end(&e, enqueue(&e, &planned, &data));
out:
    return st;
}
