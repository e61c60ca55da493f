/*
 * Preloaded before symm-bench, as SYMM_TEST_WRONG says: spoils an output, the byte behind it, or
 * the input of the last rank of a group. What checks results must say so.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <symm/collectives.h>
#include <symm/stream.h>

enum { LEAST = 64, AT = 40, BYTE = 0xfe };

SYMM_API symm_status symm_all_reduce(symm_group *group, const void *in, void *out, size_t count,
                                     symm_dtype dtype, symm_redop op, const symm_options *options,
                                     symm_stream stream)
{
    union {
        void *symbol;
        symm_status (*call)(symm_group *, const void *, void *, size_t, symm_dtype, symm_redop,
                            const symm_options *, symm_stream);
    } real = {.symbol = dlsym(RTLD_NEXT, "symm_all_reduce")};
    const size_t nbytes = count * (dtype == SYMM_FLOAT32 ? 4 : 2);
    const char *what = getenv("SYMM_TEST_WRONG");
    symm_status st = real.call(group, in, out, count, dtype, op, options, stream);

    if (st != SYMM_OK || count < LEAST || symm_rank(group) != symm_nranks(group) - 1 || !what)
        return st;
    if (strcmp(what, "output") == 0)
        return symm_fill((char *)out + AT, BYTE, 4, stream);
    if (strcmp(what, "behind") == 0)
        return symm_fill((char *)out + nbytes, BYTE, 1, stream);
    return in == out ? SYMM_OK : symm_fill((char *)(uintptr_t)in + AT, BYTE, 4, stream);
}
