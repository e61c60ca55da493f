/* Results of symm as results of NCCL. */
#ifndef SYMM_NCCL_ERROR_H
#define SYMM_NCCL_ERROR_H

#include <symm/types.h>
#include "abi/nccl.h"

/* The result for a status; after a failure, ncclGetLastError() returns symm's text. */
ncclResult_t nccl__result(symm_status status);
/* Keeps a text for ncclGetLastError(), with "symm: " before it, and returns the result. */
__attribute__((format(printf, 2, 3))) ncclResult_t nccl__fail(ncclResult_t result, const char *fmt,
                                                              ...);
/* This thread's last failure of symm; NULL: none since the last forgetting. */
const char *nccl__error_text(void);
void nccl__error_forget(void);

#endif
