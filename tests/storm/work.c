/* Collectives, products, and one-sided operations. */
#include "work.h"

#include "matmul.h"
#include "reference.h"

enum { IN, OUT, PARTS = 4, PART = SLOT_MOST / PARTS, REPLAYS = 3, RING_MOST = 8000 };

/* A helper's call. A wrong result is a fault of the round, not a failed call. */
#define HELP(call)                                                                                 \
    do {                                                                                           \
        st = helped(a, slot, CALL(a, call));                                                       \
        if (st != SYMM_OK)                                                                         \
            goto out;                                                                              \
    } while (0)

static symm_status helped(struct actor *a, const struct slot *slot, symm_status st)
{
    if (st == SYMM_OK || a->helped.status != SYMM_OK)
        return st;
    if (!slot->unsure)
        board_report(a->post, STORM_WRONG, "%s", a->helped.failed);
    return SYMM_OK;
}

struct collective work_draw(struct draw *d, symm_group *group, size_t most)
{
    static const symm_dtype dtypes[] = {SYMM_FLOAT32, SYMM_FLOAT16, SYMM_BFLOAT16,
                                        SYMM_FLOAT64, SYMM_INT32,   SYMM_INT64};
    static const symm_redop ops[] = {SYMM_SUM, SYMM_MIN, SYMM_MAX};
    struct collective c = {
        .operation = (enum collective_operation)draw_below(d, COLLECTIVE_OPERATIONS),
        .algo = (symm_algo)draw_below(d, SYMM_ALGO_LAMPORT + 1),
        .dtype = dtypes[draw_below(d, 6)],
        .op = ops[draw_below(d, 3)],
        .max_blocks = draw_below(d, 4),
        .round = draw_next(d) >> 28,
        .root = (int)draw_below(d, SYMM_MAX_RANKS),
    };
    const size_t shares = collective_has_shares(c.operation) ? (size_t)symm_nranks(group) : 1;

    c.count = 1 + draw_next(d) % (most / shares / symm_dtype_size(c.dtype));
    if (draw_below(d, 2) && !collective_by_switch(c.algo))
        c.flags = SYMM_DETERMINISTIC;
    if (draw_below(d, 4) == 0)
        c.round |= REFERENCE_SPECIAL;
    if (collective_unavailable(&c, group))
        c.algo = SYMM_ALGO_AUTO;
    return c;
}

void work_look(struct actor *a, const struct collective *c, symm_group *group, const char *got)
{
    const int rank = symm_rank(group), n = symm_nranks(group);
    const int64_t wrong = collective_wrong(c, rank, n, got);

    if (wrong > 0)
        board_report(a->post, STORM_WRONG, "%lld elements, rank %d of %d, %s", (long long)wrong,
                     rank, n, collective_text(c));
}

/* ---- Bursts ---- */

struct burst {
    struct collective calls[PARTS];
    char *in, *out;
    int n, rank, nranks;
};

static struct burst draw_burst(struct draw *d, const struct slot *slot)
{
    const struct trial_buffers *b = &slot->b;
    struct burst burst = {.n = 1 + (int)draw_below(d, PARTS),
                          .rank = symm_rank(slot->group),
                          .nranks = symm_nranks(slot->group)};
    bool foreign = draw_below(d, 3) == 0;

    for (int i = 0; i < burst.n; i++) {
        burst.calls[i] = work_draw(d, slot->group, PART);
        foreign = foreign && burst.calls[i].algo != SYMM_ALGO_COPY_ENGINE;
    }
    burst.in = (foreign ? b->foreign : b->symmetric)[IN];
    burst.out = (foreign ? b->foreign : b->symmetric)[OUT];
    return burst;
}

/* The calls of a burst, or the graph of them. */
static symm_status enqueue(struct actor *a, const struct slot *slot, const struct burst *burst)
{
    symm_status st = SYMM_OK;

    for (int i = 0; i < burst->n && st == SYMM_OK; i++)
        st = CALL(a, collective_call(&burst->calls[i], slot->group, burst->in + i * PART,
                                     burst->out + i * PART, slot->b.stream));
    return st;
}

static symm_status replay(struct actor *a, const struct slot *slot, const struct burst *burst,
                          int times, symm_graph *graph)
{
    symm_status st, ended;

    TRY(symm_graph_begin(slot->b.stream));
    st = enqueue(a, slot, burst);
    ended = CALL(a, symm_graph_end(slot->b.stream, graph));
    st = st == SYMM_OK ? ended : st;
    for (int i = 0; i < times && st == SYMM_OK; i++)
        st = CALL(a, symm_graph_launch(*graph, slot->b.stream));
out:
    return st;
}

symm_status work_burst(struct actor *a, struct slot *slot, struct draw *d)
{
    const struct trial_buffers *b = &slot->b;
    const struct burst burst = draw_burst(d, slot);
    const int times = draw_below(d, 3) ? 0 : 1 + (int)draw_below(d, REPLAYS);
    symm_graph graph = NULL;
    symm_status st;

    for (int i = 0; i < burst.n; i++)
        collective_fill(&burst.calls[i], burst.rank, burst.nranks, b->sent[IN] + i * PART);
    TRY(symm_copy(burst.in, b->sent[IN], SLOT_MOST, b->stream));
    TRY(symm_fill(burst.out, 0xff, SLOT_MOST, b->stream));
    st = times ? replay(a, slot, &burst, times, &graph) : enqueue(a, slot, &burst);
    if (st != SYMM_OK)
        goto out;
    /* A rank that ends early overwrites its input while others read it: their results are wrong. */
    TRY(symm_fill(burst.in, 0xff, SLOT_MOST, b->stream));
    TRY(symm_copy(b->got, burst.out, SLOT_MOST, b->stream));
    TRY(symm_synchronize(slot->group, b->stream));
    for (int i = 0; i < burst.n && !slot->unsure; i++)
        work_look(a, &burst.calls[i], slot->group, b->got + i * PART);
out:
    if (st != SYMM_OK && graph)
        slot_abandon(a, slot); /* it must not run any more */
    symm_graph_destroy(graph);
    return st;
}

/* ---- One call at a time ---- */

symm_status work_trial(struct actor *a, struct slot *slot, struct draw *d)
{
    const struct collective c = work_draw(d, slot->group, SLOT_MOST);
    const enum trial_place place = (enum trial_place)draw_below(d, TRIAL_PLACES);
    symm_status st;

    HELP(trial_call(&a->helper, slot->group, &slot->b,
                    c.algo == SYMM_ALGO_COPY_ENGINE ? SYMMETRIC : place, &c));
out:
    return st;
}

symm_status work_ring(struct actor *a, struct slot *slot, struct draw *d)
{
    const struct trial_buffers *b = &slot->b;
    const int n = symm_nranks(slot->group), rank = symm_rank(slot->group);
    const int next = (rank + 1) % n, last = (rank + n - 1) % n;
    const size_t nbytes = 1 + draw_below(d, RING_MOST);
    const int channel = (int)draw_below(d, SLOT_CHANNELS);
    const uint64_t round = draw_next(d) >> 28;
    symm_status st;

    reference_bits(b->sent[IN], nbytes, round, rank);
    TRY(symm_copy(b->foreign[IN], b->sent[IN], nbytes, b->stream));
    TRY(symm_copy(b->symmetric[IN], b->sent[IN], nbytes, b->stream));
    TRY(symm_barrier(slot->group, b->stream));
    TRY(symm_put(slot->group, b->symmetric[OUT], b->foreign[IN], nbytes, next, b->stream));
    TRY(symm_signal(slot->group, slot->pad, channel, next, 1, b->stream));
    TRY(symm_get(slot->group, b->foreign[OUT], b->symmetric[IN], nbytes, next, b->stream));
    TRY(symm_wait(slot->group, slot->pad, channel, last, 1, b->stream));
    TRY(symm_copy(b->got, b->symmetric[OUT], nbytes, b->stream));
    TRY(symm_copy(b->got + SLOT_MOST / 2, b->foreign[OUT], nbytes, b->stream));
    TRY(symm_barrier(slot->group, b->stream));
    TRY(symm_synchronize(slot->group, b->stream));
    if (slot->unsure)
        goto out;
    if (reference_bits_wrong(b->got, nbytes, round, last) > 0)
        board_report(a->post, STORM_WRONG, "symm_put of %zu bytes, of rank %d of %d", nbytes, last,
                     n);
    if (reference_bits_wrong(b->got + SLOT_MOST / 2, nbytes, round, next) > 0)
        board_report(a->post, STORM_WRONG, "symm_get of %zu bytes, of rank %d of %d", nbytes, next,
                     n);
out:
    return st;
}

symm_status work_product(struct actor *a, struct slot *slot, struct draw *d)
{
    const int n = symm_nranks(slot->group), runs = 1 + (int)draw_below(d, 2);
    struct matmul_case c = matmul_draw(100 + draw_next(d) % 100000, n);
    struct matmul_job job = {.nbytes = {0}};
    const uint64_t round = draw_next(d) >> 28;
    symm_status st;

    if (c.kind == SYMM_ALL_GATHER_MATMUL)
        c.strategy = (symm_strategy)draw_below(d, SYMM_STRATEGY_UNFUSED + 1);
    HELP(matmul_job_open(&a->helper, a->ctx, slot->group, &c, &job));
    HELP(matmul_job_create(&a->helper, &job));
    for (int i = 0; i < runs; i++) {
        HELP(matmul_job_send(&a->helper, &job, round + (uint64_t)i, slot->b.stream));
        HELP(matmul_job_run(&a->helper, &job, slot->b.stream));
        HELP(matmul_job_fetch(&a->helper, &job, NULL, slot->b.stream));
        HELP(matmul_job_look(&a->helper, &job));
    }
out:
    if (st != SYMM_OK)
        slot_abandon(a, slot); /* nothing of it may run when its memory goes */
    matmul_job_close(&job);
    return st;
}
