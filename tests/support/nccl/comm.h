/* Communicators of the stand-in. */
#ifndef STANDIN_COMM_H
#define STANDIN_COMM_H

#include <pthread.h>
#include "abi/nccl.h"
#include "driver.h"
#include "mesh.h"

enum { SCALES = 8 };

/* A reduction made by ncclRedOpCreatePreMulSum. */
struct scale {
    bool used;
    ncclDataType_t type;
    const void *device; /* NULL: `value` holds the factor */
    char value[8];
};

/* A handle of ncclCommRegister or ncclCommWindowRegister. */
struct registration {
    struct registration *next;
    bool window;
    uintptr_t at;
    size_t nbytes;
};

/* Kinds of topics. An operation of a graph has another kind than the same operation outside. */
enum { TOPIC_HOST = 1, TOPIC_COLLECTIVE, TOPIC_PAIR, TOPIC_IN_GRAPH };

struct ncclComm {
    struct ncclComm *next;
    uint64_t id;
    int rank, nranks;
    CUdevice device;
    CUcontext context;
    bool blocking;
    _Atomic(struct mesh *) mesh; /* NULL: not connected */
    atomic_bool stop;
    _Atomic(ncclResult_t) state; /* what ncclCommGetAsyncError returns, */
    atomic_int polls;            /* after so many times ncclInProgress */
    atomic_int asking;           /* threads that ask for it */
    CUevent done;                /* the end of the last operation, */
    CUstream last;               /* in this stream */
    uint64_t last_capture;       /* and capture; 0: in none */
    uint64_t nhost;              /* operations on the host: split, finalize, windows */
    uint64_t ncollectives[2], *nsent[2], *nreceived[2]; /* outside of graphs, in graphs */
    struct scale scales[SCALES];
    struct registration *registrations;
    struct batch *in_graphs; /* kept for ever, as graphs may run them again */
    pthread_mutex_t lock;
    pthread_cond_t idle;
    int pending, running; /* operations and jobs: not ended, in execution */
    atomic_bool closed;
};

/*
 * What each call of a communicator begins with: checks that it is one, and ready unless the call is
 * about its state; a delay, the record, an injected fault. `format` has the call's arguments.
 */
enum comm_need { COMM_ANY, COMM_READY };
ncclResult_t comm_enter(ncclComm_t comm, enum comm_need need, const char *call, const char *format,
                        ...) __attribute__((format(printf, 4, 5)));

/* The program has done what would be undefined: ends it. */
_Noreturn void comm_misused(ncclComm_t comm, const char *how);

/* Whether all of it is in memory of one ncclCommRegister. */
bool comm_has_registered(ncclComm_t comm, const void *ptr, size_t nbytes);

/* Whether this is a communicator. */
bool comm_valid(ncclComm_t comm);

/* A host function or a job begins. False: the communicator is closed or aborted. */
bool comm_begin(ncclComm_t comm);
/* It ends, and counted as pending or not. */
void comm_end(ncclComm_t comm, bool pending);

/* Each rank gives `nbytes` and gets those of all, by rank. `number` is from comm->nhost. */
ncclResult_t comm_exchange(ncclComm_t comm, uint64_t number, const void *own, void *all,
                           size_t nbytes);

/* Records the text of ncclGetLastError and returns the result. */
ncclResult_t failed(ncclResult_t result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define TRY(call)                                                                                  \
    do {                                                                                           \
        ncclResult_t result_ = (call);                                                             \
        if (result_ != ncclSuccess)                                                                \
            return result_;                                                                        \
    } while (0)

/* Begins a function of NCCL, which has a second name. */
#define ENTRY(type, name)                                                                          \
    extern __typeof__(name) p##name __attribute__((alias(#name)));                                 \
    type name

#endif
