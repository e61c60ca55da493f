/* NCCL's interface without NCCL, for SYMM_NCCL_LIBRARY=none: communicators of one host. */
#ifndef SYMM_NCCL_ALONE_H
#define SYMM_NCCL_ALONE_H

#include "real.h"

/*
 * Fills in the functions that symm has alone, in the place of the real library's. The collectives
 * among them refuse the calls that symm does not take.
 */
void nccl__alone_fill(struct nccl_real *real);

/* The text of a result. */
const char *nccl__result_text(ncclResult_t result);

/* The session in which the ranks of such a communicator join. */
const char *nccl__alone_session(ncclComm_t comm);

/* Frees a communicator whose ranks did not join. */
void nccl__alone_free(ncclComm_t comm);

#endif
