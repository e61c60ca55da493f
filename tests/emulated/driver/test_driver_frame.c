/* The emulated driver: entries, initialisation, fork, devices, contexts, faults, trace. */
#include "driver_table.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include "trace.h"

TEST_GROUP(frame, 30);

/* ---- Entries ---- */

TEST(frame, entries_by_name_and_version)
{
    PFN_cuGetProcAddress_v12000 get = driver_lookup();
    void *plain, *suffixed, *none = &none;
    int status = -1;
    OK(get("cuMemAlloc", &plain, 3020, 0, &status));
    ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SUCCESS);
    OK(get("cuMemAlloc_v2", &suffixed, 13000, 0, &status));
    ck_assert_ptr_eq(plain, suffixed);
    GIVES(NOT_FOUND, get("cuMemAlloc", &none, 3010, 0, &status));
    ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    ck_assert_ptr_null(none);
    GIVES(NOT_FOUND, get("cuMemAllocSomehow", &none, 13000, 0, &status));
    ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    GIVES(INVALID_VALUE, get("cuMemAlloc", &none, 13010, 0, &status));
    GIVES(INVALID_VALUE, get("cuMemAlloc", &none, 13000, 1, &status));
}

TEST(frame, error_names)
{
    const char *text;
    driver_load();
    OK(cu.cuGetErrorName(CUDA_ERROR_SYSTEM_NOT_READY, &text));
    ck_assert_str_eq(text, "CUDA_ERROR_SYSTEM_NOT_READY");
    OK(cu.cuGetErrorString(CUDA_SUCCESS, &text));
    GIVES(INVALID_VALUE, cu.cuGetErrorName(12345, &text));
    ck_assert_ptr_null(text);
}

/* ---- Initialisation ---- */

TEST(frame, nothing_works_before_init)
{
    int n = 0;
    CUcontext ctx;
    driver_load();
    OK(cu.cuDriverGetVersion(&n));
    ck_assert_int_eq(n, 13000);
    GIVES(NOT_INITIALIZED, cu.cuDeviceGetCount(&n));
    GIVES(NOT_INITIALIZED, cu.cuDevicePrimaryCtxRetain(&ctx, 0));
    BREAKS_ON("?", INVALID_VALUE, cuInit, "flags", 1);
    OK(cu.cuInit(0));
    OK(cu.cuInit(0));
    OK(cu.cuDeviceGetCount(&n));
    ck_assert_int_eq(n, 8);
}

TEST(frame, a_forked_child_has_no_driver)
{
    driver_open(0);
    pid_t pid = fork();
    if (pid == 0) {
        CUdeviceptr ptr;
        CUcontext ctx;
        int n;
        bool refused = cu.cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                       cu.cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED &&
                       cu.cuMemAlloc(&ptr, 256) == CUDA_ERROR_NOT_INITIALIZED &&
                       cu.cuCtxGetCurrent(&ctx) == CUDA_ERROR_NOT_INITIALIZED;
        /* Runs the destructor: the parent's objects are no leaks of the child. */
        exit(refused ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    driver_close(0);
}

static const struct {
    const char *name, *value;
} nonsense[] = {
    {"SYMM_EMULATED_DEVICES", "many"},
    {"SYMM_EMULATED_DEVICES", "129"},
    {"SYMM_EMULATED_MEMORY", "-1"},
    {"SYMM_EMULATED_MEMORY", "4T"},
    {"SYMM_EMULATED_GRANULARITY", "100000"},
    {"SYMM_EMULATED_ORDER", "sideways"},
    {"SYMM_EMULATED_LEAKS", "fai"},
    {"SYMM_EMULATED_BLOCK", "0"},
    {"SYMM_EMULATED_SEED", "1x"},
    {"SYMM_EMULATED_BUSY", "2"},
    {"SYMM_EMULATED_FAULT", "cuMemFly=2"},
    {"SYMM_EMULATED_FAULT", "symm_emulated_calls=2"},
    {"SYMM_EMULATED_FAULT", "cuMemMap"},
    {"SYMM_EMULATED_FAULT", "cuMemMap=0"},
    {"SYMM_EMULATED_FAULT", "cuMemMap@x=2"},
    {"SYMM_EMULATED_FAULT", "cuMemMap#0=2"},
    {"SYMM_EMULATED_FAULT", "=2"},
    {"SYMM_EMULATED_FAULT", "cuMemMap=2 "},
};

TEST_LOOP(frame, nonsense_settings_fail_init, 0, (int)(sizeof nonsense / sizeof nonsense[0]))
{
    setenv(nonsense[_i].name, nonsense[_i].value, 1);
    driver_load();
    GIVES(INVALID_VALUE, cu.cuInit(0));
    unsetenv(nonsense[_i].name);
    OK(cu.cuInit(0));
}

TEST(frame, a_machine_without_devices)
{
    setenv("SYMM_EMULATED_DEVICES", "0", 1);
    driver_load();
    GIVES(NO_DEVICE, cu.cuInit(0));
}

/* ---- Devices ---- */

TEST(frame, devices)
{
    char name[64], bus[64];
    CUuuid uuids[2];
    CUdevice dev = -1;
    size_t nbytes;
    int value;
    driver_open(2);
    OK(cu.cuDeviceGetName(name, sizeof name, 2));
    ck_assert_str_eq(name, "SYMM emulated device");
    OK(cu.cuDeviceGetUuid(&uuids[0], 0));
    OK(cu.cuDeviceGetUuid(&uuids[1], 1));
    ck_assert_int_ne(memcmp(&uuids[0], &uuids[1], sizeof(CUuuid)), 0);
    OK(cu.cuDeviceGetPCIBusId(bus, sizeof bus, 5));
    OK(cu.cuDeviceGetByPCIBusId(&dev, bus));
    ck_assert_int_eq(dev, 5);
    GIVES(INVALID_DEVICE, cu.cuDeviceGetByPCIBusId(&dev, "0000:00:00.0"));
    WRONG(cuDeviceGetPCIBusId, "too small", bus, 4, 5);
    OK(cu.cuDeviceTotalMem(&nbytes, 0));
    ck_assert_uint_eq(nbytes, 1 << 30);
    OK(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    ck_assert_int_eq(value, 9);
    OK(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0));
    ck_assert_int_eq(value, 0);
    OK(cu.cuDeviceCanAccessPeer(&value, 0, 1));
    ck_assert_int_eq(value, 1);
    OK(cu.cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 0, 1));
    ck_assert_int_eq(value, 1);
    GIVES(INVALID_DEVICE, cu.cuDeviceGet(&dev, 8));
    BREAKS(INVALID_DEVICE, cuDeviceGetName, "no device 8", name, sizeof name, 8);
    WRONG(cuDeviceGetAttribute, "attribute 9999", &value, 9999, 0);
    BREAKS(INVALID_DEVICE, cuDeviceGetP2PAttribute, "no peer of itself", &value, 1, 3, 3);
    driver_close(2);
}

TEST(frame, null_pointers_are_named)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = memory_prop(2);
    CUmemLocation location = prop.location;
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0};
    CUdevice dev;
    size_t nbytes;
    driver_open(2);
#define NULL_POINTER(fn, name, ...) WRONG(fn, name " is NULL", __VA_ARGS__)
    GIVES(INVALID_VALUE, cu.cuGetErrorName(CUDA_SUCCESS, NULL));
    GIVES(INVALID_VALUE, cu.cuGetErrorString(CUDA_SUCCESS, NULL));
    NULL_POINTER(cuDriverGetVersion, "version", NULL);
    NULL_POINTER(cuDeviceGetCount, "count", NULL);
    NULL_POINTER(cuDeviceGet, "dev", NULL, 0);
    NULL_POINTER(cuDeviceGetName, "name", NULL, 5, 0);
    NULL_POINTER(cuDeviceGetUuid, "uuid", NULL, 0);
    NULL_POINTER(cuDeviceGetPCIBusId, "id", NULL, 20, 0);
    NULL_POINTER(cuDeviceGetByPCIBusId, "id", &dev, NULL);
    NULL_POINTER(cuDeviceGetAttribute, "value", NULL, 1, 0);
    NULL_POINTER(cuDeviceTotalMem, "nbytes", NULL, 0);
    NULL_POINTER(cuDevicePrimaryCtxRetain, "ctx", NULL, 0);
    NULL_POINTER(cuCtxGetCurrent, "ctx", NULL);
    NULL_POINTER(cuCtxGetDevice, "dev", NULL);
    NULL_POINTER(cuMemGetInfo, "total", &nbytes, NULL);
    NULL_POINTER(cuMemAlloc, "ptr", NULL, 8);
    NULL_POINTER(cuMemHostAlloc, "ptr", NULL, 8, 0);
    NULL_POINTER(cuPointerGetAttribute, "data", NULL, 1, 0);
    NULL_POINTER(cuMemGetAllocationGranularity, "prop", &nbytes, NULL, 0);
    NULL_POINTER(cuMemCreate, "handle", NULL, GRANULE, &prop, 0);
    NULL_POINTER(cuMemCreate, "prop", &handle, GRANULE, NULL, 0);
    NULL_POINTER(cuMemAddressReserve, "ptr", NULL, GRANULE, 0, 0, 0);
    NULL_POINTER(cuMemSetAccess, "desc", GRANULE, GRANULE, NULL, 1);
    NULL_POINTER(cuMemGetAccess, "flags", NULL, &location, GRANULE);
    NULL_POINTER(cuMemGetAccess, "location", &(unsigned long long){0}, NULL, GRANULE);
    NULL_POINTER(cuMemExportToShareableHandle, "shareable", NULL, 1, 1, 0);
    NULL_POINTER(cuMemImportFromShareableHandle, "handle", NULL, NULL, 1);
    NULL_POINTER(cuMemRetainAllocationHandle, "handle", NULL, NULL);
    NULL_POINTER(cuMemGetAllocationPropertiesFromHandle, "prop", NULL, 0);
    NULL_POINTER(cuStreamCreate, "stream", NULL, 0);
    NULL_POINTER(cuStreamCreateWithPriority, "stream", NULL, 0, 0);
    NULL_POINTER(cuStreamIsCapturing, "status", NULL, NULL);
    NULL_POINTER(cuThreadExchangeStreamCaptureMode, "mode", NULL);
    NULL_POINTER(cuEventCreate, "event", NULL, 0);
    NULL_POINTER(cuEventElapsedTime, "ms", NULL, NULL, NULL);
    NULL_POINTER(cuGraphInstantiateWithFlags, "exec", NULL, NULL, 0);
    NULL_POINTER(cuModuleLoadData, "module", NULL, NULL);
    NULL_POINTER(cuModuleGetFunction, "name", &(CUfunction){NULL}, NULL, NULL);
    NULL_POINTER(cuFuncGetAttribute, "value", NULL, 0, NULL);
    NULL_POINTER(cuOccupancyMaxActiveBlocksPerMultiprocessor, "nblocks", NULL, NULL, 1, 0);
    NULL_POINTER(cuLaunchKernelEx, "config", NULL, NULL, NULL, NULL);
    NULL_POINTER(cuLaunchKernelEx, "params", &config, NULL, NULL, NULL);
#if SYMM_MULTICAST
    NULL_POINTER(cuMulticastGetGranularity, "prop", &nbytes, NULL, 0);
    NULL_POINTER(cuMulticastCreate, "prop", &handle, NULL);
#endif
#undef NULL_POINTER
    driver_close(2);
}

TEST(frame, contexts)
{
    CUcontext a, b, now;
    CUdevice dev;
    CUdeviceptr ptr;
    setenv("SYMM_RANK", "6", 1);
    driver_load();
    OK(cu.cuInit(0));
    BREAKS_ON("6", INVALID_CONTEXT, cuCtxGetDevice, "no context is current", &dev);
    BREAKS_ON("6", INVALID_CONTEXT, cuMemAlloc, "no context is current", &ptr, 256);
    BREAKS_ON("6", INVALID_CONTEXT, cuCtxPopCurrent, "no context is current", &now);
    BREAKS_ON("6", INVALID_CONTEXT, cuCtxSetCurrent, "is no context", (CUcontext)&a);
    OK(cu.cuDevicePrimaryCtxRetain(&a, 1));
    OK(cu.cuDevicePrimaryCtxRetain(&b, 2));
    OK(cu.cuDevicePrimaryCtxRetain(&now, 2));
    ck_assert_ptr_eq(now, b);
    OK(cu.cuCtxSetCurrent(a));
    OK(cu.cuCtxPushCurrent(b));
    OK(cu.cuCtxGetDevice(&dev));
    ck_assert_int_eq(dev, 2);
    OK(cu.cuCtxPopCurrent(&now));
    ck_assert_ptr_eq(now, b);
    OK(cu.cuCtxGetCurrent(&now));
    ck_assert_ptr_eq(now, a);
    OK(cu.cuDevicePrimaryCtxRelease(2));
    OK(cu.cuCtxPushCurrent(b));
    OK(cu.cuDevicePrimaryCtxRelease(2));
    BREAKS_ON("2", CONTEXT_IS_DESTROYED, cuMemAlloc, "destroyed", &ptr, 256);
    OK(cu.cuCtxPopCurrent(&now));
    BREAKS_ON("1", CONTEXT_IS_DESTROYED, cuCtxPushCurrent, "destroyed", b);
    BREAKS_ON("1", INVALID_CONTEXT, cuDevicePrimaryCtxRelease, "more often than retained", 2);
    OK(cu.cuDevicePrimaryCtxRelease(1));
    OK(cu.cuCtxSetCurrent(NULL));
    OK(cu.cuCtxGetCurrent(&now));
    ck_assert_ptr_null(now);
}

TEST(frame, a_context_ends_without_a_report)
{
    CUdeviceptr ptr;
    driver_open(0);
    OK(cu.cuMemAlloc(&ptr, 256));
    OK(cu.cuMemsetD8Async(ptr, 0, 256, NULL));
    OK(cu.cuMemFree(ptr));
    driver_close(0);
    ck_assert_str_eq(cu.last_rule(), "");
}

/* ---- Injected faults ---- */

/* Frees what it allocates. */
static CUresult allocate(void)
{
    CUdeviceptr ptr;
    CUresult result = cu.cuMemAlloc(&ptr, 256);
    if (result == CUDA_SUCCESS)
        OK(cu.cuMemFree(ptr));
    return result;
}

TEST(frame, faults_by_call_rank_and_occurrence)
{
    setenv("SYMM_EMULATED_FAULT", "cuMemAlloc@1#2=802;cuMemAlloc@2=700;cuMemFreeHost=1", 1);
    driver_open(1);
    OK(allocate());
    ck_assert_int_eq(allocate(), 802);
    OK(allocate());
    ck_assert(cu.set_fault("cuMemAlloc@*#2+=2"));
    OK(allocate());
    ck_assert_int_eq(allocate(), 2);
    ck_assert_int_eq(allocate(), 2);
    ck_assert(!cu.set_fault("cuMemAlloc@*#=2"));
    OK(allocate());
    ck_assert(cu.set_fault("any@1#3=999"));
    OK(allocate());
    ck_assert_int_eq(allocate(), 999);
    ck_assert_uint_eq(cu.calls(1), 3);
    ck_assert_uint_eq(cu.calls(2), 0);
    ck_assert(cu.set_fault(NULL));
    ck_assert_uint_eq(cu.calls(1), 0);
    OK(allocate());
    driver_close(1);
}

static void hang(int socket)
{
    driver_open(0);
    cu.set_fault("cuMemAlloc=hang");
    peer_send(socket, -1);
    allocate();
    peer_send(socket, -1);
}

TEST(frame, a_call_that_hangs)
{
    struct peer peer = peer_start(hang);
    char byte;
    peer_receive(peer.socket);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    ck_assert_int_eq(recv(peer.socket, &byte, 1, MSG_DONTWAIT), -1);
    ck_assert_int_eq(errno, EAGAIN);
    kill(peer.pid, SIGKILL);
    peer_wait(&peer);
}

static void killed(int socket)
{
    (void)socket;
    setenv("SYMM_EMULATED_FAULT", "cuDeviceTotalMem#2=kill", 1);
    size_t nbytes;
    driver_open(0);
    OK(cu.cuDeviceTotalMem(&nbytes, 0));
    cu.cuDeviceTotalMem(&nbytes, 0);
}

TEST(frame, a_call_that_kills)
{
    struct peer peer = peer_start(killed);
    ck_assert_int_eq(peer_wait(&peer), SIGKILL);
}

/* ---- Trace ---- */

static bool append(void *text, const char *line)
{
    strcat(text, line);
    return true;
}

TEST(frame, trace)
{
    char text[4096] = "";
    CUdeviceptr ptr;
    long at = 0;
    trace_begin();
    setenv("SYMM_RANK", "4", 1);
    driver_open(4);
    OK(cu.cuMemAlloc(&ptr, 1000));
    GIVES(INVALID_VALUE, cu.cuMemFree(ptr + 1));
    OK(cu.cuMemFree(ptr));
    driver_close(4);
    ck_assert(trace_read(4, &at, append, text));
    trace_end();
    ck_assert_ptr_nonnull(
        strstr(text, "cuInit(flags=0) = 0\ncuDevicePrimaryCtxRetain(dev=4) = 0\n"));
    ck_assert_ptr_nonnull(strstr(text, "\ncuMemAlloc(size=1000) = 0\ncuMemFree(ptr=0x"));
    ck_assert_ptr_nonnull(strstr(text, ") = 1\ncuMemFree(ptr=0x"));
}
