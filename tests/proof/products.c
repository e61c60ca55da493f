/*
 * Matrix products of which all ranks have rows: a few runs follow each other, each with other
 * numbers, with nothing but the runs themselves to keep the ranks together.
 */
#include "products.h"
#include <stdlib.h>
#include <unistd.h>
#include "matmul_plan.h"
#include "matmul_signals.h"
#include "product_kernels.h"
#include "reference.h"

#define OK(call) stage_ok(st, (call), #call)

enum {
    NB_MAX = 2,
    N_MAX = 4,
    K_MAX = 24,
    ROWS_MAX = 300,          /* of a rank, over all batches: three chunks of a copy engine */
    PIECES_K = 2048,         /* goes in two pieces */
    ALL_ROWS_MAX = 1200,     /* of all ranks, where that is less */
    STRADDLE_ROWS = 130,     /* of a batch, and up to 60 more: the next one begins in mid-strip */
    PAD_MAX = 3,             /* elements between rows */
    COLLECTED_ROWS_MAX = 60, /* of all ranks and batches */
    COLLECTED_N_MAX = 24,
    HOPPER_ROWS_MAX = 300, /* of all ranks and batches */
    HOPPER_K_MAX = 300,    /* five stages */
    PLAIN_ROWS_MAX = 400,  /* of all ranks */
    HOPPER_N_MAX = 200,
    HOPPER_COLUMNS_MAX = 1600,
    PACKS_ROWS_MAX = 20,
    LATE_US = 1000,
    UNTOUCHED = 0x5a
};

struct matrix {
    symm_tensor t;
    enum product_matrix kind;
    uint32_t series, first_row;
};

struct product {
    symm_matmul_kind kind;
    symm_matmul *m;
    struct matrix a, gathered, b[NB_MAX], d[NB_MAX];
    int nb, k;
    uint32_t rounds;
};

/* The next matrix in the memory that is left. */
static struct matrix lay(char **room, enum product_matrix kind, symm_dtype dtype, int64_t l,
                         int64_t rows, int64_t columns, int64_t pad)
{
    const int64_t row = columns + pad;
    struct matrix x = {.t = {.data = *room,
                             .dtype = dtype,
                             .ndim = 3,
                             .shape = {l, rows, columns},
                             .strides = {rows * row, row, 1}},
                       .kind = kind};
    *room += ((uint64_t)(l * rows * row) * symm_dtype_size(dtype) + 15) / 16 * 16;
    return x;
}

/* B, of which rows or columns are contiguous. */
static struct matrix lay_b(char **room, struct draw *draw, symm_dtype dtype, int64_t l, int64_t k,
                           int64_t columns)
{
    struct matrix x = lay(room, PRODUCT_B, dtype, l, k, columns, 0);

    if (draw_below(draw, 2)) {
        x.t.strides[1] = 1;
        x.t.strides[2] = k;
    }
    return x;
}

static bool is_sum(const struct product *p)
{
    return p->kind == SYMM_MATMUL_REDUCE_SCATTER || p->kind == SYMM_MATMUL_ALL_REDUCE;
}

/* The first of `all` rows or columns that a rank has. */
static int64_t first_of(int64_t all, int64_t rank, int64_t nranks)
{
    return all / nranks * rank + (rank < all % nranks ? rank : all % nranks);
}

static bool deed(struct stage *st, const struct product *p, enum proof_deed deed,
                 const struct matrix *x, uint32_t turn)
{
    const product_data_args a = {.view = st->view,
                                 .x = x->t.data,
                                 .salt = st->salt,
                                 .result = st->result,
                                 .batch = x->t.strides[0],
                                 .row = x->t.strides[1],
                                 .column = x->t.strides[2],
                                 .l = (int32_t)x->t.shape[0],
                                 .rows = (int32_t)x->t.shape[1],
                                 .columns = (int32_t)x->t.shape[2],
                                 .k = p->k,
                                 .dtype = (uint32_t)x->t.dtype,
                                 .deed = (uint32_t)deed,
                                 .matrix = (uint32_t)x->kind,
                                 .turn = turn,
                                 .series = x->series,
                                 .first_row = x->first_row,
                                 .terms = is_sum(p) ? (uint32_t)st->self->nranks : 1,
                                 .apart = NB_MAX,
                                 .ends = st->expected != SYMM_OK};
    return stage_launch(st, "proof_product_data", 1, &a, sizeof a, st->stream);
}

/* The same with all that is read, or with all that is written. */
static bool deed_of_inputs(struct stage *st, const struct product *p, enum proof_deed what,
                           uint32_t turn)
{
    bool ok = deed(st, p, what, &p->a, turn);
    for (int i = 0; ok && i < p->nb; i++)
        ok = deed(st, p, what, &p->b[i], turn);
    return ok;
}

/* The columns of d[i] that are a rank's product: of an all-scatter a share, else all of them. */
static struct matrix columns_of(const struct product *p, int i, int rank, int nranks)
{
    struct matrix x = p->d[i];
    const int64_t first = first_of(p->d[i].t.shape[2], rank, nranks);

    if (p->kind != SYMM_MATMUL_ALL_SCATTER)
        return x;
    x.t.data = (char *)x.t.data + (uint64_t)first * symm_dtype_size(x.t.dtype);
    x.t.shape[2] = first_of(p->d[i].t.shape[2], rank + 1, nranks) - first;
    x.series = (uint32_t)(NB_MAX * rank + i);
    return x;
}

static bool deed_of_outputs(struct stage *st, const struct product *p, enum proof_deed what,
                            uint32_t turn)
{
    const int nranks = st->self->nranks, parts = p->kind == SYMM_MATMUL_ALL_SCATTER ? nranks : 1;
    bool ok = !p->gathered.t.dtype || deed(st, p, what, &p->gathered, turn);
    for (int i = 0; ok && i < p->nb; i++)
        for (int r = 0; ok && r < parts; r++) {
            const struct matrix part = columns_of(p, i, r, nranks);
            ok = deed(st, p, what, &part, turn);
        }
    return ok;
}

static bool enqueue_products(struct stage *st, void *arg)
{
    const struct product *p = arg;
    for (uint32_t turn = 0; turn < p->rounds; turn++)
        if (!deed_of_inputs(st, p, PROOF_FILL, turn) ||
            !deed_of_outputs(st, p, PROOF_SPOIL, turn) ||
            !OK(symm_matmul_run(p->m, NULL, st->stream)) ||
            !deed_of_inputs(st, p, PROOF_SPOIL, turn) || !deed_of_outputs(st, p, PROOF_CHECK, turn))
            return false;
    return true;
}

/* Rows of all ranks: a few, less than there are ranks, or several chunks of each. */
static int64_t draw_rows(const struct stage *st, struct draw *draw, int64_t l)
{
    const uint32_t n = (uint32_t)st->self->nranks,
                   most = n * ROWS_MAX < ALL_ROWS_MAX ? n * ROWS_MAX : ALL_ROWS_MAX;
    switch (draw_below(draw, 4)) {
    case 0:
        return 1 + draw_below(draw, n);
    case 1:
        if (TEST_TSAN)
            break; /* it takes its time, and sees races with few rows as well */
        return 1 + draw_below(draw, most / (uint32_t)l);
    default:
        break;
    }
    return 1 + draw_below(draw, n * (TEST_TSAN ? 8 : 40));
}

/* straddles: two batches, of which a tile has rows of two strips where copy engines send. */
static struct product draw_product(struct stage *st, struct draw *draw, bool straddles)
{
    static const symm_dtype sums[] = {SYMM_FLOAT32, SYMM_FLOAT16};
    struct product p = {.nb = 1 + (int)draw_below(draw, straddles ? 1 : NB_MAX),
                        .rounds = 1 + draw_below(draw, 3)};
    const int pieces =
        !straddles && draw_below(draw, 6) == 0; /* of few rows, which add up to large sums */
    const symm_dtype dtype = draw_below(draw, 2) ? SYMM_FLOAT16 : SYMM_BFLOAT16,
                     sum = sums[pieces ? 0 : draw_below(draw, 2)];
    const int64_t l = straddles ? 2 : 1 + draw_below(draw, 2), n = st->self->nranks,
                  m = straddles ? n * STRADDLE_ROWS + draw_below(draw, 60 * (uint32_t)n)
                      : pieces  ? 1 + draw_below(draw, 3 * (uint32_t)n)
                                : draw_rows(st, draw, l),
                  rank = st->self->rank, first = m / n * rank + (rank < m % n ? rank : m % n);
    /* Rows that can be sent from where they are, and others. */
    p.k = pieces * PIECES_K + 1 + (int)draw_below(draw, straddles ? 8 : K_MAX);
    if (straddles)
        p.k += 8; /* two strips are large enough for copy engines */
    if (draw_below(draw, 2))
        p.k = (p.k + 7) / 8 * 8;
    const int64_t pad = draw_below(draw, 2) * draw_below(draw, PAD_MAX + 1);
    char *room = st->room;
    p.a = lay(&room, PRODUCT_A, dtype, l, m / n + (rank < m % n), p.k, pad);
    p.a.first_row = (uint32_t)first;
    if (draw_below(draw, 2))
        p.gathered = lay(&room, PRODUCT_A, dtype, l, m, p.k, draw_below(draw, PAD_MAX));
    for (int i = 0; i < p.nb; i++) {
        /* Ranks with more columns are later than the others. */
        const int64_t columns = 1 + (draw_below(draw, N_MAX) + rank) % N_MAX;
        p.b[i] = lay_b(&room, draw, dtype, l, p.k, columns);
        p.d[i] = lay(&room, PRODUCT_D, sum, l, m, columns, pad);
        p.b[i].series = p.d[i].series = (uint32_t)(NB_MAX * rank + i);
    }
    return p;
}

static bool create(struct stage *st, const struct protocol *protocol, struct product *p)
{
    symm_matmul_desc desc = {.kind = (symm_matmul_kind)protocol->product,
                             .strategy = (symm_strategy)protocol->algo,
                             .schedule =
                                 protocol->stream_k ? SYMM_SCHEDULE_STREAM_K : SYMM_SCHEDULE_AUTO,
                             .flags = protocol->any_order ? SYMM_MATMUL_ANY_ORDER : 0,
                             .nb = p->nb,
                             .a = p->a.t,
                             .gathered_a = p->gathered.t};
    for (int i = 0; i < p->nb; i++) {
        desc.b[i] = p->b[i].t;
        desc.d[i] = p->d[i].t;
    }
    return OK(symm_matmul_create(st->group, &desc, &p->m));
}

static bool run_and_destroy(struct stage *st, struct draw *draw, struct product *p)
{
    const bool ok = stage_repeat(st, draw, enqueue_products, p);
    if (!ok) /* its kernels may still be at work */
        symm_synchronize(symm_context_world(st->ctx), st->stream);
    symm_matmul_destroy(p->m);
    return ok;
}

/* The extents of a product whose results are collected. */
struct collected_extents {
    int64_t l, m, k, pad, n[NB_MAX];
};

/* Any small extents. */
static struct collected_extents draw_small(const struct stage *st, struct draw *draw)
{
    const uint32_t nranks = (uint32_t)st->self->nranks;
    struct collected_extents e = {.l = 1 + draw_below(draw, 2)};

    e.m = nranks + draw_below(draw, (uint32_t)(COLLECTED_ROWS_MAX / e.l)); /* each has some of D */
    e.pad = draw_below(draw, 2) * draw_below(draw, PAD_MAX + 1);
    e.k = 1 + draw_below(draw, K_MAX);
    for (int i = 0; i < NB_MAX; i++)
        e.n[i] = nranks + draw_below(draw, COLLECTED_N_MAX);
    return e;
}

/* Extents that suit the Hopper kernel: several stages, and several widths of tiles. */
static struct collected_extents draw_aligned(const struct stage *st, struct draw *draw)
{
    const uint32_t nranks = (uint32_t)st->self->nranks;
    struct collected_extents e = {.l = 1 + draw_below(draw, 2)};

    e.m = nranks + draw_below(draw, (uint32_t)(HOPPER_ROWS_MAX / e.l));
    e.k = 8 * (1 + draw_below(draw, HOPPER_K_MAX / 8));
    for (int i = 0; i < NB_MAX; i++)
        e.n[i] = 8 * nranks * (1 + draw_below(draw, HOPPER_N_MAX / (8 * nranks)));
    if (nranks > 2 || draw_below(draw, 3))
        return e;
    /* Many small tiles: threads that follow others from tile to tile may fall behind. */
    e.m = nranks + draw_below(draw, 3);
    e.k = 8;
    e.l = 1;
    e.n[0] = HOPPER_COLUMNS_MAX - 8 * draw_below(draw, 9);
    return e;
}

/* All of A, and D as the kind has it, with the same columns on all ranks. */
static struct product draw_collected(struct stage *st, struct draw *draw, symm_matmul_kind kind,
                                     const struct collected_extents *e)
{
    static const symm_dtype types[] = {SYMM_FLOAT32, SYMM_FLOAT16};
    struct product p = {
        .kind = kind, .nb = 1 + (int)draw_below(draw, NB_MAX), .rounds = 1 + draw_below(draw, 3)};
    const symm_dtype dtype = draw_below(draw, 2) ? SYMM_FLOAT16 : SYMM_BFLOAT16,
                     sum = types[draw_below(draw, 2)];
    const int64_t l = e->l, n = st->self->nranks, rank = st->self->rank, m = e->m, pad = e->pad,
                  first = kind == SYMM_MATMUL_REDUCE_SCATTER ? first_of(m, rank, n) : 0,
                  end = kind == SYMM_MATMUL_REDUCE_SCATTER ? first_of(m, rank + 1, n) : m;
    char *room = st->room;
    p.k = (int)e->k;
    p.a = lay(&room, PRODUCT_A, dtype, l, m, p.k, pad);
    for (int i = 0; i < p.nb; i++) {
        const int64_t columns = e->n[i],
                      own = kind == SYMM_MATMUL_ALL_SCATTER
                                ? first_of(columns, rank + 1, n) - first_of(columns, rank, n)
                                : columns;
        p.b[i] = lay_b(&room, draw, dtype, l, p.k, own);
        p.d[i] = lay(&room, PRODUCT_D, sum, l, end - first, columns, pad);
        p.d[i].first_row = (uint32_t)first;
        p.b[i].series = (uint32_t)(NB_MAX * rank + i);
        p.d[i].series = (uint32_t)i;
    }
    return p;
}

bool products_run(struct stage *st, const struct protocol *protocol, struct draw *draw)
{
    struct collected_extents e;
    struct product p;

    if (protocol->product == SYMM_ALL_GATHER_MATMUL) {
        p = draw_product(st, draw, false);
    } else {
        e = draw_small(st, draw);
        p = draw_collected(st, draw, (symm_matmul_kind)protocol->product, &e);
    }
    return create(st, protocol, &p) && run_and_destroy(st, draw, &p);
}

/* ---- the Hopper kernel ---- */

void products_environment(const struct protocol *p, uint64_t seed)
{
    if (seed % 2)
        unsetenv("SYMM_MATMUL_SHAPE");
    else
        matmul_force_shape((int)(seed / 2 % MATMUL_SHAPES));
    if (p->run == products_plain) {
        unsetenv("SYMM_MATMUL_SHAPE");
        matmul_force_plain((int)(seed % MATMUL_PLAIN_SHAPES));
    } else {
        unsetenv("SYMM_MATMUL_PLAIN");
    }
    setenv("SYMM_MATMUL_SPLIT", p->whole_k ? "0" : "1", 1);
}

/* The same, if the rank may use the Hopper kernel. */
static bool create_hopper(struct stage *st, const struct protocol *protocol, struct product *p)
{
    if (!create(st, protocol, p))
        return false;
    if (!p->m->wgmma.usable || p->m->wgmma.splits == protocol->whole_k)
        stage_fail(st, "the Hopper kernel is not used");
    return true;
}

/* Aligned rows of several stages, and columns of each kernel's tiles. */
static struct product draw_hopper(struct stage *st, struct draw *draw)
{
    static const symm_dtype sums[] = {SYMM_FLOAT32, SYMM_FLOAT16};
    static const int64_t widths[] = {8, 64, 72, 136, 208};
    struct product p = {.nb = 1 + (int)draw_below(draw, NB_MAX), .rounds = 1 + draw_below(draw, 2)};
    const symm_dtype dtype = draw_below(draw, 2) ? SYMM_FLOAT16 : SYMM_BFLOAT16,
                     sum = sums[draw_below(draw, 2)];
    const int64_t l = 1 + draw_below(draw, 2), n = st->self->nranks,
                  m = n + draw_below(draw, (uint32_t)(HOPPER_ROWS_MAX / l)), rank = st->self->rank,
                  rows = m / n + (rank < m % n);
    char *room = st->room;
    p.k = 8 * (1 + (int)draw_below(draw, HOPPER_K_MAX / 8));
    p.a = lay(&room, PRODUCT_A, dtype, l, rows, p.k, 0);
    p.a.first_row = (uint32_t)(m / n * rank + (rank < m % n ? rank : m % n));
    for (int i = 0; i < p.nb; i++) {
        const int64_t columns = widths[(draw_below(draw, 5) + (uint32_t)rank * i) % 5];
        p.b[i] = lay_b(&room, draw, dtype, l, p.k, columns);
        p.d[i] = lay(&room, PRODUCT_D, sum, l, m, columns, 0);
        p.b[i].series = p.d[i].series = (uint32_t)(NB_MAX * rank + i);
    }
    return p;
}

/* The same of a plain product: up to a dozen of the largest tiles. */
static struct product draw_plain(struct stage *st, struct draw *draw)
{
    static const int64_t widths[] = {8, 72, 136, 264, 520};
    const int64_t rows = 1 + draw_below(draw, PLAIN_ROWS_MAX / (uint32_t)st->self->nranks),
                  columns = widths[draw_below(draw, 5)];
    struct product p = {.nb = 1, .rounds = 1 + draw_below(draw, 2)};
    char *room = st->room;

    p.k = 8 * (1 + (int)draw_below(draw, HOPPER_K_MAX / 8));
    p.a = lay(&room, PRODUCT_A, SYMM_FLOAT16, 1, rows, p.k, 0);
    p.a.first_row = (uint32_t)(rows * st->self->rank);
    p.b[0] = lay_b(&room, draw, SYMM_FLOAT16, 1, p.k, columns);
    p.d[0] = lay(&room, PRODUCT_D, SYMM_FLOAT16, 1, rows * st->self->nranks, columns, 0);
    p.b[0].series = p.d[0].series = (uint32_t)(NB_MAX * st->self->rank);
    return p;
}

bool products_hopper(struct stage *st, const struct protocol *protocol, struct draw *draw)
{
    struct collected_extents e;
    struct product p;

    if (protocol->product == SYMM_ALL_GATHER_MATMUL) {
        p = draw_hopper(st, draw);
    } else {
        e = draw_aligned(st, draw);
        p = draw_collected(st, draw, (symm_matmul_kind)protocol->product, &e);
        if (protocol->product != SYMM_MATMUL_ALL_SCATTER && st->self->nranks <= 3)
            p.rounds += 3; /* slots are used again */
    }
    return create_hopper(st, protocol, &p) && run_and_destroy(st, draw, &p);
}

bool products_plain(struct stage *st, const struct protocol *protocol, struct draw *draw)
{
    struct product p = draw_plain(st, draw);

    if (!create_hopper(st, protocol, &p))
        return false;
    if (p.m->plan.plain == 0)
        stage_fail(st, "the kernel for plain products is not used");
    return run_and_destroy(st, draw, &p);
}

/* Tiles that are fewer than the clusters' last wave has places for. */
bool products_stream_k(struct stage *st, const struct protocol *protocol, struct draw *draw)
{
    const struct collected_extents e = {.l = 1,
                                        .m = 129 + draw_below(draw, 120),
                                        .k = 8 * (1 + draw_below(draw, HOPPER_K_MAX / 8)),
                                        .n = {136 + 8 * draw_below(draw, 8), 8}};
    struct product p = draw_collected(st, draw, SYMM_MATMUL_ALL_REDUCE, &e);

    return create_hopper(st, protocol, &p) && run_and_destroy(st, draw, &p);
}

bool products_packs(struct stage *st, const struct protocol *protocol, struct draw *draw)
{
    struct collected_extents e = {.l = 1,
                                  .m = 1 + draw_below(draw, PACKS_ROWS_MAX),
                                  .k = 8 * (1 + draw_below(draw, HOPPER_K_MAX / 8)),
                                  .n = {8 * (1 + draw_below(draw, 8)), 8}};
    struct product p;

    /* The distance between rows suits the copy unit, or not. */
    e.pad = draw_below(draw, 4) ? 0 : draw_below(draw, 2) ? 1 : st->self->rank % 2;
    p = draw_collected(st, draw, SYMM_MATMUL_ALL_REDUCE, &e);
    p.rounds += 3; /* slots are used again */
    return create_hopper(st, protocol, &p) && run_and_destroy(st, draw, &p);
}

bool products_bands(struct stage *st, const struct protocol *protocol, struct draw *draw)
{
    struct collected_extents e = {.l = 1,
                                  .m = 1 + draw_below(draw, HOPPER_ROWS_MAX),
                                  .k = 8 * (1 + draw_below(draw, HOPPER_K_MAX / 8)),
                                  .n = {8 * (1 + draw_below(draw, 40)), 8}};
    struct product p;

    e.pad = draw_below(draw, 4) ? 0 : draw_below(draw, 2) ? 1 : st->self->rank % 2;
    p = draw_collected(st, draw, SYMM_MATMUL_ALL_REDUCE, &e);
    return create_hopper(st, protocol, &p) && run_and_destroy(st, draw, &p);
}

/* ---- strips that come late ---- */

static _Thread_local const struct symm_driver *punctual; /* this rank's driver as it is */

/* Rows come LATE_US after the count of the strip before them. Not in a capture. */
static CUresult copy_late(CUdeviceptr to, CUdeviceptr from, size_t nbytes, CUstream stream)
{
    int capturing = 0;
    punctual->cuStreamIsCapturing(stream, &capturing);
    if (nbytes > sizeof(uint64_t) && !capturing) {
        punctual->cuStreamSynchronize(stream);
        usleep(LATE_US);
    }
    return punctual->cuMemcpyAsync(to, from, nbytes, stream);
}

bool products_late(struct stage *st, const struct protocol *protocol, struct draw *draw)
{
    const int late = (int)draw_below(draw, (uint32_t)st->self->nranks);
    struct product p = draw_product(st, draw, true);
    if (!create(st, protocol, &p))
        return false;
    punctual = st->ctx->drv;
    struct symm_driver driver = *punctual;
    driver.cuMemcpyAsync = copy_late;
    if (st->self->rank == late)
        st->ctx->drv = &driver;
    const bool ok = run_and_destroy(st, draw, &p);
    st->ctx->drv = punctual;
    return ok;
}

/* ---- a rank that gives up ---- */

/* Whether no row of another rank has come since the workspace was filled. */
static bool workspace_is_untouched(const symm_matmul *m)
{
    const uint64_t own = (uint64_t)m->problem.rank * m->plan.slab_nbytes;
    for (uint64_t i = 0; i < m->plan.workspace_nbytes; i++)
        if (i - own >= m->plan.slab_nbytes && m->transport.workspace[i] != UNTOUCHED)
            return false;
    return true;
}

bool products_silence(struct stage *st, const struct protocol *protocol, struct draw *draw)
{
    const int bad = (int)draw_below(draw, (uint32_t)st->self->nranks);
    const int after_us = (int)draw_below(draw, 3000);
    struct product p = draw_product(st, draw, false);
    if (!create(st, protocol, &p) ||
        !OK(symm_fill(p.m->transport.workspace, UNTOUCHED, p.m->plan.workspace_nbytes,
                      st->stream)) ||
        !OK(symm_synchronize(st->group, st->stream)))
        return false;
    const uint32_t before = matmul_signals_here(p.m);
    pthread_barrier_wait(&st->hall->meet);
    if (st->self->rank != bad && !OK(symm_matmul_run(p.m, NULL, st->stream)))
        return false;
    pthread_barrier_wait(&st->hall->meet); /* nobody is told of the end when he launches */
    if (st->self->rank == bad) {
        usleep((useconds_t)after_us);
        symm_abort(st->group, "enough");
    }
    st->expected = SYMM_ERROR_PEER;
    if (OK(symm_synchronize(st->group, st->stream)))
        stage_fail(st, "the group does not end");
    st->expected = SYMM_OK;
    pthread_barrier_wait(&st->hall->meet);
    if (matmul_signals_here(p.m) != before)
        stage_fail(st, "a signal came from a rank that had aborted");
    /* Enqueued copies cannot be cancelled. */
    if (p.m->plan.sender == SYMM_SENDER_SMS && !workspace_is_untouched(p.m))
        stage_fail(st, "rows came from a rank that had aborted");
    symm_matmul_destroy(p.m);
    return true;
}
