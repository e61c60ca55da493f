/*
 * D from the results of all ranks' products. A kernel begins with a barrier, because the ranks'
 * products must have ended. A barrier also follows its last access to results that a rank's next
 * product overwrites: to other ranks' products, or to the slots that other ranks write. After an
 * abort it writes to this rank's memory only.
 */
#ifndef SYMM_MATMUL_COLLECT_CUH
#define SYMM_MATMUL_COLLECT_CUH

#include "matmul/kernels/sum_packs.cuh"
#include "rank_copies.cuh"
#include "rank_sums.cuh"

enum { LATE_UNITS = 16 /* into which a block divides the rows of a late tile */ };

/* ------------------------------------------------------------------ parts that a product adds */

/* Signals all parts of this rank, which its product has stored. The whole grid. */
SYMM_DEV void signal_parts(const symm_product_args &p)
{
    const int32_t owner = other_rank(p.view);

    for (int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x); i < tiles_of_owner(p, owner);
         i += (int32_t)(gridDim.x * blockDim.x))
        symm_dev_signal(p.view, p.parts.pad, i, owner);
}

/* Waits for all parts of this rank's sums. Whole block. */
SYMM_DEV void await_parts(const symm_product_args &p)
{
    const uint32_t runs = runs_of(p.parts);

    for (int32_t i = (int32_t)threadIdx.x; i < tiles_of_owner(p, p.view.rank);
         i += (int32_t)blockDim.x)
        await_part(p, i, runs);
    __syncthreads();
}

/* Some rows of a tile, which a block adds: part `unit` of LATE_UNITS. */
SYMM_DEV symm_part_tile late_rows(const symm_parts &s, const symm_part_tile &t, uint32_t unit)
{
    const int32_t rows = s.rows / LATE_UNITS, first = (int32_t)unit * rows;
    symm_part_tile some = t;

    some.row += first;
    some.rows = min(rows, t.rows - first);
    return some;
}

SYMM_DEV void add_late(const symm_product_args &p, const symm_part_tile &t, uint32_t runs)
{
    await_part(p, channel_of_part(p, t), runs); /* each thread reads the part */
    if (p.d[t.product].dtype == SYMM_FLOAT16)
        add_late_tile<symm_f16>(p, t, set_offset(p.parts, runs));
    else
        add_late_tile<symm_bf16>(p, t, set_offset(p.parts, runs));
}

/* Adds the parts that the product has left, if any, and ends the run. Blocks of one warp. */
SYMM_DEV void collect_late_parts(const symm_collect_args &a)
{
    const symm_product_args &p = a.product;

    symm_dev_pdl_wait();
    const uint32_t runs = runs_of(p.parts),
                   n = symm_dev_load_one(&p.parts.state->nlate) * LATE_UNITS;
    for (uint32_t i = blockIdx.x; i < n; i += gridDim.x)
        add_late(p, late_rows(p.parts, late_tiles(p.parts)[i / LATE_UNITS], i % LATE_UNITS), runs);
    if (n > 0)
        end_run(p.parts.state);
    else if (blockIdx.x == 0 && threadIdx.x == 0)
        count_run(&p.parts.state->runs);
}

/* All sums, after a product that has added none. */
SYMM_DEV void collect_parts(const symm_collect_args &a)
{
    signal_parts(a.product);
    await_parts(a.product);
    sum_rows(a, a.product.d, 0);
    end_run(a.product.parts.state);
}

/* -------------------------------------------------------------------------------------- packs */

/* All sums, after a product that has sent none. */
SYMM_DEV void collect_packs(const symm_collect_args &a)
{
    const symm_product_args &p = a.product;
    __shared__ pack_run run;
    const pack_sums sums = {p, run};

    if (threadIdx.x == 0)
        run = begin_pack_run(p);
    __syncthreads();
    if (run.tells && threadIdx.x < 32)
        sums.tell_begin();
    for (int32_t i = 0; i < p.nb; i++)
        for_each_runs<1>(a, i, p.a.m, p.n[i],
                         [&](const run_of_row(&runs)[1], int32_t) { sums.send(runs[0]); });
    for (int32_t i = 0; i < p.nb; i++)
        transform_sums(a, i, p.a.m, p.d[i], 0,
                       [&](const run_of_row &r, float(&x)[PACK]) { sums.sum(r, x); });
    if (run.tells && threadIdx.x < 32)
        sums.await_begin();
    if (run.tells && threadIdx.x == 0)
        count_pack_run(p, run);
}

/* ------------------------------------------------------------------------------------ the kinds */

SYMM_DEV void collect_reduce_scatter(const symm_collect_args &a)
{
    if (a.product.parts.pad)
        return collect_parts(a);
    symm_dev_barrier(a.product.view, a.pad, (int)blockIdx.x);
    sum_rows(a, a.product.d, 0);
    symm_dev_barrier(a.product.view, a.pad, (int)blockIdx.x);
}

/*
 * The second barrier says that the sums are there, and that the partial sums have been read. The
 * next run writes sums after its first barrier, when all ranks have ended this kernel.
 */
SYMM_DEV void collect_all_reduce(const symm_collect_args &a)
{
    if (a.product.parts.sums == SYMM_SUMS_PACKS)
        return collect_packs(a);
    if (a.product.parts.pad)
        return collect_parts(a);
    symm_dev_barrier(a.product.view, a.pad, (int)blockIdx.x);
    sum_rows(a, a.sums, symm__first_row_of_rank(a.product.a.m, a.nranks, a.rank));
    symm_dev_barrier(a.product.view, a.pad, (int)blockIdx.x);
    copy_parts<false>(a);
}

SYMM_DEV void collect_all_scatter(const symm_collect_args &a)
{
    symm_dev_barrier(a.product.view, a.pad, (int)blockIdx.x);
    copy_parts<true>(a);
    symm_dev_barrier(a.product.view, a.pad, (int)blockIdx.x);
}

#endif
