/*
 * Programs for the units of Hopper GPUs, in C against symm/detail/emulated_hopper.h. Two kernels
 * call the function that their argument names: `hopper` has a number of registers, `plain` none.
 */
#ifndef TEST_HOPPER_KERNELS_H
#define TEST_HOPPER_KERNELS_H

#include <symm/detail/emulated_hopper.h>
#include "hand_streams.h"

enum { GROUP = 128, REGISTERS = 160, HALF = 2 /* bytes of an element */, BLOCKS_MAX = 8 };

static const struct symm_emulated_hopper_ops *unit;

struct tensor_map {
    uint64_t words[16];
} __attribute__((aligned(64)));

struct hopper_args {
    struct tensor_map map;
    void (*body)(const struct hopper_args *a);
    void *data;
    float *out;
    atomic_uint *count;
    uint64_t a, b; /* descriptors, without their addresses */
    uint32_t columns, transposed, value;
};

/* ---- Shared memory ---- */

static _Thread_local uint64_t bars[4];

static inline void *hopper_static_shared(void)
{
    return bars;
}

static inline char *dynamic(void)
{
    return ops->dynamic_shared(1024);
}

/* A place in the tile that swizzled lines of 128 bytes make. */
static inline uint32_t swizzled(uint32_t at)
{
    return at ^ (at >> 7 & 7) << 4;
}

/* ---- Parts of programs ---- */

/* Thread 0 initialises bars[0], and all threads of the cluster know. */
static inline void begin_barrier(uint32_t arrivals)
{
    if (thread_index() == 0) {
        unit->mbarrier_init(&bars[0], arrivals);
        unit->fence_mbarrier_init();
        unit->fence_async();
    }
    unit->cluster_arrive();
    unit->cluster_wait();
}

static inline void load(const struct hopper_args *a, void *shared, int32_t x, int32_t y)
{
    const int32_t at[] = {x, y};
    unit->tensor_load(shared, &a->map, 2, at, &bars[0], 0);
}

static inline struct symm_emulated_wgmma wgmma_of(const struct hopper_args *a, uint32_t add)
{
    const uint64_t at = unit->in_shared(dynamic()) / 16;
    return (struct symm_emulated_wgmma){.a = a->a + at,
                                        .b = a->b + at,
                                        .columns = a->columns,
                                        .type = a->value,
                                        .b_transposed = a->transposed,
                                        .add = add};
}

/* ---- Kernels ---- */

static void hopper_run(const void *args)
{
    const struct hopper_args *a = args;
    a->body(a);
}

static const struct symm_emulated_kernel
    hopper_kernel = {"hopper", hopper_run, sizeof(struct hopper_args), 1024, 0, REGISTERS, 1},
    plain_kernel = {"plain", hopper_run, sizeof(struct hopper_args), 1024, 0, 0, 1};
static const struct symm_emulated_kernel *const hopper_list[] = {&hopper_kernel, &plain_kernel};
static const struct symm_emulated_module hopper_module = {.magic = SYMM_EMULATED_MAGIC,
                                                          .abi = SYMM_EMULATED_ABI,
                                                          .first = hopper_list,
                                                          .last = hopper_list + 2,
                                                          .ops = &ops,
                                                          .hopper = &unit,
                                                          .static_shared = hopper_static_shared};

/* ---- For the tests ---- */

struct hopper_shape {
    unsigned blocks, threads, cluster, shared_nbytes;
};

static inline CUresult hopper_launch(const char *kernel, struct hopper_shape shape,
                                     const struct hopper_args *a)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                   .value.clusterDim = {shape.cluster, 1, 1}};
    CUlaunchConfig config = {shape.blocks, 1,          1, shape.threads, 1, 1, shape.shared_nbytes,
                             stream,       &attribute, 1};
    CUmodule module;
    CUfunction function;
    struct hopper_args copy = *a;
    void *params[] = {&copy};
    OK(cu.cuModuleLoadData(&module, &hopper_module));
    OK(cu.cuModuleGetFunction(&function, module, kernel));
    OK(cu.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 << 10));
    OK(cu.cuLaunchKernelEx(&config, function, params, NULL));
    CUresult result = cu.cuStreamSynchronize(stream);
    cu.cuModuleUnload(module);
    return result;
}

/* Runs a program that breaks no rule. */
static inline void hopper_works(struct hopper_shape shape, const struct hopper_args *a)
{
    ck_assert_msg(hopper_launch("hopper", shape, a) == CUDA_SUCCESS, "%s", cu.last_rule());
}

/* A program that breaks a rule, and words of the report. */
struct hopper_rule {
    void (*body)(const struct hopper_args *a);
    const char *rule;
    unsigned threads, cluster; /* 0: 1 */
    uint32_t value;
    const char *kernel; /* NULL: hopper */
    bool without_shared;
};

static inline void hopper_breaks(const struct hopper_rule *wrong, unsigned shared_nbytes,
                                 const struct hopper_args *args)
{
    const unsigned cluster = wrong->cluster ? wrong->cluster : 1,
                   threads = wrong->threads ? wrong->threads : 1;
    const char *kernel = wrong->kernel ? wrong->kernel : "hopper";
    struct hopper_args a = *args;
    a.body = wrong->body;
    a.value = wrong->value;
    ck_assert_int_ne(hopper_launch(kernel,
                                   (struct hopper_shape){cluster, threads, cluster,
                                                         wrong->without_shared ? 0 : shared_nbytes},
                                   &a),
                     CUDA_SUCCESS);
    driver_reported(driver_rank, kernel, wrong->rule);
}

/* A tensor of [rows, columns] 16-bit elements, with boxes of whole lines of 128 bytes. */
static inline struct tensor_map map_of(CUdeviceptr data, uint64_t columns, uint64_t rows,
                                       uint32_t box_rows, int swizzle)
{
    struct tensor_map map;
    const uint64_t extents[] = {columns, rows}, strides[] = {(columns + 7) / 8 * 8 * HALF};
    const uint32_t box[] = {64, box_rows}, steps[] = {1, 1};
    OK(cu.cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void *)(uintptr_t)data,
                                 extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                 swizzle, 0, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    return map;
}

#endif
