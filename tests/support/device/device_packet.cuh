/* Kernels on packets. */

SYMM_DEV bool is_zero(const symm_bits12 &x)
{
    return (x.w[0] | x.w[1] | x.w[2]) == 0;
}

SYMM_DEV uint32_t next_epoch(uint32_t epoch)
{
    return epoch == UINT32_MAX ? 2 : epoch + 1;
}

/* Lists the epochs of each block's channel; all threads of a block must get the same. */
SYMM_KERNEL(test_epochs, test_device_args, a, 256)
{
    __shared__ uint32_t first;
    uint32_t *const out = static_cast<uint32_t *>(a.out) + my_block() * a.rounds, wrong = 0;
    for (uint32_t round = 0; round < a.rounds; round++) {
        const uint32_t epoch = symm_dev_epoch(a.view, a.pad, (int)my_block());
        if (my_thread() == 0) {
            first = epoch;
            symm_dev_store_one(out + round, epoch);
        }
        __syncthreads();
        wrong += first != epoch;
        __syncthreads();
    }
    tally(a, wrong);
}

/* Payload of a packet. Each word looks like a flag now and then. */
SYMM_DEV symm_bits12 payload(const test_device_args &a, uint32_t epoch, int rank, uint32_t block,
                             uint32_t thread)
{
    symm_bits12 x;
    for (uint32_t w = 0; w < 3; w++) {
        const uint32_t word = test_device_word(a.seed + epoch, w, rank, block, thread);
        const uint32_t like[8] = {word,      epoch, epoch - 1, next_epoch(epoch),
                                  epoch - 2, 0,     ~0u,       word};
        x.w[w] = like[word >> 29];
    }
    return x;
}

/*
 * Every rank sends to every rank for many epochs, alternately in two sets of slots. Each thread has
 * a slot per rank. Mode 1: a block has one, for which all its threads wait.
 */
SYMM_KERNEL(test_packets, test_device_args, a, 256)
{
    const symm_view &v = a.view;
    const uint32_t nslots = a.mode ? 1 : count_threads(), t = a.mode ? 0 : my_thread();
    symm_packet *const slots = static_cast<symm_packet *>(a.x);
    uint32_t wrong = 0;

    for (uint32_t round = 0; round < a.rounds; round++) {
        const uint32_t epoch = symm_dev_epoch(v, a.pad, (int)my_block());
        symm_packet *const set =
            slots + (epoch % 2 * count_blocks() + my_block()) * (uint32_t)v.nranks * nslots;
        if (my_thread() < nslots)
            for (int i = 1; i <= v.nranks; i++)
                symm_dev_send16(v, set + (uint32_t)v.rank * nslots + t,
                                payload(a, epoch, v.rank, my_block(), t), epoch,
                                (v.rank + i) % v.nranks);
        for (int r = 0; r < v.nranks; r++) {
            const symm_bits12 want = payload(a, epoch, r, my_block(), t),
                              got = symm_dev_recv16(v, set + (uint32_t)r * nslots + t, epoch, r);
            for (int w = 0; w < 3; w++)
                wrong += got.w[w] != want.w[w];
        }
    }
    tally(a, wrong);
}

/* Flag 0: nothing is sent, and nobody waits. */
SYMM_KERNEL(test_no_flag, test_device_args, a, 256)
{
    symm_packet *const slot = static_cast<symm_packet *>(a.x) + my_thread();
    for (int r = 0; r < a.view.nranks; r++)
        symm_dev_send16(a.view, slot, {{1, 2, 3}}, 0, r);
    tally(a, !is_zero(symm_dev_recv16(a.view, slot, 0, 0)));
}
