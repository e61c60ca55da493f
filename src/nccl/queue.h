/* The calls between ncclGroupStart() and ncclGroupEnd() of this thread. */
#ifndef SYMM_NCCL_QUEUE_H
#define SYMM_NCCL_QUEUE_H

#include "take.h"

/* How deep this thread is in groups; 0: in none. */
int nccl__group_depth(void);
void nccl__group_enter(void);
/* Returns whether it was the outermost one. */
bool nccl__group_leave(void);

/* Keeps a taken call, or a communicator that begins to attach, until the group ends. */
ncclResult_t nccl__queue_call(const struct nccl_call *call);
ncclResult_t nccl__queue_comm(ncclComm_t *comm);

/*
 * Attaches the communicators, and takes the calls in order. Calls of one communicator on several
 * streams run on the first of them, after the work of all, and all wait for them. wait: until the
 * communicators are attached.
 */
ncclResult_t nccl__queue_run(bool wait);
/* Forgets the calls. */
void nccl__queue_drop(void);

#endif
