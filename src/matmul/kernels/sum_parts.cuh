/*
 * Parts of sums that the product adds: the slots and signals of a run, and tiles whose part comes
 * late. See symm_parts.
 */
#ifndef SYMM_MATMUL_SUM_PARTS_CUH
#define SYMM_MATMUL_SUM_PARTS_CUH

#include "runs.cuh"
#include "schedule.cuh"
#include "sm90_tiles.h"

enum { PART_PACK = 8 /* elements of a sum's row */ };

/* ------------------------------------------------------------------------------------ the slots */

/* The runs that have ended before this one. */
SYMM_DEV uint32_t runs_of(const symm_parts &s)
{
    return symm_detail::load_relaxed(&s.state->runs);
}

/* The set of slots of the run. */
SYMM_DEV uint32_t set_of(uint32_t runs)
{
    return runs % SYMM_PART_SETS;
}

/* The bytes from the slots of the first set to those of the run. */
SYMM_DEV int64_t set_offset(const symm_parts &s, uint32_t runs)
{
    return (int64_t)(set_of(runs) * s.set_nbytes);
}

SYMM_DEV int64_t set_offset(const symm_parts &s)
{
    return s.pad ? set_offset(s, runs_of(s)) : 0;
}

/* --------------------------------------------------------------------------- tiles and channels */

SYMM_DEV int32_t other_rank(const symm_view &v)
{
    return 1 - v.rank;
}

/* Whether this rank owns a tile's sums, and whether the other rank does. */
SYMM_DEV bool is_own(const symm_product_args &a, const tile &t)
{
    return a.parts.all_own || t.shard == a.view.rank;
}

SYMM_DEV bool is_others(const symm_product_args &a, const tile &t)
{
    return a.parts.all_own || t.shard != a.view.rank;
}

SYMM_DEV bool has_parts(const symm_product_args &a)
{
    return a.parts.sums == SYMM_SUMS_PARTS;
}

/* The rank with which this one exchanges signals about tiles. With bands, itself. */
SYMM_DEV int32_t partner(const symm_product_args &a)
{
    return has_parts(a) ? other_rank(a.view) : a.view.rank;
}

/* The rows of an owner's sums. */
SYMM_DEV int32_t rows_of_owner(const symm_product_args &a, int32_t owner)
{
    return a.parts.all_own ? a.a.m : symm__rows_of_rank(a.a.m, a.view.nranks, owner);
}

/* Columns of tiles of products [0, product). */
SYMM_DEV int32_t columns_of_tiles(const symm_product_args &a, int32_t product)
{
    int32_t tiles = 0;

    for (int32_t i = 0; i < product; i++)
        tiles += (a.n[i] + a.parts.columns - 1) / a.parts.columns;
    return tiles;
}

SYMM_DEV int32_t rows_of_tiles(const symm_product_args &a, int32_t owner)
{
    return (rows_of_owner(a, owner) + a.parts.rows - 1) / a.parts.rows;
}

SYMM_DEV int32_t tiles_of_owner(const symm_product_args &a, int32_t owner)
{
    return a.a.l * rows_of_tiles(a, owner) * columns_of_tiles(a, a.nb);
}

/* The channel of an owner's tile that has this row and column. */
SYMM_DEV int32_t channel_of_tile(const symm_product_args &a, int32_t owner, int32_t product,
                                 int32_t batch, int32_t row, int32_t column)
{
    return (batch * rows_of_tiles(a, owner) + row / a.parts.rows) * columns_of_tiles(a, a.nb) +
           columns_of_tiles(a, product) + column / a.parts.columns;
}

SYMM_DEV int32_t channel_of_part(const symm_product_args &a, const symm_part_tile &t)
{
    return channel_of_tile(a, a.view.rank, t.product, t.batch, t.row, t.column);
}

/* -------------------------------------------------------------------------------------- signals */

/*
 * Tells the partner that the part of its tile is in its slot, or that the tile is stored. One
 * thread, after all stores of the part.
 */
SYMM_DEV void signal_part(const symm_product_args &a, const tile &t)
{
    const int32_t owner = partner(a);

    symm_dev_signal(a.view, a.parts.pad,
                    channel_of_tile(a, owner, t.product, t.batch, t.row, t.column), owner);
}

/* Whether the other rank's part of this rank's tile has come. If so, the thread may read it. */
SYMM_DEV bool has_part(const symm_product_args &a, int32_t channel, uint32_t runs)
{
    return has_signal(a.view, a.parts.pad, channel, other_rank(a.view), runs);
}

/* Waits for it, or with bands for this rank's own tile. Returns after an abort, too. */
SYMM_DEV void await_part(const symm_product_args &a, int32_t channel, uint32_t runs)
{
    await_signal(a.view, a.parts.pad, channel, partner(a), runs);
}

/* ----------------------------------------------------------------------------------- late parts */

SYMM_DEV symm_part_tile *late_tiles(const symm_parts &s)
{
    return reinterpret_cast<symm_part_tile *>(s.state + 1);
}

/* Leaves a tile to the kernel behind the product. One thread. */
SYMM_DEV void leave_tile(const symm_parts &s, const tile &t)
{
    symm_part_tile *to = late_tiles(s) + symm_detail::fetch_add_relaxed(&s.state->nlate, 1);

    symm_dev_store_one(&to->product, t.product);
    symm_dev_store_one(&to->batch, t.batch);
    symm_dev_store_one(&to->row, t.row);
    symm_dev_store_one(&to->rows, t.rows);
    symm_dev_store_one(&to->column, t.column);
    symm_dev_store_one(&to->columns, t.columns);
}

/* Adds the other rank's part to this rank's in D. A warp, a pack a lane; it has 32 registers. */
template <typename T>
SYMM_DEV void add_late_tile(const symm_product_args &a, const symm_part_tile &t, int64_t set)
{
    const symm_matrix &x = a.parts.slots[t.product], &d = a.d[t.product];
    const int64_t slot = set + other_rank(a.view) * (int64_t)a.parts.slot_nbytes[t.product];
    const int32_t column = (int32_t)threadIdx.x % 32 * PART_PACK;
    const T *part = reinterpret_cast<const T *>(static_cast<const char *>(x.data) + slot) +
                    t.batch * x.batch + t.row * x.row + t.column + column;
    T *to = static_cast<T *>(d.data) + t.batch * d.batch + t.row * d.row + t.column + column;

#pragma unroll 1
    for (int32_t i = 0; i < t.rows && column < t.columns; i++) {
        symm_f32s<T> sum = symm_dev_load<T>(to);
        symm_dev_add(sum, symm_dev_load<T>(part));
        symm_dev_store(to, sum);
        part += x.row;
        to += d.row;
    }
}

/*
 * The last of all blocks ends the run. Whole blocks, after all of their accesses. The count orders
 * what the blocks have read before what the last one resets.
 */
SYMM_DEV void end_run(symm_parts_state *s)
{
    __syncthreads();
    if (threadIdx.x != 0 || symm_detail::fetch_add(&s->ended, 1) + 1 != gridDim.x)
        return;
    symm_dev_store_one(&s->ended, 0u);
    symm_dev_store_one(&s->nlate, 0u);
    count_run(&s->runs);
}

#endif
