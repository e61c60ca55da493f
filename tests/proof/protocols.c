/* The table of protocols, and what of them is the host's part. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#include <symm/detail/wait_record.h>
#include "exercise.h"
#include "products.h"
#include "reference.h"
#include "runtime/group/context.h"

#define OK(call) stage_ok(st, (call), #call)

static int pad_of(const struct protocol *p)
{
    return (int)(p - protocols);
}

static int neighbour(const struct stage *st, int by)
{
    const int n = st->self->nranks;
    return (st->self->rank + by + n) % n;
}

/* ---- one kernel does it ---- */

struct launch {
    const char *kernel;
    uint32_t blocks;
    proof_args args;
};

static bool enqueue_launch(struct stage *st, void *arg)
{
    const struct launch *l = arg;
    return stage_launch(st, l->kernel, l->blocks, &l->args, sizeof l->args, st->stream);
}

static bool run_kernel(struct stage *st, const struct protocol *p, struct draw *draw)
{
    struct launch l = {.kernel = p->kernel, .args = stage_args(st, pad_of(p))};
    l.blocks = p->least_blocks + draw_below(draw, p->most_blocks - p->least_blocks + 1);
    l.args.rounds = 2 + draw_below(draw, 3);
    l.args.packs = 1 + draw_below(draw, PROOF_PACKS);
    l.args.shift = draw_below(draw, 64);
    l.args.way = p->first_way + draw_below(draw, p->ways);
    l.args.variant = draw_below(draw, p->variants);
    return stage_repeat(st, draw, enqueue_launch, &l);
}

/* ---- in stream order ---- */

struct call {
    const struct protocol *protocol;
    symm_dtype dtype;
    size_t count, nbytes;
    char *in, *out, *inbox;
    bool in_place; /* as the operation has it */
    symm_redop op;
    symm_options options;
    uint32_t signals, rounds;
    uint32_t epochs[4]; /* of `wrap`: where counters are put */
};

static bool enqueue_signals(struct stage *st, void *arg)
{
    enum { FULL, FREE };
    const struct call *c = arg;
    symm_signal_pad *pad = st->pads[pad_of(c->protocol)];
    const int after = neighbour(st, 1), before = neighbour(st, -1);
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
    const int after = neighbour(st, 1), before = neighbour(st, -1);
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
                               .max_blocks = c->options.max_blocks};
}

/* What came of the data of the ranks first, first + 1, ... */
static bool check_collective(struct stage *st, const struct collective *c, char *out, int first)
{
    const int n = st->self->nranks;
    const size_t mine = (size_t)st->self->rank * c->count,
                 part = c->count * reference_size(c->dtype);
    bool ok = true;
    if (c->operation != ALL_GATHER)
        return stage_data(st, PROOF_CHECK, out, c->operation == REDUCE_SCATTER ? mine : 0, c->count,
                          c->dtype, first, n, c->op);
    for (int r = 0; ok && r < n; r++)
        ok = stage_data(st, PROOF_CHECK, out + (size_t)r * part, 0, c->count, c->dtype, first + r,
                        1, c->op);
    return ok;
}

/*
 * Of `count` elements as the operation counts. The input is spoilt right behind each call, and the
 * output before it. `turn`: whose data.
 */
static bool enqueue_collective(struct stage *st, const struct call *call, size_t count, int turn)
{
    enum { TURN = 64 }; /* numbers apart: more than there are ranks */
    const struct collective c = collective_of(call, count);
    const int n = st->self->nranks, first = TURN * turn;
    const size_t size = reference_size(c.dtype), mine = (size_t)st->self->rank * count * size,
                 ins = collective_in_nbytes(&c, n) / size,
                 outs = collective_out_nbytes(&c, n) / size;
    char *in = call->in, *out = call->out;
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
        if (!enqueue_collective(st, c, c->count - round * (c->count / 4), (int)round))
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

static struct call draw_call(struct stage *st, const struct protocol *p, struct draw *draw)
{
    static const symm_dtype types[] = {SYMM_FLOAT32, SYMM_FLOAT16, SYMM_BFLOAT16,
                                       SYMM_FLOAT64, SYMM_INT32,   SYMM_INT64};
    static const symm_redop ops[] = {SYMM_SUM, SYMM_MIN, SYMM_MAX};
    const uint32_t type = draw_below(draw, sizeof types / sizeof types[0]);
    struct call c = {.protocol = p, .dtype = types[type], .op = ops[draw_below(draw, 3)]};
    const size_t size = reference_size(c.dtype);
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

static bool run_signals(struct stage *st, const struct protocol *p, struct draw *draw)
{
    struct call c = draw_call(st, p, draw);
    return stage_repeat(st, draw, enqueue_signals, &c);
}

static bool run_barriers(struct stage *st, const struct protocol *p, struct draw *draw)
{
    struct call c = draw_call(st, p, draw);
    c.in = st->data;
    return stage_repeat(st, draw, enqueue_barriers, &c);
}

/* Shares of whole packs can be used in place. */
static size_t draw_share(const struct stage *st, struct draw *draw, size_t count)
{
    const size_t share = 1 + count / (size_t)st->self->nranks;
    return draw_below(draw, 2) ? (share + 31) / 32 * 32 : share;
}

static struct call draw_collective(struct stage *st, const struct protocol *p, struct draw *draw)
{
    struct call c = draw_call(st, p, draw);
    c.in_place = draw_below(draw, 3) == 0;
    if (c.options.algo == SYMM_ALGO_COPY_ENGINE && c.in_place)
        c.in = c.out;
    if (c.options.algo == SYMM_ALGO_LOW_LATENCY)
        c.count = 1 + c.count / 4; /* an epoch takes four packets of each rank */
    if (p->operation != ALL_REDUCE)
        c.count = draw_share(st, draw, c.count);
    const struct collective what = collective_of(&c, c.count);
    if (collective_unavailable(&what, st->group))
        c.op = SYMM_SUM;
    return c;
}

static bool run_collective(struct stage *st, const struct protocol *p, struct draw *draw)
{
    struct call c = draw_collective(st, p, draw);
    return stage_repeat(st, draw, enqueue_collectives, &c);
}

/* Calls of any operation and algorithm follow each other in the same memory. */
struct mixture {
    struct call calls[6];
    int ncalls;
};

static bool enqueue_mixture(struct stage *st, void *arg)
{
    const struct mixture *m = arg;
    for (int i = 0; i < m->ncalls; i++)
        if (!enqueue_collective(st, &m->calls[i], m->calls[i].count, i))
            return false;
    return true;
}

static bool run_mixture(struct stage *st, const struct protocol *p, struct draw *draw)
{
    const int first = protocols_find("low_latency"), n = pad_of(p) - first; /* all before it */
    struct mixture m = {.ncalls = 0};
    while (m.ncalls < 6) {
        const struct protocol *next = &protocols[first + (int)draw_below(draw, (uint32_t)n)];
        if (!next->multicast || !symm_multicast_off(st->group))
            m.calls[m.ncalls++] = draw_collective(st, next, draw);
    }
    return stage_repeat(st, draw, enqueue_mixture, &m);
}

/* ---- packets ---- */

/* Puts the counter of the packets of the group's first block there, while all ranks stand still. */
static bool move_epoch(struct stage *st, const uint32_t *epoch)
{
    struct symm_signal_cell *cell = (struct symm_signal_cell *)(void *)st->group->pad +
                                    SYMM_CHANNEL_BLOCKS * st->self->nranks + st->self->rank;
    return OK(symm_barrier(st->group, st->stream)) &&
           OK(symm_copy(&cell->sent, epoch, sizeof *epoch, st->stream)) &&
           OK(symm_barrier(st->group, st->stream));
}

static bool clear_packets(struct stage *st)
{
    const size_t nbytes = st->group->block_packets * sizeof *st->group->packets;
    return OK(symm_barrier(st->group, st->stream)) &&
           OK(symm_fill(st->group->packets, 0, nbytes, st->stream));
}

/* The epoch in flags is that of the counter minus 2, in 16 bits. */
static bool begins_again(uint32_t epoch)
{
    return (uint16_t)(epoch - 2) == 0;
}

/*
 * Slots that lie unused while the epochs go round: a large call, small ones until the epochs begin
 * again, and a large one again, with the same flags.
 */
static bool enqueue_wrap(struct stage *st, void *arg)
{
    const struct call *c = arg;
    int turn = 0;
    if (!clear_packets(st) || !move_epoch(st, &c->epochs[0]) ||
        !enqueue_collective(st, c, c->count, turn++) || !move_epoch(st, &c->epochs[1]))
        return false;
    for (uint32_t passed = c->epochs[1]; !begins_again(passed);
         passed = passed == UINT32_MAX ? 2 : passed + 1)
        if (!enqueue_collective(st, c, 1, turn++))
            return false;
    return move_epoch(st, &c->epochs[2]) && enqueue_collective(st, c, c->count, turn++) &&
           clear_packets(st) && move_epoch(st, &c->epochs[3]);
}

/* Of several slots, in one or two epochs: a third would write over what the first has left. */
static size_t draw_large(const struct stage *st, struct draw *draw, const struct call *c)
{
    const bool shares = c->options.algo == SYMM_ALGO_LOW_LATENCY_TWO_SHOT;
    const uint32_t n = (uint32_t)st->self->nranks, size = (uint32_t)reference_size(c->dtype),
                   packet = size == 8 ? 1 : 12 / size,
                   room = st->group->block_packets / n / (shares ? 4 : 2);
    return (size_t)packet * (shares ? n : 1) * (2 + draw_below(draw, 2 * room - 1));
}

static bool run_wrap(struct stage *st, const struct protocol *p, struct draw *draw)
{
    struct call c = draw_call(st, p, draw);
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

/* ---- long waits ---- */

enum { WAITS = 4 }; /* blocks that wait */

/* What the record says now, if it is valid and other than `last`; whole, or not at all. */
static bool read_record(const struct stage *st, uint32_t last, struct symm_wait_record *out)
{
    struct symm_wait_record *record = st->view.record;
    const uint32_t valid = __atomic_load_n(&record->valid, __ATOMIC_ACQUIRE);
    if (!valid || valid == last)
        return false;
    for (size_t w = 0; w < sizeof *out / sizeof(uint32_t); w++)
        ((uint32_t *)out)[w] = __atomic_load_n((uint32_t *)record + w, __ATOMIC_ACQUIRE);
    out->valid = valid;
    return __atomic_load_n(&record->valid, __ATOMIC_RELAXED) == valid;
}

/* The block of which the record tells; -1: it is wrong. */
static int waiting_block(const struct stage *st, const proof_args *a,
                         const struct symm_wait_record *r)
{
    const int kind = a->variant ? SYMM_WAIT_PACKET : SYMM_WAIT_SIGNAL;
    const uint64_t off = r->pad - (uint64_t)(uintptr_t)a->slots;
    const int block = a->variant ? (int)(off / sizeof *a->slots) : r->channel;
    const bool right =
        a->variant ? off % sizeof *a->slots == 0 && r->expected == a->variant && r->channel == 0
                   : r->pad == (uint64_t)(uintptr_t)a->pad && r->expected == r->seen + 1;
    return right && (int)r->kind == kind && r->from == neighbour(st, -1) && block >= 0 &&
                   block < WAITS
               ? block
               : -1;
}

/* Ends the wait of one of the next rank's blocks. */
static bool serve(struct stage *st, const proof_args *a, int block)
{
    proof_args late = *a;
    late.way = (uint32_t)block;
    if (a->variant)
        return stage_launch(st, "proof_send_late", 1, &late, sizeof late, st->stream);
    return OK(symm_signal(st->group, a->pad, block, neighbour(st, 1), 1, st->stream));
}

/* Reads of one block after the other, and asks for the end of its wait. */
static void ask_for_all(struct stage *st, const proof_args *a, _Atomic unsigned *asked)
{
    const int64_t end = now_ms() + 3000;
    struct symm_wait_record r;
    uint32_t last = 0;
    while (*asked != (1 << WAITS) - 1) {
        if (read_record(st, last, &r)) {
            const int block = waiting_block(st, a, &r);
            if (block < 0)
                stage_fail(st, "a wrong record: kind %u from %d channel %d expected %u seen %u",
                           r.kind, r.from, r.channel, r.expected, r.seen);
            last = r.valid;
            *asked |= 1u << block;
        }
        if (now_ms() > end)
            stage_fail(st, "no record of a wait: told of blocks %u", *asked);
        sched_yield();
    }
}

static bool serve_all(struct stage *st, const proof_args *a, const _Atomic unsigned *asked)
{
    unsigned served = 0;
    while (served != (1 << WAITS) - 1) {
        const unsigned next = *asked & ~served;
        for (int b = 0; b < WAITS; b++)
            if (next & 1u << b && !serve(st, a, b))
                return false;
        served |= next;
        pause_ms(next ? 0 : 1);
    }
    return true;
}

/*
 * Every other rank has blocks that wait; as soon as its host has read of one, the rank before
 * it lets that one go, and the host reads of another.
 */
static bool run_record(struct stage *st, const struct protocol *p, struct draw *draw)
{
    const int rank = st->self->rank, n = st->self->nranks;
    const int even = n > 2 && draw_below(draw, 2);
    const bool waits = rank > 0 && (rank ^ even) & 1,
               serves = rank + 1 < n && ((rank + 1) ^ even) & 1;
    proof_args a = stage_args(st, pad_of(p));
    a.slots += PROOF_BLOCKS * 2 * PROOF_RANKS * PROOF_PACKS;
    a.variant = draw_below(draw, 2) ? 1 + draw_below(draw, 1u << 31) : 0;
    st->hall->asked[rank] = 0;
    pthread_barrier_wait(&st->hall->meet);
    if (waits) {
        if (!stage_launch(st, p->kernel, WAITS, &a, sizeof a, st->stream))
            return false;
        ask_for_all(st, &a, &st->hall->asked[rank]);
    } else if (serves && !serve_all(st, &a, &st->hall->asked[rank + 1])) {
        return false;
    }
    return OK(symm_synchronize(st->group, st->stream));
}

/* ---- groups that end ---- */

bool protocols_until_the_end(struct stage *st, struct draw *draw)
{
    static const char *const names[] = {"barrier",
                                        "one_shot",
                                        "two_shot",
                                        "low_latency_two_shot",
                                        "low_latency",
                                        "packets",
                                        "put",
                                        "reduce_scatter_low_latency",
                                        "reduce_scatter_one_shot",
                                        "all_gather_low_latency",
                                        "all_gather_one_shot",
                                        "matmul_fused",
                                        "matmul_pipelined"};
    const int64_t end = now_ms() + 5000;
    bool ok = true;
    st->expected = SYMM_ERROR_PEER;
    while (ok) {
        const struct protocol *p =
            &protocols[protocols_find(names[draw_below(draw, sizeof names / sizeof names[0])])];
        st->inside = p->name;
        /* A rank may be done with a run while others still read what it would write now. */
        ok = OK(symm_barrier(st->group, st->stream)) && p->run(st, p, draw);
        st->self->report->value[1] += ok;
        if (now_ms() > end)
            stage_fail(st, "the group does not end");
    }
    st->expected = SYMM_OK;
    st->inside = NULL;
    return true;
}

struct aborter {
    pthread_t thread;
    symm_group *group;
    int after_us; /* -1: not this rank */
};

static void *abort_later(void *arg)
{
    const struct aborter *a = arg;
    usleep((useconds_t)a->after_us);
    symm_abort(a->group, "enough");
    return NULL;
}

/* One rank gives up at some time. */
static void aborter_start(struct aborter *a, struct stage *st, struct draw *draw)
{
    const bool me = (int)draw_below(draw, (uint32_t)st->self->nranks) == st->self->rank;
    const int after_us = (int)draw_below(draw, 4000);
    *a = (struct aborter){.group = st->group, .after_us = me ? after_us : -1};
    if (me && pthread_create(&a->thread, NULL, abort_later, a) != 0)
        stage_fail(st, "no thread");
}

static void aborter_end(const struct aborter *a)
{
    if (a->after_us >= 0)
        pthread_join(a->thread, NULL);
}

/* Whatever a rank was told is right must be, and all learn of the end. */
static bool run_abort(struct stage *st, const struct protocol *p, struct draw *draw)
{
    struct aborter a;
    (void)p;
    aborter_start(&a, st, draw);
    protocols_until_the_end(st, draw);
    aborter_end(&a);
    return true;
}

/* A call that must end the group, with this. */
static void expect_end(struct stage *st, symm_status expected)
{
    st->expected = expected;
    if (OK(symm_synchronize(st->group, st->stream)))
        stage_fail(st, "the group does not end");
    st->expected = SYMM_OK;
}

/* Kernels wait for ever; behind the waits are signals, which must not go out after the abort. */
static bool run_silence(struct stage *st, const struct protocol *p, struct draw *draw)
{
    enum { BEHIND = 1 };
    const proof_args a = stage_args(st, pad_of(p));
    const struct symm_signal_cell *cell = (const struct symm_signal_cell *)(const void *)a.pad +
                                          BEHIND * st->self->nranks + neighbour(st, -1);
    const uint64_t before = cell->arrived;
    struct aborter aborter;
    pthread_barrier_wait(&st->hall->meet);
    if (!stage_launch(st, p->kernel, 1, &a, sizeof a, st->stream))
        return false;
    pthread_barrier_wait(&st->hall->meet); /* nobody is told of the end when he launches */
    aborter_start(&aborter, st, draw);
    expect_end(st, SYMM_ERROR_PEER);
    aborter_end(&aborter);
    pthread_barrier_wait(&st->hall->meet);
    if (*(const volatile uint64_t *)&cell->arrived != before)
        stage_fail(st, "a signal came from a rank that had aborted");
    if (!OK(symm_copy(st->counts, st->result, sizeof st->counts, st->stream)) ||
        !OK(symm_synchronize(symm_context_world(st->ctx), st->stream)))
        return false;
    if (st->counts[0] > 0 || st->counts[1] != st->hall->block)
        stage_fail(st, "%u of %u threads have not heard of the abort", st->counts[0],
                   st->counts[1]);
    return true;
}

/*
 * One rank comes late, and may not have heard of an abort that has ended the waits of the others:
 * what it gets must be right, or not come.
 */
static bool run_hearsay(struct stage *st, const struct protocol *p, struct draw *draw)
{
    const uint32_t late = draw_below(draw, (uint32_t)st->self->nranks);
    proof_args a = stage_args(st, pad_of(p));
    struct call c = draw_call(st, p, draw);
    struct aborter aborter;
    bool ok = true;
    const uint32_t delay = draw_below(draw, 2000);
    a.rounds = (int)late == st->self->rank ? delay : 0;
    c.options = (symm_options){.algo = SYMM_ALGO_LOW_LATENCY_TWO_SHOT, .max_blocks = 1};
    c.count = 1 + draw_below(draw, 32);
    st->expected = SYMM_ERROR_PEER;
    st->salts[0] = draw_below(draw, UINT32_MAX);
    ok = OK(symm_copy(st->salt, &st->salts[0], sizeof st->salts[0], st->stream));
    pthread_barrier_wait(&st->hall->meet);
    aborter_start(&aborter, st, draw);
    for (int turn = 0; ok; turn++)
        ok = stage_launch(st, p->kernel, 1, &a, sizeof a, st->stream) &&
             enqueue_collective(st, &c, c.count, turn) &&
             OK(symm_synchronize(st->group, st->stream));
    aborter_end(&aborter);
    st->expected = SYMM_OK;
    if (!OK(symm_copy(st->counts, st->result, sizeof st->counts, st->stream)) ||
        !OK(symm_synchronize(symm_context_world(st->ctx), st->stream)))
        return false;
    if (st->counts[0] > 0)
        stage_fail(st, "%u of %u wrong on a rank that had not heard of the end", st->counts[0],
                   st->counts[1]);
    return true;
}

/* One rank comes with another word. */
static bool run_mismatch(struct stage *st, const struct protocol *p, struct draw *draw)
{
    proof_args a = stage_args(st, pad_of(p));
    a.rounds = 1 + draw_below(draw, 3);
    a.packs = 1;
    a.variant = 1 + draw_below(draw, (uint32_t)st->self->nranks);
    st->expected = SYMM_ERROR_MISMATCH; /* the others may have found out before this rank comes */
    if (stage_launch(st, p->kernel, 1 + draw_below(draw, 2), &a, sizeof a, st->stream))
        expect_end(st, SYMM_ERROR_MISMATCH);
    st->expected = SYMM_OK;
    return true;
}

/* ---- the table ---- */

/* clang-format off */
#define KERNEL(name_, first_, ways_, variants_, least_, most_)                                     \
    {.name = #name_, .run = run_kernel, .kernel = "proof_" #name_, .first_way = first_,            \
     .ways = ways_, .variants = variants_, .least_blocks = least_, .most_blocks = most_}
#define MULTICAST(name_, kernel_, first_, ways_, variants_, least_, most_)                         \
    {.name = #name_, .run = run_kernel, .kernel = "proof_" #kernel_, .first_way = first_,          \
     .ways = ways_, .variants = variants_, .least_blocks = least_, .most_blocks = most_,           \
     .multicast = true}
#define COLLECTIVE(name_, operation_, algo_, multicast_)                                           \
    {.name = #name_, .run = run_collective, .operation = operation_, .algo = SYMM_ALGO_##algo_,    \
     .multicast = multicast_}
#define PRODUCT(name_, strategy_)                                                                  \
    {.name = #name_, .run = products_run, .algo = SYMM_STRATEGY_##strategy_}

const struct protocol protocols[] = {
    KERNEL(barrier, 0, PROOF_UNICAST, 2, 1, 3),
    MULTICAST(barrier_multicast, barrier, PROOF_SPREAD, 3, 2, 1, 2),
    KERNEL(split, 0, PROOF_UNICAST, 2, 1, 3),
    MULTICAST(split_multicast, split, PROOF_SPREAD, 3, 2, 1, 2),
    KERNEL(agree, 0, PROOF_UNICAST, 1, 1, 3),
    KERNEL(insist, 0, PROOF_UNICAST, 1, 1, 3),
    KERNEL(flight, 0, PROOF_UNICAST, 1, 1, 2),
    KERNEL(grid_sync, 0, 1, 1, 2, 4),
    KERNEL(grid_barrier, 0, PROOF_UNICAST, 1, 2, 4),
    MULTICAST(grid_barrier_multicast, grid_barrier, PROOF_SPREAD, 3, 1, 2, 3),
    KERNEL(signal, 0, 1, 3, 1, 3),
    KERNEL(pairs, 0, PROOF_UNICAST, 1, 1, 3),
    KERNEL(peek, 0, 1, 1, 2, 4),
    KERNEL(put, 0, 1, 3, 1, 3),
    KERNEL(red_add, 0, 1, 3, 1, 2),
    MULTICAST(multimem_red, multimem_red, 0, 1, 3, 1, 2),
    KERNEL(packets, 0, 1, 2, 1, 3),
    KERNEL(block_sum, 0, 1, 1, 1, 2),
    {.name = "stream_signal", .run = run_signals},
    {.name = "stream_barrier", .run = run_barriers},
    COLLECTIVE(low_latency, ALL_REDUCE, LOW_LATENCY, false),
    COLLECTIVE(low_latency_two_shot, ALL_REDUCE, LOW_LATENCY_TWO_SHOT, false),
    COLLECTIVE(one_shot, ALL_REDUCE, ONE_SHOT, false),
    COLLECTIVE(two_shot, ALL_REDUCE, TWO_SHOT, false),
    COLLECTIVE(multimem, ALL_REDUCE, MULTIMEM, true),
    COLLECTIVE(multimem_one_shot, ALL_REDUCE, MULTIMEM_ONE_SHOT, true),
    COLLECTIVE(reduce_scatter_low_latency, REDUCE_SCATTER, LOW_LATENCY, false),
    COLLECTIVE(reduce_scatter_one_shot, REDUCE_SCATTER, ONE_SHOT, false),
    COLLECTIVE(reduce_scatter_multimem, REDUCE_SCATTER, MULTIMEM, true),
    COLLECTIVE(all_gather_low_latency, ALL_GATHER, LOW_LATENCY, false),
    COLLECTIVE(all_gather_one_shot, ALL_GATHER, ONE_SHOT, false),
    COLLECTIVE(all_gather_multimem, ALL_GATHER, MULTIMEM, true),
    COLLECTIVE(copy_engine, ALL_REDUCE, COPY_ENGINE, false),
    COLLECTIVE(reduce_scatter_copy_engine, REDUCE_SCATTER, COPY_ENGINE, false),
    COLLECTIVE(all_gather_copy_engine, ALL_GATHER, COPY_ENGINE, false),
    {.name = "mixture", .run = run_mixture},
    PRODUCT(matmul_fused, FUSED),
    PRODUCT(matmul_pipelined, PIPELINED),
    PRODUCT(matmul_unfused, UNFUSED),
    {.name = "matmul_late", .run = products_late, .algo = SYMM_STRATEGY_FUSED},
    {.name = "wrap", .run = run_wrap},
    {.name = "record", .run = run_record, .kernel = "proof_wait_long"},
    {.name = "abort", .run = run_abort, .ends = true},
    {.name = "silence", .run = run_silence, .kernel = "proof_wait_for_ever", .ends = true},
    {.name = "matmul_silence", .run = products_silence, .algo = SYMM_STRATEGY_FUSED, .ends = true},
    {.name = "hearsay", .run = run_hearsay, .kernel = "proof_dawdle", .ends = true},
    {.name = "mismatch", .run = run_mismatch, .kernel = "proof_insist", .ends = true},
};
/* clang-format on */

int protocols_count(void)
{
    return sizeof protocols / sizeof protocols[0];
}

bool protocols_open(struct stage *st, struct rank *self, struct hall *hall)
{
    bool ok = stage_open(st, self, hall) && stage_kernel(st, "proof_data") &&
              stage_kernel(st, "proof_product_data") && stage_kernel(st, "proof_send_late");
    for (int p = 0; ok && p < protocols_count(); p++)
        ok = !protocols[p].kernel || stage_kernel(st, protocols[p].kernel);
    return ok && OK(symm_exchange(st->group, NULL, 0, NULL));
}

int protocols_find(const char *name)
{
    for (int p = 0; p < protocols_count(); p++)
        if (strcmp(protocols[p].name, name) == 0)
            return p;
    return -1;
}
