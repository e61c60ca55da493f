/*
 * What symm takes for granted of a real driver, asked of the real driver: nothing of symm is linked
 * in.
 *
 *   - memory that a process exported stays readable in the importer after the exporter was killed;
 *   - cuStreamWriteValue32 may write to imported memory;
 *   - a cooperative launch may at the same time be a programmatic dependent launch;
 *   - an exported descriptor is, or can be made, close-on-exec.
 *
 * Prints one line a fact and ends with 77 where there are not two GPUs.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "driver_abi.h"

#define ENTRY(fn, version, need, params) static CUresult(*fn) params;
CU_FUNCTIONS_BASE(ENTRY)
static CUresult (*cuStreamWriteValue32)(CUstream, CUdeviceptr, uint32_t, unsigned int);

enum { NBYTES = 2 << 20, SKIP = 77 };

static bool load_driver(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    PFN_cuGetProcAddress_v12000 get = NULL;
    int status;

    if (lib)
        *(void **)&get = dlsym(lib, "cuGetProcAddress_v2");
    if (!get)
        return false;
#define LOOK_UP(fn, version, need, params)                                                         \
    if (get(#fn, (void **)&fn, version, 0, &status) != CUDA_SUCCESS && need == CU_REQUIRED)        \
        return false;
    CU_FUNCTIONS_BASE(LOOK_UP)
    return get("cuStreamWriteValue32", (void **)&cuStreamWriteValue32, 12000, 0, &status) ==
           CUDA_SUCCESS;
}

#define MUST(call)                                                                                 \
    do {                                                                                           \
        CUresult r_ = (call);                                                                      \
        if (r_ != CUDA_SUCCESS) {                                                                  \
            fprintf(stderr, "%s:%d: %s = %d\n", __FILE__, __LINE__, #call, r_);                    \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void use_device(int ordinal)
{
    CUdevice dev;
    CUcontext ctx;

    MUST(cuInit(0));
    MUST(cuDeviceGet(&dev, ordinal));
    MUST(cuDevicePrimaryCtxRetain(&ctx, dev));
    MUST(cuCtxSetCurrent(ctx));
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle, int ordinal)
{
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, ordinal},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr p;

    MUST(cuMemAddressReserve(&p, NBYTES, 0, 0, 0));
    MUST(cuMemMap(p, NBYTES, 0, handle, 0));
    MUST(cuMemSetAccess(p, NBYTES, &access, 1));
    return p;
}

static void send_fd(int sock, int fd)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {{0}};
    struct iovec iov = {"x", 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.room,
                         .msg_controllen = sizeof control.room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    if (sendmsg(sock, &msg, 0) != 1)
        _exit(1);
}

static int receive_fd(int sock)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    char byte;
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.room,
                         .msg_controllen = sizeof control.room};
    int fd = -1;

    if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&msg))
        return -1;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof fd);
    return fd;
}

/* Exports memory filled with 0x5a and waits to be killed. */
static void exporter(int sock)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
    CUmemGenericAllocationHandle handle;
    int fd;

    use_device(1);
    MUST(cuMemCreate(&handle, NBYTES, &prop, 0));
    MUST(cuMemsetD8Async(map(handle, 1), 0x5a, NBYTES, NULL));
    MUST(cuCtxSynchronize());
    MUST(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    printf("exported descriptor is close-on-exec: %s\n",
           fcntl(fd, F_GETFD) & FD_CLOEXEC ? "yes" : "no");
    fflush(stdout);
    send_fd(sock, fd);
    for (;;)
        pause();
}

static bool filled_with(CUdeviceptr p, unsigned char byte, size_t from)
{
    static unsigned char host[NBYTES];

    memset(host, 0, sizeof host);
    MUST(cuMemcpyAsync((CUdeviceptr)(uintptr_t)host, p, NBYTES, NULL));
    MUST(cuCtxSynchronize());
    for (size_t i = from; i < NBYTES; i++)
        if (host[i] != byte)
            return false;
    return true;
}

static bool fact_killed_exporter_and_write_value(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;
    uint32_t word = 0;
    int sock[2], fd;
    bool readable, written;
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) || (child = fork()) < 0)
        return false;
    if (child == 0)
        exporter(sock[1]);
    fd = receive_fd(sock[0]);
    use_device(0);
    MUST(cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd,
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    p = map(handle, 0);

    MUST(cuStreamWriteValue32(NULL, p, 0x12345678, 0));
    MUST(cuMemcpyAsync((CUdeviceptr)(uintptr_t)&word, p, sizeof word, NULL));
    MUST(cuCtxSynchronize());
    written = word == 0x12345678;
    printf("cuStreamWriteValue32 writes to imported memory: %s\n", written ? "yes" : "NO");

    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    sleep(1);
    readable = filled_with(p, 0x5a, sizeof word);
    MUST(cuMemsetD8Async(p, 0xa5, NBYTES, NULL));
    readable = readable && filled_with(p, 0xa5, 0);
    printf("memory of a killed exporter can be read and written: %s\n", readable ? "yes" : "NO");
    return readable && written;
}

static bool fact_cooperative_dependent_launch(void)
{
    static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
                              ".visible .entry k()\n{\n"
                              "griddepcontrol.launch_dependents;\ngriddepcontrol.wait;\nret;\n}\n";
    CUlaunchAttribute attrs[2] = {{.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1},
                                  {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                   .value.programmaticStreamSerializationAllowed = 1}};
    CUlaunchConfig config = {.gridDimX = 8,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 32,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .attrs = attrs,
                             .numAttrs = 2};
    CUmodule module;
    CUfunction k;
    CUresult result;

    MUST(cuStreamCreate(&config.hStream, CU_STREAM_NON_BLOCKING));
    MUST(cuModuleLoadData(&module, ptx));
    MUST(cuModuleGetFunction(&k, module, "k"));
    result = cuLaunchKernelEx(&config, k, NULL, NULL);
    if (result == CUDA_SUCCESS)
        result = cuLaunchKernelEx(&config, k, NULL, NULL);
    if (result == CUDA_SUCCESS)
        result = cuStreamSynchronize(config.hStream);
    printf("cooperative launch with programmatic dependent launch: %s (%d)\n",
           result == CUDA_SUCCESS ? "yes" : "no", result);
    return true; /* either answer will do: the plan asks for one of the two */
}

int main(void)
{
    int count = 0;
    bool ok;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!load_driver()) {
        printf("skipped: no CUDA driver\n");
        return SKIP;
    }
    /* The exporter is forked before this process touches the driver. */
    pid_t probe = fork();
    if (probe == 0)
        _exit(cuInit(0) == CUDA_SUCCESS && cuDeviceGetCount(&count) == CUDA_SUCCESS ? count : 0);
    waitpid(probe, &count, 0);
    count = WIFEXITED(count) ? WEXITSTATUS(count) : 0;
    if (count < 2) {
        printf("skipped: %d GPUs, two are needed\n", count);
        return SKIP;
    }
    ok = fact_killed_exporter_and_write_value();
    ok = fact_cooperative_dependent_launch() && ok;
    return ok ? 0 : 1;
}
