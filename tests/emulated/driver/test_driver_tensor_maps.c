/* cuTensorMapEncodeTiled: the rules of its arguments. */
#include "driver_table.h"

DRIVER_GROUP(maps, 1);

struct arguments {
    int dtype;
    uint32_t ndim;
    uint64_t data, extents[5], strides[4];
    uint32_t box[5], steps[5];
    int interleave, swizzle, promotion, fill;
};

/* 64 x 32 x 8 x 4 x 2 elements of 16 bits. */
static const struct arguments right = {6,
                                       5,
                                       0x10000,
                                       {64, 32, 8, 4, 2},
                                       {128, 4096, 32768, 131072},
                                       {64, 8, 1, 1, 1},
                                       {1, 1, 1, 1, 1},
                                       0,
                                       3,
                                       3,
                                       0};

static CUresult encode(const struct arguments *a, void *map)
{
    return cu.cuTensorMapEncodeTiled(map, a->dtype, a->ndim, (void *)(uintptr_t)a->data, a->extents,
                                     a->strides, a->box, a->steps, a->interleave, a->swizzle,
                                     a->promotion, a->fill);
}

static uint64_t words[17] __attribute__((aligned(64)));

static void is_wrong(const struct arguments *a, CUresult error, const char *part)
{
    ck_assert_int_eq(encode(a, words), error);
    driver_reported(driver_rank, "cuTensorMapEncodeTiled", part);
}

#define WRONG_IF(part, member, value_)                                                             \
    do {                                                                                           \
        struct arguments a = right;                                                                \
        a.member = (value_);                                                                       \
        is_wrong(&a, CUDA_ERROR_INVALID_VALUE, part);                                              \
    } while (0)

TEST(maps, tensors_of_each_rank)
{
    for (uint32_t ndim = 1; ndim <= 5; ndim++) {
        struct arguments a = right;
        a.ndim = ndim;
        OK(encode(&a, words));
    }
}

TEST(maps, each_rule)
{
    WRONG_IF("dtype is 13", dtype, 13);
    WRONG_IF("dtype is -1", dtype, -1);
    WRONG_IF("ndim is 0", ndim, 0);
    WRONG_IF("ndim is 6", ndim, 6);
    WRONG_IF("data is NULL", data, 0);
    WRONG_IF("data is not aligned to 16", data, 0x10008);
    WRONG_IF("extents[1] is 0", extents[1], 0);
    WRONG_IF("extents[4] is 4294967297", extents[4], (UINT64_C(1) << 32) + 1);
    WRONG_IF("strides[0] is 136", strides[0], 136);
    WRONG_IF("strides[3] is 1099511627776", strides[3], UINT64_C(1) << 40);
    WRONG_IF("box[1] is 0", box[1], 0);
    WRONG_IF("box[1] is 257", box[1], 257);
    WRONG_IF("box[0] has 120 bytes: a multiple of 16", box[0], 60);
    WRONG_IF("box[0] has 144 bytes, more than the 128 of the swizzle", box[0], 72);
    WRONG_IF("more than the 32", swizzle, 1);
    WRONG_IF("more than the 64", swizzle, 2);
    WRONG_IF("swizzle is 4", swizzle, 4);
    WRONG_IF("steps[2] is 0", steps[2], 0);
    WRONG_IF("steps[2] is 9", steps[2], 9);
    WRONG_IF("promotion is 4", promotion, 4);
    ck_assert_int_eq(encode(&right, words + 1), CUDA_ERROR_INVALID_VALUE);
    driver_reported(driver_rank, "cuTensorMapEncodeTiled", "map is not aligned to 64");
    ck_assert_int_eq(encode(&right, NULL), CUDA_ERROR_INVALID_VALUE);
    driver_reported(driver_rank, "cuTensorMapEncodeTiled", "map is NULL");
}

/* Legal, but the emulator has no such layouts. */
TEST(maps, limits_of_the_emulator)
{
    struct arguments a = right;
    a.interleave = 1;
    is_wrong(&a, CUDA_ERROR_NOT_SUPPORTED, "interleave is 1");
    a = right;
    a.fill = 1;
    is_wrong(&a, CUDA_ERROR_NOT_SUPPORTED, "fill is 1");
}
