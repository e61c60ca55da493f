/*
 * symm/dlpack.h - symmetric tensors for PyTorch, NumPy, CuPy, JAX and whoever else speaks DLPack,
 * and their tensors for symm, without a copy.
 *
 * Needs no package: struct DLManagedTensor is only named here. A program that looks into one
 * includes <dlpack/dlpack.h> itself. In Python it travels in a PyCapsule of the name "dltensor";
 * docs/examples/python/dlpack.py shows it with ctypes alone, docs/pytorch.md tells the rest.
 *
 * Words as in symm/symm.h.
 *
 * Element types, both ways: float16, float32, float64, bfloat16, int32, int64, uint8, and since
 * DLPack 1.1 float8_e4m3fn (SYMM_FLOAT8_E4M3) and float8_e5m2; a reader of before that refuses the
 * last two itself. Always one lane.
 * Device: kDLCUDA with this rank's ordinal on the cuda driver. The emulated driver's memory is the
 * host's: kDLCPU.
 */
#ifndef SYMM_DLPACK_H
#define SYMM_DLPACK_H

#include <symm/symm.h>

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensor;

typedef enum symm_dlpack_mode {
    SYMM_DLPACK_LEND = 0, /* a view: the memory stays whose it was */
    SYMM_DLPACK_GIVE      /* the memory is the managed tensor's: its deleter frees it */
} symm_dlpack_mode;

/*
 * Makes a managed tensor of `tensor`, with its data, element type, shape and strides (in elements).
 * Nothing is copied and nothing is waited for: that work on other streams is done when the reader
 * looks is the caller's job.
 *
 * LEND makes a view of memory of any kind: of a whole allocation or of a part of it, of another
 * rank's copy (symm_peer()), of plain device memory. Of symmetric memory all of it must be
 * allocated; nothing else is looked at. Any number of views may be out, also of memory that was
 * given away. A view keeps nothing alive.
 *
 * GIVE makes the managed tensor the owner of the allocation that begins at tensor->data, which this
 * group has made; the tensor need not cover all of it. symm_free() refuses it from then on. It
 * stays symmetric: symm_peer(), collectives and kernels take it until the deleter runs. As with
 * symm_free(), its bytes are used again once every rank has freed them, by whichever way. On
 * failure it stays the group's.
 *
 * Scope:  Local; any thread at any time, as the getters.
 * Shapes: 0 <= ndim <= SYMM_MAX_DIMS; ndim 0 is one element. An extent of 0 makes an empty tensor,
 *         whose data may be NULL when it is lent. Any stride, negative and 0 too.
 * Memory: *out lives until its deleter is called, by one reader, once. The deleter never waits,
 *         runs in any thread, and is harmless at any time: after the group or the context is gone,
 *         which took the memory along, and in a child of fork() it frees the managed tensor alone.
 *         The library stays loaded for it. No enqueued work of this rank may use memory whose
 *         deleter runs.
 * Errors: ERROR_ARGUMENT  a NULL, a dtype, ndim, extent or mode that is none, a tensor that does
 *                         not lie in one allocation; GIVE: not the start of an allocation of this
 *                         group, or given before
 *         ERROR_MEMORY    host memory
 *         ERROR_STATE     in a child of fork()
 */
SYMM_API symm_status symm_tensor_to_dlpack(symm_group *group, const symm_tensor *tensor,
                                           symm_dlpack_mode mode, struct DLManagedTensor **out);

/*
 * Describes a managed tensor, of whoever made it, as a symm_tensor. Owns nothing and keeps nothing
 * alive: the deleter stays the caller's to call, after the last use of *out. Symmetric is what was
 * symmetric before.
 *
 * Scope:  Local; any thread at any time.
 * Shapes: 0 <= ndim <= SYMM_MAX_DIMS, any extent from 0; byte_offset is added to data. Strides come
 *         in elements as they are; where there are none the tensor is contiguous and row-major.
 * Errors: ERROR_ARGUMENT     a NULL (data too, unless the tensor is empty), a negative extent
 *         ERROR_UNSUPPORTED  an element type that symm has not, more than one lane, more than
 *                            SYMM_MAX_DIMS dimensions, another device: named
 *         ERROR_STATE        in a child of fork()
 */
SYMM_API symm_status symm_tensor_from_dlpack(symm_group *group,
                                             const struct DLManagedTensor *managed,
                                             symm_tensor *out);

#ifdef __cplusplus
}
#endif

#endif
