/* Joins the ranks of a communicator to a symm context. */
#ifndef SYMM_NCCL_ATTACH_H
#define SYMM_NCCL_ATTACH_H

#include "comm.h"

/* A communicator that the real NCCL makes. */
struct nccl_comm_request {
    ncclComm_t parent; /* the place is filled in before this nonblocking one is ready; NULL: now */
    ncclComm_t *place;
    bool blocking; /* the communicator, */
    bool waits;    /* and the call that makes it */
};

/*
 * Begins to attach a communicator of the real NCCL, in a thread of its own; the communicator may
 * still be connecting. Its ranks attach together or not at all; if not, a line of the log of rank 0
 * says why. Does nothing for NULL, for a known communicator, and where nothing may be attached.
 */
void nccl__attach(ncclComm_t real, bool blocking);

/*
 * Attaches, in the calling thread, the communicators that got no thread. Call it after all other
 * communicators of the process have begun: their threads may wait for these ranks.
 */
void nccl__attach_rest(void);

/*
 * Waits for a communicator to attach. One that does not is forwarded; without NCCL it is freed, and
 * the result is ncclSystemError.
 */
ncclResult_t nccl__attach_wait(ncclComm_t real);

/*
 * Takes symm's part from a communicator that is about to be destroyed or aborted, and returns it
 * for nccl__binding_retire(). NULL: it has none. aborted: calls that are under way end, as they do
 * in a communicator whose group has ended.
 */
struct nccl_binding *nccl__detach(ncclComm_t real, bool aborted);
/* As nccl__detach() of an aborted one, which goes on: its later calls are forwarded. */
struct nccl_binding *nccl__detach_calls(ncclComm_t real);

#endif
