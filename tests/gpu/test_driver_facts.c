/*
 * Facts about the real driver that symm relies on. Links nothing of symm.
 *
 *   - memory that a process exported stays readable in the importer after the exporter was killed;
 *   - cuStreamWriteValue32 may write to imported memory;
 *   - a cooperative launch may at the same time be a programmatic dependent launch;
 *   - an exported descriptor is, or can be made, close-on-exec;
 *   - a reader that sees a word copied by another GPU also sees the same stream's earlier copies;
 *   - memory of cuMemCreate() maps a second time, by a retained handle, but only as a whole; memory
 *     of cuMemAlloc() has no handle.
 *
 * Prints one line a fact. Exit code 77: there are not two GPUs.
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
#include "abi/cuda_driver.h"

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

static CUcontext use_device(int ordinal)
{
    CUdevice dev;
    CUcontext ctx;

    MUST(cuInit(0));
    MUST(cuDeviceGet(&dev, ordinal));
    MUST(cuDevicePrimaryCtxRetain(&ctx, dev));
    MUST(cuCtxSetCurrent(ctx));
    return ctx;
}

/* Where the devices from `first` to `last` may read and write it. */
static CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t nbytes, int first, int last)
{
    CUdeviceptr p;

    MUST(cuMemAddressReserve(&p, nbytes, 0, 0, 0));
    MUST(cuMemMap(p, nbytes, 0, handle, 0));
    for (int ordinal = first; ordinal <= last; ordinal++) {
        const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, ordinal},
                                        CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        MUST(cuMemSetAccess(p, nbytes, &access, 1));
    }
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
    MUST(cuMemsetD8Async(map(handle, NBYTES, 1, 1), 0x5a, NBYTES, NULL));
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
    p = map(handle, NBYTES, 0, 0);

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

/* ---------------------------------------------------------------------- a count behind its rows */

/*
 * The observer: in each block a thread polls until the count is no longer `before`. Then all
 * threads check that the words of the rows are `word`, the last ones first. The observer counts
 * into the members of struct found.
 */
static const char observer_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry observe(.param .u64 count_, .param .u64 before_, .param .u64 after_,\n"
    "    .param .u64 rows_, .param .u64 nwords_, .param .u32 word_, .param .u64 found_)\n{\n"
    ".reg .pred p;\n"
    ".reg .b32 thread, block, threads, blocks, word, w, early;\n"
    ".reg .b64 count, before, after, c, start, now, rows, at, nwords, i, step, found;\n"
    "ld.param.u64 count, [count_];\nld.param.u64 before, [before_];\n"
    "ld.param.u64 after, [after_];\nld.param.u64 rows, [rows_];\n"
    "ld.param.u64 nwords, [nwords_];\nld.param.u32 word, [word_];\n"
    "ld.param.u64 found, [found_];\n"
    "mov.u32 thread, %tid.x;\nmov.u32 threads, %ntid.x;\n"
    "mov.u32 block, %ctaid.x;\nmov.u32 blocks, %nctaid.x;\n"
    "setp.ne.u32 p, thread, 0;\n@p bra together;\n"
    "ld.acquire.sys.global.u64 c, [count];\n"
    "setp.ne.u64 p, c, before;\n@p bra seen;\n"
    "red.global.add.u32 [found + 4], 1;\n"
    "mov.u64 start, %globaltimer;\n"
    "look:\n"
    "ld.acquire.sys.global.u64 c, [count];\n"
    "setp.ne.u64 p, c, before;\n@p bra seen;\n"
    "mov.u64 now, %globaltimer;\nsub.u64 now, now, start;\n"
    "setp.lt.u64 p, now, 2000000000;\n@p bra look;\n"
    "seen:\n"
    "setp.eq.u64 p, c, after;\n@p bra together;\n"
    "red.global.add.u32 [found + 8], 1;\n"
    "together:\n"
    "bar.sync 0;\n"
    "mad.wide.u32 i, block, threads, 0;\ncvt.u64.u32 step, thread;\nadd.u64 i, i, step;\n"
    "mul.wide.u32 step, blocks, threads;\n"
    "mov.u32 early, 0;\n"
    "next:\n"
    "setp.ge.u64 p, i, nwords;\n@p bra counted;\n"
    "sub.u64 at, nwords, i;\nshl.b64 at, at, 2;\nadd.u64 at, rows, at;\n"
    "ld.global.u32 w, [at + -4];\n"
    "setp.ne.u32 p, w, word;\n@p add.u32 early, early, 1;\n"
    "add.u64 i, i, step;\nbra next;\n"
    "counted:\n"
    "setp.eq.u32 p, early, 0;\n@p bra done;\n"
    "red.global.add.u32 [found], early;\n"
    "done:\n"
    "ret;\n}\n";

enum { ROOM = 18 << 20, COUNT_AT = ROOM - 8, BLOCKS = 64, THREADS = 256, ROUNDS = 300 };

struct found {
    uint32_t early;  /* words of rows that were not there when the count was */
    uint32_t waited; /* blocks that were there before the count */
    uint32_t lost;   /* blocks that saw a part of a count, or none in 2 s */
};

/* Rows and counts, of GPU 0 and where it copies them to on GPU 1, which observes. */
struct observer {
    CUcontext ctx[2];
    CUstream stream[2];
    CUfunction observe;
    CUdeviceptr from, to, found;
    uint32_t round;
};

/* From and to addresses that are this many bytes behind an aligned one. */
struct rows {
    size_t from, to, nbytes;
};

/* All words are 0. Makes both copies once, so that the driver has loaded its code for them. */
static void observer_open(struct observer *o)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
    CUmemGenericAllocationHandle handle;
    CUmodule module;

    for (int i = 0; i < 2; i++) {
        o->ctx[i] = use_device(i);
        MUST(cuStreamCreate(&o->stream[i], CU_STREAM_NON_BLOCKING));
    }
    MUST(cuModuleLoadData(&module, observer_ptx));
    MUST(cuModuleGetFunction(&o->observe, module, "observe"));
    MUST(cuMemAlloc(&o->found, sizeof(struct found)));
    MUST(cuMemCreate(&handle, ROOM, &prop, 0));
    o->to = map(handle, ROOM, 0, 1);
    MUST(cuCtxSetCurrent(o->ctx[0]));
    MUST(cuMemAlloc(&o->from, ROOM));
    MUST(cuMemsetD32Async(o->from, 0, ROOM / 4, o->stream[0]));
    MUST(cuMemcpyAsync(o->to, o->from, ROOM, o->stream[0]));
    MUST(cuMemcpyAsync(o->to + COUNT_AT, o->from + COUNT_AT, 8, o->stream[0]));
    MUST(cuStreamSynchronize(o->stream[0]));
}

/* Both halves of a count tell the round. */
static uint64_t count_of(uint32_t round)
{
    return round * UINT64_C(0x100000001);
}

static void observe(const struct observer *o, const struct rows *rows)
{
    const CUlaunchConfig config = {.gridDimX = BLOCKS,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = THREADS,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .hStream = o->stream[1]};
    CUdeviceptr count = o->to + COUNT_AT, at = o->to + rows->to, found = o->found;
    uint64_t before = count_of(o->round - 1), after = count_of(o->round), nwords = rows->nbytes / 4;
    uint32_t word = o->round;
    void *params[] = {&count, &before, &after, &at, &nwords, &word, &found};

    MUST(cuCtxSetCurrent(o->ctx[1]));
    MUST(cuMemsetD32Async(o->found, 0, sizeof(struct found) / 4, o->stream[1]));
    MUST(cuLaunchKernelEx(&config, o->observe, params, NULL));
}

static void copy_round(struct observer *o, const struct rows *rows, bool count_first,
                       struct found *sum)
{
    struct found found;

    o->round++;
    MUST(cuCtxSetCurrent(o->ctx[0]));
    MUST(cuMemsetD32Async(o->from + rows->from, o->round, rows->nbytes / 4, o->stream[0]));
    MUST(cuMemsetD32Async(o->from + COUNT_AT, o->round, 2, o->stream[0]));
    observe(o, rows);
    MUST(cuCtxSetCurrent(o->ctx[0]));
    for (int i = 0; i < 2; i++)
        if (count_first == (i == 0))
            MUST(cuMemcpyAsync(o->to + COUNT_AT, o->from + COUNT_AT, 8, o->stream[0]));
        else
            MUST(cuMemcpyAsync(o->to + rows->to, o->from + rows->from, rows->nbytes, o->stream[0]));
    MUST(cuStreamSynchronize(o->stream[0]));
    MUST(cuCtxSetCurrent(o->ctx[1]));
    MUST(cuMemcpyAsync((CUdeviceptr)(uintptr_t)&found, o->found, sizeof found, o->stream[1]));
    MUST(cuStreamSynchronize(o->stream[1]));
    sum->early += found.early;
    sum->waited += found.waited;
    sum->lost += found.lost;
}

/* src/matmul/gather.c says with such a count that rows have come. */
static bool fact_count_behind_rows(void)
{
    static const struct rows sizes[] = {
        {0, 0, 8},       {4, 12, 16},       {100, 36, 1000}, {0, 0, 4096},
        {12, 12, 65540}, {0, 128, 1 << 20}, {4, 8, 2097140}, {0, 0, 16 << 20},
    };
    enum { NSIZES = sizeof sizes / sizeof sizes[0] };
    struct observer o = {.round = 0};
    struct found behind = {0, 0, 0}, before = {0, 0, 0};

    observer_open(&o);
    for (int i = 0; i < NSIZES * ROUNDS && behind.lost == 0; i++)
        copy_round(&o, &sizes[i % NSIZES], false, &behind);
    printf("a count that is copied to another GPU behind rows is seen after them: %s (%d rounds; "
           "words that were late: %u; blocks that were there first: %u of %d)\n",
           behind.early + behind.lost == 0 ? "yes" : "NO", NSIZES * ROUNDS, behind.early,
           behind.waited, NSIZES * ROUNDS * BLOCKS);

    /* That this is a test: the count before the rows, of which none can be there so early. */
    for (int i = 0; i < ROUNDS / 10 && before.lost == 0; i++)
        copy_round(&o, &sizes[NSIZES - 1], true, &before);
    printf("... and before them, the other way round, at least once: %s (words that were late: "
           "%u)\n",
           before.early ? "yes" : "NO", before.early);
    return behind.early + behind.lost + before.lost == 0 && behind.waited > 0 && before.early > 0;
}

static bool fact_second_mapping(void)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes =
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAllocationProp found;
    CUmemGenericAllocationHandle handle, again;
    CUdeviceptr first, second, part, plain;
    uint32_t word = 0;

    use_device(0);
    MUST(cuMemCreate(&handle, 2 * NBYTES, &prop, 0));
    first = map(handle, 2 * NBYTES, 0, 0);
    MUST(cuMemRelease(handle));
    MUST(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(first + NBYTES + 1)));
    MUST(cuMemGetAllocationPropertiesFromHandle(&found, again));
    second = map(again, 2 * NBYTES, 0, 0);
    MUST(cuMemsetD32Async(first + NBYTES, 77, NBYTES / 4, NULL));
    MUST(cuMemcpyAsync((CUdeviceptr)(uintptr_t)&word, second + 2 * NBYTES - 4, 4, NULL));
    MUST(cuCtxSynchronize());
    MUST(cuMemAddressReserve(&part, 2 * NBYTES, 0, 0, 0));
    MUST(cuMemAlloc(&plain, NBYTES));
    const CUresult partly = cuMemMap(part, NBYTES, 0, again, 0),
                   retained = cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)plain);
    printf("a second mapping sees %u of 77, with handle types %d; half of it maps: %d; a handle of "
           "cuMemAlloc() memory: %d\n",
           word, found.requestedHandleTypes, partly, retained);
    MUST(cuMemUnmap(second, 2 * NBYTES));
    MUST(cuMemRelease(again));
    return word == 77 && found.requestedHandleTypes == prop.requestedHandleTypes &&
           partly == CUDA_ERROR_NOT_SUPPORTED && retained == CUDA_ERROR_INVALID_VALUE;
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
    ok = fact_count_behind_rows() && ok;
    ok = fact_second_mapping() && ok;
    return ok ? 0 : 1;
}
