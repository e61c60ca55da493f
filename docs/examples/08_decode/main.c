/*
 * A decode step of a tensor-parallel model, as one graph. A layer is
 *
 *     residual, h = residual + all_reduce(gelu(h W1) W2), and the RMS norm of that
 *
 * Each rank has columns of W1 and rows of W2. Its two products are local; one call adds the partial
 * sums of the ranks, the residual and the norm. Each step replays the graph with new tokens.
 */
#include <symm/collectives.h>
#include <symm/matmul.h>
#include <symm/stream.h>
#include "model.h"
#include "numbers.h"
#include "try.h"

/* The tensors on the device, and both products: the same for all layers. */
typedef struct device {
    weights layer[LAYERS];
    state states[LAYERS + 1];
    symm_bf16 *u, *partial; /* [tokens, columns], [tokens, hidden] */
    symm_matmul *up, *down;
} device;

static symm_status alloc(symm_context *ctx, int64_t rows, int64_t columns, symm_bf16 **out)
{
    void *data = NULL;
    const symm_status st = symm_device_alloc(ctx, sizeof **out * (size_t)(rows * columns), &data);

    *out = data;
    return st;
}

static symm_status alloc_all(symm_context *ctx, const model *m, device *d)
{
    symm_status st;

    for (int l = 0; l < LAYERS; l++) {
        TRY(alloc(ctx, m->hidden, m->columns, &d->layer[l].w1));
        TRY(alloc(ctx, m->columns, m->hidden, &d->layer[l].w2));
        TRY(alloc(ctx, 1, m->hidden, &d->layer[l].gain));
    }
    for (int l = 0; l <= LAYERS; l++) {
        TRY(alloc(ctx, m->tokens, m->hidden, &d->states[l].residual));
        TRY(alloc(ctx, m->tokens, m->hidden, &d->states[l].h));
    }
    TRY(alloc(ctx, m->tokens, m->columns, &d->u));
    TRY(alloc(ctx, m->tokens, m->hidden, &d->partial));
out:
    return st;
}

/* Without data: a run names its matrices. */
static symm_tensor matrix(int64_t rows, int64_t columns)
{
    return (symm_tensor){
        .dtype = SYMM_BFLOAT16, .ndim = 2, .shape = {rows, columns}, .strides = {columns, 1}};
}

static symm_status create_products(symm_group *tp, const model *m, device *d)
{
    symm_status st;

    TRY(symm_matmul_create(tp,
                           &(symm_matmul_desc){.kind = SYMM_MATMUL,
                                               .activation = SYMM_GELU,
                                               .a = matrix(m->tokens, m->hidden),
                                               .b = {matrix(m->hidden, m->columns)},
                                               .d = {matrix(m->tokens, m->columns)}},
                           &d->up));
    TRY(symm_matmul_create(tp,
                           &(symm_matmul_desc){.kind = SYMM_MATMUL,
                                               .a = matrix(m->tokens, m->columns),
                                               .b = {matrix(m->columns, m->hidden)},
                                               .d = {matrix(m->tokens, m->hidden)}},
                           &d->down));
out:
    return st;
}

/* Stream-ordered: from states[l] to states[l + 1]. */
static symm_status run_layer(symm_group *tp, const model *m, const device *d, int l, symm_stream s)
{
    const state *before = &d->states[l], *after = &d->states[l + 1];
    const weights *w = &d->layer[l];
    symm_status st;

    TRY(symm_matmul_run(d->up, &(symm_matmul_args){.a = before->h, .b = {w->w1}, .d = {d->u}}, s));
    TRY(symm_matmul_run(d->down, &(symm_matmul_args){.a = d->u, .b = {w->w2}, .d = {d->partial}},
                        s));
    TRY(symm_all_reduce_rms_norm(tp,
                                 &(symm_rms_norm){.in = d->partial,
                                                  .residual = before->residual,
                                                  .weight = w->gain,
                                                  .out = after->h,
                                                  .residual_out = after->residual,
                                                  .rows = (size_t)m->tokens,
                                                  .hidden = (size_t)m->hidden,
                                                  .eps = m->eps},
                                 SYMM_BFLOAT16, NULL, s));
out:
    return st;
}

static symm_status capture(symm_group *tp, const model *m, const device *d, symm_stream s,
                           symm_graph *out)
{
    symm_status st = symm_graph_begin(s);

    if (st != SYMM_OK)
        return st;
    for (int l = 0; st == SYMM_OK && l < LAYERS; l++)
        st = run_layer(tp, m, d, l, s);
    const symm_status end = symm_graph_end(s, out);
    return st == SYMM_OK ? end : st;
}

static symm_status send_weights(const model *m, const device *d, symm_stream s)
{
    const size_t nbytes = sizeof(symm_bf16) * (size_t)(m->hidden * m->columns);
    symm_status st;

    for (int l = 0; l < LAYERS; l++) {
        const weights *from = &m->layer[l], *to = &d->layer[l];
        TRY(symm_copy(to->w1, from->w1, nbytes, s));
        TRY(symm_copy(to->w2, from->w2, nbytes, s));
        TRY(symm_copy(to->gain, from->gain, sizeof(symm_bf16) * (size_t)m->hidden, s));
    }
out:
    return st;
}

/* One step: sends the tokens, replays the graph, and fetches all states. */
static symm_status step(symm_group *tp, model *m, const device *d, symm_graph graph, symm_stream s)
{
    const size_t nbytes = sizeof(symm_bf16) * (size_t)(m->tokens * m->hidden);
    symm_status st;

    TRY(symm_copy(d->states[0].residual, m->states[0].residual, nbytes, s));
    TRY(symm_copy(d->states[0].h, m->states[0].h, nbytes, s));
    TRY(symm_graph_launch(graph, s));
    for (int l = 1; l <= LAYERS; l++) {
        TRY(symm_copy(m->states[l].residual, d->states[l].residual, nbytes, s));
        TRY(symm_copy(m->states[l].h, d->states[l].h, nbytes, s));
    }
    TRY(symm_synchronize(tp, s));
out:
    return st;
}

int main(int argc, char **argv)
{
    enum { STEPS = 3 };
    static const int64_t emulated_sizes[] = {5, 72, 40}, sizes[] = {16, 4096, 7168};
    symm_status st;
    symm_context *ctx = NULL;
    symm_stream s = NULL;
    symm_graph graph = NULL;
    model m = {0};
    device d = {0};
    uint64_t seed;
    long wrong = -1;

    TRY(symm_context_create(NULL, &ctx));
    symm_group *tp = symm_context_world(ctx);
    /* The emulated driver is for being right, not for being fast: less of everything. */
    const int emulated = strcmp(symm_context_driver(ctx), "emulated") == 0;
    if (model_create(&m, argc, argv, emulated ? emulated_sizes : sizes, symm_rank(tp),
                     symm_nranks(tp)))
        goto out;
    TRY(random_seed(tp, &seed));
    model_fill_weights(&m, seed);
    TRY(alloc_all(ctx, &m, &d));
    TRY(symm_stream_create(ctx, &s));
    TRY(create_products(tp, &m, &d));
    TRY(send_weights(&m, &d, s));
    TRY(capture(tp, &m, &d, s, &graph));

    wrong = 0;
    for (int i = 0; i < STEPS; i++) {
        model_fill_tokens(&m, i);
        TRY(step(tp, &m, &d, graph, s));
        TRY(model_count_wrong(&m, tp, (int64_t)(seed % (uint64_t)m.tokens), &wrong));
    }
    if (wrong)
        fprintf(stderr, "rank %d: %ld elements are wrong (seed %llu)\n", m.rank, wrong,
                (unsigned long long)seed);
    if (m.rank == 0)
        printf("%d ranks, %d layers, %lld tokens of %lld, %d steps: %ld elements are wrong\n",
               m.nranks, LAYERS, (long long)m.tokens, (long long)m.hidden, STEPS, wrong);
out:
    symm_graph_destroy(graph);
    symm_matmul_destroy(d.up);
    symm_matmul_destroy(d.down);
    model_destroy(&m);
    if (s)
        symm_stream_destroy(s);
    symm_context_destroy(ctx); /* frees all of its memory */
    return st != SYMM_OK || wrong != 0;
}
