/* Facts about communicators, the library and its errors. */
#include <stdarg.h>
#include <stdio.h>
#include "comm.h"
#include "settings.h"

static pthread_mutex_t error_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_error[256];

ncclResult_t failed(ncclResult_t result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&error_lock);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    pthread_mutex_unlock(&error_lock);
    va_end(arguments);
    return result;
}

ENTRY(ncclResult_t, ncclCommGetAsyncError)(ncclComm_t comm, ncclResult_t *error)
{
    if (!comm_valid(comm) || !error)
        return failed(ncclInvalidArgument, "no communicator, or no place for its error");
    if (atomic_fetch_add(&comm->asking, 1) > 0)
        comm_misused(comm, "two threads ask for its error at once");
    settings_delay();
    *error = atomic_load(&comm->state);
    atomic_fetch_sub(&comm->asking, 1);
    if (*error == ncclSuccess && atomic_load(&comm->polls) > 0) {
        atomic_fetch_sub(&comm->polls, 1);
        *error = ncclInProgress;
    }
    return ncclSuccess;
}

#define ASKS(name, out, field)                                                                     \
    ENTRY(ncclResult_t, name)(const ncclComm_t comm, int *out)                                     \
    {                                                                                              \
        if (!comm_valid(comm) || !out)                                                             \
            return failed(ncclInvalidArgument, "%s: no communicator, or no place", #name);         \
        *out = comm->field;                                                                        \
        return ncclSuccess;                                                                        \
    }
ASKS(ncclCommCount, count, nranks)
ASKS(ncclCommCuDevice, device, device)
ASKS(ncclCommUserRank, rank, rank)

ENTRY(ncclResult_t, ncclGetVersion)(int *version)
{
    if (!version)
        return failed(ncclInvalidArgument, "no place for the version");
    *version = settings_version();
    return ncclSuccess;
}

ENTRY(const char *, ncclGetErrorString)(ncclResult_t result)
{
    switch (result) {
#define TEXT_(name, number, text)                                                                  \
    case name:                                                                                     \
        return text;
        NCCL_RESULTS(TEXT_)
#undef TEXT_
    }
    return "no such result";
}

ENTRY(const char *, ncclGetLastError)(ncclComm_t comm)
{
    (void)comm;
    return last_error;
}
