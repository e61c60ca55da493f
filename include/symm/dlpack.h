/*
 * symm/dlpack.h - exchanges tensors with PyTorch, NumPy, CuPy, JAX and other users of DLPack, in
 * both directions, without a copy.
 *
 * Needs no package: struct DLManagedTensor is only declared here. Programs that access its members
 * include <dlpack/dlpack.h>. In Python, pass it in a PyCapsule with the name "dltensor".
 * docs/examples/python/dlpack.py shows this with ctypes; docs/pytorch.md explains the rest.
 *
 * Terms: see symm/symm.h.
 *
 * Element types in both directions: float16, float32, float64, bfloat16, int32, int64, uint8, and
 * since DLPack 1.1 float8_e4m3fn (SYMM_FLOAT8_E4M3) and float8_e5m2. Older readers refuse the last
 * two. The DLPack field `lanes` is always 1.
 * Device: kDLCUDA with this rank's ordinal on the cuda driver; kDLCPU on the emulated driver, whose
 * memory is host memory.
 */
#ifndef SYMM_DLPACK_H
#define SYMM_DLPACK_H

#include <symm/symm.h>

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensor;

typedef enum symm_dlpack_mode {
    SYMM_DLPACK_LEND = 0, /* a view: the memory keeps its owner */
    SYMM_DLPACK_GIVE      /* the managed tensor owns the memory: its deleter frees it */
} symm_dlpack_mode;

/*
 * Makes a managed tensor of `tensor`, with its data, element type, shape and strides (in elements).
 * Copies nothing and waits for nothing: the caller makes sure that work on other streams is done
 * before the reader uses the data.
 *
 * LEND makes a view of any memory: of a whole allocation or a part of it, of another rank's copy
 * (symm_peer()), of plain device memory. Symmetric memory must lie in one live allocation; other
 * memory must be memory that the device can access. Any number of views may exist, also of given
 * memory. A view keeps nothing alive.
 *
 * GIVE makes the managed tensor the owner of this group's allocation that begins at tensor->data.
 * The tensor need not cover all of it. symm_free() refuses it from then on. It stays symmetric:
 * symm_peer(), collectives and kernels accept it until the deleter runs. As with symm_free(), its
 * bytes are used again once every rank has freed them. On failure the group keeps it.
 *
 * Scope:  Local; any thread at any time.
 * Shapes: 0 <= ndim <= SYMM_MAX_DIMS; ndim 0 is one element. An extent of 0 makes an empty tensor,
 *         whose data may be NULL when it is lent. Any stride, negative and 0 too.
 * Memory: *out lives until one reader calls its deleter, once. The deleter may run in any thread at
 *         any time. It never waits, except that unmapping registered memory may wait for the
 *         device. After the group or the context was destroyed, which frees the memory, and in a
 *         child of fork(), it frees the managed tensor alone. The library stays loaded for it. No
 *         enqueued work of this rank may use memory whose deleter runs.
 * Errors: ERROR_ARGUMENT  a NULL, an invalid dtype, ndim, extent or mode, a tensor that does not
 *                         lie in one allocation; GIVE: not the start of an allocation of this
 *                         group, or given before
 *         ERROR_MEMORY    host memory
 *         ERROR_STATE     in a child of fork()
 */
SYMM_API symm_status symm_tensor_to_dlpack(symm_group *group, const symm_tensor *tensor,
                                           symm_dlpack_mode mode, struct DLManagedTensor **out);

/*
 * Describes a managed tensor of any origin as a symm_tensor. Owns nothing and keeps nothing alive:
 * the caller still has to call the deleter, after the last use of *out. Memory does not become
 * symmetric by this.
 *
 * Scope:  Local; any thread at any time.
 * Shapes: 0 <= ndim <= SYMM_MAX_DIMS, any extent from 0; byte_offset is added to data. Strides are
 *         copied, in elements; without strides the tensor is contiguous and row-major.
 * Errors: ERROR_ARGUMENT     a NULL (data too, unless the tensor is empty), a negative extent
 *         ERROR_UNSUPPORTED  an element type that symm lacks, lanes other than 1, more than
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
