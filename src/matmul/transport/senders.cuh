/*
 * Rows sent by SMs. matmul_push, one block of one warp, fits beside products on every SM, so it
 * always runs, and sends all units that no other block takes. matmul_push_free_sms has many blocks,
 * which run only on SMs without a product; no wait depends on them.
 */
#ifndef SYMM_MATMUL_SENDERS_CUH
#define SYMM_MATMUL_SENDERS_CUH

#include "rounds.cuh"
#include "matmul/kernels/chunk_order.h"

/* Some rows of a chunk, of each a run of packs. */
struct send_unit {
    const symm_bits16 *from;          /* NULL: no unit is left */
    symm_bits16 *to;                  /* in the peer's memory */
    uint32_t packs, run, pitch;       /* packs: all; of a run; from one run to the next */
    uint32_t rows_ahead, packs_ahead; /* blockDim.x packs, as whole runs and packs of a run */
    uint32_t chunk, number;           /* number: in the order of all chunks to all ranks */
    int32_t rank;                     /* the receiver */
};

SYMM_DEV void find_unit(const symm_push_args &a, uint32_t i, send_unit &u)
{
    const symm_arrival_plan &plan = a.arrivals;
    const uint32_t chunks = symm__chunks_of_rows(a.rows, plan.strip_rows, plan.k_pieces);

    u.from = nullptr;
    u.number = i / a.units;
    if (u.number >= (uint32_t)(a.view.nranks - 1) * chunks)
        return;
    const symm_chunk_target target = symm__chunk_target(
        u.number, chunks, (uint32_t)a.view.rank, (uint32_t)a.view.nranks, a.shards_interleaved);
    u.chunk = target.chunk;
    u.rank = target.rank;
    const uint64_t width = plan.k_piece * sizeof(uint16_t), begin = u.chunk % plan.k_pieces * width;
    u.run = (uint32_t)(min(width, a.row_nbytes - begin) / 16);
    u.pitch = (uint32_t)(a.row_nbytes / 16);
    u.rows_ahead = blockDim.x / u.run;
    u.packs_ahead = blockDim.x % u.run;
    const uint64_t strip = (uint64_t)(u.chunk / plan.k_pieces) * plan.strip_rows,
                   end = min(strip + plan.strip_rows, a.rows),
                   first = min(strip + (uint64_t)(i % a.units) * a.unit_rows, end);
    u.packs = (uint32_t)min((uint64_t)a.unit_rows, end - first) * u.run;
    char *slab = a.workspace + symm_detail::heard_as(a.view, u.rank) * a.slab_nbytes;
    u.to = reinterpret_cast<symm_bits16 *>(
        symm_dev_peer(a.view, slab + first * a.row_nbytes + begin, u.rank));
    u.from = reinterpret_cast<const symm_bits16 *>(a.from + first * a.row_nbytes + begin);
}

/* A thread's position in a unit, advanced without divisions: one a pack would dominate. */
struct unit_cursor {
    uint32_t index, at, column;

    SYMM_DEV_IN_CLASS unit_cursor(const send_unit &u)
        : index(threadIdx.x), at(index / u.run * u.pitch + index % u.run), column(index % u.run)
    {
    }

    SYMM_DEV_IN_CLASS void next(const send_unit &u)
    {
        index += blockDim.x;
        column += u.packs_ahead;
        at += u.rows_ahead * u.pitch + u.packs_ahead;
        if (column >= u.run) {
            column -= u.run;
            at += u.pitch - u.run;
        }
    }
};

/* All threads of the block. Each has UNROLL packs in flight. */
template <int UNROLL> SYMM_DEV void send(const send_unit &shared)
{
    const send_unit u = shared;
    unit_cursor p(u);

#pragma unroll 1
    while (p.index + (UNROLL - 1) * blockDim.x < u.packs) {
        symm_bits16 x[UNROLL];
        uint32_t at[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; i++, p.next(u)) {
            at[i] = p.at;
            x[i] = symm_dev_load_bits(u.from + p.at);
        }
#pragma unroll
        for (int i = 0; i < UNROLL; i++)
            symm_dev_store_bits(u.to + at[i], x[i]);
    }
#pragma unroll 1
    for (; p.index < u.packs; p.next(u))
        symm_dev_store_bits(u.to + p.at, symm_dev_load_bits(u.from + p.at));
}

/*
 * Backs off while other senders make progress, because a sender beside a product slows it down.
 * Returns after POLLS polls without progress, or when no unit is left. `next`: the first unit that
 * was not taken at this thread's last ticket. One thread.
 */
SYMM_DEV void back_off(const symm_push_args &a, uint32_t next)
{
    const uint32_t chunks =
                       symm__chunks_of_rows(a.rows, a.arrivals.strip_rows, a.arrivals.k_pieces),
                   all = (uint32_t)(a.view.nranks - 1) * chunks * a.units;
    uint32_t taken = symm_detail::load_relaxed(a.tickets);

    for (uint32_t i = 0; taken != next && taken < all && i < POLLS; i++) {
        symm_detail::pause();
        const uint32_t now = symm_detail::load_relaxed(a.tickets);
        if (now != taken)
            i = 0;
        taken = now;
    }
}

/*
 * Sends units until none is left. open_round has waited for the workspaces, so this waits for
 * nothing but, with BACKS_OFF, other senders. Without, a block takes its next ticket while it
 * sends. A block's threads have stored before one of them counts the unit as sent, and these counts
 * are ordered on the device: the thread that counts the last unit of a chunk signals for all.
 */
template <int UNROLL, bool BACKS_OFF> SYMM_DEV void push_rows(const symm_push_args &a)
{
    __shared__ send_unit u;
    uint32_t i = ~0u, next = 0;

    if (symm_dev_aborted(a.view))
        return;
    if (!BACKS_OFF && threadIdx.x == 0)
        next = symm_detail::fetch_add_relaxed(a.tickets, 1);
    for (;;) {
        if (threadIdx.x == 0) {
            if (BACKS_OFF)
                back_off(a, i);
            i = BACKS_OFF ? symm_detail::fetch_add_relaxed(a.tickets, 1) : next;
            find_unit(a, i++, u);
            trace_send_begins(a.view, u.number, u.from && (i - 1) % a.units == 0);
        }
        __syncthreads();
        if (!u.from)
            return;
        if (!BACKS_OFF && threadIdx.x == 0)
            next = symm_detail::fetch_add_relaxed(a.tickets, 1);
        send<UNROLL>(u);
        __syncthreads();
        if (threadIdx.x == 0 &&
            symm_detail::fetch_add(a.tickets + 1 + u.number, 1) + 1 == a.units) {
            symm_dev_signal(a.view, a.arrivals.pad, (int)u.chunk, u.rank);
            trace_send_ends(a.view, u.number, u.rank, u.chunk);
        }
    }
}

#endif
