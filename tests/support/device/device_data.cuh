/* Kernels on data: conversions, loads, stores, sums, remote additions, sums over a block. */

/*
 * The nbytes at x, floats, to T and back: one by one into out, in packs into y. The packs are
 * looked at as floats again.
 */
template <typename T> SYMM_DEV uint32_t convert(const test_device_args &a)
{
    constexpr uint32_t N = 16 / sizeof(T);
    const float *const x = static_cast<const float *>(a.x);
    const uint32_t npacks = (uint32_t)(a.nbytes / sizeof(float) / N);
    uint32_t wrong = 0;
    for (uint32_t p = my_block() * count_threads() + my_thread(); p < npacks;
         p += count_blocks() * count_threads()) {
        T *const out = static_cast<T *>(a.out) + p * N;
        symm_f32s<T> pack;
        for (uint32_t e = 0; e < N; e++) {
            pack.e[e] = symm_dev_load_one(x + p * N + e);
            symm_dev_store_one(out + e, symm_dev_narrow<T>(pack.e[e]));
        }
        symm_dev_store(static_cast<T *>(a.y) + p * N, pack);
        const symm_f32s<T> back = symm_dev_unpack<T>(symm_dev_pack(pack));
        for (uint32_t e = 0; e < N; e++)
            wrong += symm_detail::float_bits(back.e[e]) !=
                     symm_detail::float_bits(symm_dev_widen(symm_dev_narrow<T>(pack.e[e])));
    }
    return wrong;
}

SYMM_KERNEL(test_narrow, test_device_args, a, 256)
{
    tally(a, a.mode == TEST_ONE_symm_f16    ? convert<symm_f16>(a)
             : a.mode == TEST_ONE_symm_bf16 ? convert<symm_bf16>(a)
                                            : convert<float>(a));
}

/* All patterns of 16 bits as floats, by widen into out and by unpack into y. */
template <typename T> SYMM_DEV void widen(const test_device_args &a)
{
    for (uint32_t i = 8 * (my_block() * count_threads() + my_thread()); i < 65536;
         i += 8 * count_blocks() * count_threads()) {
        symm_bits16 bits;
        for (uint32_t w = 0; w < 4; w++)
            bits.w[w] = (i + 2 * w) | (i + 2 * w + 1) << 16;
        const symm_f32s<T> pack = symm_dev_unpack<T>(bits);
        for (uint32_t e = 0; e < 8; e++) {
            symm_dev_store_one(static_cast<float *>(a.out) + i + e,
                               symm_dev_widen(T{(uint16_t)(i + e)}));
            symm_dev_store_one(static_cast<float *>(a.y) + i + e, pack.e[e]);
        }
    }
}

SYMM_KERNEL(test_widen, test_device_args, a, 256)
{
    if (a.mode == TEST_ONE_symm_f16)
        widen<symm_f16>(a);
    else
        widen<symm_bf16>(a);
    tally(a, 0);
}

/* From the rank before, element by element, into out; and into the rank after. */
template <typename T> SYMM_DEV void move_ones(const test_device_args &a)
{
    const symm_view &v = a.view;
    const int after = (v.rank + 1) % v.nranks, before = (v.rank + v.nranks - 1) % v.nranks;
    T *const x = static_cast<T *>(a.x);
    for (uint32_t i = my_block() * count_threads() + my_thread(); i < a.nbytes / sizeof(T);
         i += count_blocks() * count_threads()) {
        if constexpr (sizeof(T) == 16) {
            symm_dev_store_bits(static_cast<T *>(a.out) + i,
                                symm_dev_load_bits(symm_dev_peer(v, x, before) + i));
            symm_dev_store_bits(symm_dev_peer(v, static_cast<T *>(a.y), after) + i,
                                symm_dev_load_bits(x + i));
        } else {
            symm_dev_store_one(static_cast<T *>(a.out) + i,
                               symm_dev_load_one(symm_dev_peer(v, x, before) + i));
            symm_dev_store_one(symm_dev_peer(v, static_cast<T *>(a.y), after) + i,
                               symm_dev_load_one(x + i));
        }
    }
}

SYMM_KERNEL(test_ones, test_device_args, a, 256)
{
    switch (a.mode) {
#define TEST_CASE_(type)                                                                           \
    case TEST_ONE_##type:                                                                          \
        move_ones<type>(a);                                                                        \
        break;
        TEST_ONE_TYPES(TEST_CASE_)
#undef TEST_CASE_
    default:
        break;
    }
    tally(a, 0);
}

/*
 * The sum of the ranks' packs at x: each rank's own into out; and into every rank's y, the ranks
 * alternating from pack to pack. It must equal loads and additions in rank order.
 */
template <typename T> SYMM_DEV uint32_t sum_ranks(const test_device_args &a)
{
    constexpr uint32_t N = 16 / sizeof(T);
    const symm_view &v = a.view;
    const T *const x = static_cast<const T *>(a.x);
    uint32_t wrong = 0;
    for (uint32_t p = my_block() * count_threads() + my_thread(); p < a.nbytes / 16;
         p += count_blocks() * count_threads()) {
        const symm_f32s<T> sum = symm_dev_sum(v, x + p * N);
        symm_f32s<T> again = symm_dev_load(symm_dev_peer(v, x + p * N, 0));
        for (int r = 1; r < v.nranks; r++)
            symm_dev_add(again, symm_dev_load(symm_dev_peer(v, x + p * N, r)));
        for (uint32_t e = 0; e < N; e++)
            wrong += sum.e[e] != again.e[e];
        symm_dev_store(static_cast<T *>(a.out) + p * N, sum);
        if (p % (uint32_t)v.nranks == (uint32_t)v.rank)
            symm_dev_store_all(v, static_cast<T *>(a.y) + p * N, sum);
    }
    return wrong;
}

SYMM_KERNEL(test_sum, test_device_args, a, 256)
{
    tally(a, a.mode == TEST_ONE_symm_f16    ? sum_ranks<symm_f16>(a)
             : a.mode == TEST_ONE_symm_bf16 ? sum_ranks<symm_bf16>(a)
                                            : sum_ranks<float>(a));
}

/* Every thread of every block of every rank adds to the same few words of every rank. */
template <typename T> SYMM_DEV void add_everywhere(const test_device_args &a)
{
    const symm_view &v = a.view;
    for (uint32_t i = 0; i < a.rounds; i++)
        for (int r = 0; r < v.nranks; r++)
            symm_dev_red_add(symm_dev_peer(v, static_cast<T *>(a.x), r) + i,
                             (T)test_device_addend(a.seed, i + (uint32_t)r, v.rank, my_block(),
                                                   my_thread(), 100));
}

SYMM_KERNEL_BOUNDS(test_red_add, test_device_args, a, 256, 2)
{
    switch (a.mode) {
#define TEST_CASE_(type)                                                                           \
    case TEST_ONE_##type:                                                                          \
        add_everywhere<type>(a);                                                                   \
        break;
        TEST_ADDED_TYPES(TEST_CASE_)
#undef TEST_CASE_
    default:
        break;
    }
    tally(a, 0);
}

/* Two in a row: the second must not overwrite the first. param: the first sum. */
SYMM_KERNEL(test_block_sum, test_device_args, a, 1024)
{
    const float x = (float)test_device_addend(a.seed, 0, 0, my_block(), my_thread(), 1000);
    const float first = symm_dev_block_sum(x), second = symm_dev_block_sum(x + 1);
    tally(a, (first != (float)a.param) + (second != (float)a.param + (float)count_threads()));
}
