/* Signals that are counted, not taken: run i has the i-th of each channel. */
#ifndef SYMM_MATMUL_RUNS_CUH
#define SYMM_MATMUL_RUNS_CUH

#include <symm/device.cuh>

/*
 * Whether a rank's signal of the run after `runs` others has come. If so, the thread may read what
 * it announces. Any thread.
 */
SYMM_DEV bool has_signal(const symm_view &v, symm_signal_pad *pad, int32_t channel, int32_t from,
                         uint32_t runs)
{
    const symm_signal_cell *cell = symm_detail::signal_cell(v, pad, channel, from);
    const uint32_t arrived = (uint32_t)symm_detail::load_acquire(&cell->arrived);

    return (int32_t)(arrived - runs - 1) >= 0;
}

/* Waits for it. Returns after an abort, too. Any thread. */
SYMM_DEV void await_signal(const symm_view &v, symm_signal_pad *pad, int32_t channel, int32_t from,
                           uint32_t runs)
{
    symm_signal_cell *cell = symm_detail::signal_cell(v, pad, channel, from);
    uint32_t word;

    symm_detail::wait_after(v, pad, channel, from, cell, runs, 1, 0, &word);
}

/* One thread of the rank, after all accesses of the run. */
SYMM_DEV void count_run(uint32_t *runs)
{
    symm_dev_store_one(runs, symm_dev_load_one(runs) + 1);
}

#endif
