/* Tensors that cannot become DLPack's, or come from there: each is refused with its reason. */
#include <stdlib.h>
#include "dlpack_tensors.h"
#include "exercise.h"
#include "test.h"
#include "world.h"

TEST_GROUP(refusals, 60);

WORLD_TEST(refusals, wrong_exports_are_named, 2)
{
    static const int64_t shape[] = {10, 100};
    symm_group *g = NULL;
    symm_signal_pad *pad = NULL;
    symm_tensor t = {0}, bad;
    DLManagedTensor *m = NULL;
    RANK_TRY(self, group_of_all(world, &g));
    RANK_TRY(self, symm_signal_pad_alloc(world, 4, &pad));
    RANK_TRY(self, symm_tensor_alloc(world, SYMM_FLOAT32, 2, shape, &t));
#define REFUSED(text, mode, change)                                                                \
    do {                                                                                           \
        bad = t;                                                                                   \
        change;                                                                                    \
        RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, text,                                          \
                         symm_tensor_to_dlpack(world, &bad, mode, &m));                            \
        CHECK_RANK(self, !m);                                                                      \
    } while (0)
    REFUSED("tensor.dtype is 77", SYMM_DLPACK_LEND, bad.dtype = (symm_dtype)77);
    REFUSED("tensor.ndim is 6", SYMM_DLPACK_LEND, bad.ndim = 6);
    REFUSED("tensor.ndim is -1", SYMM_DLPACK_LEND, bad.ndim = -1);
    REFUSED("tensor.shape[1] is -3", SYMM_DLPACK_LEND, bad.shape[1] = -3);
    REFUSED("tensor.shape[0] is 4611686018427387904: the tensor is too large", SYMM_DLPACK_LEND,
            bad.shape[0] = INT64_C(1) << 62);
    REFUSED("tensor.data is NULL", SYMM_DLPACK_GIVE, bad.data = NULL);
    REFUSED("run beyond the end", SYMM_DLPACK_LEND, bad.shape[0] = 11);
    REFUSED("run beyond the end", SYMM_DLPACK_GIVE, bad.strides[0] = 101);
    REFUSED("is not in any allocation", SYMM_DLPACK_LEND,
            bad.data = (char *)t.data + (INT64_C(1) << 20));
    REFUSED("4 bytes into an allocation, not the start of it", SYMM_DLPACK_GIVE, {
        bad.data = (float *)t.data + 1;
        bad.shape[0] = 9;
    });
    REFUSED("copy of an object", SYMM_DLPACK_GIVE,
            bad.data = symm_peer(world, t.data, !self->rank));
    REFUSED("of symm itself", SYMM_DLPACK_GIVE, {
        bad.data = pad;
        bad.ndim = 0;
    });
    REFUSED("mode is 2", (symm_dlpack_mode)2, (void)0);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "memory of another group",
                     symm_tensor_to_dlpack(g, &t, SYMM_DLPACK_GIVE, &m));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "tensor is NULL",
                     symm_tensor_to_dlpack(world, NULL, SYMM_DLPACK_LEND, &m));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "out is NULL",
                     symm_tensor_to_dlpack(world, &t, SYMM_DLPACK_LEND, NULL));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "symm_tensor_to_dlpack: group is NULL",
                     symm_tensor_to_dlpack(NULL, &t, SYMM_DLPACK_LEND, &m));
    if (!symm_multicast_off(world))
        REFUSED("is a multicast address", SYMM_DLPACK_LEND,
                bad.data = symm_multicast(world, t.data));
    RANK_TRY(self, symm_free(world, t.data)); /* what was refused is still the group's */
    REFUSED("is freed memory", SYMM_DLPACK_LEND, (void)0);
out:
    symm_group_destroy(g);
}

WORLD_TEST(refusals, wrong_imports_are_named, 1)
{
    static const int64_t shape[] = {2, 3, 2, 1, 1, 1};
    symm_tensor out, untouched;
    struct theirs theirs;
    float x[12];
    memset(&out, 0x5a, sizeof out);
    untouched = out;
    DLTensor *d = &theirs.managed.dl_tensor;
#define NOT_TAKEN(status, text, change)                                                            \
    do {                                                                                           \
        theirs_of(&theirs, x, 3, shape);                                                           \
        change;                                                                                    \
        RANK_EXPECT_TEXT(self, status, text,                                                       \
                         symm_tensor_from_dlpack(world, &theirs.managed, &out));                   \
        CHECK_RANK(self, memcmp(&out, &untouched, sizeof out) == 0);                               \
    } while (0)
    NOT_TAKEN(SYMM_ERROR_UNSUPPORTED, "int16", d->dtype = ((DLDataType){kDLInt, 16, 1}));
    NOT_TAKEN(SYMM_ERROR_UNSUPPORTED, "uint32", d->dtype = ((DLDataType){kDLUInt, 32, 1}));
    NOT_TAKEN(SYMM_ERROR_UNSUPPORTED, "complex64", d->dtype = ((DLDataType){kDLComplex, 64, 1}));
    NOT_TAKEN(SYMM_ERROR_UNSUPPORTED, "bool8", d->dtype = ((DLDataType){6, 8, 1}));
    NOT_TAKEN(SYMM_ERROR_UNSUPPORTED, "code 14 and 8 bits", d->dtype = ((DLDataType){14, 8, 1}));
    NOT_TAKEN(SYMM_ERROR_UNSUPPORTED, "4 lanes", d->dtype.lanes = 4);
    NOT_TAKEN(SYMM_ERROR_UNSUPPORTED, "6 dimensions; symm has at most 5", d->ndim = 6);
    NOT_TAKEN(SYMM_ERROR_UNSUPPORTED, "device 1 of type 2 (CUDA)",
              d->device = ((DLDevice){kDLCUDA, 1}));
    NOT_TAKEN(SYMM_ERROR_UNSUPPORTED, "of type 99 (another kind)",
              d->device.device_type = (DLDeviceType)99);
    NOT_TAKEN(SYMM_ERROR_ARGUMENT, "ndim is -2", d->ndim = -2);
    NOT_TAKEN(SYMM_ERROR_ARGUMENT, "shape[1] is -3", theirs.shape[1] = -3);
    NOT_TAKEN(SYMM_ERROR_ARGUMENT, "too large", theirs.shape[1] = INT64_MAX);
    NOT_TAKEN(SYMM_ERROR_ARGUMENT, "shape is NULL", d->shape = NULL);
    NOT_TAKEN(SYMM_ERROR_ARGUMENT, "data is NULL", d->data = NULL);
    theirs_of(&theirs, x, 3, shape);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "managed is NULL",
                     symm_tensor_from_dlpack(world, NULL, &out));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "out is NULL",
                     symm_tensor_from_dlpack(world, &theirs.managed, NULL));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "symm_tensor_from_dlpack: group is NULL",
                     symm_tensor_from_dlpack(NULL, &theirs.managed, &out));
out:;
}
