/* Copies and puts of every alignment and size, by blocks, threads and the copy unit. */

SYMM_DEV void move(const test_device_args &a, char *to, const char *from, uint64_t nbytes,
                   char *shared)
{
    const symm_view &v = a.view;
    const int after = (v.rank + 1) % v.nranks;
    switch (a.mode) {
    case TEST_MOVE_COPY:
        symm_dev_copy(symm_dev_peer(v, to, after), from, nbytes);
        break;
    case TEST_MOVE_COPY_THREAD:
        symm_dev_copy_thread(symm_dev_peer(v, to, after), from, nbytes);
        break;
    case TEST_MOVE_PUT:
        symm_dev_put(v, to, from, nbytes, after);
        break;
    case TEST_MOVE_PUT_THREAD:
        symm_dev_put_thread(v, to, from, nbytes, after);
        break;
    default:
        symm_dev_put_bulk(v, to, from, nbytes, after, shared, (uint32_t)a.param);
        break;
    }
}

SYMM_DEV bool is_by_block(const test_device_args &a)
{
    return a.mode == TEST_MOVE_COPY || a.mode == TEST_MOVE_PUT;
}

/* Every alignment of both sides and every size; see TEST_COPY_JOBS. */
SYMM_KERNEL(test_copies, test_device_args, a, 256)
{
    const uint32_t nth = is_by_block(a) ? my_block() : my_block() * count_threads() + my_thread();
    const uint32_t step = is_by_block(a) ? count_blocks() : count_blocks() * count_threads();
    for (uint32_t job = nth; job < TEST_COPY_JOBS; job += step)
        move(a, static_cast<char *>(a.y) + test_copy_to(job),
             static_cast<const char *>(a.x) + test_copy_from(job), job % TEST_COPY_SIZES, nullptr);
    tally(a, 0);
}

/*
 * One block writes nbytes and the bytes around them, puts the nbytes into the next rank, and
 * signals. It waits for those of the previous rank and copies them, with the bytes around, to out.
 * rounds: offsets of the bytes from the aligned x and y (low and high half).
 */
SYMM_KERNEL(test_put, test_device_args, a, 256)
{
    __shared__ __align__(128) char shared[48 << 10];
    const symm_view &v = a.view;
    const uint32_t t = my_thread();
    char *const x = static_cast<char *>(a.x), *const y = static_cast<char *>(a.y);
    const uint64_t around = a.nbytes + 2 * TEST_COPY_GUARD + 64;

    for (uint64_t i = t; i < around / 4; i += count_threads())
        symm_dev_store_one(reinterpret_cast<uint32_t *>(x) + i,
                           test_device_word(a.seed, 0, v.rank, 0, (uint32_t)i));
    __syncthreads();
    if (is_by_block(a) || t == count_threads() - 1)
        move(a, y + (a.rounds >> 16), x + (a.rounds & 0xffff), a.nbytes, shared);
    __syncthreads();
    if (t == 0) {
        symm_dev_signal(v, a.pad, 0, (v.rank + 1) % v.nranks);
        symm_dev_wait(v, a.pad, 0, (v.rank + v.nranks - 1) % v.nranks);
    }
    __syncthreads();
    symm_dev_copy(a.out, y, around);
    symm_dev_barrier(v, a.pad, 1); /* nobody writes again before all have looked */
    tally(a, 0);
}
