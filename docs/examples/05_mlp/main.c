/*
 * A tensor-parallel MLP: h = gelu(all_gather(x) W1 + b1), y = reduce_scatter(h W2). Each rank has
 * rows of x and y, columns of W1 and rows of W2. Both products are captured in one graph; the first
 * one uses the rows of the other ranks as they arrive. The unfused form is enqueued beside it.
 */
#include <symm/matmul.h>
#include <symm/stream.h>
#include "layer.h"
#include "numbers.h"
#include "try.h"

/* The tensors on the device. */
typedef struct tensors {
    symm_tensor x, w1, b1, h, w2, y;
} tensors;

/* Both products, by one strategy. */
typedef struct mlp {
    symm_matmul *up, *down;
} mlp;

static symm_tensor matrix(int64_t rows, int64_t columns)
{
    return (symm_tensor){
        .dtype = SYMM_BFLOAT16, .ndim = 2, .shape = {rows, columns}, .strides = {columns, 1}};
}

static size_t nbytes_of(const symm_tensor *t)
{
    return sizeof(symm_bf16) * (size_t)(t->shape[0] * t->shape[1]);
}

/* Device memory for all of them; a rank without rows has an x and a y of no size. */
static symm_status alloc(symm_context *ctx, const layer *l, tensors *t)
{
    symm_tensor *const all[] = {&t->x, &t->w1, &t->b1, &t->h, &t->w2, &t->y};
    symm_status st = SYMM_OK;

    *t = (tensors){.x = matrix(l->rows.count, l->k),
                   .w1 = matrix(l->k, l->columns.count),
                   .b1 = matrix(1, l->columns.count),
                   .h = matrix(l->m, l->columns.count),
                   .w2 = matrix(l->columns.count, l->k),
                   .y = matrix(l->rows.count, l->k)};
    for (size_t i = 0; i < sizeof all / sizeof *all && st == SYMM_OK; i++)
        st = symm_device_alloc(ctx, nbytes_of(all[i]) + 1, &all[i]->data);
    return st;
}

static symm_status send_weights(const layer *l, const tensors *t, symm_stream s)
{
    symm_status st;

    TRY(symm_copy(t->w1.data, l->w1, nbytes_of(&t->w1), s));
    TRY(symm_copy(t->b1.data, l->b1, nbytes_of(&t->b1), s));
    TRY(symm_copy(t->w2.data, l->w2, nbytes_of(&t->w2), s));
out:
    return st;
}

/* Collective, once: shapes are compared, memory is allocated, the strategy is chosen. */
static symm_status create(symm_group *tp, const tensors *t, symm_strategy strategy, mlp *out)
{
    symm_status st = symm_matmul_create(tp,
                                        &(symm_matmul_desc){.kind = SYMM_ALL_GATHER_MATMUL,
                                                            .strategy = strategy,
                                                            .activation = SYMM_GELU,
                                                            .a = t->x,
                                                            .b = {t->w1},
                                                            .bias = {t->b1},
                                                            .d = {t->h}},
                                        &out->up);

    if (st != SYMM_OK)
        return st;
    return symm_matmul_create(tp,
                              &(symm_matmul_desc){.kind = SYMM_MATMUL_REDUCE_SCATTER,
                                                  .strategy = strategy,
                                                  .a = t->h,
                                                  .b = {t->w2},
                                                  .d = {t->y}},
                              &out->down);
}

static void destroy(mlp *m)
{
    symm_matmul_destroy(m->up);
    symm_matmul_destroy(m->down);
}

/* Stream-ordered. */
static symm_status run(const mlp *m, symm_stream s)
{
    const symm_status st = symm_matmul_run(m->up, NULL, s);

    return st == SYMM_OK ? symm_matmul_run(m->down, NULL, s) : st;
}

static symm_status capture(const mlp *m, symm_stream s, symm_graph *out)
{
    symm_status st = symm_graph_begin(s), end;

    if (st != SYMM_OK)
        return st;
    st = run(m, s);
    end = symm_graph_end(s, out);
    return st == SYMM_OK ? end : st;
}

/* Copies the results to the host, and counts wrong elements. */
static symm_status look(layer *l, const tensors *t, symm_group *tp, int step, symm_stream s,
                        long *wrong)
{
    symm_status st;

    TRY(symm_copy(l->h, t->h.data, nbytes_of(&t->h), s));
    TRY(symm_copy(l->y, t->y.data, nbytes_of(&t->y), s));
    TRY(symm_synchronize(tp, s));
    st = layer_count_wrong(l, tp, step, 32, wrong);
out:
    return st;
}

int main(int argc, char **argv)
{
    enum { STEPS = 4 };
    static const int64_t emulated_sizes[] = {67, 72, 150}, sizes[] = {8192, 4096, 14336};
    static const char *const names[] = {"one rank", "fused", "pipelined", "unfused"};
    symm_status st;
    symm_context *ctx = NULL;
    symm_stream s = NULL;
    symm_graph graph = NULL;
    mlp fast = {0}, unfused = {0};
    layer l = {0};
    tensors t;
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
    TRY(alloc(ctx, &l, &t));
    TRY(symm_stream_create(ctx, &s));
    TRY(create(tp, &t, SYMM_STRATEGY_AUTO, &fast));
    TRY(create(tp, &t, SYMM_STRATEGY_UNFUSED, &unfused));
    TRY(send_weights(&l, &t, s));
    TRY(capture(&fast, s, &graph));

    wrong = 0;
    for (int step = 0; step < STEPS; step++) {
        layer_fill_rows(&l, step);
        TRY(symm_copy(t.x.data, l.x, nbytes_of(&t.x), s));
        if (step % 2 == 0)
            TRY(symm_graph_launch(graph, s));
        else
            TRY(run(&unfused, s));
        TRY(look(&l, &t, tp, step, s, &wrong));
    }
    if (wrong)
        fprintf(stderr, "rank %d: %ld elements are wrong (seed %llu)\n", rank, wrong,
                (unsigned long long)seed);
    if (rank == 0)
        printf("%d ranks, [%lld, %lld] by [%lld, %lld], %s, then [%lld, %lld], %s: %ld elements "
               "are wrong\n",
               nranks, (long long)l.m, (long long)l.k, (long long)l.k, (long long)l.f,
               names[symm_matmul_strategy(fast.up)], (long long)l.f, (long long)l.k,
               names[symm_matmul_strategy(fast.down)], wrong);
out:
    symm_graph_destroy(graph);
    destroy(&fast);
    destroy(&unfused);
    layer_destroy(&l);
    if (s)
        symm_stream_destroy(s);
    symm_context_destroy(ctx); /* frees all of its memory */
    return st != SYMM_OK || wrong != 0;
}
