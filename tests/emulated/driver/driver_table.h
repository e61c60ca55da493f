/*
 * The emulated driver as a table of functions, for tests that call it without the runtime; the text
 * of the last broken rule; and peers, which are processes.
 *
 * Open the driver after a fork: a child of a process that has initialised it cannot use it. Each
 * case is a process and opens the driver itself.
 */
#ifndef TEST_DRIVER_TABLE_H
#define TEST_DRIVER_TABLE_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <check.h>
#include <symm/detail/emulated.h>
#include "abi/cuda_driver.h"
#include "test.h"

struct driver_table {
#define DRIVER_FIELD_(fn, version, need, params) CUresult(*fn) params;
    CU_FUNCTIONS_EMULATED(DRIVER_FIELD_)
#undef DRIVER_FIELD_
    int (*objects)(struct symm_emulated_objects *out);
    const char *(*last_rule)(void);
    bool (*set_fault)(const char *spec);
    uint64_t (*calls)(int rank);
};

/* Valid after driver_open. */
static struct driver_table cu;

static PFN_cuGetProcAddress_v12000 driver_lookup(void)
{
    char path[1024];
    const char *named = getenv("SYMM_EMULATED_LIBRARY");
    snprintf(path, sizeof path, "%s/libsymm_emulated.so", test_lib());
    void *lib = dlopen(named ? named : path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(lib != NULL, "%s", dlerror());
    PFN_cuGetProcAddress_v12000 get;
    *(void **)&get = dlsym(lib, "cuGetProcAddress_v2");
    ck_assert(get != NULL);
    return get;
}

/* Fills in the table. Does not initialise. */
static inline void driver_load(void)
{
    PFN_cuGetProcAddress_v12000 get = driver_lookup();
    int status;
#define DRIVER_LOAD_(fn, version, need, params)                                                    \
    ck_assert_int_eq(get(#fn, (void **)&cu.fn, version, 0, &status), CUDA_SUCCESS);
    CU_FUNCTIONS_EMULATED(DRIVER_LOAD_)
#undef DRIVER_LOAD_
    ck_assert_int_eq(get("symm_emulated_objects", (void **)&cu.objects, 0, 0, NULL), 0);
    ck_assert_int_eq(get("symm_emulated_last_rule", (void **)&cu.last_rule, 0, 0, NULL), 0);
    ck_assert_int_eq(get("symm_emulated_set_fault", (void **)&cu.set_fault, 0, 0, NULL), 0);
    ck_assert_int_eq(get("symm_emulated_calls", (void **)&cu.calls, 0, 0, NULL), 0);
}

#define OK(call) ck_assert_int_eq((call), CUDA_SUCCESS)
#define GIVES(error, call) ck_assert_int_eq((call), CUDA_ERROR_##error)

static char driver_rank[8]; /* in reports */

/* Initialises the driver, with a current context on `device`, which is the rank in reports. */
static inline void driver_open(int device)
{
    CUcontext ctx;
    snprintf(driver_rank, sizeof driver_rank, "%d", device);
    driver_load();
    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&ctx, device));
    OK(cu.cuCtxSetCurrent(ctx));
}

static inline void driver_close(int device)
{
    OK(cu.cuCtxSetCurrent(NULL));
    OK(cu.cuDevicePrimaryCtxRelease(device));
}

/* Begins a list of cases with the driver open on a device. */
#define DRIVER_GROUP(group, device)                                                                \
    static void group##_open(void)                                                                 \
    {                                                                                              \
        driver_open(device);                                                                       \
    }                                                                                              \
    static void group##_close(void)                                                                \
    {                                                                                              \
        driver_close(device);                                                                      \
    }                                                                                              \
    TEST_GROUP(group, 30, .setup = group##_open, .teardown = group##_close)

/* Checks that the last report is of this call and rank, and contains `part`. */
static inline void driver_reported(const char *rank, const char *call, const char *part)
{
    char head[128];
    snprintf(head, sizeof head, "symm-emulated[rank %s]: %s: rule: ", rank, call);
    const char *rule = cu.last_rule();
    ck_assert_msg(strncmp(rule, head, strlen(head)) == 0, "\"%s\" does not begin \"%s\"", rule,
                  head);
    ck_assert_msg(strstr(rule, part) != NULL, "no \"%s\" in \"%s\"", part, rule);
}

/*
 * Checks that the call breaks a rule: it returns this error, and the rule is reported, of the rank
 * of driver_open or of another one. WRONG: the error is INVALID_VALUE.
 */
#define BREAKS_ON(rank, error, fn, part, ...)                                                      \
    do {                                                                                           \
        GIVES(error, cu.fn(__VA_ARGS__));                                                          \
        driver_reported((rank), #fn, (part));                                                      \
    } while (0)
#define BREAKS(error, ...) BREAKS_ON(driver_rank, error, __VA_ARGS__)
#define WRONG(...) BREAKS(INVALID_VALUE, __VA_ARGS__)

static inline struct symm_emulated_objects driver_objects(void)
{
    struct symm_emulated_objects objects;
    ck_assert_int_eq(cu.objects(&objects), 0);
    return objects;
}

/* ---- Peers: processes with a socket between them ---- */

struct peer {
    pid_t pid;
    int socket; /* the parent's end, or in the child its own */
};

/* Runs fn in a child, which ends with exit(), and so with the driver's leak report. */
static inline struct peer peer_start(void (*fn)(int socket))
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        close(ends[0]);
        fn(ends[1]);
        exit(0);
    }
    close(ends[1]);
    return (struct peer){pid, ends[0]};
}

/* Returns the status of waitpid. */
static inline int peer_wait(struct peer *peer)
{
    int status = -1;
    ck_assert_int_eq(waitpid(peer->pid, &status, 0), peer->pid);
    close(peer->socket);
    return status;
}

#define PEER_OK(peer)                                                                              \
    do {                                                                                           \
        int status_ = peer_wait(peer);                                                             \
        ck_assert_msg(status_ == 0, "the peer ended with %#x", status_);                           \
    } while (0)

/* Sends a message with a descriptor (-1: none). */
static inline void peer_send(int to, int fd)
{
    char byte = 'x', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr msg = {.msg_iov = &data, .msg_iovlen = 1};
    if (fd >= 0) {
        msg.msg_control = control;
        msg.msg_controllen = sizeof control;
        struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(head), &fd, sizeof fd);
    }
    ck_assert_int_eq(sendmsg(to, &msg, 0), 1);
}

static inline int peer_receive(int from)
{
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec data = {&byte, 1};
    struct msghdr msg = {.msg_iov = &data,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof control};
    int fd = -1;
    ck_assert_int_eq(recvmsg(from, &msg, MSG_CMSG_CLOEXEC), 1);
    struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
    if (head)
        memcpy(&fd, CMSG_DATA(head), sizeof fd);
    return fd;
}

/* ---- Memory ---- */

#define GRANULE ((size_t)64 << 10)

static inline CUmemAllocationProp memory_prop(int device)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, device},
    };
}

static inline CUmemGenericAllocationHandle memory_create(int device, size_t nbytes)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = memory_prop(device);
    OK(cu.cuMemCreate(&handle, nbytes, &prop, 0));
    return handle;
}

static inline CUdeviceptr memory_reserve(size_t nbytes)
{
    CUdeviceptr ptr;
    OK(cu.cuMemAddressReserve(&ptr, nbytes, 0, 0, 0));
    return ptr;
}

static inline void memory_access(CUdeviceptr ptr, size_t nbytes, int device, int flags)
{
    CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
    OK(cu.cuMemSetAccess(ptr, nbytes, &desc, 1));
}

/* Reserves, maps and grants access. The handle stays the caller's. */
static inline CUdeviceptr memory_map(CUmemGenericAllocationHandle handle, size_t nbytes, int device)
{
    CUdeviceptr ptr = memory_reserve(nbytes);
    OK(cu.cuMemMap(ptr, nbytes, 0, handle, 0));
    memory_access(ptr, nbytes, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    return ptr;
}

static inline void memory_unmap(CUdeviceptr ptr, size_t nbytes)
{
    OK(cu.cuMemUnmap(ptr, nbytes));
    OK(cu.cuMemAddressFree(ptr, nbytes));
}

#endif
