#include "values.h"

#include <string.h>
#include "oracle/element.h"

static const struct {
    size_t size;
    symm_dtype real; /* as the oracle knows it; 0: not a floating type */
    bool has_sign, moved_only;
} types[ncclNumTypes] = {
    [ncclInt8] = {1, 0, true, false},
    [ncclUint8] = {1, 0, false, false},
    [ncclInt32] = {4, 0, true, false},
    [ncclUint32] = {4, 0, false, false},
    [ncclInt64] = {8, 0, true, false},
    [ncclUint64] = {8, 0, false, false},
    [ncclFloat16] = {2, SYMM_FLOAT16, true, false},
    [ncclFloat32] = {4, SYMM_FLOAT32, true, false},
    [ncclFloat64] = {8, SYMM_FLOAT64, true, false},
    [ncclBfloat16] = {2, SYMM_BFLOAT16, true, false},
    [ncclFloat8e4m3] = {1, 0, true, true},
    [ncclFloat8e5m2] = {1, 0, true, true},
};

size_t values_size(ncclDataType_t type)
{
    return types[type].size;
}

bool values_reduced(ncclDataType_t type)
{
    return !types[type].moved_only;
}

void values_load(ncclDataType_t type, const void *in, union value *out, size_t n)
{
    size_t size = types[type].size;
    if (types[type].real) {
        element_widen(element_by_dtype(types[type].real), in, (union element_number *)out, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        unsigned shift = (unsigned)(64 - 8 * size);
        out[i].natural = 0;
        memcpy(&out[i], (const char *)in + i * size, size);
        out[i].natural <<= shift;
        if (types[type].has_sign)
            out[i].whole >>= shift;
        else
            out[i].natural >>= shift;
    }
}

void values_store(ncclDataType_t type, const union value *in, void *out, size_t n)
{
    size_t size = types[type].size;
    if (types[type].real)
        element_narrow(element_by_dtype(types[type].real), (const union element_number *)in, out,
                       n);
    else
        for (size_t i = 0; i < n; i++)
            memcpy((char *)out + i * size, &in[i], size);
}

/* Whether a < b. */
static bool less(ncclDataType_t type, union value a, union value b)
{
    if (types[type].real)
        return a.real < b.real;
    return types[type].has_sign ? a.whole < b.whole : a.natural < b.natural;
}

static union value combine(ncclDataType_t type, ncclRedOp_t op, union value a, union value b)
{
    bool real = types[type].real;
    if (op == ncclMin || op == ncclMax)
        return less(type, a, b) == (op == ncclMin) ? a : b;
    if (op == ncclProd)
        return real ? (union value){.real = a.real * b.real}
                    : (union value){.natural = a.natural * b.natural};
    return real ? (union value){.real = a.real + b.real}
                : (union value){.natural = a.natural + b.natural};
}

void values_reduce(ncclDataType_t type, ncclRedOp_t op, union value *sum, const union value *x,
                   size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] = combine(type, op, sum[i], x[i]);
}

void values_average(ncclDataType_t type, union value *sum, size_t n, int nranks)
{
    for (size_t i = 0; i < n; i++)
        if (types[type].real)
            sum[i].real /= nranks;
        else if (types[type].has_sign)
            sum[i].whole /= nranks;
        else
            sum[i].natural /= (unsigned)nranks;
}

void values_scale(ncclDataType_t type, union value *values, size_t n, union value factor)
{
    for (size_t i = 0; i < n; i++)
        values[i] = combine(type, ncclProd, values[i], factor);
}
