/* Memory of the emulated driver: each rule broken once, and the behaviour of correct calls. */
#include "driver_table.h"

#include <signal.h>
#include <sys/mman.h>

#define DEVICE 3

static char *at(CUdeviceptr ptr)
{
    return (char *)(uintptr_t)ptr;
}

/* Whether an access to the byte ends a process: tried in a child, which inherits the mapping. */
static bool faults(CUdeviceptr ptr, bool writes)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        volatile char *byte = at(ptr);
        if (writes)
            *byte = 1;
        else
            (void)*byte;
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status != 0;
}

DRIVER_GROUP(memory, DEVICE);

/* ---- Physical memory and handles ---- */

TEST(memory, create_checks_its_arguments)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = memory_prop(DEVICE);
    WRONG(cuMemCreate, "size 65537 is no multiple of the granularity 65536", &handle, GRANULE + 1,
          &prop, 0);
    WRONG(cuMemCreate, "size 0", &handle, 0, &prop, 0);
    WRONG(cuMemCreate, "flags", &handle, GRANULE, &prop, 1);
    prop.type = 7;
    WRONG(cuMemCreate, "allocation type 7", &handle, GRANULE, &prop, 0);
    prop = memory_prop(8);
    BREAKS(INVALID_DEVICE, cuMemCreate, "no device 8", &handle, GRANULE, &prop, 0);
    prop = memory_prop(DEVICE);
    prop.location.type = 3;
    WRONG(cuMemCreate, "location type 3", &handle, GRANULE, &prop, 0);
    prop = memory_prop(DEVICE);
    prop.requestedHandleTypes |= CU_MEM_HANDLE_TYPE_FABRIC;
    BREAKS(NOT_PERMITTED, cuMemCreate, "no fabric handles", &handle, GRANULE, &prop, 0);
    prop.requestedHandleTypes = 2;
    WRONG(cuMemCreate, "unknown handle types 0x2", &handle, GRANULE, &prop, 0);
    ck_assert_int_eq(driver_objects().handles, 0);
}

TEST(memory, granularity)
{
    size_t least = 0, recommended = 0;
    CUmemAllocationProp prop = memory_prop(DEVICE);
    OK(cu.cuMemGetAllocationGranularity(&least, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(cu.cuMemGetAllocationGranularity(&recommended, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    ck_assert_uint_eq(least, GRANULE);
    ck_assert_uint_eq(recommended, 2 << 20);
    WRONG(cuMemGetAllocationGranularity, "option 9", &least, &prop, 9);
}

TEST(memory, memory_runs_out_and_comes_back)
{
    CUmemGenericAllocationHandle big, more;
    CUmemAllocationProp prop = memory_prop(DEVICE);
    size_t available, total, nbytes = 1000 * GRANULE;
    OK(cu.cuMemGetInfo(&available, &total));
    ck_assert_uint_eq(available, total);
    ck_assert_uint_eq(total, (size_t)1 << 30);
    OK(cu.cuMemCreate(&big, nbytes, &prop, 0));
    OK(cu.cuMemGetInfo(&available, &total));
    ck_assert_uint_eq(available, total - nbytes);
    GIVES(OUT_OF_MEMORY, cu.cuMemCreate(&more, total, &prop, 0));
    /* A released handle does not free mapped memory. */
    CUdeviceptr ptr = memory_map(big, nbytes, DEVICE);
    OK(cu.cuMemRelease(big));
    at(ptr)[nbytes - 1] = 7;
    OK(cu.cuMemGetInfo(&available, &total));
    ck_assert_uint_eq(available, total - nbytes);
    memory_unmap(ptr, nbytes);
    OK(cu.cuMemGetInfo(&available, &total));
    ck_assert_uint_eq(available, total);
}

TEST(memory, handles_are_counted)
{
    CUmemGenericAllocationHandle handle = memory_create(DEVICE, GRANULE), again;
    CUdeviceptr ptr = memory_map(handle, GRANULE, DEVICE);
    OK(cu.cuMemRetainAllocationHandle(&again, at(ptr) + 100));
    ck_assert_int_eq(driver_objects().handles, 2);
    CUmemAllocationProp prop = {.type = 0};
    OK(cu.cuMemGetAllocationPropertiesFromHandle(&prop, again));
    ck_assert_int_eq(prop.type, CU_MEM_ALLOCATION_TYPE_PINNED);
    ck_assert_int_eq(prop.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
    ck_assert_int_eq(prop.location.id, DEVICE);
    ck_assert_int_eq(prop.requestedHandleTypes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    WRONG(cuMemGetAllocationPropertiesFromHandle, "is no handle", &prop, 12345);
    OK(cu.cuMemRelease(handle));
    WRONG(cuMemRelease, "is no handle of this process any more", handle);
    OK(cu.cuMemRelease(again));
    WRONG(cuMemRelease, "is no handle of this process", 12345);
    memory_unmap(ptr, GRANULE);
    WRONG(cuMemRetainAllocationHandle, "nothing is mapped", &again, at(ptr));
    OK(cu.cuMemAlloc(&ptr, GRANULE));
    GIVES(INVALID_VALUE, cu.cuMemRetainAllocationHandle(&again, at(ptr)));
    OK(cu.cuMemFree(ptr));
}

TEST(memory, new_memory_is_garbage)
{
    CUmemGenericAllocationHandle handles[2];
    CUdeviceptr ptr[3];
    for (int i = 0; i < 2; i++) {
        handles[i] = memory_create(DEVICE, GRANULE);
        ptr[i] = memory_map(handles[i], GRANULE, DEVICE);
    }
    OK(cu.cuMemAlloc(&ptr[2], GRANULE));
    for (int i = 0; i < 3; i++)
        for (size_t j = 0; j < GRANULE; j++)
            ck_assert_int_ne(at(ptr[i])[j], 0);
    ck_assert_int_ne(memcmp(at(ptr[0]), at(ptr[1]), 64), 0);
    OK(cu.cuMemFree(ptr[2]));
    for (int i = 0; i < 2; i++) {
        memory_unmap(ptr[i], GRANULE);
        OK(cu.cuMemRelease(handles[i]));
    }
}

/* ---- Export and import ---- */

TEST(memory, export_needs_the_handle_type)
{
    CUmemAllocationProp prop = memory_prop(DEVICE);
    CUmemGenericAllocationHandle handle;
    int fd;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    OK(cu.cuMemCreate(&handle, GRANULE, &prop, 0));
    WRONG(cuMemExportToShareableHandle, "created without handle type 1", &fd, handle, 1, 0);
    WRONG(cuMemExportToShareableHandle, "type 8", &fd, handle, 8, 0);
    WRONG(cuMemExportToShareableHandle, "flags", &fd, handle, 1, 1);
    OK(cu.cuMemRelease(handle));
    WRONG(cuMemExportToShareableHandle, "no handle", &fd, handle, 1, 0);
}

static CUmemGenericAllocationHandle import(int fd)
{
    CUmemGenericAllocationHandle handle;
    OK(cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, 1));
    return handle;
}

TEST(memory, import_refuses_other_descriptors)
{
    CUmemGenericAllocationHandle handle;
    int fd = memfd_create("something", MFD_CLOEXEC), ends[2];
    ck_assert_int_eq(ftruncate(fd, 1 << 20), 0);
    WRONG(cuMemImportFromShareableHandle, "is no exported handle", &handle, (void *)(intptr_t)fd,
          1);
    close(fd);
    WRONG(cuMemImportFromShareableHandle, "is no exported handle", &handle, (void *)(intptr_t)fd,
          1);
    ck_assert_int_eq(pipe(ends), 0);
    WRONG(cuMemImportFromShareableHandle, "is no exported handle", &handle,
          (void *)(intptr_t)ends[0], 1);
    close(ends[0]);
    close(ends[1]);
    WRONG(cuMemImportFromShareableHandle, "type 8", &handle, NULL, 8);
}

TEST(memory, each_import_is_released_by_itself)
{
    CUmemGenericAllocationHandle handle = memory_create(DEVICE, GRANULE);
    int fd;
    OK(cu.cuMemExportToShareableHandle(&fd, handle, 1, 0));
    CUmemGenericAllocationHandle first = import(fd), second = import(fd);
    close(fd);
    ck_assert_uint_ne(first, second);
    ck_assert_int_eq(driver_objects().handles, 3);
    CUdeviceptr a = memory_map(first, GRANULE, DEVICE), b = memory_map(second, GRANULE, DEVICE);
    strcpy(at(a), "seen through the other");
    ck_assert_str_eq(at(b), "seen through the other");
    OK(cu.cuMemRelease(handle));
    OK(cu.cuMemRelease(first));
    OK(cu.cuMemRelease(second));
    memory_unmap(a, GRANULE);
    memory_unmap(b, GRANULE);
}

/* Exports memory and waits to be killed. */
static void exporter(int socket)
{
    int fd;
    driver_open(1);
    CUmemGenericAllocationHandle handle = memory_create(1, GRANULE);
    strcpy(at(memory_map(handle, GRANULE, 1)), "from rank 1");
    OK(cu.cuMemExportToShareableHandle(&fd, handle, 1, 0));
    peer_send(socket, fd);
    for (;;)
        pause();
}

TEST_GROUP(processes, 30);

TEST(processes, imported_memory_outlives_a_killed_exporter)
{
    struct peer peer = peer_start(exporter);
    driver_open(DEVICE);
    int fd = peer_receive(peer.socket);
    CUmemGenericAllocationHandle handle = import(fd);
    close(fd);
    CUdeviceptr ptr = memory_map(handle, GRANULE, DEVICE);
    kill(peer.pid, SIGKILL);
    ck_assert_int_eq(peer_wait(&peer), SIGKILL);
    ck_assert_str_eq(at(ptr), "from rank 1");
    OK(cu.cuMemRelease(handle));
    memory_unmap(ptr, GRANULE);
    driver_close(DEVICE);
}

/* ---- Reservations and mappings ---- */

TEST(memory, reservations)
{
    CUdeviceptr ptr, other;
    WRONG(cuMemAddressReserve, "page size", &ptr, 1000, 0, 0, 0);
    WRONG(cuMemAddressReserve, "page size", &ptr, 0, 0, 0, 0);
    WRONG(cuMemAddressReserve, "no power of two", &ptr, GRANULE, 3 * 4096, 0, 0);
    WRONG(cuMemAddressReserve, "flags", &ptr, GRANULE, 0, 0, 1);
    GIVES(OUT_OF_MEMORY, cu.cuMemAddressReserve(&ptr, (size_t)1 << 60, 0, 0, 0));
    OK(cu.cuMemAddressReserve(&ptr, (size_t)64 << 30, (size_t)512 << 20, 0, 0));
    ck_assert_uint_eq(ptr % (512 << 20), 0);
    OK(cu.cuMemAddressReserve(&other, GRANULE, 0, 0, 0));
    WRONG(cuMemAddressFree, "no reservation is exactly", ptr, GRANULE);
    WRONG(cuMemAddressFree, "no reservation is exactly", other + 4096, GRANULE - 4096);
    OK(cu.cuMemAddressFree(ptr, (size_t)64 << 30));
    WRONG(cuMemAddressFree, "no reservation is exactly", ptr, (size_t)64 << 30);
    OK(cu.cuMemAddressFree(other, GRANULE));
}

TEST(memory, map_checks_its_arguments)
{
    CUmemGenericAllocationHandle handle = memory_create(DEVICE, 2 * GRANULE);
    CUdeviceptr ptr = memory_reserve(4 * GRANULE);
    WRONG(cuMemMap, "offset", ptr, GRANULE, GRANULE, handle, 0);
    WRONG(cuMemMap, "flags", ptr, GRANULE, 0, handle, 1);
    WRONG(cuMemMap, "no handle", ptr, GRANULE, 0, 99, 0);
    WRONG(cuMemMap, "multiples of the granularity", ptr + 4096, 2 * GRANULE, 0, handle, 0);
    GIVES(NOT_SUPPORTED, cu.cuMemMap(ptr, GRANULE, 0, handle, 0)); /* as a whole or not at all */
    GIVES(NOT_SUPPORTED, cu.cuMemMap(ptr, 3 * GRANULE, 0, handle, 0));
    WRONG(cuMemMap, "inside one reservation", ptr + 3 * GRANULE, 2 * GRANULE, 0, handle, 0);
    WRONG(cuMemMap, "inside one reservation", 0, 2 * GRANULE, 0, handle, 0);
    OK(cu.cuMemMap(ptr + GRANULE, 2 * GRANULE, 0, handle, 0));
    WRONG(cuMemMap, "overlaps the mapping", ptr, 2 * GRANULE, 0, handle, 0);
    WRONG(cuMemMap, "overlaps the mapping", ptr + GRANULE, 2 * GRANULE, 0, handle, 0);
    WRONG(cuMemAddressFree, "still mapped", ptr, 4 * GRANULE);
    OK(cu.cuMemUnmap(ptr + GRANULE, 2 * GRANULE));
    OK(cu.cuMemAddressFree(ptr, 4 * GRANULE));
    OK(cu.cuMemRelease(handle));
}

TEST(memory, access_rights)
{
    CUmemGenericAllocationHandle handle = memory_create(DEVICE, GRANULE);
    CUdeviceptr ptr = memory_reserve(GRANULE);
    CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, DEVICE},
                            CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemLocation other = {CU_MEM_LOCATION_TYPE_DEVICE, 5};
    unsigned long long flags = 9;
    WRONG(cuMemSetAccess, "nothing is mapped", ptr, GRANULE, &desc, 1);
    WRONG(cuMemGetAccess, "nothing is mapped", &flags, &other, ptr);
    OK(cu.cuMemMap(ptr, GRANULE, 0, handle, 0));
    ck_assert(faults(ptr, false));
    memory_access(ptr, GRANULE, DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READ);
    ck_assert(!faults(ptr, false));
    ck_assert(faults(ptr, true));
    memory_access(ptr, GRANULE, DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    ck_assert(!faults(ptr, true));
    OK(cu.cuMemGetAccess(&flags, &desc.location, ptr + 100));
    ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cu.cuMemGetAccess(&flags, &other, ptr));
    ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    memory_access(ptr, GRANULE, DEVICE, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    ck_assert(faults(ptr, false));
    WRONG(cuMemSetAccess, "count is 0", ptr, GRANULE, &desc, 0);
    WRONG(cuMemSetAccess, "only in part", ptr, GRANULE / 2, &desc, 1);
    desc.flags = 2;
    WRONG(cuMemSetAccess, "access flags 2", ptr, GRANULE, &desc, 1);
    desc.location.id = 8;
    BREAKS(INVALID_DEVICE, cuMemSetAccess, "no device 8", ptr, GRANULE, &desc, 1);
    memory_unmap(ptr, GRANULE);
    OK(cu.cuMemRelease(handle));
}

TEST(memory, unmap_takes_whole_mappings)
{
    CUmemGenericAllocationHandle handle = memory_create(DEVICE, 2 * GRANULE);
    CUdeviceptr ptr = memory_reserve(8 * GRANULE);
    WRONG(cuMemUnmap, "nothing is mapped", ptr, GRANULE);
    WRONG(cuMemUnmap, "size is 0", ptr, 0);
    for (int i = 0; i < 3; i++)
        OK(cu.cuMemMap(ptr + 2 * (size_t)i * GRANULE, 2 * GRANULE, 0, handle, 0));
    WRONG(cuMemUnmap, "only in part", ptr, GRANULE);
    WRONG(cuMemUnmap, "only in part", ptr, 3 * GRANULE);
    WRONG(cuMemUnmap, "only in part", ptr + GRANULE, GRANULE);
    WRONG(cuMemUnmap, "nothing is mapped", ptr, 8 * GRANULE);
    memory_access(ptr, 6 * GRANULE, DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    strcpy(at(ptr), "kept");
    OK(cu.cuMemUnmap(ptr, 4 * GRANULE));
    ck_assert(faults(ptr, false));
    ck_assert_str_eq(at(ptr) + 4 * GRANULE, "kept");
    /* The range can be used again, and needs access rights again. */
    OK(cu.cuMemMap(ptr, 2 * GRANULE, 0, handle, 0));
    ck_assert(faults(ptr, false));
    OK(cu.cuMemUnmap(ptr, 2 * GRANULE));
    OK(cu.cuMemUnmap(ptr + 4 * GRANULE, 2 * GRANULE));
    OK(cu.cuMemAddressFree(ptr, 8 * GRANULE));
    OK(cu.cuMemRelease(handle));
}

/* ---- Other memory ---- */

TEST(memory, device_memory)
{
    CUdeviceptr ptr;
    size_t available, total;
    WRONG(cuMemAlloc, "size is 0", &ptr, 0);
    GIVES(OUT_OF_MEMORY, cu.cuMemAlloc(&ptr, (size_t)2 << 30));
    OK(cu.cuMemAlloc(&ptr, 1000));
    ck_assert_uint_eq(ptr % 256, 0);
    ck_assert(!faults(ptr + 999, true));
    ck_assert(faults(ptr + 1024, true));
    WRONG(cuMemFree, "not the start of a live allocation", ptr + 256);
    WRONG(cuMemFreeHost, "not the start of a live allocation", at(ptr));
    OK(cu.cuMemFree(ptr));
    WRONG(cuMemFree, "not the start of a live allocation", ptr);
    OK(cu.cuMemGetInfo(&available, &total));
    ck_assert_uint_eq(available, total);
}

TEST(memory, pinned_memory)
{
    void *host;
    CUdeviceptr ptr;
    WRONG(cuMemHostAlloc, "unknown flags", &host, 100, 64);
    WRONG(cuMemHostAlloc, "size is 0", &host, 0, 0);
    OK(cu.cuMemHostAlloc(&host, 100, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cu.cuMemHostGetDevicePointer(&ptr, host, 0));
    *(char *)host = 5;
    ck_assert_int_eq(*at(ptr), 5);
    WRONG(cuMemHostGetDevicePointer, "no pinned host memory", &ptr, &ptr, 0);
    WRONG(cuMemHostGetDevicePointer, "flags", &ptr, host, 1);
    WRONG(cuMemFree, "not the start of a live allocation", ptr);
    OK(cu.cuMemFreeHost(host));
    WRONG(cuMemFreeHost, "not the start of a live allocation", host);
}

static void expect_pointer(CUdeviceptr ptr, unsigned type, int device, CUdeviceptr start,
                           size_t nbytes)
{
    unsigned is_type = 0;
    int is_device = -1;
    CUdeviceptr is_start = 0;
    size_t is_nbytes = 0;
    OK(cu.cuPointerGetAttribute(&is_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr));
    OK(cu.cuPointerGetAttribute(&is_device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr));
    OK(cu.cuPointerGetAttribute(&is_start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, ptr));
    OK(cu.cuPointerGetAttribute(&is_nbytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, ptr));
    ck_assert_uint_eq(is_type, type);
    ck_assert_int_eq(is_device, device);
    ck_assert_uint_eq(is_start, start);
    ck_assert_uint_eq(is_nbytes, nbytes);
    int attributes[] = {CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *data[] = {&is_nbytes, &is_device};
    is_nbytes = 0;
    OK(cu.cuPointerGetAttributes(2, attributes, data, ptr));
    ck_assert_int_eq(is_device, device);
    ck_assert_uint_eq(is_nbytes, nbytes);
    if (type != CU_MEMORYTYPE_DEVICE)
        return;
    is_start = is_nbytes = 0;
    OK(cu.cuMemGetAddressRange(&is_start, &is_nbytes, ptr));
    ck_assert_uint_eq(is_start, start);
    ck_assert_uint_eq(is_nbytes, nbytes);
}

TEST(memory, pointer_attributes)
{
    CUmemGenericAllocationHandle handle = memory_create(6, GRANULE);
    CUdeviceptr mapped = memory_map(handle, GRANULE, DEVICE), device;
    void *host;
    unsigned type;
    OK(cu.cuMemAlloc(&device, 512));
    OK(cu.cuMemHostAlloc(&host, 100, 0));
    expect_pointer(mapped + 5, CU_MEMORYTYPE_DEVICE, 6, mapped, GRANULE);
    expect_pointer(device + 5, CU_MEMORYTYPE_DEVICE, DEVICE, device, 512);
    CUdeviceptr pinned = (CUdeviceptr)(uintptr_t)host;
    expect_pointer(pinned, CU_MEMORYTYPE_HOST, DEVICE, pinned, 100);
    WRONG(cuPointerGetAttribute, "attribute 77", &type, 77, device);
    /* Not a broken rule: the text stays that of the last one. */
    char *plain = malloc(100);
    GIVES(INVALID_VALUE, cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                  (CUdeviceptr)(uintptr_t)plain));
    CUdeviceptr start = 1;
    int attributes[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
    void *data[] = {&start};
    OK(cu.cuPointerGetAttributes(1, attributes, data, (CUdeviceptr)(uintptr_t)plain));
    ck_assert_uint_eq(start, 0);
    GIVES(NOT_FOUND, cu.cuMemGetAddressRange(&start, NULL, pinned));
    ck_assert_ptr_nonnull(strstr(cu.last_rule(), "attribute 77"));
    WRONG(cuPointerGetAttributes, "n is 0", 0, attributes, data, device);
    WRONG(cuPointerGetAttributes, "data[0] is NULL", 1, attributes, (void *[]){NULL}, device);
    free(plain);
    OK(cu.cuMemFree(device));
    OK(cu.cuMemFreeHost(host));
    memory_unmap(mapped, GRANULE);
    OK(cu.cuMemRelease(handle));
    GIVES(INVALID_VALUE, cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, mapped));
}

/* ---- Devices that are no peers ---- */

static void open_islands(void)
{
    setenv("SYMM_EMULATED_ISLAND", "2", 1);
    driver_open(DEVICE);
}

static void close_islands(void)
{
    driver_close(DEVICE);
    unsetenv("SYMM_EMULATED_ISLAND");
}

TEST_GROUP(islands, 30, .setup = open_islands, .teardown = close_islands);

TEST(islands, only_their_devices_reach_each_other)
{
    CUmemGenericAllocationHandle handle = memory_create(DEVICE, GRANULE);
    CUdeviceptr ptr = memory_reserve(GRANULE);
    CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, 4}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    int near = 0, far = 1;

    OK(cu.cuDeviceCanAccessPeer(&near, DEVICE, 2));
    OK(cu.cuDeviceCanAccessPeer(&far, DEVICE, 4));
    ck_assert(near && !far);
    OK(cu.cuMemMap(ptr, GRANULE, 0, handle, 0));
    memory_access(ptr, GRANULE, 2, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    BREAKS(INVALID_DEVICE, cuMemSetAccess, "device 4 is no peer of device 3", ptr, GRANULE, &desc,
           1);
    memory_unmap(ptr, GRANULE);
    OK(cu.cuMemRelease(handle));
}
