/* Communicators of the real NCCL or of alone.c, with symm's state of each. */
#ifndef SYMM_NCCL_COMM_H
#define SYMM_NCCL_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <symm/symm.h>
#include "abi/nccl.h"

enum nccl_comm_state {
    NCCL_COMM_ATTACHING,
    NCCL_COMM_ATTACHED,
    NCCL_COMM_FORWARDED, /* its ranks do not use symm */
};

enum { NCCL_WHY_BYTES = 256 };

/* The part of a communicator that is symm's. */
struct nccl_binding {
    int rank, nranks;
    bool aborted; /* its calls */
    const struct symm_driver *driver;
    CUdevice device;
    CUcontext context;
    CUcontext before; /* of nccl__binding_enter(): this context was current, */
    int mode;         /* and this was the thread's mode of captures */
    symm_context *symm;
    symm_group *eager, *captured;    /* calls outside of captures, and in captures */
    uint32_t max_blocks;             /* of a call: both libraries' kernels fit the GPU at once */
    CUevent order;                   /* of groups of calls on several streams */
    struct nccl_window *windows;     /* windows.h */
    struct nccl_scale_entry *scales; /* scales.h */
};

struct nccl_comm {
    _Atomic(ncclComm_t) real;
    bool blocking;                /* by its configuration: no call returns ncclInProgress */
    atomic_int state;             /* of enum nccl_comm_state; set by its thread, or by an abort */
    atomic_bool aborting;         /* the thread that attaches it, or maps its windows, gives up */
    atomic_bool in_real;          /* the thread that attaches it is in a call of the real library */
    _Atomic(ncclResult_t) error;  /* that the real library has told that thread */
    struct nccl_binding *binding; /* once it has been ATTACHED */
    struct nccl_comm *next;       /* in the list of communicators without a thread */
    char why[NCCL_WHY_BYTES];     /* it is FORWARDED, or will be; empty: not known yet */
};

/* NULL: not known. Any thread. */
struct nccl_comm *nccl__comm_find(ncclComm_t real);
/* Adds a communicator, whose state is ATTACHING. NULL: out of host memory. */
struct nccl_comm *nccl__comm_add(ncclComm_t real, bool blocking);
/* Forgets it. Waits while it attaches. Another thread may be adding others. */
void nccl__comm_remove(struct nccl_comm *comm);
/* Waits while it attaches, and returns whether symm runs this communicator's calls. */
bool nccl__comm_settle(struct nccl_comm *comm);

/*
 * The end of attaching, or of mapping windows. binding: NULL if it is forwarded. False: it was
 * given up, and is forgotten now; the caller keeps the binding.
 */
bool nccl__comm_end_attach(struct nccl_comm *comm, struct nccl_binding *binding);
/*
 * For an abort: lets its thread give up. Returns whether this forgets the communicator, because it
 * was attaching; its thread ends later, and begins no more calls of the real library.
 */
bool nccl__comm_give_up(struct nccl_comm *comm);

#endif
