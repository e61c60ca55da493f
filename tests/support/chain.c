/* A turn of the chain, captured and replayed. */
#include "chain.h"

#include "kernels.h"

enum { PRODUCE, CONSUME, SPOIL, KERNELS };

struct links {
    struct rank *self;
    const struct chain *chain;
    struct collective call;
    symm_context *ctx;
    symm_group *w;
    symm_stream stream;
    symm_kernel *kernels[KERNELS];
    char *symmetric, *foreign; /* two inputs and an output, each of `nbytes` */
    size_t nbytes;
    char *in[2], *out;
    uint32_t *state; /* turns that have ended, wrong words, words looked at */
    test_chain_args args;
};

static symm_status open_links(struct links *l)
{
    static const char *const names[] = {"test_produce", "test_consume", "test_spoil"};
    struct rank *self = l->self;

    l->nbytes = l->chain->count * 4 * (size_t)self->nranks;
    RANK_TRY(self, rank_join(self, &l->ctx));
    l->w = symm_context_world(l->ctx);
    RANK_TRY(self, symm_stream_create(l->ctx, &l->stream));
    for (int k = 0; k < KERNELS; k++)
        RANK_TRY(self, symm_kernel_load(l->ctx, l->chain->image, names[k], &l->kernels[k]));
    RANK_TRY(self, symm_alloc(l->w, 3 * l->nbytes, (void **)&l->symmetric));
    RANK_TRY(self, symm_device_alloc(l->ctx, 3 * l->nbytes, (void **)&l->foreign));
    RANK_TRY(self, symm_device_alloc(l->ctx, 3 * sizeof *l->state, (void **)&l->state));
    RANK_TRY(self, symm_group_view(l->w, &l->args.view));
    RANK_TRY(self, symm_exchange(l->w, NULL, 0, NULL));
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

static void close_links(struct links *l)
{
    for (int k = 0; k < KERNELS; k++)
        symm_kernel_unload(l->kernels[k]);
    if (l->ctx) {
        symm_device_free(l->ctx, l->foreign);
        symm_device_free(l->ctx, l->state);
    }
    symm_stream_destroy(l->stream);
    symm_context_destroy(l->ctx);
}

static symm_status launch(struct links *l, int kernel, char *data, uint32_t set, uint32_t spin,
                          bool last)
{
    enum { BLOCKS = 2, THREADS = 256 };
    const symm_grid grid = {.blocks = BLOCKS, .threads = THREADS, .flags = SYMM_GRID_PDL};
    const int n = l->self->nranks;
    test_chain_args *a = &l->args;

    a->data = (uint32_t *)(void *)data;
    a->state = l->state;
    a->words = (kernel == CONSUME ? collective_out_nbytes : collective_in_nbytes)(&l->call, n) / 4;
    a->count = l->call.count;
    a->gathers = l->call.operation == ALL_GATHER;
    a->scatters = l->call.operation == REDUCE_SCATTER;
    a->floats = l->call.dtype == SYMM_FLOAT32;
    a->root = l->call.operation == BROADCAST ? l->call.root % n : -1;
    a->set = set;
    a->spin = spin;
    a->last = last;
    return symm_launch(l->w, l->kernels[kernel], &grid, a, sizeof *a, l->stream);
}

static symm_status take_turn(struct links *l)
{
    struct rank *self = l->self;
    const uint32_t spin = l->chain->spin;

    RANK_TRY(self, launch(l, PRODUCE, l->in[1], 1, 0, false));
    RANK_TRY(self, launch(l, PRODUCE, l->in[0], 0, spin, false));
    RANK_TRY(self, collective_call(&l->call, l->w, l->in[0], l->out, l->stream));
    RANK_TRY(self, launch(l, SPOIL, l->in[0], 0, 0, false));
    RANK_TRY(self, launch(l, CONSUME, l->out, 0, spin, false));
    RANK_TRY(self, collective_call(&l->call, l->w, l->in[1], l->out, l->stream));
    RANK_TRY(self, launch(l, CONSUME, l->out, 1, spin, false));
    RANK_TRY(self, launch(l, SPOIL, l->in[1], 1, 0, true));
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

/* All turns of one variant with the data there. */
static symm_status run_variant(struct links *l, char *data)
{
    struct rank *self = l->self;
    const int turns = l->chain->turns;
    const size_t looked = 2 * collective_out_nbytes(&l->call, self->nranks) / 4 * (size_t)turns;
    symm_graph graph = NULL;
    uint32_t state[3] = {0};
    symm_status st = SYMM_ERROR_STATE;

    l->in[0] = data;
    l->in[1] = data + l->nbytes;
    l->out = data + 2 * l->nbytes;
    RANK_TRY(self, symm_fill(l->state, 0, sizeof state, l->stream));
    RANK_TRY(self, symm_graph_begin(l->stream));
    RANK_TRY(self, take_turn(l));
    RANK_TRY(self, symm_graph_end(l->stream, &graph));
    for (int turn = 0; turn < turns; turn++) {
        if (l->chain->eager || turn % 8 == 7)
            RANK_TRY(self, take_turn(l));
        else
            RANK_TRY(self, symm_graph_launch(graph, l->stream));
    }
    RANK_TRY(self, symm_copy(state, l->state, sizeof state, l->stream));
    RANK_TRY(self, symm_synchronize(l->w, l->stream));
    self->report->wrong += state[1];
    CHECK_RANK_MSG(self,
                   state[0] == (uint32_t)turns && state[1] == 0 && state[2] == (uint32_t)looked,
                   "%u turns, %u words wrong of %u: %s, %s memory", state[0], state[1], state[2],
                   collective_text(&l->call), data == l->foreign ? "plain" : "symmetric");
    st = SYMM_OK;
out:
    symm_graph_destroy(graph);
    return st;
}

void chain_run(struct rank *self, void *arg)
{
    const struct chain *chain = arg;
    struct links l = {.self = self, .chain = chain};

    RANK_TRY(self, open_links(&l));
    for (int v = 0; v < chain->nvariants; v++) {
        l.call = (struct collective){
            .operation = chain->variants[v].operation,
            .algo = chain->variants[v].algo,
            .dtype = chain->variants[v].algo == SYMM_ALGO_LAMPORT ? SYMM_FLOAT32 : SYMM_INT32,
            .op = SYMM_SUM,
            .count = chain->count,
            .root = v};
        if (collective_unavailable(&l.call, l.w))
            continue;
        RANK_TRY(self, run_variant(&l, l.symmetric));
        RANK_TRY(self, run_variant(&l, l.foreign));
        self->report->value[0]++;
    }
out:
    close_links(&l);
}
