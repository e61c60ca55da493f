/*
 * The emulated driver's multicast objects: the rules, each with a call that breaks it, where calls
 * wait for other ranks, and what a kernel reaches through a multicast address.
 */
#include "driver_table.h"

#if SYMM_MULTICAST

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#define RANK "1"
#define DEVICE 1
#define SIZE (4 * GRANULE)

static void open_driver(void)
{
    driver_open(DEVICE);
}

static void close_driver(void)
{
    driver_close(DEVICE);
}

static CUmulticastObjectProp multicast_prop(unsigned ndevices)
{
    return (CUmulticastObjectProp){
        .numDevices = ndevices,
        .size = SIZE,
        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    };
}

static CUmemGenericAllocationHandle multicast_create(unsigned ndevices)
{
    CUmemGenericAllocationHandle handle;
    CUmulticastObjectProp prop = multicast_prop(ndevices);
    OK(cu.cuMulticastCreate(&handle, &prop));
    return handle;
}

/* An object with devices 0 to n - 1 added. */
static CUmemGenericAllocationHandle multicast_full(unsigned n)
{
    CUmemGenericAllocationHandle handle = multicast_create(n);
    for (unsigned d = 0; d < n; d++)
        OK(cu.cuMulticastAddDevice(handle, (CUdevice)d));
    return handle;
}

static int export(CUmemGenericAllocationHandle handle)
{
    int fd;
    OK(cu.cuMemExportToShareableHandle(&fd, handle, 1, 0));
    return fd;
}

/* Closes the descriptor. */
static CUmemGenericAllocationHandle import(int fd)
{
    CUmemGenericAllocationHandle handle;
    OK(cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, 1));
    close(fd);
    return handle;
}

static void pause_ms(long ms)
{
    usleep((useconds_t)ms * 1000);
}

/* ---- Objects ---- */

START_TEST(create_checks_its_arguments)
{
    CUmemGenericAllocationHandle handle;
    CUmulticastObjectProp prop = multicast_prop(1);
    BREAKS(RANK, 1, cuMulticastCreate, "numDevices is 1", &handle, &prop);
    prop = multicast_prop(9);
    BREAKS(RANK, 1, cuMulticastCreate, "numDevices is 9", &handle, &prop);
    prop = multicast_prop(2);
    prop.size = GRANULE + 4096;
    BREAKS(RANK, 1, cuMulticastCreate, "no multiple of the granularity", &handle, &prop);
    prop.size = 0;
    BREAKS(RANK, 1, cuMulticastCreate, "no multiple of the granularity", &handle, &prop);
    prop = multicast_prop(2);
    prop.flags = 1;
    BREAKS(RANK, 1, cuMulticastCreate, "flags", &handle, &prop);
    prop = multicast_prop(2);
    prop.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    BREAKS(RANK, 800, cuMulticastCreate, "no fabric handles", &handle, &prop);
    prop.handleTypes = 2;
    BREAKS(RANK, 1, cuMulticastCreate, "unknown handle types", &handle, &prop);
}
END_TEST

START_TEST(granularity)
{
    CUmulticastObjectProp prop = multicast_prop(2);
    size_t least, recommended;
    OK(cu.cuMulticastGetGranularity(&least, &prop, CU_MULTICAST_GRANULARITY_MINIMUM));
    OK(cu.cuMulticastGetGranularity(&recommended, &prop, CU_MULTICAST_GRANULARITY_RECOMMENDED));
    ck_assert_uint_eq(least, GRANULE);
    ck_assert_uint_eq(recommended, (size_t)512 << 20);
    BREAKS(RANK, 1, cuMulticastGetGranularity, "option 5", &least, &prop, 5);
}
END_TEST

START_TEST(a_switch_has_128_slots)
{
    CUmemGenericAllocationHandle handles[128], more;
    CUmulticastObjectProp prop = multicast_prop(2);
    for (int i = 0; i < 128; i++)
        handles[i] = multicast_create(2);
    ck_assert_int_eq(cu.cuMulticastCreate(&more, &prop), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cu.cuMemRelease(handles[7]));
    OK(cu.cuMulticastCreate(&handles[7], &prop));
    for (int i = 0; i < 128; i++)
        OK(cu.cuMemRelease(handles[i]));
}
END_TEST

START_TEST(a_machine_without_multicast)
{
    CUmemGenericAllocationHandle handle;
    CUmulticastObjectProp prop = multicast_prop(2);
    size_t nbytes;
    int value = -1;
    setenv("SYMM_EMULATED_MULTICAST", "0", 1);
    driver_open(0);
    OK(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0));
    ck_assert_int_eq(value, 0);
    ck_assert_int_eq(cu.cuMulticastCreate(&handle, &prop), CUDA_ERROR_NOT_SUPPORTED);
    ck_assert_int_eq(cu.cuMulticastGetGranularity(&nbytes, &prop, 0), CUDA_ERROR_NOT_SUPPORTED);
    driver_close(0);
}
END_TEST

START_TEST(each_device_is_added_once)
{
    CUmemGenericAllocationHandle handle = multicast_create(2);
    CUmemGenericAllocationHandle memory = memory_create(DEVICE, GRANULE);
    OK(cu.cuMulticastAddDevice(handle, 1));
    BREAKS(RANK, 1, cuMulticastAddDevice, "device 1 is added already", handle, 1);
    BREAKS(RANK, 101, cuMulticastAddDevice, "no device 8", handle, 8);
    OK(cu.cuMulticastAddDevice(handle, 0));
    BREAKS(RANK, 1, cuMulticastAddDevice, "has all its 2 devices", handle, 2);
    BREAKS(RANK, 1, cuMulticastAddDevice, "no multicast object", memory, 2);
    OK(cu.cuMemRelease(memory));
    OK(cu.cuMemRelease(handle));
    BREAKS(RANK, 1, cuMulticastAddDevice, "no handle", handle, 2);
}
END_TEST

START_TEST(an_import_is_the_same_object)
{
    CUmemGenericAllocationHandle handle = multicast_create(2), again = import(export(handle));
    OK(cu.cuMulticastAddDevice(handle, 1));
    BREAKS(RANK, 1, cuMulticastAddDevice, "device 1 is added already", again, 1);
    OK(cu.cuMemRelease(again));
    OK(cu.cuMemRelease(handle));
}
END_TEST

START_TEST(a_late_import_is_a_fresh_object)
{
    CUmemGenericAllocationHandle handle = multicast_create(2), early = import(export(handle));
    int fd = export(handle);
    OK(cu.cuMulticastAddDevice(handle, 1));
    OK(cu.cuMemRelease(handle));
    /* The early one still is what it was; the late one has nobody in it. */
    CUmemGenericAllocationHandle late = import(fd);
    driver_reported(RANK, "cuMemImportFromShareableHandle", "creator has released it already");
    BREAKS(RANK, 1, cuMulticastAddDevice, "device 1 is added already", early, 1);
    OK(cu.cuMulticastAddDevice(late, 1));
    OK(cu.cuMemRelease(early));
    OK(cu.cuMemRelease(late));
}
END_TEST

/* ---- Binds ---- */

START_TEST(bind_checks_its_arguments)
{
    CUmemGenericAllocationHandle handle = multicast_full(2), part = multicast_create(2);
    CUmemGenericAllocationHandle memory = memory_create(DEVICE, 2 * GRANULE), private;
    CUmemGenericAllocationHandle stranger = memory_create(5, GRANULE);
    CUmemAllocationProp prop = memory_prop(DEVICE);
    prop.requestedHandleTypes = 0;
    OK(cu.cuMemCreate(&private, GRANULE, &prop, 0));
    BREAKS(RANK, 1, cuMulticastBindMem, "no handle", 1, 0, memory, 0, GRANULE, 0);
    BREAKS(RANK, 1, cuMulticastBindMem, "memory handle", handle, 0, 1, 0, GRANULE, 0);
    BREAKS(RANK, 1, cuMulticastBindMem, "no multicast object", memory, 0, memory, 0, GRANULE, 0);
    BREAKS(RANK, 1, cuMulticastBindMem, "is no memory", handle, 0, part, 0, GRANULE, 0);
    BREAKS(RANK, 1, cuMulticastBindMem, "flags", handle, 0, memory, 0, GRANULE, 1);
    BREAKS(RANK, 1, cuMulticastBindMem, "multicast offset 4096", handle, 4096, memory, 0, GRANULE,
           0);
    BREAKS(RANK, 1, cuMulticastBindMem, "memory offset 4096", handle, 0, memory, 4096, GRANULE, 0);
    BREAKS(RANK, 1, cuMulticastBindMem, "size 100", handle, 0, memory, 0, 100, 0);
    BREAKS(RANK, 1, cuMulticastBindMem, "size 0", handle, 0, memory, 0, 0, 0);
    BREAKS(RANK, 1, cuMulticastBindMem, "reach beyond", handle, SIZE, memory, 0, GRANULE, 0);
    BREAKS(RANK, 1, cuMulticastBindMem, "reach beyond", handle, 0, memory, GRANULE, 2 * GRANULE, 0);
    BREAKS(RANK, 101, cuMulticastBindMem, "device 5, which is not added", handle, 0, stranger, 0,
           GRANULE, 0);
    BREAKS(RANK, 101, cuMulticastBindMem, "device 1, which is not added", part, 0, memory, 0,
           GRANULE, 0);
    BREAKS(RANK, 1, cuMulticastBindMem, "created with a handle type", handle, 0, private, 0,
           GRANULE, 0);
    OK(cu.cuMulticastBindMem(handle, GRANULE, memory, 0, 2 * GRANULE, 0));
    BREAKS(RANK, 1, cuMulticastBindMem, "overlaps the bind of device 1", handle, 0, memory, 0,
           2 * GRANULE, 0);
    ck_assert_int_eq(driver_objects().binds, 1);
    OK(cu.cuMulticastUnbind(handle, DEVICE, GRANULE, 2 * GRANULE));
    const CUmemGenericAllocationHandle all[] = {handle, part, memory, private, stranger};
    for (int i = 0; i < 5; i++)
        OK(cu.cuMemRelease(all[i]));
}
END_TEST

START_TEST(unbind_equals_the_bind)
{
    CUmemGenericAllocationHandle handle = multicast_full(2);
    CUmemGenericAllocationHandle memory = memory_create(DEVICE, 2 * GRANULE);
    BREAKS(RANK, 1, cuMulticastUnbind, "no bind", handle, DEVICE, 0, GRANULE);
    OK(cu.cuMulticastBindMem(handle, GRANULE, memory, 0, 2 * GRANULE, 0));
    BREAKS(RANK, 1, cuMulticastUnbind, "offset 0", handle, DEVICE, 0, 2 * GRANULE);
    BREAKS(RANK, 1, cuMulticastUnbind, "size 65536", handle, DEVICE, GRANULE, GRANULE);
    BREAKS(RANK, 1, cuMulticastUnbind, "device 0 has no bind", handle, 0, GRANULE, 2 * GRANULE);
    BREAKS(RANK, 101, cuMulticastUnbind, "no device 8", handle, 8, GRANULE, 2 * GRANULE);
    OK(cu.cuMulticastUnbind(handle, DEVICE, GRANULE, 2 * GRANULE));
    BREAKS(RANK, 1, cuMulticastUnbind, "no bind", handle, DEVICE, GRANULE, 2 * GRANULE);
    OK(cu.cuMemRelease(memory));
    OK(cu.cuMemRelease(handle));
}
END_TEST

START_TEST(unbind_comes_before_the_memory_goes)
{
    CUmemGenericAllocationHandle handle = multicast_full(2);
    CUmemGenericAllocationHandle memory = memory_create(DEVICE, GRANULE);
    OK(cu.cuMulticastBindMem(handle, 0, memory, 0, GRANULE, 0));
    BREAKS(RANK, 1, cuMemRelease, "unbind first", memory);
    CUdeviceptr ptr = memory_map(memory, GRANULE, DEVICE);
    OK(cu.cuMemRelease(memory));
    BREAKS(RANK, 1, cuMemUnmap, "unbind first", ptr, GRANULE);
    BREAKS(RANK, 1, cuMemRelease, "still has 1 binds", handle);
    OK(cu.cuMulticastUnbind(handle, DEVICE, 0, GRANULE));
    memory_unmap(ptr, GRANULE);
    OK(cu.cuMemRelease(handle));
}
END_TEST

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

START_TEST(bind_and_map_wait_for_all_devices)
{
    struct waiting w = {.handle = multicast_create(2),
                        .memory = memory_create(DEVICE, GRANULE),
                        .ptr = memory_reserve(SIZE)};
    pthread_t thread;
    OK(cu.cuCtxGetCurrent(&w.ctx));
    OK(cu.cuMulticastAddDevice(w.handle, DEVICE));
    ck_assert_int_eq(pthread_create(&thread, NULL, waits[_i], &w), 0);
    pause_ms(1500);
    ck_assert_int_eq(atomic_load(&w.done), 0);
    driver_reported(RANK, waits[_i] == bind_waits ? "cuMulticastBindMem" : "cuMemMap",
                    "waits until all devices are added: 1 of 2");
    /* Other calls go on meanwhile. */
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
END_TEST

/* ---- What is at a multicast address ---- */

/* Maps all of the object for the device. */
static CUdeviceptr multicast_map(CUmemGenericAllocationHandle handle, int device)
{
    return memory_map(handle, SIZE, device);
}

START_TEST(plain_accesses_fault)
{
    CUmemGenericAllocationHandle handle = multicast_full(2);
    CUdeviceptr ptr = multicast_map(handle, DEVICE);
    BREAKS(RANK, 1, cuMemUnmap, "only in part", ptr, GRANULE);
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)(uintptr_t)ptr = 1;
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_ne(status, 0);
    memory_unmap(ptr, SIZE);
    OK(cu.cuMemRelease(handle));
}
END_TEST

/* A kernel that stores `value` to all replicas at `multicast` and tells what it found there. */
struct probe_args {
    void *multicast;
    uint64_t nbytes;
    uint32_t value;
    uint32_t *found; /* pinned: how many replicas, then what was in each of them, in order */
};

static const struct symm_emulated_ops *ops;

static void probe(const void *bytes)
{
    struct probe_args args;
    void *replicas[128];
    memcpy(&args, bytes, sizeof args);
    int n = ops->replicas(args.multicast, args.nbytes, replicas);
    args.found[0] = (uint32_t)n;
    for (int i = 0; i < n; i++) {
        args.found[1 + i] = *(uint32_t *)replicas[i];
        *(uint32_t *)replicas[i] = args.value;
    }
}

static const struct symm_emulated_kernel probe_kernel = {"probe", probe, sizeof(struct probe_args),
                                                         1024,    0,     0};
static const struct symm_emulated_kernel *const kernels[] = {&probe_kernel};
static const struct symm_emulated_module image = {
    SYMM_EMULATED_MAGIC, SYMM_EMULATED_ABI, 0, kernels, kernels + 1, &ops};

/* The result of the kernel's stream; found has room for 8 replicas. */
static CUresult run_probe(CUdeviceptr multicast, size_t nbytes, uint32_t value, uint32_t found[9])
{
    CUmodule module;
    CUfunction function;
    CUstream stream;
    void *pinned;
    OK(cu.cuModuleLoadData(&module, &image));
    OK(cu.cuModuleGetFunction(&function, module, "probe"));
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuMemHostAlloc(&pinned, 9 * sizeof *found, 0));
    struct probe_args args = {(void *)(uintptr_t)multicast, nbytes, value, pinned};
    void *params[] = {&args};
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream};
    OK(cu.cuLaunchKernelEx(&config, function, params, NULL));
    CUresult result = cu.cuStreamSynchronize(stream);
    memcpy(found, pinned, 9 * sizeof *found);
    /* After a fault they give the sticky error, and release nevertheless. */
    cu.cuMemFreeHost(pinned);
    cu.cuStreamDestroy(stream);
    cu.cuModuleUnload(module);
    return result;
}

/* All devices of an object in one process. */
struct team {
    CUmemGenericAllocationHandle handle, memory[4];
    CUdeviceptr local[4], multicast;
};

static struct team team_make(int n)
{
    struct team team = {.handle = multicast_full((unsigned)n)};
    for (int d = 0; d < n; d++) {
        team.memory[d] = memory_create(d, 2 * GRANULE);
        team.local[d] = memory_map(team.memory[d], 2 * GRANULE, DEVICE);
        OK(cu.cuMulticastBindMem(team.handle, GRANULE, team.memory[d], GRANULE, GRANULE, 0));
    }
    team.multicast = multicast_map(team.handle, DEVICE);
    return team;
}

static void team_end(struct team *team, int n)
{
    memory_unmap(team->multicast, SIZE);
    for (int d = 0; d < n; d++) {
        if (team->memory[d] == 0)
            continue;
        OK(cu.cuMulticastUnbind(team->handle, d, GRANULE, GRANULE));
        memory_unmap(team->local[d], 2 * GRANULE);
        OK(cu.cuMemRelease(team->memory[d]));
    }
    OK(cu.cuMemRelease(team->handle));
}

static uint32_t *word(const struct team *team, int device, size_t off)
{
    return (uint32_t *)(uintptr_t)(team->local[device] + off);
}

static const char *const orders[] = {"rank", "reverse", "random"};

START_TEST(a_kernel_reaches_every_replica)
{
    uint32_t found[9], sum = 0;
    setenv("SYMM_EMULATED_ORDER", orders[_i], 1);
    driver_open(DEVICE);
    struct team team = team_make(4);
    for (int d = 0; d < 4; d++)
        *word(&team, d, GRANULE + 16) = 100 + (uint32_t)d;
    OK(run_probe(team.multicast + GRANULE + 16, 16, 7, found));
    ck_assert_uint_eq(found[0], 4);
    for (int i = 0; i < 4; i++) {
        ck_assert_uint_eq(*word(&team, i, GRANULE + 16), 7);
        sum += found[1 + i];
        if (_i < 2)
            ck_assert_uint_eq(found[1 + i], 100 + (uint32_t)(_i == 0 ? i : 3 - i));
    }
    ck_assert_uint_eq(sum, 406);
    team_end(&team, 4);
    driver_close(DEVICE);
}
END_TEST

/* Accesses that end the kernel, from the team's multicast base, and the rule they break. */
static const struct {
    size_t off, nbytes;
    int device; /* whose kernel it is */
    CUresult result;
    const char *rule;
} wrong[] = {
    {0, 4, DEVICE, 700, "device 0 has nothing bound at multicast offset 0"},
    {2 * GRANULE, 4, DEVICE, 700, "device 0 has nothing bound"},
    {GRANULE + 8, 16, DEVICE, 716, "misaligned"},
    {GRANULE + 2, 4, DEVICE, 716, "misaligned"},
    {GRANULE, 2, DEVICE, 700, "a multimem access of 2 bytes"},
    {SIZE, 4, DEVICE, 700, "is no multicast address"},
    {GRANULE, 4, 2, 700, "device 2 has no access to the multicast address"},
};

START_TEST(wrong_multicast_accesses_end_the_kernel)
{
    uint32_t found[9];
    int device = wrong[_i].device;
    char head[64];
    driver_open(device);
    struct team team = team_make(2);
    ck_assert_int_eq(run_probe(team.multicast + wrong[_i].off, wrong[_i].nbytes, 7, found),
                     wrong[_i].result);
    snprintf(head, sizeof head, "symm-emulated[rank %d]: ", device);
    ck_assert_msg(strncmp(cu.last_rule(), head, strlen(head)) == 0, "%s", cu.last_rule());
    ck_assert_msg(strstr(cu.last_rule(), wrong[_i].rule) != NULL, "%s", cu.last_rule());
    team_end(&team, 2);
    driver_close(device);
}
END_TEST

/* ---- Between processes ---- */

/* Device 0: takes part, waits for rank 1's store, and lets go when told. */
static void member(int socket)
{
    driver_open(0);
    CUmemGenericAllocationHandle handle = import(peer_receive(socket));
    CUmemGenericAllocationHandle memory = memory_create(0, GRANULE);
    CUdeviceptr ptr = memory_map(memory, GRANULE, 0);
    *(uint32_t *)(uintptr_t)ptr = 100;
    OK(cu.cuMulticastAddDevice(handle, 0));
    OK(cu.cuMulticastBindMem(handle, 0, memory, 0, GRANULE, 0));
    peer_send(socket, -1);
    peer_receive(socket);
    ck_assert_uint_eq(*(uint32_t *)(uintptr_t)ptr, 7);
    OK(cu.cuMulticastUnbind(handle, 0, 0, GRANULE));
    memory_unmap(ptr, GRANULE);
    OK(cu.cuMemRelease(memory));
    OK(cu.cuMemRelease(handle));
    driver_close(0);
}

static struct team join_as_device_1(const struct peer *peer)
{
    struct team team = {.handle = multicast_create(2)};
    int fd = export(team.handle);
    peer_send(peer->socket, fd);
    close(fd);
    OK(cu.cuMulticastAddDevice(team.handle, 1));
    team.memory[1] = memory_create(1, GRANULE);
    team.local[1] = memory_map(team.memory[1], GRANULE, 1);
    *word(&team, 1, 0) = 101;
    OK(cu.cuMulticastBindMem(team.handle, 0, team.memory[1], 0, GRANULE, 0));
    team.multicast = multicast_map(team.handle, 1);
    peer_receive(peer->socket);
    return team;
}

static void leave(struct team *team)
{
    memory_unmap(team->multicast, SIZE);
    OK(cu.cuMulticastUnbind(team->handle, 1, 0, GRANULE));
    memory_unmap(team->local[1], GRANULE);
    OK(cu.cuMemRelease(team->memory[1]));
    OK(cu.cuMemRelease(team->handle));
    driver_close(1);
}

START_TEST(a_kernel_reaches_other_processes)
{
    uint32_t found[9];
    struct peer peer = peer_start(member);
    driver_open(1);
    struct team team = join_as_device_1(&peer);
    OK(run_probe(team.multicast, 4, 7, found));
    ck_assert_uint_eq(found[0], 2);
    ck_assert_uint_eq(found[1], 100);
    ck_assert_uint_eq(found[2], 101);
    ck_assert_uint_eq(*word(&team, 1, 0), 7);
    peer_send(peer.socket, -1);
    PEER_OK(&peer);
    leave(&team);
}
END_TEST

START_TEST(a_dead_binder_stops_nobody)
{
    uint32_t found[9];
    struct peer peer = peer_start(member);
    driver_open(1);
    struct team team = join_as_device_1(&peer);
    kill(peer.pid, SIGKILL);
    ck_assert_int_eq(peer_wait(&peer), SIGKILL);
    OK(run_probe(team.multicast, 4, 7, found));
    ck_assert_uint_eq(found[0], 2);
    ck_assert_uint_ne(found[1], 100);
    ck_assert_uint_eq(found[2], 101);
    leave(&team);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("emulated driver: multicast");
    TCase *tc = test_case(suite, "rules", 30);
    tcase_add_checked_fixture(tc, open_driver, close_driver);
    tcase_add_test(tc, create_checks_its_arguments);
    tcase_add_test(tc, granularity);
    tcase_add_test(tc, a_switch_has_128_slots);
    tcase_add_test(tc, each_device_is_added_once);
    tcase_add_test(tc, an_import_is_the_same_object);
    tcase_add_test(tc, a_late_import_is_a_fresh_object);
    tcase_add_test(tc, bind_checks_its_arguments);
    tcase_add_test(tc, unbind_equals_the_bind);
    tcase_add_test(tc, unbind_comes_before_the_memory_goes);
    tcase_add_loop_test(tc, bind_and_map_wait_for_all_devices, 0, 2);
    tcase_add_test(tc, plain_accesses_fault);
    tc = test_case(suite, "kernels", 30);
    tcase_add_test(tc, a_machine_without_multicast);
    tcase_add_loop_test(tc, a_kernel_reaches_every_replica, 0, 3);
    tcase_add_loop_test(tc, wrong_multicast_accesses_end_the_kernel, 0,
                        (int)(sizeof wrong / sizeof wrong[0]));
    tcase_add_test(tc, a_kernel_reaches_other_processes);
    tcase_add_test(tc, a_dead_binder_stops_nobody);
    return test_main(suite);
}

#else

/* There is nothing to test in a build without multicast. */
int main(void)
{
    return 77;
}

#endif
