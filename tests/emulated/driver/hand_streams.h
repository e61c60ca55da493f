/* Streams of the emulated driver, and kernels that keep them busy or record that they have run. */
#ifndef TEST_HAND_STREAMS_H
#define TEST_HAND_STREAMS_H

#include "driver_table.h"
#include "hand_kernels.h"

#define DEVICE 2

static CUstream stream, other, blocking, blocking2;
static CUevent event;

static inline void open_driver(void)
{
    hand_open(DEVICE);
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cu.cuStreamCreate(&blocking2, CU_STREAM_DEFAULT));
    OK(cu.cuEventCreate(&event, CU_EVENT_DEFAULT));
}

static inline void close_driver(void)
{
    OK(cu.cuEventDestroy(event));
    OK(cu.cuStreamDestroy(stream));
    OK(cu.cuStreamDestroy(other));
    OK(cu.cuStreamDestroy(blocking));
    OK(cu.cuStreamDestroy(blocking2));
    hand_close(DEVICE);
}

/* After a fault: all objects can still be destroyed, and the next context is healthy. */
static inline void recover_driver(void)
{
    static uint32_t out[64];
    struct hand_args args = hand_args();
    CUstream *const streams[] = {&stream, &other, &blocking, &blocking2};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        ck_assert_int_ne(cu.cuStreamDestroy(*streams[i]), CUDA_SUCCESS); /* the error; destroyed */
    ck_assert_int_ne(cu.cuEventDestroy(event), CUDA_SUCCESS);
    ck_assert_int_ne(cu.cuModuleUnload(hand_loaded), CUDA_SUCCESS);
    ck_assert_int_eq(driver_objects().streams, 0);
    ck_assert_int_eq(driver_objects().modules, 0);
    cu.cuCtxSetCurrent(NULL);
    OK(cu.cuDevicePrimaryCtxRelease(DEVICE));
    open_driver();
    args.out = out;
    OK(hand_launch(hand_function("number"), 2, 32, &args, stream));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(out[63], 63);
    close_driver();
}

/* Keeps the stream busy until release(). */
static inline void spin(CUstream on)
{
    struct hand_args args = hand_args();
    OK(hand_launch(hand_function("spin"), 1, 1, &args, on));
}

/* The same, and waits until the kernel runs. */
static inline void hold(CUstream on)
{
    unsigned before = atomic_load(&started);
    spin(on);
    hand_wait_for(&started, before + 1);
}

static inline void release(void)
{
    atomic_store(&go, 1);
}

/* The values of append(), in their order. */
static uint32_t noted[1024];
static atomic_uint nnoted;

static inline void append(uint32_t value, CUstream on)
{
    struct hand_args args = hand_args();
    args.out = noted;
    args.started = &nnoted;
    args.value = value;
    args.stay = value % 3;
    OK(hand_launch(hand_function("append"), 1, 1, &args, on));
}

static inline void noted_are(const uint32_t *values, unsigned n)
{
    ck_assert_uint_eq(atomic_load(&nnoted), n);
    for (unsigned i = 0; i < n; i++)
        ck_assert_uint_eq(noted[i], values[i]);
    atomic_store(&nnoted, 0);
}
#define NOTED(...)                                                                                 \
    noted_are((const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

static inline CUdeviceptr device_memory(size_t nbytes)
{
    CUdeviceptr ptr;
    OK(cu.cuMemAlloc(&ptr, nbytes));
    return ptr;
}

static inline CUdeviceptr address(const void *ptr)
{
    return (CUdeviceptr)(uintptr_t)ptr;
}

#endif
