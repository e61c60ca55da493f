/* Signals, barriers and collectives in stream order, mixed, and across the wrap of their epochs. */
#include "calls.h"

#include "reference.h"
#include "runtime/group/context.h"

#define OK(call) stage_ok(st, (call), #call)

/* ---- in stream order ---- */

static bool enqueue_signals(struct stage *st, void *arg)
{
    enum { FULL, FREE };
    const struct call *c = arg;
    symm_signal_pad *pad = st->pads[protocols_pad(c->protocol)];
    const int after = stage_neighbour(st, 1), before = stage_neighbour(st, -1);
    for (uint32_t round = 0; round < c->rounds; round++)
        if (!stage_data(st, PROOF_FILL, c->in, 0, c->count, c->dtype, st->self->rank, 1,
                        SYMM_SUM) ||
            !OK(symm_put(st->group, c->inbox, c->in, c->nbytes, after, st->stream)) ||
            !OK(symm_signal(st->group, pad, FULL, after, c->signals, st->stream)) ||
            !OK(symm_wait(st->group, pad, FULL, before, c->signals, st->stream)) ||
            !stage_data(st, PROOF_CHECK, c->inbox, 0, c->count, c->dtype, before, 1, SYMM_SUM) ||
            !stage_data(st, PROOF_SPOIL, c->inbox, 0, c->count, c->dtype, 0, 0, SYMM_SUM) ||
            !OK(symm_signal(st->group, pad, FREE, before, 1, st->stream)) ||
            !OK(symm_wait(st->group, pad, FREE, after, 1, st->stream)))
            return false;
    return true;
}

static bool enqueue_barriers(struct stage *st, void *arg)
{
    const struct call *c = arg;
    const int after = stage_neighbour(st, 1), before = stage_neighbour(st, -1);
    for (uint32_t round = 0; round < c->rounds; round++) {
        if (!stage_data(st, PROOF_FILL, c->in, 0, c->count, c->dtype, st->self->rank, 1,
                        SYMM_SUM) ||
            !OK(symm_put(st->group, c->inbox, c->in, c->nbytes, after, st->stream)) ||
            !OK(symm_barrier(st->group, st->stream)) ||
            !OK(symm_get(st->group, c->out, c->in, c->nbytes, after, st->stream)) ||
            !stage_data(st, PROOF_CHECK, c->out, 0, c->count, c->dtype, after, 1, SYMM_SUM) ||
            !stage_data(st, PROOF_CHECK, c->inbox, 0, c->count, c->dtype, before, 1, SYMM_SUM) ||
            !stage_data(st, PROOF_SPOIL, c->inbox, 0, c->count, c->dtype, 0, 0, SYMM_SUM) ||
            !OK(symm_barrier(st->group, st->stream)) ||
            !stage_data(st, PROOF_SPOIL, c->in, 0, c->count, c->dtype, 0, 0, SYMM_SUM))
            return false;
    }
    return true;
}

static struct collective collective_of(const struct call *c, size_t count)
{
    return (struct collective){.operation = c->protocol->operation,
                               .algo = c->options.algo,
                               .dtype = c->dtype,
                               .op = c->op,
                               .count = count,
                               .max_blocks = c->options.max_blocks,
                               .root = c->root};
}

/* Checks the result of the data of ranks first, first + 1, ... */
static bool check_collective(struct stage *st, const struct collective *c, char *out, int first)
{
    const int n = st->self->nranks;
    const size_t mine = (size_t)st->self->rank * c->count,
                 part = c->count * symm_dtype_size(c->dtype);
    bool ok = true;
    if (c->operation == BROADCAST)
        return stage_data(st, PROOF_CHECK, out, 0, c->count, c->dtype, first + c->root % n, 1,
                          c->op);
    if (c->operation != ALL_GATHER)
        return stage_data(st, PROOF_CHECK, out, c->operation == REDUCE_SCATTER ? mine : 0, c->count,
                          c->dtype, first, n, c->op);
    for (int r = 0; ok && r < n; r++)
        ok = stage_data(st, PROOF_CHECK, out + (size_t)r * part, 0, c->count, c->dtype, first + r,
                        1, c->op);
    return ok;
}

bool calls_enqueue(struct stage *st, const struct call *call, size_t count, int turn)
{
    enum { TURN = 64 }; /* numbers apart: more than there are ranks */
    struct collective c = collective_of(call, count);
    const int n = st->self->nranks, first = TURN * turn;
    const size_t size = symm_dtype_size(c.dtype), mine = (size_t)st->self->rank * count * size,
                 ins = collective_in_nbytes(&c, n) / size,
                 outs = collective_out_nbytes(&c, n) / size;
    char *in = call->in, *out = call->out;
    c.root += turn;
    if (call->in_place && c.operation == ALL_GATHER)
        in = out + mine;
    else if (call->in_place)
        out = in + (c.operation == REDUCE_SCATTER ? mine : 0);
    return stage_data(st, PROOF_SPOIL, out, 0, outs, c.dtype, 0, 0, c.op) &&
           stage_data(st, PROOF_FILL, in, 0, ins, c.dtype, first + st->self->rank, 1, c.op) &&
           OK(collective_call(&c, st->group, in, out, st->stream)) &&
           (call->in_place || stage_data(st, PROOF_SPOIL, in, 0, ins, c.dtype, 0, 0, c.op)) &&
           check_collective(st, &c, out, first);
}

/* Each call is of another size, and nothing but the calls themselves is between them. */
static bool enqueue_collectives(struct stage *st, void *arg)
{
    const struct call *c = arg;
    for (uint32_t round = 0; round < c->rounds; round++)
        if (!calls_enqueue(st, c, c->count - round * (c->count / 4), (int)round))
            return false;
    return true;
}

/* In symmetric memory or not, at an offset that is aligned or not. */
static char *place(const struct stage *st, struct draw *draw, int array, size_t size, bool differs)
{
    const uint32_t kind = draw_below(draw, 4), odd = draw_below(draw, 16), one = differs;
    char *base = kind == 0 ? st->own : st->data;
    return base + array * STAGE_DATA_NBYTES + (kind == 1 ? odd * size : 0) + 16 * one;
}

struct call calls_draw(struct stage *st, const struct protocol *p, struct draw *draw)
{
    static const symm_dtype types[] = {SYMM_FLOAT32, SYMM_FLOAT16, SYMM_BFLOAT16,
                                       SYMM_FLOAT64, SYMM_INT32,   SYMM_INT64};
    static const symm_redop ops[] = {SYMM_SUM, SYMM_MIN, SYMM_MAX};
    enum { FLOATS = 4, TYPES = 6 };
    const uint32_t type = draw_below(draw, p->algo == SYMM_ALGO_LAMPORT ? FLOATS : TYPES);
    struct call c = {.protocol = p, .dtype = types[type], .op = ops[draw_below(draw, 3)]};
    const size_t size = symm_dtype_size(c.dtype);
    /* One rank may have its data elsewhere than the others. */
    const bool differs = draw_below(draw, 6) == 0 &&
                         (int)draw_below(draw, (uint32_t)st->self->nranks) == st->self->rank;
    c.count = 1 + draw_below(draw, draw_below(draw, 2) ? STAGE_COUNT : STAGE_COUNT / 8);
    c.nbytes = c.count * size;
    c.in = place(st, draw, 0, size, differs);
    c.out = place(st, draw, 1, size, differs);
    if (p->algo == SYMM_ALGO_COPY_ENGINE) /* it wants the same place on all ranks */
        c.out = st->data + STAGE_DATA_NBYTES + size * draw_below(draw, 16);
    c.inbox = st->data + 2 * STAGE_DATA_NBYTES;
    c.options = (symm_options){.algo = (symm_algo)p->algo, .max_blocks = draw_below(draw, 4)};
    c.signals = 1 + draw_below(draw, 3);
    c.rounds = 1 + draw_below(draw, 3);
    return c;
}

bool calls_run_signals(struct stage *st, const struct protocol *p, struct draw *draw)
{
    struct call c = calls_draw(st, p, draw);
    return stage_repeat(st, draw, enqueue_signals, &c);
}

bool calls_run_barriers(struct stage *st, const struct protocol *p, struct draw *draw)
{
    struct call c = calls_draw(st, p, draw);
    c.in = st->data;
    return stage_repeat(st, draw, enqueue_barriers, &c);
}

/* Shares of whole packs can be used in place. */
static size_t draw_share(const struct stage *st, struct draw *draw, size_t count)
{
    const size_t share = 1 + count / (size_t)st->self->nranks;
    return draw_below(draw, 2) ? (share + 31) / 32 * 32 : share;
}

struct call calls_draw_collective(struct stage *st, const struct protocol *p, struct draw *draw)
{
    struct call c = calls_draw(st, p, draw);
    c.in_place = draw_below(draw, 3) == 0;
    if (c.options.algo == SYMM_ALGO_COPY_ENGINE && c.in_place)
        c.in = c.out;
    if (c.options.algo == SYMM_ALGO_LOW_LATENCY)
        c.count = 1 + c.count / 4; /* an epoch holds four packets of each rank */
    if (collective_has_shares(p->operation))
        c.count = draw_share(st, draw, c.count);
    if (p->operation == BROADCAST) {
        c.root = (int)draw_below(draw, (uint32_t)st->self->nranks);
        if (draw_below(draw, 2)) /* whole packs can be used in place */
            c.count = (c.count + 31) / 32 * 32;
    }
    const struct collective what = collective_of(&c, c.count);
    if (collective_unavailable(&what, st->group))
        c.op = SYMM_SUM;
    return c;
}

bool calls_run_collective(struct stage *st, const struct protocol *p, struct draw *draw)
{
    struct call c = calls_draw_collective(st, p, draw);
    return stage_repeat(st, draw, enqueue_collectives, &c);
}

/* Calls of any operation and algorithm follow each other in the same memory. */
enum { MIXED = 6 };
struct mixture {
    struct call calls[MIXED];
    int ncalls;
    int late; /* the rank that comes late to each call; out of range: none */
};

/* Writes to memory that no call uses, for a while. */
static bool come_late(struct stage *st, const struct call *c)
{
    bool ok = true;
    for (int i = 0; ok && i < 4; i++)
        ok = stage_data(st, PROOF_SPOIL, c->inbox, 0, STAGE_COUNT, SYMM_FLOAT32, 0, 0, SYMM_SUM);
    return ok;
}

static bool enqueue_mixture(struct stage *st, void *arg)
{
    const struct mixture *m = arg;
    for (int i = 0; i < m->ncalls; i++)
        if ((st->self->rank == m->late && !come_late(st, &m->calls[i])) ||
            !calls_enqueue(st, &m->calls[i], m->calls[i].count, i))
            return false;
    return true;
}

bool calls_run_mixture(struct stage *st, const struct protocol *p, struct draw *draw)
{
    const int first = protocols_find("low_latency"),
              n = protocols_pad(p) - first; /* all before it */
    struct mixture m = {.late = -1};
    while (m.ncalls < MIXED) {
        const struct protocol *next = &protocols[first + (int)draw_below(draw, (uint32_t)n)];
        if (!next->multicast || !symm_multicast_off(st->group))
            m.calls[m.ncalls++] = calls_draw_collective(st, next, draw);
    }
    return stage_repeat(st, draw, enqueue_mixture, &m);
}

/* Broadcasts of several roots by packets, mostly, and other calls through the same slots. */
bool calls_run_roots(struct stage *st, const struct protocol *p, struct draw *draw)
{
    static const char *const others[] = {"low_latency", "low_latency_two_shot",
                                         "reduce_scatter_low_latency", "all_gather_low_latency"};
    struct mixture m = {.ncalls = 0};
    (void)p;
    m.late = (int)draw_below(draw, 2 * (uint32_t)st->self->nranks);
    for (; m.ncalls < MIXED; m.ncalls++) {
        const char *const name =
            draw_below(draw, 3) ? "broadcast_low_latency" : others[draw_below(draw, 4)];
        m.calls[m.ncalls] = calls_draw_collective(st, &protocols[protocols_find(name)], draw);
        m.calls[m.ncalls].options.max_blocks = 1 + draw_below(draw, 2);
    }
    return stage_repeat(st, draw, enqueue_mixture, &m);
}

/* ---- packets ---- */

/* Sets the packet epoch of the group's first block, while all ranks are idle. */
static bool move_epoch(struct stage *st, const uint32_t *epoch)
{
    struct symm_signal_cell *cell =
        (struct symm_signal_cell *)(void *)symm__group_areas(st->group)->pad +
        SYMM_CHANNEL_BLOCKS * st->self->nranks + st->self->rank;
    return OK(symm_barrier(st->group, st->stream)) &&
           OK(symm_copy(&cell->sent, epoch, sizeof *epoch, st->stream)) &&
           OK(symm_barrier(st->group, st->stream));
}

static bool clear_packets(struct stage *st)
{
    const struct symm_areas *areas = symm__group_areas(st->group);
    const size_t nbytes = areas->size.block_packets * sizeof *areas->packets;
    return OK(symm_barrier(st->group, st->stream)) &&
           OK(symm_fill(areas->packets, 0, nbytes, st->stream));
}

/* The epoch in flags is that of the counter minus 2, in 16 bits. */
static bool begins_again(uint32_t epoch)
{
    return (uint16_t)(epoch - 2) == 0;
}

/* A large call, small ones until the epochs begin again, a large one with the same flags. */
static bool enqueue_wrap(struct stage *st, void *arg)
{
    const struct call *c = arg;
    int turn = 0;
    if (!clear_packets(st) || !move_epoch(st, &c->epochs[0]) ||
        !calls_enqueue(st, c, c->count, turn++) || !move_epoch(st, &c->epochs[1]))
        return false;
    for (uint32_t passed = c->epochs[1]; !begins_again(passed);
         passed = passed == UINT32_MAX ? 2 : passed + 1)
        if (!calls_enqueue(st, c, 1, turn++))
            return false;
    return move_epoch(st, &c->epochs[2]) && calls_enqueue(st, c, c->count, turn++) &&
           clear_packets(st) && move_epoch(st, &c->epochs[3]);
}

/* Several slots in one or two epochs: a third epoch would overwrite the first. */
static size_t draw_large(const struct stage *st, struct draw *draw, const struct call *c)
{
    const bool shares = c->options.algo == SYMM_ALGO_LOW_LATENCY_TWO_SHOT;
    const uint32_t n = (uint32_t)st->self->nranks, size = (uint32_t)symm_dtype_size(c->dtype),
                   packet = size == 8 ? 1 : 12 / size,
                   room = symm__group_areas(st->group)->size.block_packets / n / (shares ? 4 : 2);
    return (size_t)packet * (shares ? n : 1) * (2 + draw_below(draw, 2 * room - 1));
}

bool calls_run_wrap(struct stage *st, const struct protocol *p, struct draw *draw)
{
    struct call c = calls_draw(st, p, draw);
    c.options.algo = draw_below(draw, 2) ? SYMM_ALGO_LOW_LATENCY : SYMM_ALGO_LOW_LATENCY_TWO_SHOT;
    c.options.max_blocks = 1;
    c.count = draw_large(st, draw, &c);
    c.epochs[0] = 2 * draw_below(draw, 1u << 30);
    c.epochs[1] = (draw_below(draw, 2) ? UINT32_MAX : 65536 * draw_below(draw, 65536) + 1) -
                  draw_below(draw, 4);
    c.epochs[2] = c.epochs[0] + 65536 * draw_below(draw, 3);
    c.epochs[3] = UINT32_MAX - draw_below(draw, 128);
    return stage_repeat(st, draw, enqueue_wrap, &c);
}
