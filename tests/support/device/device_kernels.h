/* Kernels for every function of symm/device.cuh, and their argument (test_device_kernels). */
#ifndef TEST_DEVICE_KERNELS_H
#define TEST_DEVICE_KERNELS_H

#include <symm/symm.h>

extern const symm_image test_device_kernels;

typedef struct test_device_args {
    symm_view view;
    symm_signal_pad *pad;
    void *x, *y;     /* symmetric memory */
    void *out;       /* symmetric or plain: results for the host */
    uint32_t *tally; /* [0]: how many things were wrong; [1]: how many threads came to their end */
    uint64_t nbytes;
    uint32_t seed, rounds;
    int32_t mode, param;
} test_device_args;

#ifdef __CUDACC__
#define TEST_DEVICE_HOST static __host__ __device__ inline
#else
#define TEST_DEVICE_HOST static inline
#endif

/* A word made of all arguments: kernels write it, kernels and the host compute it for checks. */
TEST_DEVICE_HOST uint32_t test_device_word(uint32_t seed, uint32_t round, uint32_t rank,
                                           uint32_t block, uint32_t thread)
{
    uint32_t x = seed + round * 0x9e3779b9u;
    x = (x ^ x >> 16) * 0x85ebca6bu + rank * 0xc2b2ae35u;
    x = (x ^ x >> 13) * 0x27d4eb2fu + block * 0x165667b1u;
    x = (x ^ x >> 15) * 0x9e3779b1u + thread;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    return x ^ x >> 13;
}

/* A small whole number, of which many can be added in any order without rounding. */
TEST_DEVICE_HOST int32_t test_device_addend(uint32_t seed, uint32_t word, uint32_t rank,
                                            uint32_t block, uint32_t thread, int32_t most)
{
    const uint32_t x = test_device_word(seed, word, rank, block, thread);
    return (int32_t)(x % (2u * (uint32_t)most + 1)) - most;
}

/* test_order: how the blocks meet. */
enum {
    TEST_MEET_BARRIER,
    TEST_MEET_SPLIT,
    TEST_MEET_BOTH,
    TEST_MEET_AGREE,
    TEST_MEET_INSIST,
    TEST_MEET_GRID_SYNC,
    TEST_MEET_GRID_BARRIER,
    TEST_MEETS
};

/* Waits of test_stall, which calls channels 0 to 7. */
enum { TEST_STALL_SIGNAL, TEST_STALL_PACKET, TEST_STALL_GRID, TEST_STALL_FLAG = 5 };

/* test_copies: for every pair of alignments and every size, a slot with guards around the bytes. */
enum {
    TEST_COPY_ALIGNMENTS = 17,
    TEST_COPY_SIZES = 101,
    TEST_COPY_SLOT = 160,
    TEST_COPY_GUARD = 16,
    TEST_COPY_JOBS = TEST_COPY_ALIGNMENTS * TEST_COPY_ALIGNMENTS * TEST_COPY_SIZES,
    TEST_COPY_SOURCE = 8192
};

TEST_DEVICE_HOST uint32_t test_copy_to(uint32_t job)
{
    return job * TEST_COPY_SLOT + TEST_COPY_GUARD + job / TEST_COPY_SIZES / TEST_COPY_ALIGNMENTS;
}

TEST_DEVICE_HOST uint32_t test_copy_from(uint32_t job)
{
    return job * 48u % 4096u + job / TEST_COPY_SIZES % TEST_COPY_ALIGNMENTS;
}

/* test_copies and test_put: which function. */
enum {
    TEST_MOVE_COPY,
    TEST_MOVE_COPY_THREAD,
    TEST_MOVE_PUT,
    TEST_MOVE_PUT_THREAD,
    TEST_MOVE_PUT_BULK, /* test_put only; param: how much shared memory */
    TEST_MOVES
};

/* Element types, as modes. */
#define TEST_ADDED_TYPES(X) X(uint32_t) X(int32_t) X(uint64_t) X(int64_t) X(float) X(double)
#define TEST_PACKED_TYPES(X) X(float) X(symm_f16) X(symm_bf16)
#define TEST_ONE_TYPES(X)                                                                          \
    TEST_ADDED_TYPES(X) X(uint8_t) X(int8_t) X(uint16_t) X(symm_f16) X(symm_bf16) X(symm_bits16)

enum {
    TEST_ONE_uint32_t,
    TEST_ONE_int32_t,
    TEST_ONE_uint64_t,
    TEST_ONE_int64_t,
    TEST_ONE_float,
    TEST_ONE_double,
    TEST_ADDED, /* those above */
    TEST_ONE_uint8_t = TEST_ADDED,
    TEST_ONE_int8_t,
    TEST_ONE_uint16_t,
    TEST_ONE_symm_f16,
    TEST_ONE_symm_bf16,
    TEST_ONE_symm_bits16,
    TEST_ONES
};

/* Reductions of a switch: X(operation, type). */
#define TEST_REDUCTIONS(X)                                                                         \
    X(SYMM_SUM, float)                                                                             \
    X(SYMM_SUM, symm_f16)                                                                          \
    X(SYMM_SUM, symm_bf16)                                                                         \
    X(SYMM_SUM, double)                                                                            \
    X(SYMM_SUM, uint32_t)                                                                          \
    X(SYMM_SUM, int32_t)                                                                           \
    X(SYMM_SUM, uint64_t)                                                                          \
    X(SYMM_SUM, int64_t)                                                                           \
    TEST_EXTREMES(X, SYMM_MIN)                                                                     \
    TEST_EXTREMES(X, SYMM_MAX)
#define TEST_EXTREMES(X, op)                                                                       \
    X(op, symm_f16)                                                                                \
    X(op, symm_bf16)                                                                               \
    X(op, uint32_t)                                                                                \
    X(op, int32_t)                                                                                 \
    X(op, uint64_t)                                                                                \
    X(op, int64_t)

enum {
#define TEST_REDUCE_ENUM_(op, type) TEST_REDUCE_##op##_##type,
    TEST_REDUCTIONS(TEST_REDUCE_ENUM_)
#undef TEST_REDUCE_ENUM_
        TEST_REDUCES
};

#endif
