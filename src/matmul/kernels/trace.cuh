/*
 * Records events of kernels in traced images, which define SYMM_TRACED as the role of the threads
 * that wait. In all other images these functions are empty, and no instruction is left of them.
 *
 * SYMM_TRACE_BEGIN(begin) is the time at which an event of this thread begins. If one thread of the
 * block records the event, SYMM_TRACE_BEGIN_BY(begin, recorder) keeps the time in shared memory,
 * since kernels have few registers left. SYMM_TRACED_ALONE: one thread of a block waits for rows.
 */
#ifndef SYMM_MATMUL_TRACE_CUH
#define SYMM_MATMUL_TRACE_CUH

#include "schedule.cuh"
#include "trace.h"

#ifdef SYMM_TRACED

#include "clock.cuh"

#define SYMM_TRACE_BEGIN_BY(begin, recorder)                                                       \
    __shared__ volatile uint64_t begin;                                                            \
    if (recorder)                                                                                  \
    begin = clock_ns()
#ifdef SYMM_TRACED_ALONE
#define SYMM_TRACE_BEGIN(begin) SYMM_TRACE_BEGIN_BY(begin, true)
#else
#define SYMM_TRACE_BEGIN(begin) const uint64_t begin = clock_ns()
#endif

/* The event in this place. */
SYMM_DEV symm_matmul_event *event_at(const symm_view &v, uint32_t i)
{
    symm_trace *trace = reinterpret_cast<symm_trace *>(SYMM_TRACE_OF(v));
    return reinterpret_cast<symm_matmul_event *>(trace + 1) + i;
}

template <typename T> SYMM_DEV void set(T &member, T value)
{
    symm_dev_store_one(&member, value);
}

/* Appends an event that began then; NULL: there is no room. */
SYMM_DEV symm_matmul_event *append_event(const symm_view &v, uint64_t begin)
{
    symm_trace *trace = reinterpret_cast<symm_trace *>(SYMM_TRACE_OF(v));
    const uint32_t i = symm_detail::fetch_add_relaxed(&trace->count, 1);

    if (i >= SYMM_TRACE_CAPACITY)
        return nullptr;
    set(event_at(v, i)->begin, begin);
    return event_at(v, i);
}

/* The event ends now. t: of a tile, whose first row in D is `row`; else all 0. */
SYMM_DEV void end_event(symm_matmul_event *e, symm_matmul_event_kind kind, symm_matmul_role role,
                        int32_t rank, int32_t chunk, const tile &t, int32_t row)
{
    const place here = this_place();

    set(e->end, clock_ns());
    set(e->kind, (uint16_t)kind);
    set(e->role, (uint16_t)role);
    set(e->sm, here.sm);
    set(e->block, here.block);
    set(e->thread, here.thread);
    set(e->rank, rank);
    set(e->chunk, chunk);
    set(e->product, t.product);
    set(e->batch, t.batch);
    set(e->row, row);
    set(e->column, t.column);
    set(e->rows, t.rows);
    set(e->columns, t.columns);
}

/* The block has multiplied a tile since `begin`. One of its threads is the recorder. */
SYMM_DEV void trace_tile(const symm_product_args &a, const tile &t, symm_matmul_role role,
                         uint64_t begin, bool recorder)
{
    symm_matmul_event *e = recorder && t.rows > 0 ? append_event(a.view, begin) : nullptr;

    if (e)
        end_event(e, SYMM_MATMUL_EVENT_TILE, role, t.shard, 0, t,
                  symm__first_row_of_rank(a.a.m, a.a.nranks, shard_in_a(a, t)) + row_in_a(a, t));
}

/* This thread has waited for a rank since `begin`. */
SYMM_DEV void trace_wait(const symm_view &v, symm_matmul_event_kind kind, int32_t rank,
                         int32_t chunk, uint64_t begin)
{
    symm_matmul_event *e = append_event(v, begin);

    if (e)
        end_event(e, kind, SYMM_TRACED, rank, chunk, {}, 0);
}

/* This thread has waited for a part of the tile's sum since `begin`, or has added it. */
SYMM_DEV void trace_part(const symm_product_args &a, const tile &t, symm_matmul_event_kind kind,
                         uint64_t begin)
{
    symm_matmul_event *e = append_event(a.view, begin);

    if (e)
        end_event(e, kind, SYMM_TRACED, t.shard, 0, t,
                  symm__first_row_of_rank(a.a.m, a.a.nranks, shard_in_a(a, t)) + row_in_a(a, t));
}

/* This block opens or closes a round since `begin`. One thread records it. */
SYMM_DEV void trace_round(const symm_view &v, symm_matmul_event_kind kind, uint64_t begin)
{
    if (threadIdx.x == 0)
        trace_wait(v, kind, 0, 0, begin);
}

/* A chunk, by its number in the order of all chunks, is sent from now on if `first`. One thread. */
SYMM_DEV void trace_send_begins(const symm_view &v, uint32_t number, bool first)
{
    if (first)
        set(event_at(v, number)->begin, clock_ns());
}

/* The chunk is sent, and signalled. One thread. */
SYMM_DEV void trace_send_ends(const symm_view &v, uint32_t number, int32_t rank, uint32_t chunk)
{
    end_event(event_at(v, number), SYMM_MATMUL_EVENT_SEND, SYMM_MATMUL_ROLE_SENDER, rank,
              (int32_t)chunk, {}, 0);
}

#else

#define SYMM_TRACE_BEGIN(begin) const uint64_t begin = 0
#define SYMM_TRACE_BEGIN_BY(begin, recorder) const uint64_t begin = 0

SYMM_DEV void trace_tile(const symm_product_args &, const tile &, symm_matmul_role, uint64_t, bool)
{
}

SYMM_DEV void trace_wait(const symm_view &, symm_matmul_event_kind, int32_t, int32_t, uint64_t)
{
}

SYMM_DEV void trace_part(const symm_product_args &, const tile &, symm_matmul_event_kind, uint64_t)
{
}

SYMM_DEV void trace_round(const symm_view &, symm_matmul_event_kind, uint64_t)
{
}

SYMM_DEV void trace_send_begins(const symm_view &, uint32_t, bool)
{
}

SYMM_DEV void trace_send_ends(const symm_view &, uint32_t, int32_t, uint32_t)
{
}

#endif

#endif
