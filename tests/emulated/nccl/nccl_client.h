/*
 * A program that uses NCCL, on the emulated driver: ranks that are processes, each with a device, a
 * stream and a communicator of all of them.
 */
#ifndef TEST_NCCL_CLIENT_H
#define TEST_NCCL_CLIENT_H

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../driver/driver_table.h"
#include "abi/nccl.h"
#include "oracle/element.h"
#include "ranks.h"

/* Memory that the ranks share: how they learn the id, and what else they tell each other. */
struct meeting {
    atomic_int has_id, count;
    ncclUniqueId id;
};

static inline struct meeting *meeting(void)
{
    static struct meeting *place;
    if (!place)
        place =
            mmap(NULL, sizeof *place, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    atomic_store(&place->has_id, 0);
    atomic_store(&place->count, 0);
    return place;
}

struct client {
    CUcontext context;
    CUstream stream;
    ncclComm_t comm;
};

/* In a rank's function with an `out:` label. */
#define NCCL_EXPECT(self, result, call)                                                            \
    do {                                                                                           \
        ncclResult_t is_ = (call);                                                                 \
        CHECK_RANK_MSG(self, is_ == (result), "%s: %s instead of %s: %s", #call,                   \
                       ncclGetErrorString(is_), #result, ncclGetLastError(NULL));                  \
    } while (0)
#define NCCL_TRY(self, call) NCCL_EXPECT(self, ncclSuccess, call)
#define CU_TRY(self, call) CHECK_RANK(self, (call) == CUDA_SUCCESS)

static inline ncclUniqueId common_id(int rank, struct meeting *place)
{
    if (rank == 0) {
        ncclGetUniqueId(&place->id);
        atomic_store(&place->has_id, 1);
    }
    while (!atomic_load(&place->has_id))
        usleep(1000);
    return place->id;
}

/* Without a communicator. */
static inline symm_status device_open(struct rank *self, struct client *c)
{
    driver_load();
    CU_TRY(self, cu.cuInit(0));
    CU_TRY(self, cu.cuDevicePrimaryCtxRetain(&c->context, self->rank));
    CU_TRY(self, cu.cuCtxSetCurrent(c->context));
    CU_TRY(self, cu.cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING));
    return SYMM_OK;
out:
    return rank_note(self, SYMM_ERROR_DRIVER);
}

static inline void device_close(struct rank *self, struct client *c)
{
    if (c->comm)
        ncclCommDestroy(c->comm);
    if (c->stream)
        cu.cuStreamDestroy(c->stream);
    cu.cuCtxSetCurrent(NULL);
    if (c->context)
        cu.cuDevicePrimaryCtxRelease(self->rank);
}

/* A RANKS_TEST that also has `c`, a struct client of its rank, at first without a communicator. */
#define DEVICE_TEST(group, name, ...)                                                              \
    static void name##_client(struct rank *self, struct meeting *place, struct client *c);         \
    RANKS_TEST(group, name, __VA_ARGS__, .arg = meeting())                                         \
    {                                                                                              \
        struct client c = {0};                                                                     \
        if (device_open(self, &c) == SYMM_OK)                                                      \
            name##_client(self, arg, &c);                                                          \
        device_close(self, &c);                                                                    \
    }                                                                                              \
    static void name##_client(struct rank *self, __attribute__((unused)) struct meeting *place,    \
                              struct client *c)

/* Joins the communicator of all ranks. */
#define JOIN(self)                                                                                 \
    NCCL_TRY(self, ncclCommInitRank(&c->comm, (self)->nranks, common_id((self)->rank, place),      \
                                    (self)->rank))
/* As JOIN, and nonblocking. */
#define NONBLOCKING                                                                                \
    (&(ncclConfig_t){.size = sizeof(ncclConfig_t),                                                 \
                     .magic = NCCL_CONFIG_MAGIC,                                                   \
                     .version = NCCL_ABI_VERSION,                                                  \
                     .blocking = 0})
#define JOIN_NONBLOCKING(self)                                                                     \
    NCCL_EXPECT(self, ncclInProgress,                                                              \
                ncclCommInitRankConfig(&c->comm, (self)->nranks, common_id((self)->rank, place),   \
                                       (self)->rank, NONBLOCKING))

/* Polls until the communicator is ready. */
static inline void await_ready(struct rank *self, ncclComm_t comm)
{
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
        NCCL_TRY(self, ncclCommGetAsyncError(comm, &state));
        usleep(1000);
    }
    CHECK_RANK(self, state == ncclSuccess);
out:;
}

/* ---- Buffers ---- */

/* Pinned memory is the easiest to read and write, and the same to NCCL. */
static inline void *buffer(size_t nbytes)
{
    void *ptr = NULL;
    cu.cuMemHostAlloc(&ptr, nbytes, 0);
    return ptr;
}

static inline float *floats(size_t n, float value)
{
    float *out = buffer(n * sizeof *out);
    for (size_t i = 0; i < n; i++)
        out[i] = value;
    return out;
}

#define CHECK_FLOATS(self, ptr, n, value)                                                          \
    for (size_t i_ = 0; i_ < (n); i_++)                                                            \
    CHECK_RANK_MSG(self, (ptr)[i_] == (float)(value), "%s[%zu] is %g, not %g", #ptr, i_,           \
                   (double)(ptr)[i_], (double)(value))

/* ---- What a communicator is, and that it works ---- */

static inline void check_facts(struct rank *self, ncclComm_t comm, int rank, int nranks, int device)
{
    int is_rank = -1, is_nranks = -1, is_device = -1;
    ncclResult_t state = ncclInProgress;
    NCCL_TRY(self, ncclCommUserRank(comm, &is_rank));
    NCCL_TRY(self, ncclCommCount(comm, &is_nranks));
    NCCL_TRY(self, ncclCommCuDevice(comm, &is_device));
    NCCL_TRY(self, ncclCommGetAsyncError(comm, &state));
    CHECK_RANK_MSG(self, is_rank == rank && is_nranks == nranks && is_device == device,
                   "rank %d of %d on device %d", is_rank, is_nranks, is_device);
    CHECK_RANK(self, state == ncclSuccess);
out:;
}

/* Sums n elements of this rank's value over the communicator. */
static inline void check_sum(struct rank *self, ncclComm_t comm, CUstream stream, size_t n,
                             float value, float expected)
{
    float *x = floats(n, value);
    NCCL_TRY(self, ncclAllReduce(x, x, n, ncclFloat32, ncclSum, comm, stream));
    CU_TRY(self, cu.cuStreamSynchronize(stream));
    CHECK_FLOATS(self, x, n, expected);
out:
    cu.cuMemFreeHost(x);
}

/* Splits a communicator of 4 ranks: by key, and with a rank that stays out. Sums n elements. */
static inline void check_splits(struct rank *self, const struct client *c, size_t n)
{
    ncclComm_t halves = NULL, three = NULL;
    NCCL_TRY(self, ncclCommSplit(c->comm, self->rank % 2, -self->rank, &halves, NULL));
    check_facts(self, halves, self->rank < 2, 2, self->rank);
    check_sum(self, halves, c->stream, n, (float)self->rank, self->rank % 2 ? 1 + 3 : 0 + 2);
    NCCL_TRY(self,
             ncclCommSplit(c->comm, self->rank == 2 ? NCCL_SPLIT_NOCOLOR : 7, 0, &three, NULL));
    CHECK_RANK(self, (three == NULL) == (self->rank == 2));
    if (three)
        check_sum(self, three, c->stream, n, 1, 3);
    check_sum(self, c->comm, c->stream, n, 1, 4);
    NCCL_TRY(self, ncclCommDestroy(halves));
    if (three)
        NCCL_TRY(self, ncclCommDestroy(three));
out:;
}

/* ---- Libraries that are preloaded ---- */

/* For test_setup(): starts the program again with a library of the build preloaded. */
static inline void preload(const char *library)
{
    char path[4096];

    if (TEST_INSTRUMENTED) {
        printf("# skipped: the runtime of a sanitizer must be the first library\n");
        exit(77);
    }
    if (getenv("LD_PRELOAD"))
        return;
    snprintf(path, sizeof path, "%s/%s", test_lib(), library);
    setenv("LD_PRELOAD", path, 1);
    execl("/proc/self/exe", program_invocation_name, (char *)NULL);
    exit(1);
}

/* N floats: each file has its N. */
#define ALL_REDUCE(x, y, stream)                                                                   \
    NCCL_TRY(self, ncclAllReduce(x, y, N, ncclFloat32, ncclSum, c->comm, stream))

/* Waits until all ranks have come here for the nth time. */
static inline void meet(const struct rank *self, struct meeting *place, int nth)
{
    atomic_fetch_add(&place->count, 1);
    while (atomic_load(&place->count) < nth * self->nranks)
        usleep(1000);
}

#endif
