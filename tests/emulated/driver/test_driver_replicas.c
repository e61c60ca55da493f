/* Accesses by multicast addresses under the emulated driver. */
#include "hand_multicast.h"

#if SYMM_MULTICAST

#include <signal.h>
#include "hand_kernels.h"

#define DEVICE 1

static uint32_t found[9]; /* by the kernel "probe": the number of replicas, then their values */

/* Runs a kernel, which stores 7 by the address. Returns the result of its stream. */
static CUresult run_kernel(const char *name, CUdeviceptr multicast, size_t nbytes)
{
    CUstream stream;
    struct hand_args args = hand_args();
    OK(cu.cuModuleLoadData(&hand_loaded, &hand_module));
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    args.ptr = (void *)(uintptr_t)multicast;
    args.out = found;
    args.value = 7;
    args.stay = (uint32_t)nbytes;
    OK(hand_launch(hand_function(name), 1, 1, &args, stream));
    CUresult result = cu.cuStreamSynchronize(stream);
    /* After a fault these return the sticky error, and release nevertheless. */
    cu.cuStreamDestroy(stream);
    cu.cuModuleUnload(hand_loaded);
    return result;
}

TEST_GROUP(replicas, 30);

TEST(replicas, plain_accesses_fault)
{
    driver_open(DEVICE);
    CUmemGenericAllocationHandle handle = multicast_full(2);
    CUdeviceptr ptr = memory_map(handle, SIZE, DEVICE);
    WRONG(cuMemsetD8Async, "multicast", ptr, 0, 16, NULL);
    WRONG(cuMemUnmap, "only in part", ptr, GRANULE);
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
    driver_close(DEVICE);
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
    team.multicast = memory_map(team.handle, SIZE, DEVICE);
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

TEST_LOOP(replicas, a_kernel_reaches_every_replica, 0, 3)
{
    uint32_t sum = 0;
    setenv("SYMM_EMULATED_ORDER", orders[_i], 1);
    driver_open(DEVICE);
    struct team team = team_make(4);
    for (int d = 0; d < 4; d++)
        *word(&team, d, GRANULE + 16) = 100 + (uint32_t)d;
    OK(run_kernel("probe", team.multicast + GRANULE + 16, 16));
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

/* Accesses from the team's multicast base that end the kernel, and the broken rule. */
static const struct {
    const char *kernel;
    size_t off, nbytes;
    int device; /* that runs the kernel */
    CUresult result;
    const char *rule;
} wrong[] = {
    {"probe", 0, 4, DEVICE, 700, "device 0 has nothing bound at multicast offset 0"},
    {"probe", 2 * GRANULE, 4, DEVICE, 700, "device 0 has nothing bound"},
    {"probe", GRANULE + 8, 16, DEVICE, 716, "misaligned"},
    {"probe", GRANULE + 2, 4, DEVICE, 716, "misaligned"},
    {"probe", GRANULE, 0, DEVICE, 700, "a multimem access of 0 bytes"},
    {"probe", GRANULE, 2, DEVICE, 700, "a multimem access of 2 bytes"},
    {"probe", SIZE, 4, DEVICE, 700, "is no multicast address"},
    {"probe", GRANULE, 4, 2, 700, "device 2 has no access to the multicast address"},
    {"touch", GRANULE, 4, DEVICE, 700, "plain access to the multicast address"},
};

TEST_LOOP(replicas, wrong_multicast_accesses_end_the_kernel, 0,
          (int)(sizeof wrong / sizeof wrong[0]))
{
    int device = wrong[_i].device;
    char rank[16];
    driver_open(device);
    struct team team = team_make(2);
    ck_assert_int_eq(run_kernel(wrong[_i].kernel, team.multicast + wrong[_i].off, wrong[_i].nbytes),
                     wrong[_i].result);
    snprintf(rank, sizeof rank, "%d", device);
    driver_reported(rank, wrong[_i].kernel, wrong[_i].rule);
    team_end(&team, 2);
    driver_close(device);
}

/* ---- Between processes ---- */

/* Device 0: binds memory, waits for rank 1's store and leaves. */
static void member(int socket)
{
    driver_open(0);
    CUmemGenericAllocationHandle handle = import_fd(peer_receive(socket));
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
    int fd = export_fd(team.handle);
    peer_send(peer->socket, fd);
    close(fd);
    OK(cu.cuMulticastAddDevice(team.handle, 1));
    team.memory[1] = memory_create(1, GRANULE);
    team.local[1] = memory_map(team.memory[1], GRANULE, 1);
    *word(&team, 1, 0) = 101;
    OK(cu.cuMulticastBindMem(team.handle, 0, team.memory[1], 0, GRANULE, 0));
    team.multicast = memory_map(team.handle, SIZE, 1);
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

TEST(replicas, a_kernel_reaches_other_processes)
{
    struct peer peer = peer_start(member);
    driver_open(1);
    struct team team = join_as_device_1(&peer);
    OK(run_kernel("probe", team.multicast, 4));
    ck_assert_uint_eq(found[0], 2);
    ck_assert_uint_eq(found[1], 100);
    ck_assert_uint_eq(found[2], 101);
    ck_assert_uint_eq(*word(&team, 1, 0), 7);
    peer_send(peer.socket, -1);
    PEER_OK(&peer);
    leave(&team);
}

TEST(replicas, a_dead_binder_does_not_stop_a_kernel)
{
    struct peer peer = peer_start(member);
    driver_open(1);
    struct team team = join_as_device_1(&peer);
    kill(peer.pid, SIGKILL);
    ck_assert_int_eq(peer_wait(&peer), SIGKILL);
    OK(run_kernel("probe", team.multicast, 4));
    ck_assert_uint_eq(found[0], 2);
    ck_assert_uint_ne(found[1], 100);
    ck_assert_uint_eq(found[2], 101);
    leave(&team);
}

#endif
