/*
 * Children of nonblocking communicators. The real library fills in a child's handle at any time
 * until its parent is ready, and each rank begins to attach it when it asks for the error of any
 * communicator after that. The parent is ready when its children have attached.
 */
#ifndef SYMM_NCCL_CHILDREN_H
#define SYMM_NCCL_CHILDREN_H

#include <stdbool.h>
#include "attach.h"

/* The place is valid until the parent is ready. Errors: ncclSystemError, out of host memory. */
ncclResult_t nccl__children_add(const struct nccl_comm_request *child);

/*
 * Begins to attach all children whose handles are filled in, since a thread may ask for the error
 * of one communicator until that is ready, and its ranks wait for children of another.
 */
void nccl__children_begin(void);

/*
 * After the real library has found a communicator ready, which has filled in all handles of its
 * children: begins to attach them. Returns whether none is attaching.
 */
bool nccl__children_ready(ncclComm_t parent);

/* Forgets the children of a communicator that has failed or ends. */
void nccl__children_forget(ncclComm_t parent);

#endif
