/* Multicast objects of the emulated driver: each rule broken once, and calls that wait. */
#include "hand_multicast.h"

#if SYMM_MULTICAST

#include <pthread.h>
#include <stdatomic.h>

#define DEVICE 1

DRIVER_GROUP(rules, DEVICE);

/* ---- Objects ---- */

TEST(rules, create_checks_its_arguments)
{
    CUmemGenericAllocationHandle handle;
    CUmulticastObjectProp prop = multicast_prop(1);
    WRONG(cuMulticastCreate, "numDevices is 1", &handle, &prop);
    prop = multicast_prop(9);
    WRONG(cuMulticastCreate, "numDevices is 9", &handle, &prop);
    prop = multicast_prop(2);
    prop.size = GRANULE + 4096;
    WRONG(cuMulticastCreate, "no multiple of the granularity", &handle, &prop);
    prop.size = 0;
    WRONG(cuMulticastCreate, "no multiple of the granularity", &handle, &prop);
    prop = multicast_prop(2);
    prop.flags = 1;
    WRONG(cuMulticastCreate, "flags", &handle, &prop);
    prop = multicast_prop(2);
    prop.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    BREAKS(NOT_PERMITTED, cuMulticastCreate, "no fabric handles", &handle, &prop);
    prop.handleTypes = 2;
    WRONG(cuMulticastCreate, "unknown handle types", &handle, &prop);
}

TEST(rules, granularity)
{
    CUmulticastObjectProp prop = multicast_prop(2);
    size_t min, recommended;
    OK(cu.cuMulticastGetGranularity(&min, &prop, CU_MULTICAST_GRANULARITY_MINIMUM));
    OK(cu.cuMulticastGetGranularity(&recommended, &prop, CU_MULTICAST_GRANULARITY_RECOMMENDED));
    ck_assert_uint_eq(min, GRANULE);
    ck_assert_uint_eq(recommended, (size_t)512 << 20);
    WRONG(cuMulticastGetGranularity, "option 5", &min, &prop, 5);
}

TEST(rules, a_switch_has_128_slots)
{
    CUmemGenericAllocationHandle handles[128], more;
    CUmulticastObjectProp prop = multicast_prop(2);
    for (int i = 0; i < 128; i++)
        handles[i] = multicast_create(2);
    GIVES(OUT_OF_MEMORY, cu.cuMulticastCreate(&more, &prop));
    OK(cu.cuMemRelease(handles[7]));
    OK(cu.cuMulticastCreate(&handles[7], &prop));
    for (int i = 0; i < 128; i++)
        OK(cu.cuMemRelease(handles[i]));
}

TEST_GROUP(setting, 30);

TEST(setting, a_machine_without_multicast)
{
    CUmemGenericAllocationHandle handle;
    CUmulticastObjectProp prop = multicast_prop(2);
    size_t nbytes;
    int value = -1;
    setenv("SYMM_EMULATED_MULTICAST", "0", 1);
    driver_open(0);
    OK(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0));
    ck_assert_int_eq(value, 0);
    GIVES(NOT_SUPPORTED, cu.cuMulticastCreate(&handle, &prop));
    GIVES(NOT_SUPPORTED, cu.cuMulticastGetGranularity(&nbytes, &prop, 0));
    driver_close(0);
}

TEST(rules, each_device_is_added_once)
{
    CUmemGenericAllocationHandle handle = multicast_create(2);
    CUmemGenericAllocationHandle memory = memory_create(DEVICE, GRANULE);
    OK(cu.cuMulticastAddDevice(handle, 1));
    WRONG(cuMulticastAddDevice, "device 1 is added already", handle, 1);
    BREAKS(INVALID_DEVICE, cuMulticastAddDevice, "no device 8", handle, 8);
    OK(cu.cuMulticastAddDevice(handle, 0));
    WRONG(cuMulticastAddDevice, "has all its 2 devices", handle, 2);
    WRONG(cuMulticastAddDevice, "no multicast object", memory, 2);
    OK(cu.cuMemRelease(memory));
    OK(cu.cuMemRelease(handle));
    WRONG(cuMulticastAddDevice, "no handle", handle, 2);
}

TEST(rules, an_import_is_the_same_object)
{
    CUmemGenericAllocationHandle handle = multicast_create(2), again = import_fd(export_fd(handle));
    OK(cu.cuMulticastAddDevice(handle, 1));
    WRONG(cuMulticastAddDevice, "device 1 is added already", again, 1);
    OK(cu.cuMemRelease(again));
    OK(cu.cuMemRelease(handle));
}

TEST(rules, a_late_import_is_a_new_object)
{
    CUmemGenericAllocationHandle handle = multicast_create(2), early = import_fd(export_fd(handle));
    int fd = export_fd(handle);
    OK(cu.cuMulticastAddDevice(handle, 1));
    OK(cu.cuMemRelease(handle));
    /* The early import is the old object; the late one has no devices. */
    CUmemGenericAllocationHandle late = import_fd(fd), memory = memory_create(DEVICE, GRANULE);
    WRONG(cuMulticastAddDevice, "device 1 is added already", early, 1);
    OK(cu.cuMulticastAddDevice(late, 1));
    OK(cu.cuMulticastAddDevice(late, 0));
    OK(cu.cuMulticastBindMem(late, 0, memory, 0, GRANULE, 0));
    driver_reported(driver_rank, "cuMulticastBindMem", "creator had released it before");
    OK(cu.cuMulticastUnbind(late, DEVICE, 0, GRANULE));
    OK(cu.cuMemRelease(memory));
    OK(cu.cuMemRelease(early));
    OK(cu.cuMemRelease(late));
}

/* ---- Binds ---- */

TEST(rules, bind_checks_its_arguments)
{
    CUmemGenericAllocationHandle handle = multicast_full(2), part = multicast_create(2);
    CUmemGenericAllocationHandle memory = memory_create(DEVICE, 2 * GRANULE), private;
    CUmemGenericAllocationHandle stranger = memory_create(5, GRANULE);
    CUmemAllocationProp prop = memory_prop(DEVICE);
    prop.requestedHandleTypes = 0;
    OK(cu.cuMemCreate(&private, GRANULE, &prop, 0));
    WRONG(cuMulticastBindMem, "no handle", 1, 0, memory, 0, GRANULE, 0);
    WRONG(cuMulticastBindMem, "memory handle", handle, 0, 1, 0, GRANULE, 0);
    WRONG(cuMulticastBindMem, "no multicast object", memory, 0, memory, 0, GRANULE, 0);
    WRONG(cuMulticastBindMem, "is no memory", handle, 0, part, 0, GRANULE, 0);
    WRONG(cuMulticastBindMem, "flags", handle, 0, memory, 0, GRANULE, 1);
    WRONG(cuMulticastBindMem, "multicast offset 4096", handle, 4096, memory, 0, GRANULE, 0);
    WRONG(cuMulticastBindMem, "memory offset 4096", handle, 0, memory, 4096, GRANULE, 0);
    WRONG(cuMulticastBindMem, "size 100", handle, 0, memory, 0, 100, 0);
    WRONG(cuMulticastBindMem, "size 0", handle, 0, memory, 0, 0, 0);
    WRONG(cuMulticastBindMem, "reach beyond", handle, SIZE, memory, 0, GRANULE, 0);
    WRONG(cuMulticastBindMem, "reach beyond", handle, 0, memory, GRANULE, 2 * GRANULE, 0);
    BREAKS(INVALID_DEVICE, cuMulticastBindMem, "device 5, which is not added", handle, 0, stranger,
           0, GRANULE, 0);
    BREAKS(INVALID_DEVICE, cuMulticastBindMem, "device 1, which is not added", part, 0, memory, 0,
           GRANULE, 0);
    WRONG(cuMulticastBindMem, "created with a handle type", handle, 0, private, 0, GRANULE, 0);
    OK(cu.cuMulticastBindMem(handle, GRANULE, memory, 0, 2 * GRANULE, 0));
    WRONG(cuMulticastBindMem, "overlaps the bind of device 1", handle, 0, memory, 0, 2 * GRANULE,
          0);
    ck_assert_int_eq(driver_objects().binds, 1);
    OK(cu.cuMulticastUnbind(handle, DEVICE, GRANULE, 2 * GRANULE));
    const CUmemGenericAllocationHandle all[] = {handle, part, memory, private, stranger};
    for (int i = 0; i < 5; i++)
        OK(cu.cuMemRelease(all[i]));
}

TEST(rules, unbind_equals_the_bind)
{
    CUmemGenericAllocationHandle handle = multicast_full(2);
    CUmemGenericAllocationHandle memory = memory_create(DEVICE, 2 * GRANULE);
    WRONG(cuMulticastUnbind, "no bind", handle, DEVICE, 0, GRANULE);
    OK(cu.cuMulticastBindMem(handle, GRANULE, memory, 0, 2 * GRANULE, 0));
    WRONG(cuMulticastUnbind, "offset 0", handle, DEVICE, 0, 2 * GRANULE);
    WRONG(cuMulticastUnbind, "size 65536", handle, DEVICE, GRANULE, GRANULE);
    WRONG(cuMulticastUnbind, "device 0 has no bind", handle, 0, GRANULE, 2 * GRANULE);
    BREAKS(INVALID_DEVICE, cuMulticastUnbind, "no device 8", handle, 8, GRANULE, 2 * GRANULE);
    OK(cu.cuMulticastUnbind(handle, DEVICE, GRANULE, 2 * GRANULE));
    WRONG(cuMulticastUnbind, "no bind", handle, DEVICE, GRANULE, 2 * GRANULE);
    OK(cu.cuMemRelease(memory));
    OK(cu.cuMemRelease(handle));
}

TEST(rules, unbind_comes_before_the_memory_goes)
{
    CUmemGenericAllocationHandle handle = multicast_full(2);
    CUmemGenericAllocationHandle memory = memory_create(DEVICE, GRANULE);
    OK(cu.cuMulticastBindMem(handle, 0, memory, 0, GRANULE, 0));
    WRONG(cuMemRelease, "unbind first", memory);
    CUdeviceptr ptr = memory_map(memory, GRANULE, DEVICE);
    OK(cu.cuMemRelease(memory));
    WRONG(cuMemUnmap, "unbind first", ptr, GRANULE);
    WRONG(cuMemRelease, "still has 1 binds", handle);
    OK(cu.cuMulticastUnbind(handle, DEVICE, 0, GRANULE));
    memory_unmap(ptr, GRANULE);
    OK(cu.cuMemRelease(handle));
}

/* ---- Waiting for the other devices ---- */

struct waiting {
    CUmemGenericAllocationHandle handle, memory;
    CUdeviceptr ptr;
    CUcontext ctx;
    atomic_int done;
    CUresult result;
};

static void *bind_waits(void *arg)
{
    struct waiting *w = arg;
    cu.cuCtxSetCurrent(w->ctx);
    w->result = cu.cuMulticastBindMem(w->handle, 0, w->memory, 0, GRANULE, 0);
    atomic_store(&w->done, 1);
    return NULL;
}

static void *map_waits(void *arg)
{
    struct waiting *w = arg;
    cu.cuCtxSetCurrent(w->ctx);
    w->result = cu.cuMemMap(w->ptr, SIZE, 0, w->handle, 0);
    atomic_store(&w->done, 1);
    return NULL;
}

static void *(*const waits[])(void *) = {bind_waits, map_waits};

TEST_LOOP(rules, bind_and_map_wait_for_all_devices, 0, 2)
{
    struct waiting w = {.handle = multicast_create(2),
                        .memory = memory_create(DEVICE, GRANULE),
                        .ptr = memory_reserve(SIZE)};
    pthread_t thread;
    OK(cu.cuCtxGetCurrent(&w.ctx));
    OK(cu.cuMulticastAddDevice(w.handle, DEVICE));
    ck_assert_int_eq(pthread_create(&thread, NULL, waits[_i], &w), 0);
    usleep(1500000);
    ck_assert_int_eq(atomic_load(&w.done), 0);
    driver_reported(driver_rank, waits[_i] == bind_waits ? "cuMulticastBindMem" : "cuMemMap",
                    "waits until all devices are added: 1 of 2");
    /* The wait does not block other calls. */
    OK(cu.cuMulticastAddDevice(w.handle, 0));
    pthread_join(thread, NULL);
    OK(w.result);
    if (waits[_i] == bind_waits)
        OK(cu.cuMulticastUnbind(w.handle, DEVICE, 0, GRANULE));
    else
        OK(cu.cuMemUnmap(w.ptr, SIZE));
    OK(cu.cuMemAddressFree(w.ptr, SIZE));
    OK(cu.cuMemRelease(w.memory));
    OK(cu.cuMemRelease(w.handle));
}

#endif
