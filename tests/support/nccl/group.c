#include "group.h"

#include <stdlib.h>

static _Thread_local struct {
    int depth;
    ncclResult_t result; /* the first failure in the group */
    struct job *jobs;
    struct operation *operations;
    size_t n, capacity;
} group;

void group_begin(void)
{
    group.depth++;
}

void group_add(const struct operation *operation)
{
    if (group.n == group.capacity) {
        group.capacity = 2 * group.capacity + 8;
        group.operations = realloc(group.operations, group.capacity * sizeof *group.operations);
        if (!group.operations)
            abort();
    }
    group.operations[group.n++] = *operation;
}

void group_add_job(const struct job *job)
{
    struct job *copy = malloc(sizeof *copy), **last = &group.jobs;
    if (!copy)
        abort();
    *copy = *job;
    while (*last)
        last = &(*last)->next;
    *last = copy;
}

/* ---- Jobs ---- */

/* The communicator that the job makes or changes. */
static ncclComm_t made_by(const struct job *job)
{
    return job->child ? job->child : job->comm;
}

static void *job_thread(void *arg)
{
    struct job *job = arg;
    ncclComm_t comm = made_by(job);
    bool blocking = job->comm->blocking;
    ncclResult_t result = job->result = job->run(job);
    atomic_store(&comm->state, result);
    if (job->out && result == ncclSuccess)
        __atomic_store_n(job->out, comm, __ATOMIC_RELEASE);
    if (job->out)
        atomic_store(&job->comm->state, result);
    if (!blocking) {
        if (job->comm != comm)
            comm_end(job->comm, false);
        comm_end(comm, false);
        free(job);
    }
    return NULL;
}

static void job_start(struct job *job)
{
    ncclComm_t comm = made_by(job);
    bool blocking = job->comm->blocking;
    pthread_t thread;
    if (!blocking) { /* nobody joins the thread, so the communicators wait for it */
        atomic_store(&comm->state, ncclInProgress);
        comm_begin(comm);
        if (job->comm != comm)
            comm_begin(job->comm);
        if (job->out)
            atomic_store(&job->comm->state, ncclInProgress);
    }
    if (pthread_create(&thread, NULL, job_thread, job) != 0)
        abort();
    if (blocking)
        job->thread = thread;
    else
        pthread_detach(thread); /* it frees the job */
}

static ncclResult_t run_jobs(struct job *jobs)
{
    ncclResult_t result = ncclSuccess;
    struct job *waited = NULL;
    for (struct job *job = jobs, *next; job; job = next) {
        next = job->next;
        if (job->comm->blocking) {
            job->next = waited;
            waited = job;
        } else {
            result = ncclInProgress;
        }
        job_start(job);
    }
    for (struct job *next; waited; waited = next) {
        next = waited->next;
        pthread_join(waited->thread, NULL);
        if (waited->result != ncclSuccess)
            result = waited->result;
        free(waited);
    }
    return result;
}

/* The communicators that they would have made can only be aborted. */
static void drop_jobs(struct job *jobs, ncclResult_t failure)
{
    for (struct job *next; jobs; jobs = next) {
        ncclResult_t unmade = ncclInProgress;
        atomic_compare_exchange_strong(&made_by(jobs)->state, &unmade, failure);
        next = jobs->next;
        free(jobs);
    }
}

/* ---- Operations ---- */

/* Moves those of the first one's communicator to the front. Returns their number. */
static size_t gather_first(struct operation *operations, size_t n)
{
    size_t same = 0;
    for (size_t i = 0; i < n; i++)
        if (operations[i].comm == operations[0].comm) {
            struct operation moved = operations[i];
            for (size_t k = i; k > same; k--)
                operations[k] = operations[k - 1];
            operations[same++] = moved;
        }
    return same;
}

static ncclResult_t enqueue_all(struct operation *operations, size_t n)
{
    ncclResult_t result = ncclSuccess;
    while (n > 0) {
        size_t same = gather_first(operations, n);
        TRY(operations_enqueue(operations, same));
        if (!operations[0].comm->blocking) {
            atomic_store(&operations[0].comm->polls, 2);
            result = ncclInProgress;
        }
        operations += same;
        n -= same;
    }
    return result;
}

ncclResult_t group_end(ncclResult_t result)
{
    if (group.result == ncclSuccess && result != ncclInProgress)
        group.result = result;
    if (--group.depth > 0)
        return result;
    struct job *jobs = group.jobs;
    struct operation *operations = group.operations;
    size_t n = group.n;
    result = group.result;
    group.jobs = NULL;
    group.operations = NULL;
    group.n = group.capacity = 0;
    group.result = ncclSuccess;
    if (result != ncclSuccess)
        drop_jobs(jobs, result);
    else
        result = run_jobs(jobs);
    if (result == ncclSuccess || result == ncclInProgress) {
        ncclResult_t enqueued = enqueue_all(operations, n);
        result = enqueued == ncclSuccess ? result : enqueued;
    }
    free(operations);
    return result;
}

ENTRY(ncclResult_t, ncclGroupStart)(void)
{
    group_begin();
    return ncclSuccess;
}

/* Runs nothing. */
ENTRY(ncclResult_t, ncclGroupSimulateEnd)(ncclSimInfo_t *info)
{
    if (group.depth == 0)
        return failed(ncclInvalidUsage, "ncclGroupSimulateEnd without ncclGroupStart");
    info->estimatedTime = 1;
    if (--group.depth > 0)
        return ncclSuccess;
    drop_jobs(group.jobs, ncclInvalidUsage);
    free(group.operations);
    group.jobs = NULL;
    group.operations = NULL;
    group.n = group.capacity = 0;
    group.result = ncclSuccess;
    return ncclSuccess;
}

ENTRY(ncclResult_t, ncclGroupEnd)(void)
{
    if (group.depth == 0)
        return failed(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    return group_end(ncclSuccess);
}
