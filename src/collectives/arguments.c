#include "arguments.h"

#include "runtime/base/numbers.h"

static struct symm_buffer look_up(const struct symm_group *group, const void *at, size_t nbytes)
{
    return symm__memory_resolve(group->ctx->memory, at, nbytes, group->members);
}

static struct symm_norm_arguments resolve_norm(const struct symm_group *group,
                                               const struct symm_collective_call *call,
                                               const symm_rms_norm *norm)
{
    const size_t size = symm_dtype_size(call->dtype), nbytes = call->count * size;

    return (struct symm_norm_arguments){
        .residual = look_up(group, norm->residual, nbytes),
        .weight = look_up(group, norm->weight, call->row * size),
        .residual_out = look_up(group, norm->residual_out, nbytes),
        .eps = norm->eps,
    };
}

bool symm__arguments_reads_in(const struct symm_group *group,
                              const struct symm_collective_call *call)
{
    return call->operation != SYMM_OPERATION_BROADCAST || group->rank == call->root;
}

struct symm_arguments symm__arguments_resolve(const struct symm_group *group,
                                              const struct symm_collective_call *call,
                                              const struct symm_data *data)
{
    const size_t nbytes = call->count * symm_dtype_size(call->dtype),
                 all = nbytes * (size_t)group->nranks, mine = nbytes * (size_t)group->rank,
                 lacks = data->lacks * symm_dtype_size(call->dtype), own = nbytes - lacks;
    const bool scatters = call->operation == SYMM_OPERATION_REDUCE_SCATTER,
               gathers = call->operation == SYMM_OPERATION_ALL_GATHER;
    const uintptr_t in = (uintptr_t)data->in, out = (uintptr_t)data->out;
    struct symm_arguments args = {
        .in = look_up(group, data->in, scatters ? all : own),
        .out = look_up(group, data->out, gathers ? all : own),
        .lacks = lacks,
        .in_place = scatters  ? out == in + mine
                    : gathers ? in == out + mine
                              : in == out,
    };

    if (!symm__arguments_reads_in(group, call)) {
        args.in = (struct symm_buffer){0};
        args.in_place = false;
    }
    if (data->norm)
        args.norm = resolve_norm(group, call, data->norm);
    return args;
}

/* ----------------------------------------------------------------------------------- the checks */

static symm_status check_range(const char *name, const struct symm_buffer *buffer, size_t count,
                               size_t size)
{
    const void *ptr = buffer->address;

    if (!ptr)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s is NULL and count is %zu", name, count);
    if ((uintptr_t)ptr % size)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s %p is not aligned to its elements of %zu bytes",
                          name, ptr, size);
    if (buffer->nbytes > UINTPTR_MAX - (uintptr_t)ptr)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s %p and count %zu run past the address space",
                          name, ptr, count);
    return SYMM_OK;
}

static bool overlap(const struct symm_buffer *a, const struct symm_buffer *b)
{
    const uintptr_t i = (uintptr_t)a->address, j = (uintptr_t)b->address;

    return i < j + b->nbytes && j < i + a->nbytes;
}

static symm_status check_apart(const struct symm_collective_call *call,
                               const struct symm_arguments *args)
{
    static const char *const in_place[] = {
        [SYMM_OPERATION_ALL_REDUCE] = "out == in",
        [SYMM_OPERATION_REDUCE_SCATTER] = "out == in + rank * count",
        [SYMM_OPERATION_ALL_GATHER] = "in == out + rank * count",
        [SYMM_OPERATION_ALL_REDUCE_RMS_NORM] = "out == in",
        [SYMM_OPERATION_BROADCAST] = "out == in",
    };

    if (args->in_place || !overlap(&args->in, &args->out))
        return SYMM_OK;
    return symm__fail(SYMM_ERROR_ARGUMENT,
                      "in %p and out %p overlap, with count %zu: they must be apart, or in place, "
                      "which is %s",
                      args->in.address, args->out.address, (size_t)call->count,
                      in_place[call->operation]);
}

/* Refuses memory that is freed, too short, another rank's or a multicast address. */
static symm_status check_usable(const struct symm_group *group, const char *name,
                                const struct symm_buffer *buffer)
{
    if (buffer->own || symm__memory_usable(group->ctx->memory, buffer->address, buffer->nbytes))
        return SYMM_OK;
    return symm__fail_in(SYMM_ERROR_ARGUMENT, "%s: ", name);
}

/* The promise of SYMM_SYMMETRIC and the needs of copy_engine, as far as this rank can tell. */
static symm_status check_promise(const struct symm_group *group,
                                 const struct symm_collective_call *call,
                                 const struct symm_buffer *out)
{
    const struct symm_algorithm *copies =
        symm__algorithm_find(call->operation, SYMM_ALGO_COPY_ENGINE);
    uint64_t off;

    if (call->algo != SYMM_ALGO_COPY_ENGINE && !(call->flags & SYMM_SYMMETRIC))
        return SYMM_OK;
    if (out->symmetric || !copies || !symm__needs_symmetric(copies))
        return SYMM_OK;
    symm__memory_find(group->ctx->memory, out->address, out->nbytes, group->members, &off);
    return symm__fail_in(SYMM_ERROR_ARGUMENT, "out must be symmetric memory here: ");
}

/* Two buffers of a norm, one of which is written. same: they may be the same memory. */
static symm_status check_pair(const char *name, const struct symm_buffer *buffer, bool same,
                              const char *written_name, const struct symm_buffer *written)
{
    if (!buffer->address || (same && buffer->address == written->address) ||
        !overlap(buffer, written))
        return SYMM_OK;
    return symm__fail(SYMM_ERROR_ARGUMENT, "%s %p and %s %p overlap: they must be apart%s", name,
                      buffer->address, written_name, written->address, same ? ", or the same" : "");
}

static symm_status check_norm(const struct symm_group *group,
                              const struct symm_collective_call *call,
                              const struct symm_arguments *args)
{
    const struct symm_norm_arguments *norm = &args->norm;
    const size_t size = symm_dtype_size(call->dtype);
    symm_status st;

    TRY(check_range("residual_out", &norm->residual_out, call->count, size));
    TRY(check_usable(group, "residual_out", &norm->residual_out));
    if (norm->residual.address) {
        TRY(check_range("residual", &norm->residual, call->count, size));
        TRY(check_usable(group, "residual", &norm->residual));
    }
    if (norm->weight.address) {
        TRY(check_range("weight", &norm->weight, call->row, size));
        TRY(check_usable(group, "weight", &norm->weight));
    }
    TRY(check_pair("in", &args->in, false, "residual_out", &norm->residual_out));
    TRY(check_pair("out", &args->out, false, "residual_out", &norm->residual_out));
    TRY(check_pair("residual", &norm->residual, true, "residual_out", &norm->residual_out));
    TRY(check_pair("residual", &norm->residual, false, "out", &args->out));
    TRY(check_pair("weight", &norm->weight, false, "out", &args->out));
    TRY(check_pair("weight", &norm->weight, false, "residual_out", &norm->residual_out));
out:
    return st;
}

symm_status symm__arguments_check(const struct symm_group *group,
                                  const struct symm_collective_call *call,
                                  const struct symm_arguments *args)
{
    const size_t size = symm_dtype_size(call->dtype);
    const bool reads_in = symm__arguments_reads_in(group, call);
    symm_status st;

    if (reads_in)
        TRY(check_range("in", &args->in, call->count, size));
    TRY(check_range("out", &args->out, call->count, size));
    if (reads_in) /* before the overlap, so as to name a wrong count */
        TRY(check_usable(group, "in", &args->in));
    TRY(check_usable(group, "out", &args->out));
    if (reads_in)
        TRY(check_apart(call, args));
    TRY(check_promise(group, call, &args->out));
    if (call->operation == SYMM_OPERATION_ALL_REDUCE_RMS_NORM)
        TRY(check_norm(group, call, args));
out:
    return st;
}

/* ------------------------------------------------------------------------------------ the place */

/* Whether a kernel of each rank can use it in place. */
static bool usable_in_place(const struct symm_group *group, const struct symm_algorithm *algorithm,
                            const struct symm_buffer *buffer)
{
    return buffer->symmetric && (uintptr_t)buffer->address % 16 == 0 &&
           (!algorithm->by_switch ||
            symm__multicast_covers(group->mc, buffer->offset, buffer->nbytes));
}

/*
 * If `out` is written while other ranks read `in`, it must be other memory, and aligned to packs.
 * Even shares must be whole packs, and so must elements that are stored as they are.
 */
uint32_t symm__arguments_place(const struct symm_group *group,
                               const struct symm_collective_call *call,
                               const struct symm_algorithm *algorithm,
                               const struct symm_arguments *args)
{
    const bool in = algorithm->reach.in, out = algorithm->reach.out,
               even = algorithm->division == SYMM_DIVISION_EVEN,
               whole = even || !symm__operation_reduces(call->operation);
    uint32_t hash;

    if (!in && !out)
        return 0;
    if (whole && call->count * symm_dtype_size(call->dtype) % 16)
        return 0;
    if (in && !usable_in_place(group, algorithm, &args->in))
        return 0;
    if (out && !usable_in_place(group, algorithm, &args->out))
        return 0;
    if (!out && !even && (args->in_place || (uintptr_t)args->out.address % 16))
        return 0;
    hash = (uint32_t)symm__mix(symm__mix(0, in ? args->in.offset : 0), out ? args->out.offset : 0);
    return hash ? hash : 1;
}

bool symm__arguments_registered(const struct symm_arguments *args)
{
    const struct symm_norm_arguments *norm = &args->norm;

    return args->in.registered || args->out.registered || norm->residual.registered ||
           norm->weight.registered || norm->residual_out.registered;
}
