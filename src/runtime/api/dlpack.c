/*
 * Implements symm/dlpack.h. A reader may call a deleter at any time: in any thread, at the exit of
 * the interpreter, long after the context was destroyed. So a managed tensor depends on no other
 * object. A group keeps a list of the tensors that own its memory, and clears their reference when
 * it is released.
 */
#include <symm/dlpack.h>

#include <dlpack/dlpack.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <symm/names.h>
#include "runtime/group/call.h"
#include "runtime/group/group.h"
#include "tensor.h"

struct symm_dlpack_export {
    DLManagedTensor managed;
    int64_t shape[SYMM_MAX_DIMS], strides[SYMM_MAX_DIMS];
    pid_t pid;
    struct symm_group *group; /* the group whose memory the tensor owns; NULL: none, or released */
    void *given;
    struct symm_dlpack_export *next, **link; /* in the group's list */
};

/* The exports that own memory of a group; attached to the group with the first one. */
struct given_list {
    struct symm_attachment attachment;
    struct symm_dlpack_export *first;
};

/*
 * Guards the lists of all groups and the group of each record. One lock for the process, since a
 * deleter must take it before it knows whether its group still exists.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ------------------------------------------------------------------------------ element types */

/* Codes of DLPack 1.1 that older headers lack. */
enum { DLPACK_BOOL = 6, DLPACK_FLOAT8_E4M3FN = 10, DLPACK_FLOAT8_E5M2 = 12 };

static const struct {
    symm_dtype dtype;
    uint8_t code, bits;
} types[] = {
    {SYMM_FLOAT32, kDLFloat, 32},
    {SYMM_FLOAT16, kDLFloat, 16},
    {SYMM_BFLOAT16, kDLBfloat, 16},
    {SYMM_FLOAT64, kDLFloat, 64},
    {SYMM_INT32, kDLInt, 32},
    {SYMM_INT64, kDLInt, 64},
    {SYMM_UINT8, kDLUInt, 8},
    {SYMM_FLOAT8_E4M3, DLPACK_FLOAT8_E4M3FN, 8},
    {SYMM_FLOAT8_E5M2, DLPACK_FLOAT8_E5M2, 8},
};
enum { NTYPES = sizeof types / sizeof types[0] };

static symm_status type_to_dlpack(symm_dtype dtype, DLDataType *out)
{
    for (int i = 0; i < NTYPES; i++)
        if (types[i].dtype == dtype) {
            *out = (DLDataType){.code = types[i].code, .bits = types[i].bits, .lanes = 1};
            return SYMM_OK;
        }
    return symm__fail(SYMM_ERROR_ARGUMENT, "tensor.dtype is %d", (int)dtype);
}

static symm_status type_from_dlpack(DLDataType type, symm_dtype *out)
{
    static const char *const names[] = {
        [kDLInt] = "int",       [kDLUInt] = "uint",
        [kDLFloat] = "float",   [kDLOpaqueHandle] = "handle",
        [kDLBfloat] = "bfloat", [kDLComplex] = "complex",
        [DLPACK_BOOL] = "bool",
    };

    if (type.lanes != 1)
        return symm__fail(SYMM_ERROR_UNSUPPORTED, "its elements have %d lanes; symm supports one",
                          type.lanes);
    for (int i = 0; i < NTYPES; i++)
        if (types[i].code == type.code && types[i].bits == type.bits) {
            *out = types[i].dtype;
            return SYMM_OK;
        }
    if (type.code < sizeof names / sizeof names[0])
        return symm__fail(SYMM_ERROR_UNSUPPORTED,
                          "its elements are %s%d (code %d): symm has no such type",
                          names[type.code], type.bits, type.code);
    return symm__fail(SYMM_ERROR_UNSUPPORTED,
                      "its elements have code %d and %d bits: symm has no such type", type.code,
                      type.bits);
}

/* ------------------------------------------------------------------------------------- device */

static DLDevice device_of(const struct symm_group *group)
{
    const struct symm_context *ctx = group->ctx;

    if (strcmp(ctx->drv->name, "emulated") == 0)
        return (DLDevice){.device_type = kDLCPU, .device_id = 0};
    return (DLDevice){.device_type = kDLCUDA, .device_id = ctx->device};
}

static const char *device_name(DLDeviceType type)
{
    switch (type) {
    case kDLCPU:
        return "CPU";
    case kDLCUDA:
        return "CUDA";
    case kDLCUDAHost:
        return "CUDA's pinned host memory";
    case kDLCUDAManaged:
        return "CUDA's managed memory";
    case kDLROCM:
        return "ROCm";
    default:
        return "another kind";
    }
}

static symm_status check_device(const struct symm_group *group, DLDevice theirs)
{
    DLDevice mine = device_of(group);

    /* The host is one device, whatever its id. */
    if (theirs.device_type == mine.device_type &&
        (mine.device_type == kDLCPU || theirs.device_id == mine.device_id))
        return SYMM_OK;
    return symm__fail(
        SYMM_ERROR_UNSUPPORTED,
        "it is on device %d of type %d (%s); this rank's memory, of the %s driver, is on device %d "
        "of type %d (%s)",
        theirs.device_id, (int)theirs.device_type, device_name(theirs.device_type),
        group->ctx->drv->name, mine.device_id, (int)mine.device_type,
        device_name(mine.device_type));
}

/* ------------------------------------------------------------------------------------ exports */

static symm_status check_tensor(struct symm_group *group, const symm_tensor *t)
{
    char *start = NULL;
    size_t nbytes = 0;
    symm_status st;

    if (t->ndim < 0 || t->ndim > SYMM_MAX_DIMS)
        return symm__fail(SYMM_ERROR_ARGUMENT, "tensor.ndim is %d; it may be 0 to %d", t->ndim,
                          SYMM_MAX_DIMS);
    TRY(symm__tensor_measure(t, &start, &nbytes));
    if (nbytes > 0 && !t->data)
        return symm__fail(SYMM_ERROR_ARGUMENT, "tensor.data is NULL");
    if (nbytes > 0 && !symm__memory_reachable(group->ctx->memory, start, nbytes))
        return symm__fail_in(SYMM_ERROR_ARGUMENT, "tensor.data: ");
out:
    return st;
}

/* Under the lock. */
static void unlist(struct symm_dlpack_export *e)
{
    *e->link = e->next;
    if (e->next)
        e->next->link = e->link;
    e->group = NULL;
}

static void delete_export(DLManagedTensor *managed)
{
    struct symm_dlpack_export *e = managed->manager_ctx;

    /* In a forked child, a thread that does not exist there may hold the lock. */
    if (e->pid == getpid()) {
        pthread_mutex_lock(&lock);
        if (e->group) {
            symm__memory_free(e->group->ctx->memory, e->group, e->given, e);
            unlist(e);
        }
        pthread_mutex_unlock(&lock);
    }
    free(e);
}

static struct symm_dlpack_export *export_new(struct symm_group *group, const symm_tensor *t,
                                             DLDataType type)
{
    struct symm_dlpack_export *e = calloc(1, sizeof *e);

    if (!e)
        return NULL;
    memcpy(e->shape, t->shape, sizeof e->shape);
    memcpy(e->strides, t->strides, sizeof e->strides);
    e->pid = group->ctx->process.pid;
    e->managed = (DLManagedTensor){
        .dl_tensor =
            {
                .data = t->data,
                .device = device_of(group),
                .ndim = t->ndim,
                .dtype = type,
                .shape = e->shape,
                .strides = e->strides,
            },
        .manager_ctx = e,
        .deleter = delete_export,
    };
    return e;
}

/*
 * The group and its memory are released: later deleters leave both alone. Returns when no deleter
 * uses the group any more.
 */
static void forget_given(struct symm_attachment *attachment)
{
    struct given_list *list = (struct given_list *)attachment;

    pthread_mutex_lock(&lock);
    while (list->first)
        unlist(list->first);
    pthread_mutex_unlock(&lock);
    free(list);
}

/* Gets the group's list, or creates it; NULL: out of memory. Under the lock. */
static struct given_list *given_by(struct symm_group *group)
{
    struct given_list *list = (struct given_list *)symm__group_attachment(group, forget_given);

    if (list)
        return list;
    list = calloc(1, sizeof *list);
    if (!list)
        return NULL;
    list->attachment.release = forget_given;
    symm__group_attach(group, &list->attachment);
    return list;
}

static symm_status give(struct symm_group *group, void *ptr, struct symm_dlpack_export *e)
{
    struct given_list *list;
    symm_status st;

    pthread_mutex_lock(&lock);
    list = given_by(group);
    st = list ? symm__memory_give(group->ctx->memory, group, ptr, e)
              : symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    if (st == SYMM_OK) {
        e->group = group;
        e->given = ptr;
        e->next = list->first;
        e->link = &list->first;
        if (e->next)
            e->next->link = &e->next;
        list->first = e;
    }
    pthread_mutex_unlock(&lock);
    return st == SYMM_OK ? st : symm__fail_in(st, "tensor.data: ");
}

static symm_status check_call(const symm_tensor *tensor, symm_dlpack_mode mode,
                              struct DLManagedTensor **out)
{
    if (!tensor || !out)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s is NULL", tensor ? "out" : "tensor");
    if (mode != SYMM_DLPACK_LEND && mode != SYMM_DLPACK_GIVE)
        return symm__fail(SYMM_ERROR_ARGUMENT, "mode is %d", (int)mode);
    return SYMM_OK;
}

symm_status symm_tensor_to_dlpack(symm_group *group, const symm_tensor *tensor,
                                  symm_dlpack_mode mode, struct DLManagedTensor **out)
{
    struct symm_dlpack_export *e = NULL;
    DLDataType type = {0};
    symm_status st;

    if (!group || symm__forked(group->ctx))
        return symm__enter(group, __func__);
    TRY(check_call(tensor, mode, out));
    TRY(type_to_dlpack(tensor->dtype, &type));
    TRY(check_tensor(group, tensor));
    e = export_new(group, tensor, type);
    if (!e) {
        st = symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
        goto out;
    }
    if (mode == SYMM_DLPACK_GIVE)
        TRY(give(group, tensor->data, e));
    *out = &e->managed;
    e = NULL;
out:
    free(e);
    return st == SYMM_OK ? st : symm__fail_on(SYMM_ON(group), st, "%s: ", __func__);
}

/* ------------------------------------------------------------------------------------ imports */

/* Reads shape and strides. *empty: the tensor has no elements. */
static symm_status shape_from_dlpack(const DLTensor *t, symm_tensor *out, bool *empty)
{
    int64_t next = 1;

    if (t->ndim < 0)
        return symm__fail(SYMM_ERROR_ARGUMENT, "its ndim is %d", t->ndim);
    if (t->ndim > SYMM_MAX_DIMS)
        return symm__fail(SYMM_ERROR_UNSUPPORTED, "it has %d dimensions; symm has at most %d",
                          t->ndim, SYMM_MAX_DIMS);
    if (t->ndim > 0 && !t->shape)
        return symm__fail(SYMM_ERROR_ARGUMENT, "its shape is NULL");
    out->ndim = t->ndim;
    *empty = false;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] < 0)
            return symm__fail(SYMM_ERROR_ARGUMENT, "its shape[%d] is %" PRId64, i, t->shape[i]);
        *empty = *empty || t->shape[i] == 0;
        out->shape[i] = t->shape[i];
        out->strides[i] = t->strides ? t->strides[i] : next;
        if (!t->strides && __builtin_mul_overflow(next, t->shape[i], &next))
            return symm__fail(SYMM_ERROR_ARGUMENT,
                              "its shape[%d] is %" PRId64 ": the tensor is too large", i,
                              t->shape[i]);
    }
    return SYMM_OK;
}

symm_status symm_tensor_from_dlpack(symm_group *group, const struct DLManagedTensor *managed,
                                    symm_tensor *out)
{
    symm_tensor tensor = {0};
    const DLTensor *t;
    bool empty = false;
    symm_status st;

    if (!group || symm__forked(group->ctx))
        return symm__enter(group, __func__);
    if (!managed || !out) {
        st = symm__fail(SYMM_ERROR_ARGUMENT, "%s is NULL", managed ? "out" : "managed");
        goto out;
    }
    t = &managed->dl_tensor;
    TRY(type_from_dlpack(t->dtype, &tensor.dtype));
    TRY(check_device(group, t->device));
    TRY(shape_from_dlpack(t, &tensor, &empty));
    if (!t->data && !empty) {
        st = symm__fail(SYMM_ERROR_ARGUMENT, "its data is NULL");
        goto out;
    }
    tensor.data = t->data ? (char *)t->data + t->byte_offset : NULL;
    *out = tensor;
out:
    return st == SYMM_OK ? st : symm__fail_on(SYMM_ON(group), st, "%s: ", __func__);
}
