/* Kernels whose waits never end. */

/* After an abort no call waits or sends, and each returns the abort. */
SYMM_DEV uint32_t live_on(const test_device_args &a)
{
    const symm_view &v = a.view;
    symm_packet *const slot = static_cast<symm_packet *>(a.y);
    uint32_t wrong = !symm_dev_aborted(v);
    if (my_thread() == 0) {
        symm_dev_signal(v, a.pad, 3, v.rank);
        symm_dev_wait(v, a.pad, 4, v.rank);
        symm_dev_wait_peek(v, a.pad, 4, v.rank, 7);
    }
    symm_dev_barrier(v, a.pad, 5);
    symm_dev_arrive(v, a.pad, 5);
    symm_dev_wait_all(v, a.pad, 5);
    wrong += v.nranks > 1 && symm_dev_barrier_test_equal(v, a.pad, 5, 1);
    wrong += v.nranks > 1 && symm_dev_barrier_require_equal(v, a.pad, 5, 1);
    symm_dev_grid_sync(v, a.pad, 6);
    symm_dev_grid_barrier(v, a.pad, 6);
    const uint32_t epoch = symm_dev_epoch(v, a.pad, 7);
    wrong += epoch != 0;
    symm_dev_send16(v, slot + 1, {{1, 2, 3}}, epoch, v.rank);
    return wrong + !is_zero(symm_dev_recv16(v, slot + 1, 77, v.rank));
}

/* Waits for a signal that nobody sends. Block 0 stays away from its grid's barrier. */
SYMM_KERNEL(test_stall, test_device_args, a, 64)
{
    const symm_view &v = a.view;
    symm_packet *const slot = static_cast<symm_packet *>(a.y);
    uint32_t wrong = 0;
    if (a.mode == TEST_STALL_GRID && my_block() != 0) {
        symm_dev_grid_sync(v, a.pad, 2);
        wrong = live_on(a);
    } else if (a.mode == TEST_STALL_PACKET) {
        wrong = !is_zero(symm_dev_recv16(v, slot, TEST_STALL_FLAG, a.param));
        wrong += live_on(a);
    } else if (a.mode == TEST_STALL_SIGNAL) {
        if (my_thread() == 0)
            symm_dev_wait(v, a.pad, 1, a.param, 2);
        wrong = live_on(a);
    }
    tally(a, wrong);
}
