/* Kernels that use one transfer of symm/device.cuh each, that wait long, or make data. */
#include "rounds.cuh"

/* ---- transfers ---- */

SYMM_DEV uint8_t byte_of(const symm_bits16 &x, uint32_t i)
{
    return (uint8_t)(x.w[i / 4] >> 8 * (i % 4));
}

/* A copy into the next rank's memory, of any alignment, by the block, a thread or the copy unit. */
SYMM_KERNEL(proof_put, proof_args, a, 64)
{
    enum { BLOCK, THREAD, BULK };
    __shared__ __align__(128) char shared[1024];
    turn t = turn_of(a);
    const int n = t.v.nranks, after = (t.v.rank + 1) % n, before = (t.v.rank + n - 1) % n;
    const int full = 2 * (int)t.block, free = full + 1;
    const uint32_t how = a.variant % 3, ahead = how == BULK ? 0 : a.shift % 5;
    const uint32_t nbytes = 16 * a.packs - (how == BULK ? 0 : a.shift % 16);
    char *const from = a.own + 16 * (PROOF_PACKS + 1) * t.block, *const to =
                                                                     cell(t, t.block, 0, 0, 0) +
                                                                     ahead;
    for (uint32_t round = 0; round < a.rounds; round++) {
        for (uint32_t i = t.thread; i < a.packs; i += t.nthreads)
            symm_dev_store_bits(from + 16 * i, value_of(t.salt, round, t.v.rank, after, i));
        __syncthreads();
        if (how == BLOCK)
            symm_dev_put(t.v, to, from, nbytes, after);
        else if (how == THREAD && t.thread == 0)
            symm_dev_put_thread(t.v, to, from, nbytes, after);
        else if (how == BULK && t.thread == t.nthreads - 1)
            symm_dev_put_bulk(t.v, to, from, nbytes, after, shared, sizeof shared);
        __syncthreads();
        if (t.thread == 0) {
            symm_dev_signal(t.v, a.pad, full, after);
            symm_dev_wait(t.v, a.pad, full, before);
        }
        __syncthreads();
        for (uint32_t i = t.thread; i < nbytes; i += t.nthreads) {
            const symm_bits16 want = value_of(t.salt, round, before, t.v.rank, i / 16);
            t.wrong +=
                symm_dev_load_one(reinterpret_cast<uint8_t *>(to) + i) != byte_of(want, i % 16);
            t.looked++;
        }
        __syncthreads();
        if (t.thread == 0) {
            symm_dev_signal(t.v, a.pad, free, before);
            symm_dev_wait(t.v, a.pad, free, after);
        }
        __syncthreads();
        if (stops(t))
            break;
    }
    report(t);
}

/* ---- adding ---- */

/* Zeroes, meets, adds to everyone's cells, meets, looks, meets. */
template <typename T, bool MULTICAST> SYMM_DEV void add_rounds(const proof_args &a)
{
    turn t = turn_of(a);
    const uint32_t n = (uint32_t)t.v.nranks;
    for (uint32_t round = 0; round < a.rounds; round++) {
        for (uint32_t i = t.thread; i < a.packs; i += t.nthreads)
            symm_dev_store_one(reinterpret_cast<T *>(cell(t, t.block, 0, 0, i)), (T)0);
        symm_dev_barrier(t.v, a.pad, (int)t.block);
        for (uint32_t k = t.thread; k < (MULTICAST ? 1 : n) * a.packs; k += t.nthreads) {
            const uint32_t to = k / a.packs, i = k % a.packs;
            const T x = (T)(value_of(t.salt, round, t.v.rank, 0, i).w[0] % 1024);
            T *const p = reinterpret_cast<T *>(cell(t, t.block, 0, 0, i));
            if constexpr (MULTICAST)
                symm_dev_multimem_red_add(symm_dev_multicast(t.v, p), x);
            else
                symm_dev_red_add(symm_dev_peer(t.v, p, (int)to), x);
        }
        symm_dev_barrier(t.v, a.pad, (int)t.block);
        for (uint32_t k = t.thread; k < a.packs; k += t.nthreads) {
            const uint32_t i = (k + a.shift) % a.packs;
            T want = 0;
            for (uint32_t r = 0; r < n; r++)
                want += (T)(value_of(t.salt, round, (int)r, 0, i).w[0] % 1024);
            t.wrong += symm_dev_load_one(reinterpret_cast<T *>(cell(t, t.block, 0, 0, i))) != want;
            t.looked++;
        }
        symm_dev_barrier(t.v, a.pad, (int)t.block);
    }
    report(t);
}

SYMM_KERNEL(proof_red_add, proof_args, a, 64)
{
    if (a.variant % 3 == 0)
        add_rounds<uint32_t, false>(a);
    else if (a.variant % 3 == 1)
        add_rounds<int64_t, false>(a);
    else
        add_rounds<float, false>(a);
}

SYMM_KERNEL(proof_multimem_red, proof_args, a, 64)
{
    if (a.variant % 3 == 0)
        add_rounds<uint32_t, true>(a);
    else if (a.variant % 3 == 1)
        add_rounds<uint64_t, true>(a);
    else
        add_rounds<float, true>(a);
}

/* ---- packets ---- */

SYMM_DEV symm_packet *slot(const turn &t, uint32_t set, int rank, uint32_t i)
{
    return t.a.slots + ((t.block * 2 + set) * PROOF_RANKS + (uint32_t)rank) * PROOF_PACKS + i;
}

/* As much of it as a packet carries. */
SYMM_DEV symm_bits12 most_of(const symm_bits16 &x)
{
    return {{x.w[0], x.w[1], x.w[2]}};
}

/* N of them at once, or one by itself. */
template <int N>
SYMM_DEV void look_at_packets(turn &t, uint32_t first, uint32_t set, uint32_t round, uint32_t flag)
{
    const uint32_t packs = t.a.packs, all = (uint32_t)t.v.nranks * packs;
    const symm_packet *slots[N];
    symm_bits12 got[N];
    int from[N];
    uint32_t i[N];
    for (uint32_t n = 0; n < N; n++) {
        const uint32_t j = (first + t.a.shift + n) % all;
        from[n] = (int)(j / packs);
        i[n] = j % packs;
        slots[n] = slot(t, set, from[n], i[n]);
    }
    if constexpr (N == 1)
        got[0] = symm_dev_recv16(t.v, slots[0], flag, from[0]);
    else if (!symm_dev_recv16_all(t.v, slots, flag, from, got))
        return; /* an abort */
    for (int n = 0; n < N; n++) {
        const symm_bits12 want = most_of(value_of(t.salt, round, from[n], t.v.rank, i[n]));
        t.wrong += got[n].w[0] != want.w[0] || got[n].w[1] != want.w[1] || got[n].w[2] != want.w[2];
        t.looked++;
    }
}

SYMM_KERNEL(proof_packets, proof_args, a, 64)
{
    turn t = turn_of(a);
    const uint32_t all = (uint32_t)t.v.nranks * a.packs;
    for (uint32_t round = 0; round < a.rounds; round++) {
        const uint32_t flag = symm_dev_epoch(t.v, a.pad, (int)t.block), set = flag & 1;
        for (uint32_t k = t.thread; k < all; k += t.nthreads) {
            const int to = (int)(k / a.packs);
            const uint32_t i = k % a.packs;
            symm_dev_send16(t.v, slot(t, set, t.v.rank, i),
                            most_of(value_of(t.salt, round, t.v.rank, to, i)), flag, to);
        }
        for (uint32_t k = t.thread; k < all; k += t.nthreads)
            if (a.variant)
                look_at_packets<3>(t, k, set, round, flag);
            else
                look_at_packets<1>(t, k, set, round, flag);
    }
    report(t);
}

/* ---- block ---- */

SYMM_KERNEL(proof_block_sum, proof_args, a, 64)
{
    turn t = turn_of(a);
    for (uint32_t round = 0; round < 4 * a.rounds; round++) {
        float want = 0;
        for (uint32_t i = 0; i < t.nthreads; i++)
            want += (float)(mix(t.salt + round * 64 + i) % 256);
        t.wrong += symm_dev_block_sum((float)(mix(t.salt + round * 64 + t.thread) % 256)) != want;
        t.looked++;
    }
    report(t);
}

/* ---- long and never ---- */

/* Each block waits for one thing from the rank before: a signal on its channel, or a packet. */
SYMM_KERNEL(proof_wait_long, proof_args, a, 64)
{
    const symm_view &v = a.view;
    const int before = (v.rank + v.nranks - 1) % v.nranks;
    if (threadIdx.x > 0)
        return;
    if (a.variant)
        symm_dev_recv16(v, a.slots + blockIdx.x, a.variant, before);
    else
        symm_dev_wait(v, a.pad, (int)blockIdx.x, before);
}

SYMM_KERNEL(proof_send_late, proof_args, a, 64)
{
    if (threadIdx.x == 0)
        symm_dev_send16(a.view, a.slots + a.way, symm_bits12{}, a.variant,
                        (a.view.rank + 1) % a.view.nranks);
}

/* Waits for a signal that nobody sends. After the abort this rank's data must not reach others. */
SYMM_KERNEL(proof_wait_for_ever, proof_args, a, 64)
{
    enum { NEVER, BEHIND };
    turn t = turn_of(a);
    if (t.block == 0 && t.thread == t.nthreads - 1) {
        symm_dev_wait(t.v, a.pad, NEVER, t.v.rank);
        symm_dev_signal(t.v, a.pad, BEHIND, (t.v.rank + 1) % t.v.nranks);
    }
    __syncthreads();
    t.wrong += t.block == 0 && !symm_dev_aborted(t.v);
    t.looked++;
    report(t);
}

/* Takes its time, so that this rank comes late. */
SYMM_KERNEL(proof_dawdle, proof_args, a, 64)
{
    uint32_t x = 0;
    for (uint32_t i = 0; i < a.rounds && threadIdx.x == 0; i++)
        x |= symm_dev_load_one(a.salt);
    if (x == 1)
        symm_dev_red_add(a.result + 1, 1u);
}

/* ---- data of library calls ---- */

/* From -4 to 11: sums of eight are exact in every type. */
SYMM_DEV float number(uint32_t salt, uint32_t rank, uint64_t i)
{
    return (float)(mix(salt + mix(rank * 65536 + (uint32_t)i)) % 16) - 4;
}

/* What the numbers of the ranks come to. */
SYMM_DEV float wanted(const proof_data_args &a, uint32_t salt, uint64_t i)
{
    float want = number(salt, a.from, i);
    for (uint32_t r = a.from + 1; r < a.from + a.ranks; r++) {
        const float x = number(salt, r, i);
        if (a.op == SYMM_SUM)
            want += x;
        else if (a.op == SYMM_MIN ? x < want : x > want)
            want = x;
    }
    return want;
}

/* Compares rows with their norms, a thread one row after the other. Squares and sums are exact. */
template <typename T> SYMM_DEV void check_norms(const proof_data_args &a)
{
    const T *const x = reinterpret_cast<const T *>(a.x);
    const uint32_t salt = symm_dev_load_one(a.salt);
    uint32_t wrong = 0, looked = 0;
    for (uint64_t row = threadIdx.x * a.hidden; row < a.count; row += blockDim.x * a.hidden) {
        float squares = 0;
        for (uint64_t i = row; i < row + a.hidden; i++) {
            const float sum = wanted(a, salt, i);
            squares += sum * sum;
        }
        const float scale = rsqrtf(squares / (float)a.hidden + 1);
        for (uint64_t i = 0; i < a.hidden; i++) {
            const float want = wanted(a, salt, row + i) * scale * number(salt, a.from + a.ranks, i),
                        off = to_float(symm_dev_load_one(x + row + i)) - want;
            const float within = (want < 0 ? -want : want) / 128;
            wrong += !(off <= within && -off <= within);
            looked++;
        }
    }
    if (!a.ends || !symm_dev_aborted(a.view))
        add_counts(a.result, wrong, looked);
}

template <typename T> SYMM_DEV void do_deed(const proof_data_args &a)
{
    if (a.deed == PROOF_CHECK_NORM)
        return check_norms<T>(a);

    T *const x = reinterpret_cast<T *>(a.x);
    const uint32_t salt = symm_dev_load_one(a.salt);
    uint32_t wrong = 0, looked = 0;
    for (uint64_t i = threadIdx.x; i < a.count; i += blockDim.x) {
        const float want = a.deed == PROOF_SPOIL ? -100.0f : wanted(a, salt, a.first + i);
        if (a.deed != PROOF_CHECK) {
            symm_dev_store_one(x + i, of_float<T>(want));
            continue;
        }
        wrong += to_float(symm_dev_load_one(x + i)) != want;
        looked++;
    }
    if (!a.ends || !symm_dev_aborted(a.view))
        add_counts(a.result, wrong, looked);
}

SYMM_KERNEL(proof_data, proof_data_args, a, 64)
{
    switch (a.dtype) {
    case SYMM_FLOAT32:
        return do_deed<float>(a);
    case SYMM_FLOAT16:
        return do_deed<symm_f16>(a);
    case SYMM_BFLOAT16:
        return do_deed<symm_bf16>(a);
    case SYMM_FLOAT64:
        return do_deed<double>(a);
    case SYMM_INT32:
        return do_deed<int32_t>(a);
    default:
        return do_deed<int64_t>(a);
    }
}
