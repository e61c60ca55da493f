/*
 * All-reduces with residual and norm, of rows of other lengths each time, and between them other
 * collectives through the same slots. Nothing but the calls keeps the ranks together.
 */
#include "norms.h"

#include "calls.h"

#define OK(call) stage_ok(st, (call), #call)

enum {
    TENSOR_NBYTES = 2048, /* the most of a tensor, and its offset */
    ROWS_MAX = 12,
    HIDDEN_MAX = 128,
    SHARED_MIN = 257, /* of a row of two warps, which the blocks of a cluster may share */
    TURN = 64         /* numbers of ranks apart */
};

struct norms {
    symm_rms_norm norm;
    symm_dtype dtype;
    symm_options options;
    struct call between; /* a reduction by packets, or by lamport */
    uint32_t rounds;
};

static bool data(struct stage *st, const struct norms *c, enum proof_deed deed, const void *x,
                 size_t count, int from, int ranks)
{
    return stage_data(st, deed, (void *)(uintptr_t)x, 0, count, c->dtype, from, ranks, SYMM_SUM);
}

/* The residual is that of one rank more; the weight that of another one. */
static bool enqueue_norm(struct stage *st, const struct norms *c, const symm_rms_norm *norm,
                         int first)
{
    const int n = st->self->nranks;
    const size_t count = norm->rows * norm->hidden;

    return data(st, c, PROOF_SPOIL, norm->out, count, 0, 0) &&
           data(st, c, PROOF_SPOIL, norm->residual_out, count, 0, 0) &&
           data(st, c, PROOF_FILL, norm->in, count, first + st->self->rank, 1) &&
           data(st, c, PROOF_FILL, norm->residual, count, first + n, 1) &&
           data(st, c, PROOF_FILL, norm->weight, norm->hidden, first + n + 1, 1) &&
           OK(symm_all_reduce_rms_norm(st->group, norm, c->dtype, &c->options, st->stream)) &&
           (norm->in == norm->out || data(st, c, PROOF_SPOIL, norm->in, count, 0, 0)) &&
           (norm->residual == norm->residual_out ||
            data(st, c, PROOF_SPOIL, norm->residual, count, 0, 0)) &&
           data(st, c, PROOF_SPOIL, norm->weight, norm->hidden, 0, 0) &&
           data(st, c, PROOF_CHECK, norm->residual_out, count, first, n + 1) &&
           stage_norm(st, norm->out, norm->rows, norm->hidden, c->dtype, first, n + 1);
}

static bool enqueue_norms(struct stage *st, void *arg)
{
    const struct norms *c = arg;

    for (uint32_t round = 0; round < c->rounds; round++) {
        symm_rms_norm norm = c->norm;

        norm.rows -= round * (norm.rows / 4);
        norm.hidden -= round * (norm.hidden / 4);
        if (!enqueue_norm(st, c, &norm, TURN * (int)round) ||
            !calls_enqueue(st, &c->between, c->between.count, (int)round + 4))
            return false;
    }
    return true;
}

/* A tensor in symmetric memory or not, at any element. */
static void *place(const struct stage *st, struct draw *draw, int tensor)
{
    char *const base = draw_below(draw, 3) ? st->data : st->own;

    return base + tensor * TENSOR_NBYTES + 2 * (draw_below(draw, 2) ? draw_below(draw, 16) : 0);
}

static struct norms draw_norms(struct stage *st, const struct protocol *p, struct draw *draw)
{
    const uint32_t least = p->wide ? SHARED_MIN : 1,
                   most = p->wide               ? STAGE_COUNT
                          : draw_below(draw, 2) ? HIDDEN_MAX
                                                : HIDDEN_MAX / 8,
                   hidden = least + draw_below(draw, most + 1 - least),
                   rows = 1 + draw_below(draw, ROWS_MAX), fit = STAGE_COUNT / hidden;
    struct norms c = {
        .norm = {.in = place(st, draw, 0),
                 .residual = place(st, draw, 1),
                 .weight = place(st, draw, 2),
                 .out = place(st, draw, 3),
                 .residual_out = place(st, draw, 4),
                 .rows = rows < fit ? rows : fit,
                 .hidden = hidden,
                 .eps = 1},
        .dtype = draw_below(draw, 2) ? SYMM_FLOAT16 : SYMM_BFLOAT16,
        .options = {.algo = (symm_algo)p->algo, .max_blocks = draw_below(draw, 4)},
        .between = calls_draw_collective(
            st, &protocols[protocols_find("low_latency") + (int)draw_below(draw, 3)], draw),
        .rounds = 1 + draw_below(draw, 3),
    };

    if (draw_below(draw, 3) == 0)
        c.norm.out = (void *)(uintptr_t)c.norm.in;
    if (draw_below(draw, 3) == 0)
        c.norm.residual_out = (void *)(uintptr_t)c.norm.residual;
    return c;
}

bool norms_run(struct stage *st, const struct protocol *p, struct draw *draw)
{
    struct norms c = draw_norms(st, p, draw);

    return stage_repeat(st, draw, enqueue_norms, &c);
}
