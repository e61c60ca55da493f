/*
 * Preloaded before symm-bench. SYMM_TEST_WRONG says what it spoils on the last rank of a group: of
 * a collective or a product the "output", the byte "behind" it, or the "input"; "late", the output
 * of each collective but the first one; "last", the lower byte of the last element of a pipelined
 * product, or of an unfused one whose results are collected; "turns", the same in every second run.
 * "stale": all-gathers by another algorithm than the first one leave rank 0's output as it was.
 * "unavailable": no all-reduce runs. The checks of symm-bench must say so.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <symm/collectives.h>
#include <symm/matmul.h>
#include <symm/stream.h>
#include "oracle/element.h"

enum { LEAST = 64, AT = 40, BYTE = 0xfe };

/* Declares `real`: the function of the library that this one stands before. */
#define REAL(function)                                                                             \
    __typeof__(&function) real;                                                                    \
    *(void **)&real = dlsym(RTLD_NEXT, #function)

static size_t element_nbytes(symm_dtype dtype)
{
    return element_by_dtype(dtype)->nbytes;
}

/* After a call of `count` elements a rank; out_nbytes: of the output. */
static symm_status spoil(symm_group *group, const void *in, void *out, size_t count,
                         size_t out_nbytes, symm_stream stream)
{
    const char *what = getenv("SYMM_TEST_WRONG");
    static int calls;

    if (count < LEAST || symm_rank(group) != symm_nranks(group) - 1 || !what)
        return SYMM_OK;
    if (strcmp(what, "output") == 0 || (strcmp(what, "late") == 0 && calls++ > 0))
        return symm_fill((char *)out + AT, BYTE, 4, stream);
    if (strcmp(what, "behind") == 0)
        return symm_fill((char *)out + out_nbytes, BYTE, 1, stream);
    if (strcmp(what, "input") == 0 && in && in != out)
        return symm_fill((char *)(uintptr_t)in + AT, BYTE, 4, stream);
    return SYMM_OK;
}

SYMM_API symm_status symm_all_reduce(symm_group *group, const void *in, void *out, size_t count,
                                     symm_dtype dtype, symm_redop op, const symm_options *options,
                                     symm_stream stream)
{
    REAL(symm_all_reduce);
    symm_status st = real(group, in, out, count, dtype, op, options, stream);

    return st == SYMM_OK ? spoil(group, in, out, count, count * element_nbytes(dtype), stream) : st;
}

SYMM_API symm_status symm_reduce_scatter(symm_group *group, const void *in, void *out, size_t count,
                                         symm_dtype dtype, symm_redop op,
                                         const symm_options *options, symm_stream stream)
{
    REAL(symm_reduce_scatter);
    symm_status st = real(group, in, out, count, dtype, op, options, stream);

    return st == SYMM_OK ? spoil(group, in, out, count, count * element_nbytes(dtype), stream) : st;
}

/* Whether "stale" spoils a call on this rank. */
static bool is_stale(symm_group *group, const symm_options *options)
{
    const char *what = getenv("SYMM_TEST_WRONG");
    static symm_algo first = SYMM_ALGO_AUTO;

    if (!what || strcmp(what, "stale") != 0)
        return false;
    if (first == SYMM_ALGO_AUTO)
        first = options->algo;
    return symm_rank(group) == 0 && options->algo != first;
}

/* Keeps the output of a call, and brings it back behind the call. */
static symm_status keep(void *out, size_t nbytes, bool back, symm_stream stream)
{
    static char kept[1 << 16];

    if (nbytes > sizeof kept)
        return SYMM_ERROR_ARGUMENT;
    return back ? symm_copy(out, kept, nbytes, stream) : symm_copy(kept, out, nbytes, stream);
}

SYMM_API symm_status symm_all_gather(symm_group *group, const void *in, void *out, size_t count,
                                     symm_dtype dtype, const symm_options *options,
                                     symm_stream stream)
{
    REAL(symm_all_gather);
    const size_t out_nbytes = (size_t)symm_nranks(group) * count * element_nbytes(dtype);
    const bool stale = is_stale(group, options);
    symm_status st = stale ? keep(out, out_nbytes, false, stream) : SYMM_OK;

    if (st == SYMM_OK)
        st = real(group, in, out, count, dtype, options, stream);
    if (stale && st == SYMM_OK)
        st = keep(out, out_nbytes, true, stream);
    return st == SYMM_OK ? spoil(group, in, out, count, out_nbytes, stream) : st;
}

SYMM_API symm_status symm_broadcast(symm_group *group, const void *in, void *out, size_t count,
                                    symm_dtype dtype, int root, const symm_options *options,
                                    symm_stream stream)
{
    REAL(symm_broadcast);
    symm_status st = real(group, in, out, count, dtype, root, options, stream);

    return st == SYMM_OK ? spoil(group, in, out, count, count * element_nbytes(dtype), stream) : st;
}

/* No algorithm runs. */
SYMM_API const char *symm_all_reduce_unavailable(symm_group *group, symm_algo algo,
                                                 symm_dtype dtype, symm_redop op)
{
    REAL(symm_all_reduce_unavailable);
    const char *what = getenv("SYMM_TEST_WRONG");

    return what && strcmp(what, "unavailable") == 0 ? "by SYMM_TEST_WRONG"
                                                    : real(group, algo, dtype, op);
}

/* What has been created, and whose it is. */
enum { MAX_PRODUCTS = 64 };
static struct product {
    symm_matmul *made;
    symm_group *group;
    symm_matmul_desc desc;
} products[MAX_PRODUCTS];
static int nproducts;

SYMM_API symm_status symm_matmul_create(symm_group *group, const symm_matmul_desc *desc,
                                        symm_matmul **out)
{
    REAL(symm_matmul_create);
    symm_status st = real(group, desc, out);

    if (st == SYMM_OK && nproducts < MAX_PRODUCTS)
        products[nproducts++] = (struct product){*out, group, *desc};
    return st;
}

static const struct product *find(const symm_matmul *m)
{
    const struct product *p = products + nproducts;

    while (p > products && p[-1].made != m)
        p--;
    return p > products ? p - 1 : NULL;
}

/* Whether "last" and "turns" spoil it. */
static bool is_chosen(const symm_matmul_desc *desc)
{
    return desc->strategy ==
           (desc->kind == SYMM_ALL_GATHER_MATMUL ? SYMM_STRATEGY_PIPELINED : SYMM_STRATEGY_UNFUSED);
}

SYMM_API symm_status symm_matmul_run(symm_matmul *m, const symm_matmul_args *args,
                                     symm_stream stream)
{
    REAL(symm_matmul_run);
    const struct product *p = find(m);
    const char *what = getenv("SYMM_TEST_WRONG");
    symm_status st = real(m, args, stream);

    if (st != SYMM_OK || !p || !what || symm_rank(p->group) != symm_nranks(p->group) - 1)
        return st;
    const symm_tensor *d = &p->desc.d[0];
    const size_t count = (size_t)(d->shape[0] * d->shape[1] * d->shape[2]);
    char *out = d->data;
    static int runs;

    if (strcmp(what, "output") == 0)
        return symm_fill(out + AT, BYTE, 4, stream);
    if (strcmp(what, "behind") == 0)
        return symm_fill(out + count * element_nbytes(d->dtype), BYTE, 1, stream);
    if (strcmp(what, "input") == 0)
        return symm_fill(p->desc.b[0].data, BYTE, 2, stream);
    if (is_chosen(&p->desc) &&
        (strcmp(what, "last") == 0 || (strcmp(what, "turns") == 0 && runs++ % 2)))
        return symm_fill(out + count * element_nbytes(d->dtype) - 2, 0, 1, stream);
    return st;
}
