/* Reductions of ncclRedOpCreatePreMulSum(): each rank multiplies its elements by its own number. */
#ifndef SYMM_NCCL_SCALES_H
#define SYMM_NCCL_SCALES_H

#include "comm.h"

struct nccl_scale {
    ncclDataType_t type;
    const void *on_device; /* where the number is; NULL: in value */
    char value[8];
};

/* Keeps a reduction that the real library has made. False: no memory. */
bool nccl__scale_add(struct nccl_binding *binding, ncclRedOp_t op, const struct nccl_scale *scale);
/* Does nothing if it is not known. */
void nccl__scale_remove(struct nccl_binding *binding, ncclRedOp_t op);
/* NULL: not known. */
const struct nccl_scale *nccl__scale_find(const struct nccl_binding *binding, ncclRedOp_t op);
void nccl__scales_forget(struct nccl_binding *binding);

#endif
