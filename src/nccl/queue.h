/* The calls between ncclGroupStart() and ncclGroupEnd() of this thread. */
#ifndef SYMM_NCCL_QUEUE_H
#define SYMM_NCCL_QUEUE_H

#include "attach.h"
#include "take.h"
#include "windows.h"

/* How deep this thread is in groups; 0: in none. */
int nccl__group_depth(void);
void nccl__group_enter(void);
/* Returns whether it was the outermost one. */
bool nccl__group_leave(void);

/*
 * Keeps a taken call, a communicator that begins to attach, or a window that is being made, until
 * the group ends.
 */
ncclResult_t nccl__queue_call(const struct nccl_call *call);
ncclResult_t nccl__queue_comm(const struct nccl_comm_request *comm);
ncclResult_t nccl__queue_window(const struct nccl_window_request *window);

/*
 * Attaches the communicators, maps the windows, and takes the calls in order. Calls of one
 * communicator on several streams run on the first of them, after the work of all, and all wait for
 * them. Waits until communicators are attached and windows are mapped, if their calls block.
 */
ncclResult_t nccl__queue_run(void);
/* Forgets all of them. */
void nccl__queue_drop(void);
/* Forgets the calls, the windows and the children of a communicator that ends in the group. */
void nccl__queue_forget(ncclComm_t real);

#endif
