/*
 * The first layer of a tensor-parallel MLP: h = gelu(all_gather(x) W1 + b1). Each rank has rows of
 * x and columns of W1, and gets its columns of h for all rows. The product takes the rows of the
 * other ranks as they come.
 */
#include <symm/matmul.h>
#include <symm/stream.h>
#include "layer.h"
#include "numbers.h"
#include "try.h"

static symm_tensor matrix(int64_t rows, int64_t columns)
{
    return (symm_tensor){
        .dtype = SYMM_BFLOAT16, .ndim = 2, .shape = {rows, columns}, .strides = {columns, 1}};
}

/* Device memory for it; a rank without rows has an x of no size. */
static symm_status alloc(symm_context *ctx, symm_tensor *t)
{
    const size_t nbytes = sizeof(symm_bf16) * (size_t)(t->shape[0] * t->shape[1]);

    return symm_device_alloc(ctx, nbytes ? nbytes : 1, &t->data);
}

static symm_status copy(symm_tensor to, const void *host, symm_stream s)
{
    return symm_copy(to.data, host, sizeof(symm_bf16) * (size_t)(to.shape[0] * to.shape[1]), s);
}

int main(int argc, char **argv)
{
    enum { STEPS = 3 };
    static const int64_t emulated_sizes[] = {67, 72, 150}, sizes[] = {8192, 4096, 14336};
    static const char *const names[] = {"one rank", "fused", "pipelined", "unfused"};
    symm_status st;
    symm_context *ctx = NULL;
    symm_stream s = NULL;
    symm_matmul *up = NULL;
    layer l = {0};
    uint64_t seed;
    long wrong = -1;

    TRY(symm_context_create(NULL, &ctx));
    symm_group *tp = symm_context_world(ctx);
    const int rank = symm_rank(tp), nranks = symm_nranks(tp);
    /* The emulated driver is for being right, not for being fast: less of everything. */
    const int emulated = strcmp(symm_context_driver(ctx), "emulated") == 0;
    if (layer_create(&l, argc, argv, emulated ? emulated_sizes : sizes, rank, nranks))
        goto out;
    TRY(random_seed(tp, &seed));
    layer_fill_weights(&l, seed);

    /* Collective, once: shapes are compared, memory is allocated, the way is chosen. */
    symm_tensor x = matrix(l.rows.count, l.k), w1 = matrix(l.k, l.columns.count),
                b1 = matrix(1, l.columns.count), h = matrix(l.m, l.columns.count);
    TRY(alloc(ctx, &x));
    TRY(alloc(ctx, &w1));
    TRY(alloc(ctx, &b1));
    TRY(alloc(ctx, &h));
    TRY(symm_stream_create(ctx, &s));
    TRY(symm_matmul_create(tp,
                           &(symm_matmul_desc){.kind = SYMM_ALL_GATHER_MATMUL,
                                               .activation = SYMM_GELU,
                                               .a = x,
                                               .b = {w1},
                                               .bias = {b1},
                                               .d = {h}},
                           &up));
    TRY(copy(w1, l.w1, s));
    TRY(copy(b1, l.b1, s));

    /* Stream-ordered, as often as you like. */
    wrong = 0;
    for (int step = 0; step < STEPS; step++) {
        layer_fill_rows(&l, step);
        TRY(copy(x, l.x, s));
        TRY(symm_matmul_run(up, NULL, s));
        TRY(symm_copy(l.h, h.data, sizeof *l.h * (size_t)(l.m * l.columns.count), s));
        TRY(symm_synchronize(tp, s));
        wrong += layer_count_wrong(&l, step, 32);
    }
    if (wrong)
        fprintf(stderr, "rank %d: %ld elements are wrong (seed %llu)\n", rank, wrong,
                (unsigned long long)seed);
    if (rank == 0)
        printf("%d ranks, [%lld, %lld] by [%lld, %lld], %s: %ld elements are wrong\n", nranks,
               (long long)l.m, (long long)l.k, (long long)l.k, (long long)l.f,
               names[symm_matmul_strategy(up)], wrong);
out:
    symm_matmul_destroy(up);
    layer_destroy(&l);
    if (s)
        symm_stream_destroy(s);
    symm_context_destroy(ctx); /* frees all of its memory */
    return st != SYMM_OK || wrong != 0;
}
