/* The numbers and layouts of driver_abi.h are those of the toolkit's cuda.h, where there is one. */
#include <stddef.h>
#include <stdint.h>
#include "test.h"

TEST_GROUP(abi, 10);

#if __has_include(<cuda.h>)
#include <cuda.h>

/* The few numbers that are macros there. */
enum { PORTABLE = CU_MEMHOSTALLOC_PORTABLE, DEVICEMAP = CU_MEMHOSTALLOC_DEVICEMAP };
#undef CU_MEMHOSTALLOC_PORTABLE
#undef CU_MEMHOSTALLOC_DEVICEMAP
enum { CU_MEMHOSTALLOC_PORTABLE = PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP = DEVICEMAP };

/* Sizes of types, and where their members are; X(type) and X(type, member). */
#define TYPES(X)                                                                                   \
    X(CUresult)                                                                                    \
    X(CUdevice)                                                                                    \
    X(CUdeviceptr)                                                                                 \
    X(CUcontext)                                                                                   \
    X(CUstream)                                                                                    \
    X(CUevent)                                                                                     \
    X(CUmodule)                                                                                    \
    X(CUfunction)                                                                                  \
    X(CUgraph)                                                                                     \
    X(CUgraphExec)                                                                                 \
    X(CUmemGenericAllocationHandle)                                                                \
    X(CUuuid)                                                                                      \
    X(CUmemLocation)                                                                               \
    X(CUmemAllocationProp)                                                                         \
    X(CUmemAccessDesc)                                                                             \
    X(CUmulticastObjectProp)                                                                       \
    X(CUDA_MEMCPY2D)                                                                               \
    X(CUlaunchAttribute)                                                                           \
    X(CUlaunchConfig)
#define MEMBERS(X)                                                                                 \
    X(CUmemLocation, type)                                                                         \
    X(CUmemLocation, id)                                                                           \
    X(CUmemAllocationProp, type)                                                                   \
    X(CUmemAllocationProp, requestedHandleTypes)                                                   \
    X(CUmemAllocationProp, location)                                                               \
    X(CUmemAllocationProp, win32HandleMetaData)                                                    \
    X(CUmemAllocationProp, allocFlags.compressionType)                                             \
    X(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable)                                        \
    X(CUmemAllocationProp, allocFlags.usage)                                                       \
    X(CUmemAllocationProp, allocFlags.reserved)                                                    \
    X(CUmemAccessDesc, location)                                                                   \
    X(CUmemAccessDesc, flags)                                                                      \
    X(CUmulticastObjectProp, numDevices)                                                           \
    X(CUmulticastObjectProp, size)                                                                 \
    X(CUmulticastObjectProp, handleTypes)                                                          \
    X(CUmulticastObjectProp, flags)                                                                \
    X(CUDA_MEMCPY2D, srcXInBytes)                                                                  \
    X(CUDA_MEMCPY2D, srcMemoryType)                                                                \
    X(CUDA_MEMCPY2D, srcDevice)                                                                    \
    X(CUDA_MEMCPY2D, srcPitch)                                                                     \
    X(CUDA_MEMCPY2D, dstXInBytes)                                                                  \
    X(CUDA_MEMCPY2D, dstMemoryType)                                                                \
    X(CUDA_MEMCPY2D, dstDevice)                                                                    \
    X(CUDA_MEMCPY2D, dstPitch)                                                                     \
    X(CUDA_MEMCPY2D, WidthInBytes)                                                                 \
    X(CUDA_MEMCPY2D, Height)                                                                       \
    X(CUlaunchAttribute, id)                                                                       \
    X(CUlaunchAttribute, value)                                                                    \
    X(CUlaunchAttribute, value.cooperative)                                                        \
    X(CUlaunchAttribute, value.clusterDim.x)                                                       \
    X(CUlaunchAttribute, value.clusterDim.z)                                                       \
    X(CUlaunchAttribute, value.programmaticStreamSerializationAllowed)                             \
    X(CUlaunchConfig, gridDimX)                                                                    \
    X(CUlaunchConfig, gridDimZ)                                                                    \
    X(CUlaunchConfig, blockDimX)                                                                   \
    X(CUlaunchConfig, blockDimZ)                                                                   \
    X(CUlaunchConfig, sharedMemBytes)                                                              \
    X(CUlaunchConfig, hStream)                                                                     \
    X(CUlaunchConfig, attrs)                                                                       \
    X(CUlaunchConfig, numAttrs)

#define SIZE(type) sizeof(type),
#define PLACE(type, member) offsetof(type, member),
static const size_t their_layouts[] = {TYPES(SIZE) MEMBERS(PLACE)};

static void compare_layouts(void)
{
    /* In this block its names are symm's. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-local-typedefs"
#include "abi/cuda_driver.h"
#pragma GCC diagnostic pop
#define TYPE_NAME(type) #type,
#define MEMBER_NAME(type, member) #type "." #member,
    static const size_t ours[] = {TYPES(SIZE) MEMBERS(PLACE)};
    static const char *const names[] = {TYPES(TYPE_NAME) MEMBERS(MEMBER_NAME)};

    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        ck_assert_msg(ours[i] == their_layouts[i], "%s: %zu, not %zu", names[i], their_layouts[i],
                      ours[i]);
}

static void compare_numbers(void)
{
    static const struct {
        const char *name;
        long long ours, theirs;
    } numbers[] = {
#define NUMBER(name, value) {#name, value, name},
        CU_RESULTS(NUMBER) CU_NUMBERS(NUMBER)};

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        ck_assert_msg(numbers[i].ours == numbers[i].theirs, "%s is %lld, not %lld", numbers[i].name,
                      numbers[i].theirs, numbers[i].ours);
}

TEST(abi, numbers_and_layouts_are_the_toolkits)
{
    compare_layouts();
    compare_numbers();
}
#else
TEST(abi, numbers_and_layouts_are_the_toolkits)
{
    TEST_SKIP("there is no cuda.h");
}
#endif
