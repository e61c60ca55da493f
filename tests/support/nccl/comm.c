#include "comm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include "group.h"
#include "settings.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm *list; /* of all that ever were */

bool comm_valid(ncclComm_t comm)
{
    pthread_mutex_lock(&list_lock);
    struct ncclComm *at = list;
    while (at && at != comm)
        at = at->next;
    bool found = at && !atomic_load(&at->closed);
    pthread_mutex_unlock(&list_lock);
    return found;
}

ncclResult_t comm_enter(ncclComm_t comm, enum comm_need need, const char *call, const char *format,
                        ...)
{
    char text[256];
    if (!comm_valid(comm))
        return failed(ncclInvalidArgument, "%s: no communicator", call);
    ncclResult_t state = atomic_load(&comm->state);
    if (need == COMM_READY && (state != ncclSuccess || atomic_load(&comm->polls) > 0))
        return failed(state == ncclSuccess || state == ncclInProgress ? ncclInvalidUsage : state,
                      "%s: the communicator is not ready", call);
    settings_delay();
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    settings_record(comm->id, comm->rank, "%s%s\n", call, text);
    int fault = settings_fault(call, comm->rank);
    if (fault >= STANDIN_LATER)
        atomic_store(&comm->state, (ncclResult_t)(fault - STANDIN_LATER));
    else if (fault != ncclSuccess)
        return failed((ncclResult_t)fault, "%s: injected", call);
    return ncclSuccess;
}

/* ---- Lifetime ---- */

bool comm_begin(ncclComm_t comm)
{
    pthread_mutex_lock(&comm->lock);
    bool open = !atomic_load(&comm->closed) && !atomic_load(&comm->stop);
    comm->running++;
    pthread_mutex_unlock(&comm->lock);
    return open;
}

void comm_end(ncclComm_t comm, bool pending)
{
    pthread_mutex_lock(&comm->lock);
    comm->running--;
    comm->pending -= pending;
    pthread_cond_broadcast(&comm->idle);
    pthread_mutex_unlock(&comm->lock);
}

/* Waits until it executes `running` things only, and if `all`, nothing that could run is left. */
static void comm_wait(ncclComm_t comm, int running, bool all)
{
    cu.cuCtxPushCurrent(comm->context);
    pthread_mutex_lock(&comm->lock);
    while (comm->running > running || (all && comm->pending > 0)) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&comm->idle, &comm->lock, &until);
        if (all && cu.cuCtxGetStreamPriorityRange(NULL, NULL) != CUDA_SUCCESS)
            break; /* the device has failed: nothing runs any more */
    }
    pthread_mutex_unlock(&comm->lock);
    cu.cuCtxPopCurrent(NULL);
}

void comm_misused(ncclComm_t comm, const char *how)
{
    fprintf(stderr, "nccl stand-in: rank %d of communicator %016llx: %s\n", comm->rank,
            (unsigned long long)comm->id, how);
    abort();
}

/* Frees all but the struct, which operations may need that are enqueued or in a graph. */
static void comm_close(ncclComm_t comm)
{
    for (const struct registration *r = comm->registrations; r; r = r->next)
        if (!r->window)
            comm_misused(comm, "it ends with registered memory");
    atomic_store(&comm->closed, true);
    mesh_close(comm->mesh);
    cu.cuCtxPushCurrent(comm->context);
    cu.cuEventDestroy(comm->done);
    cu.cuCtxPopCurrent(NULL);
    cu.cuDevicePrimaryCtxRelease(comm->device);
    for (struct registration *next; comm->registrations; comm->registrations = next) {
        next = comm->registrations->next;
        free(comm->registrations);
    }
    for (int i = 0; i < 2; i++) {
        free(comm->nsent[i]);
        free(comm->nreceived[i]);
    }
}

/* On the current device; it gets its ranks later. */
static ncclResult_t comm_create(ncclComm_t *out, const ncclConfig_t *config, bool blocking)
{
    CUdevice device;
    ncclComm_t comm;
    if (!out || (config && config->magic != NCCL_CONFIG_MAGIC))
        return failed(ncclInvalidArgument, "no place for a communicator, or no configuration");
    if (!driver_open() || cu.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
        !(comm = calloc(1, sizeof *comm)))
        return failed(ncclUnhandledCudaError, "no device is current");
    cu.cuDevicePrimaryCtxRetain(&comm->context, device);
    cu.cuEventCreate(&comm->done, CU_EVENT_DISABLE_TIMING);
    comm->device = device;
    comm->blocking = settings_blocking(config ? config->blocking != 0 : blocking);
    atomic_store(&comm->state, ncclInProgress);
    pthread_mutex_init(&comm->lock, NULL);
    pthread_cond_init(&comm->idle, NULL);
    pthread_mutex_lock(&list_lock);
    comm->next = list;
    list = comm;
    pthread_mutex_unlock(&list_lock);
    *out = comm;
    return ncclSuccess;
}

ncclResult_t comm_exchange(ncclComm_t comm, uint64_t number, const void *own, void *all,
                           size_t nbytes)
{
    struct topic topic = {TOPIC_HOST, number, 0};
    for (int i = 0; i < comm->nranks; i++)
        mesh_send(comm->mesh, i, topic, 0, own, nbytes);
    for (int i = 0; i < comm->nranks; i++)
        if (mesh_receive(comm->mesh, i, topic, 0, (char *)all + (size_t)i * nbytes, nbytes) !=
            MESH_OK)
            return failed(ncclInvalidUsage, "aborted, or the ranks call different things");
    return ncclSuccess;
}

/* Waits for all ranks. */
static ncclResult_t comm_meet(ncclComm_t comm, uint64_t number)
{
    char own = 0, all[comm->nranks];
    return comm_exchange(comm, number, &own, all, 1);
}

static ncclResult_t comm_connect(ncclComm_t comm, uint64_t id, int rank, int nranks)
{
    if (comm->nranks == 0) { /* the child of a split; others have them from the beginning */
        comm->id = id;
        comm->rank = rank;
        comm->nranks = nranks;
    }
    for (int i = 0; i < 2; i++) {
        comm->nsent[i] = calloc((size_t)nranks, sizeof *comm->nsent[i]);
        comm->nreceived[i] = calloc((size_t)nranks, sizeof *comm->nreceived[i]);
        if (!comm->nsent[i] || !comm->nreceived[i])
            abort();
    }
    settings_delay();
    struct mesh *mesh = mesh_open(id, rank, nranks);
    if (!mesh)
        return failed(ncclInvalidUsage, "there is another rank %d", rank);
    atomic_store(&comm->mesh, mesh);
    if (atomic_load(&comm->stop))
        mesh_stop(mesh, false);
    return comm_meet(comm, comm->nhost++);
}

/* ---- Making communicators ---- */

ENTRY(ncclResult_t, ncclGetUniqueId)(ncclUniqueId *id)
{
    uint64_t random;
    if (!id || getrandom(&random, sizeof random, 0) != sizeof random)
        return failed(ncclInvalidArgument, "no place for an id");
    memset(id, 0, sizeof *id);
    memcpy(id, &random, sizeof random);
    return ncclSuccess;
}

static ncclResult_t connect_job(struct job *job)
{
    uint64_t id = job->number;
    return comm_connect(job->comm, id, job->values[0], job->values[1]);
}

/* Makes one of ranks that know an id. blocking: if the configuration has nothing else. */
static ncclResult_t comm_init(ncclComm_t *comm, int nranks, const ncclUniqueId *id, int rank,
                              const ncclConfig_t *config, bool blocking)
{
    struct job job = {.run = connect_job, .values = {rank, nranks}};
    ncclResult_t result = (ncclResult_t)settings_fault("ncclCommInitRank", rank);
    memcpy(&job.number, id, sizeof job.number);
    group_begin();
    if (nranks < 1 || rank < 0 || rank >= nranks)
        result = failed(ncclInvalidArgument, "rank %d of %d", rank, nranks);
    if (result == ncclSuccess)
        result = comm_create(comm, config, blocking);
    if (result == ncclSuccess) {
        job.comm = *comm;
        job.comm->id = job.number;
        job.comm->rank = rank;
        job.comm->nranks = nranks;
        group_add_job(&job);
    }
    return group_end(result);
}

ENTRY(ncclResult_t, ncclCommInitRankConfig)
(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    return comm_init(comm, nranks, &id, rank, config, true);
}

ENTRY(ncclResult_t, ncclCommInitRank)(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(comm, nranks, id, rank, NULL);
}

ENTRY(ncclResult_t, ncclCommInitAll)(ncclComm_t *comms, int ndevices, const int *devices)
{
    ncclUniqueId id;
    ncclResult_t result = ncclGetUniqueId(&id);
    group_begin();
    for (int i = 0; i < ndevices && result == ncclSuccess; i++) {
        CUcontext context;
        CUdevice device = devices ? devices[i] : i;
        if (!driver_open() || cu.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS) {
            result = failed(ncclInvalidArgument, "no device %d", device);
            break;
        }
        cu.cuCtxPushCurrent(context);
        result = ncclCommInitRank(&comms[i], ndevices, id, i);
        cu.cuCtxPopCurrent(NULL);
        cu.cuDevicePrimaryCtxRelease(device); /* the communicator has its own reference */
    }
    return group_end(result);
}

/* On the parent's device. */
static ncclResult_t child_create(ncclComm_t *child, const ncclConfig_t *config, ncclComm_t parent)
{
    cu.cuCtxPushCurrent(parent->context);
    ncclResult_t result = comm_create(child, config, parent->blocking);
    cu.cuCtxPopCurrent(NULL);
    return result;
}

/*
 * Adds a job that makes a child, if it has one. A nonblocking parent fills in the handle before it
 * is ready; only its state tells that it is not.
 */
static ncclResult_t add_child_job(struct job *job, ncclComm_t *child, ncclResult_t result)
{
    const bool later = job->child && !job->comm->blocking;
    *child = later ? NULL : job->child;
    job->out = later ? child : NULL;
    group_begin();
    if (result == ncclSuccess) {
        job->number = job->comm->nhost++;
        group_add_job(job);
    }
    result = group_end(result);
    return result == ncclInProgress ? ncclSuccess : result;
}

struct member {
    int color, key;
};

static ncclResult_t split_job(struct job *job)
{
    ncclComm_t comm = job->comm;
    const struct member own = {job->values[0], job->values[1]};
    struct member all[comm->nranks];
    int rank = 0, nranks = 0;
    TRY(comm_exchange(comm, job->number, &own, all, sizeof own));
    for (int i = 0; i < comm->nranks; i++)
        if (all[i].color == own.color) {
            nranks++;
            rank += all[i].key < own.key || (all[i].key == own.key && i < comm->rank);
        }
    uint64_t id = comm->id * 0x9e3779b97f4a7c15u + (job->number << 32) + (uint32_t)own.color;
    return job->child ? comm_connect(job->child, id, rank, nranks) : ncclSuccess;
}

ENTRY(ncclResult_t, ncclCommSplit)
(ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config)
{
    struct job job = {.run = split_job, .comm = comm, .values = {color, key}};
    TRY(comm_enter(comm, COMM_READY, __func__, "%s", ""));
    if (!child || color < NCCL_SPLIT_NOCOLOR)
        return failed(ncclInvalidArgument, "color %d", color);
    ncclResult_t result = ncclSuccess;
    if (color != NCCL_SPLIT_NOCOLOR)
        result = child_create(&job.child, config, comm);
    return add_child_job(&job, child, result);
}

static bool has(const int *ranks, int n, int rank)
{
    int i = 0;
    while (i < n && ranks[i] != rank)
        i++;
    return i < n;
}

/* All ranks that remain know which ones do. */
static ncclResult_t shrink_job(struct job *job)
{
    uint64_t id = job->comm->id * 0x9e3779b97f4a7c15u + (job->number << 32) + 0x5321;
    return comm_connect(job->child, id, job->values[0], job->values[1]);
}

/* With the flag the parent's calls end, also later ones, which NCCL's do not. */
ENTRY(ncclResult_t, ncclCommShrink)
(ncclComm_t comm, int *excluded, int nexcluded, ncclComm_t *child, ncclConfig_t *config, int flags)
{
    struct job job = {.run = shrink_job, .comm = comm};
    TRY(comm_enter(comm, COMM_READY, __func__, "%s", ""));
    if (!child || nexcluded < 1 || has(excluded, nexcluded, comm->rank))
        return failed(ncclInvalidArgument, "%d ranks are excluded", nexcluded);
    if (flags & NCCL_SHRINK_ABORT)
        mesh_stop(comm->mesh, false);
    for (int r = 0; r < comm->nranks; r++) {
        job.values[0] += r < comm->rank && !has(excluded, nexcluded, r);
        job.values[1] += !has(excluded, nexcluded, r);
    }
    return add_child_job(&job, child, child_create(&job.child, config, comm));
}

/*
 * Ranks of a communicator keep their numbers; new ones pass NULL for it. The handle comes at once,
 * and the new communicator's state tells whether it is ready.
 */
ENTRY(ncclResult_t, ncclCommGrow)
(ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *grown,
 ncclConfig_t *config)
{
    if (comm)
        TRY(comm_enter(comm, COMM_READY, __func__, " %d", nranks));
    if (!id || (comm && (rank != -1 || nranks < comm->nranks)))
        return failed(ncclInvalidArgument, "rank %d of %d, or no id", rank, nranks);
    ncclResult_t result =
        comm_init(grown, nranks, id, comm ? comm->rank : rank, config, !comm || comm->blocking);
    return result == ncclInProgress ? ncclSuccess : result;
}

/* ---- Ending them ---- */

static ncclResult_t finalize_job(struct job *job)
{
    comm_wait(job->comm, !job->comm->blocking, true); /* this job may be one of them */
    return comm_meet(job->comm, job->number);
}

ENTRY(ncclResult_t, ncclCommFinalize)(ncclComm_t comm)
{
    struct job job = {.run = finalize_job, .comm = comm};
    TRY(comm_enter(comm, COMM_READY, __func__, "%s", ""));
    group_begin();
    job.number = comm->nhost++;
    group_add_job(&job);
    return group_end(ncclSuccess);
}

ENTRY(ncclResult_t, ncclCommDestroy)(ncclComm_t comm)
{
    TRY(comm_enter(comm, COMM_ANY, __func__, "%s", ""));
    comm_wait(comm, 0, true);
    comm_close(comm);
    return ncclSuccess;
}

ENTRY(ncclResult_t, ncclCommAbort)(ncclComm_t comm)
{
    TRY(comm_enter(comm, COMM_ANY, __func__, "%s", ""));
    atomic_store(&comm->stop, true);
    if (comm->mesh)
        mesh_stop(comm->mesh, settings_abort_waits());
    comm_wait(comm, 0, false);
    comm_close(comm);
    return ncclSuccess;
}
