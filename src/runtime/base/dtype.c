/* The tables of sizes and names. */
#include "dtype.h"

size_t symm__dtype_size(symm_dtype dtype)
{
    switch (dtype) {
    case SYMM_FLOAT64:
    case SYMM_INT64:
        return 8;
    case SYMM_FLOAT32:
    case SYMM_INT32:
        return 4;
    case SYMM_FLOAT16:
    case SYMM_BFLOAT16:
        return 2;
    case SYMM_UINT8:
    case SYMM_FLOAT8_E4M3:
    case SYMM_FLOAT8_E5M2:
        return 1;
    }
    return 0;
}

const char *symm__dtype_name(symm_dtype dtype)
{
    static const char *const names[] = {
        [SYMM_FLOAT32] = "float32",
        [SYMM_FLOAT16] = "float16",
        [SYMM_BFLOAT16] = "bfloat16",
        [SYMM_FLOAT64] = "float64",
        [SYMM_INT32] = "int32",
        [SYMM_INT64] = "int64",
        [SYMM_UINT8] = "uint8",
        [SYMM_FLOAT8_E4M3] = "float8_e4m3",
        [SYMM_FLOAT8_E5M2] = "float8_e5m2",
    };
    return (unsigned)dtype < sizeof names / sizeof names[0] ? names[dtype] : NULL;
}
