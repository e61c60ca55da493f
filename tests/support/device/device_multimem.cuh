/* Kernels that go through the switch. */

SYMM_DEV symm_bits16 pack_of_words(const test_device_args &a, uint32_t pack)
{
    symm_bits16 x;
    for (uint32_t w = 0; w < 4; w++)
        x.w[w] = test_device_word(a.seed, 0, 0, pack, w);
    return x;
}

/* out = all ranks' x, by the operation and type of the mode. */
SYMM_KERNEL(test_multimem_reduce, test_device_args, a, 256)
{
    const char *const x = symm_dev_multicast(a.view, static_cast<const char *>(a.x));
    symm_dev_barrier(a.view, a.pad, (int)my_block());
    for (uint32_t p = my_block() * count_threads() + my_thread(); p < a.nbytes / 16;
         p += count_blocks() * count_threads()) {
        symm_bits16 got = {};
        switch (a.mode) {
#define TEST_CASE_(op, type)                                                                       \
    case TEST_REDUCE_##op##_##type:                                                                \
        got = symm_dev_multimem_reduce<op>(reinterpret_cast<const type *>(x + 16 * p));            \
        break;
            TEST_REDUCTIONS(TEST_CASE_)
#undef TEST_CASE_
        default:
            break;
        }
        symm_dev_store_bits(static_cast<char *>(a.out) + 16 * p, got);
    }
    symm_dev_barrier(a.view, a.pad, (int)my_block());
    tally(a, 0);
}

/*
 * The sum of all ranks' x as floats; one rank a pack stores it to everybody's y, and beside it, in
 * the second half of y, a pack of words.
 */
template <typename T> SYMM_DEV void sum_and_store(const test_device_args &a)
{
    constexpr uint32_t N = 16 / sizeof(T);
    const symm_view &v = a.view;
    const uint32_t npacks = (uint32_t)(a.nbytes / 16);
    const T *const x = symm_dev_multicast(v, static_cast<const T *>(a.x));
    T *const y = symm_dev_multicast(v, static_cast<T *>(a.y));
    for (uint32_t p = my_block() * count_threads() + my_thread(); p < npacks;
         p += count_blocks() * count_threads()) {
        if (p % (uint32_t)v.nranks != (uint32_t)v.rank)
            continue;
        symm_dev_multimem_store(y + p * N, symm_dev_multimem_sum(x + p * N));
        symm_dev_multimem_store_bits(y + (npacks + p) * N, pack_of_words(a, p));
    }
}

SYMM_KERNEL(test_multimem_store, test_device_args, a, 256)
{
    symm_dev_barrier(a.view, a.pad, (int)my_block());
    if (a.mode == TEST_ONE_symm_f16)
        sum_and_store<symm_f16>(a);
    else if (a.mode == TEST_ONE_symm_bf16)
        sum_and_store<symm_bf16>(a);
    else
        sum_and_store<float>(a);
    symm_dev_barrier(a.view, a.pad, (int)my_block());
    tally(a, 0);
}

/* Every thread of every block of every rank adds to the same words of all ranks, at once. */
template <typename T> SYMM_DEV void add_one(const test_device_args &a)
{
    T *const y = symm_dev_multicast(a.view, static_cast<T *>(a.y));
    for (uint32_t i = 0; i < a.rounds; i++)
        symm_dev_multimem_red_add(
            y + i, (T)test_device_addend(a.seed, i, a.view.rank, my_block(), my_thread(), 1));
}

template <typename T> SYMM_DEV void add_packs(const test_device_args &a)
{
    constexpr uint32_t N = 16 / sizeof(T);
    T *const y = symm_dev_multicast(a.view, static_cast<T *>(a.y));
    for (uint32_t i = 0; i < a.rounds / N; i++) {
        symm_f32s<T> x;
        for (uint32_t e = 0; e < N; e++)
            x.e[e] = (float)test_device_addend(a.seed, i * N + e, a.view.rank, my_block(),
                                               my_thread(), 1);
        symm_dev_multimem_red_add(y + i * N, x);
    }
}

/* mode: a type, in packs with TEST_ONES added. */
SYMM_KERNEL(test_multimem_add, test_device_args, a, 256)
{
    symm_dev_barrier(a.view, a.pad, (int)my_block());
    switch (a.mode) {
#define TEST_CASE_(type)                                                                           \
    case TEST_ONE_##type:                                                                          \
        add_one<type>(a);                                                                          \
        break;
        TEST_ADDED_TYPES(TEST_CASE_)
#undef TEST_CASE_
#define TEST_CASE_(type)                                                                           \
    case TEST_ONES + TEST_ONE_##type:                                                              \
        add_packs<type>(a);                                                                        \
        break;
        TEST_PACKED_TYPES(TEST_CASE_)
#undef TEST_CASE_
    default:
        break;
    }
    symm_dev_barrier(a.view, a.pad, (int)my_block());
    tally(a, 0);
}
