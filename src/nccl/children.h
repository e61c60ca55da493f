/*
 * Children of nonblocking communicators. The real library fills in a child's handle at any time
 * until its parent is ready, so all ranks begin to attach it when they find their parent ready.
 */
#ifndef SYMM_NCCL_CHILDREN_H
#define SYMM_NCCL_CHILDREN_H

#include <stdbool.h>
#include "attach.h"

/* The place is valid until the parent is ready. Errors: ncclSystemError, out of host memory. */
ncclResult_t nccl__children_add(const struct nccl_comm_request *child);

/*
 * After the real library has found a communicator ready: begins to attach its children. Returns
 * whether none is attaching.
 */
bool nccl__children_ready(ncclComm_t parent);

/* Forgets the children of a communicator that has failed or ends. */
void nccl__children_forget(ncclComm_t parent);

#endif
