#include "error.h"

#include <stdarg.h>
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
    const ncclResult_t result = result_of(status);

    return status == SYMM_OK ? result : nccl__fail(result, "%s", symm_error_text());
}

ncclResult_t nccl__fail(ncclResult_t result, const char *fmt, ...)
{
    va_list args;
    const int n = snprintf(text, sizeof text, "symm: ");

    va_start(args, fmt);
    vsnprintf(text + n, sizeof text - (size_t)n, fmt, args);
    va_end(args);
    return result;
}

ncclResult_t nccl__lacks(const char *name)
{
    const struct nccl_real *real = nccl__real();

    if (real->missing)
        return nccl__fail(ncclInvalidUsage, "%s: %s", name, real->missing);
    if (real->alone)
        return nccl__fail(ncclInvalidUsage,
                          "%s: symm has none, and there is no NCCL "
                          "(SYMM_NCCL_LIBRARY=none)",
                          name);
    return nccl__fail(ncclInvalidUsage, "%s has no %s", real->path, name);
}

const char *nccl__error_text(void)
{
    return text[0] ? text : NULL;
}

void nccl__error_forget(void)
{
    text[0] = 0;
}
