#include "error.h"

#include <stdio.h>
#include <symm/symm.h>
#include "real.h"

static _Thread_local char text[512];

static ncclResult_t result_of(symm_status status)
{
    switch (status) {
    case SYMM_OK:
        return ncclSuccess;
    case SYMM_ERROR_ARGUMENT:
        return ncclInvalidArgument;
    case SYMM_ERROR_MISMATCH:
        return ncclInvalidUsage;
    case SYMM_ERROR_PEER:
    case SYMM_ERROR_TIMEOUT:
        return ncclRemoteError;
    case SYMM_ERROR_DRIVER:
        return ncclUnhandledCudaError;
    case SYMM_ERROR_SYSTEM:
    case SYMM_ERROR_MEMORY:
        return ncclSystemError;
    default:
        return ncclInternalError;
    }
}

ncclResult_t nccl__result(symm_status status)
{
    if (status != SYMM_OK)
        snprintf(text, sizeof text, "symm: %s", symm_error_text());
    return result_of(status);
}

ncclResult_t nccl__lacks(const char *name)
{
    const char *missing = nccl__real()->missing;

    if (missing)
        snprintf(text, sizeof text, "symm: %s: %s", name, missing);
    else
        snprintf(text, sizeof text, "symm: %s has no %s", nccl__real()->path, name);
    return ncclInvalidUsage;
}

const char *nccl__error_text(void)
{
    return text[0] ? text : NULL;
}

void nccl__error_forget(void)
{
    text[0] = 0;
}
