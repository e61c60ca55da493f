/* Records of long waits, aborts and mismatches. */
#include "ends.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>
#include <symm/detail/wait_record.h>
#include "calls.h"
#include "exercise.h"

#define OK(call) stage_ok(st, (call), #call)

/* ---- long waits ---- */

enum { WAITS = 4 }; /* blocks that wait */

/* Copies the record. False unless it is valid, complete and differs from `last`. */
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
    return right && (int)r->kind == kind && r->from == stage_neighbour(st, -1) && block >= 0 &&
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
    return OK(symm_signal(st->group, a->pad, block, stage_neighbour(st, 1), 1, st->stream));
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
            stage_fail(st, "no record of a wait: blocks recorded: %u", *asked);
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
bool ends_run_record(struct stage *st, const struct protocol *p, struct draw *draw)
{
    const int rank = st->self->rank, n = st->self->nranks;
    const int even = n > 2 && draw_below(draw, 2);
    const bool waits = rank > 0 && (rank ^ even) & 1,
               serves = rank + 1 < n && ((rank + 1) ^ even) & 1;
    proof_args a = stage_args(st, protocols_pad(p));
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
                                        "lamport",
                                        "reduce_scatter_lamport",
                                        "all_gather_low_latency",
                                        "all_gather_one_shot",
                                        "broadcast_low_latency",
                                        "broadcast_one_shot",
                                        "matmul_fused",
                                        "matmul_pipelined"};
    const int64_t end = now_ms() + 5000;
    bool ok = true;
    st->expected = SYMM_ERROR_PEER;
    while (ok) {
        const struct protocol *p =
            &protocols[protocols_find(names[draw_below(draw, sizeof names / sizeof names[0])])];
        st->inside = p->name;
        /* A rank may have finished a run while others still read data that it would overwrite. */
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

/* Results of OK calls are right, and every rank learns of the end. */
bool ends_run_abort(struct stage *st, const struct protocol *p, struct draw *draw)
{
    struct aborter a;
    (void)p;
    aborter_start(&a, st, draw);
    protocols_until_the_end(st, draw);
    aborter_end(&a);
    return true;
}

/* A call that must end the group with this status. */
static void expect_end(struct stage *st, symm_status expected)
{
    st->expected = expected;
    if (OK(symm_synchronize(st->group, st->stream)))
        stage_fail(st, "the group does not end");
    st->expected = SYMM_OK;
}

/* Kernels wait for ever; behind the waits are signals, which must not go out after the abort. */
bool ends_run_silence(struct stage *st, const struct protocol *p, struct draw *draw)
{
    enum { BEHIND = 1 };
    const proof_args a = stage_args(st, protocols_pad(p));
    const struct symm_signal_cell *cell = (const struct symm_signal_cell *)(const void *)a.pad +
                                          BEHIND * st->self->nranks + stage_neighbour(st, -1);
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

/* One rank comes late and may not know of an abort: its results are right, or do not come. */
bool ends_run_hearsay(struct stage *st, const struct protocol *p, struct draw *draw)
{
    const uint32_t late = draw_below(draw, (uint32_t)st->self->nranks);
    proof_args a = stage_args(st, protocols_pad(p));
    struct call c = calls_draw(st, p, draw);
    struct aborter aborter;
    bool ok = true;
    const uint32_t delay = draw_below(draw, 2000);
    a.rounds = (int)late == st->self->rank ? delay : 0;
    c.options = (symm_options){.algo = SYMM_ALGO_LOW_LATENCY_TWO_SHOT, .max_blocks = 1};
    if (draw_below(draw, 2)) {
        c.options.algo = SYMM_ALGO_LAMPORT; /* of floats; the buffers are aligned to this size */
        c.dtype = c.dtype == SYMM_INT32   ? SYMM_FLOAT32
                  : c.dtype == SYMM_INT64 ? SYMM_FLOAT64
                                          : c.dtype;
    }
    c.count = 1 + draw_below(draw, 32);
    st->expected = SYMM_ERROR_PEER;
    st->salts[0] = draw_below(draw, UINT32_MAX);
    ok = OK(symm_copy(st->salt, &st->salts[0], sizeof st->salts[0], st->stream));
    pthread_barrier_wait(&st->hall->meet);
    aborter_start(&aborter, st, draw);
    for (int turn = 0; ok; turn++)
        ok = stage_launch(st, p->kernel, 1, &a, sizeof a, st->stream) &&
             calls_enqueue(st, &c, c.count, turn) && OK(symm_synchronize(st->group, st->stream));
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
bool ends_run_mismatch(struct stage *st, const struct protocol *p, struct draw *draw)
{
    proof_args a = stage_args(st, protocols_pad(p));
    a.rounds = 1 + draw_below(draw, 3);
    a.packs = 1;
    a.variant = 1 + draw_below(draw, (uint32_t)st->self->nranks);
    st->expected = SYMM_ERROR_MISMATCH; /* the others may have found out before this rank comes */
    if (stage_launch(st, p->kernel, 1 + draw_below(draw, 2), &a, sizeof a, st->stream))
        expect_end(st, SYMM_ERROR_MISMATCH);
    st->expected = SYMM_OK;
    return true;
}
