/* Loads and stores of data, copies, multimem operations, and sums of a block, for both targets. */
#ifndef SYMM_DETAIL_DEVICE_DATA_CUH
#define SYMM_DETAIL_DEVICE_DATA_CUH

#include <symm/detail/device_sync.cuh>

namespace symm_detail
{

/* ------------------------------------------------------------------------------------ transfers */

SYMM_DEV bits16 load_word(const bits16 *p)
{
    return load16(p);
}

SYMM_DEV void store_word(bits16 *p, const bits16 &x)
{
    store16(p, x);
}

template <typename W> SYMM_DEV W load_word(const W *p)
{
    return load_scalar(p);
}

template <typename W> SYMM_DEV void store_word(W *p, W x)
{
    store_scalar(p, x);
}

/* Copies the words `index`, `index + step`, ... of n, with several loads in flight. */
template <typename W>
SYMM_DEV void copy_words(char *to, const char *from, uint64_t n, uint64_t index, uint64_t step)
{
    constexpr int U = 4;
    W *const out = reinterpret_cast<W *>(to);
    const W *const in = reinterpret_cast<const W *>(from);
    uint64_t i = index;
    for (; i + (U - 1) * step < n; i += U * step) {
        W x[U];
#pragma unroll
        for (int u = 0; u < U; u++)
            x[u] = load_word(in + i + u * step);
#pragma unroll
        for (int u = 0; u < U; u++)
            store_word(out + i + u * step, x[u]);
    }
    for (; i < n; i += step)
        store_word(out + i, load_word(in + i));
}

/*
 * Copies words of the size that both sides allow, and single bytes before the first and after the
 * last.
 */
template <typename W>
SYMM_DEV void copy_aligned(char *to, const char *from, uint64_t nbytes, uint64_t index,
                           uint64_t step)
{
    const uint64_t ahead = (0 - (uint64_t)(uintptr_t)to) % sizeof(W);
    const uint64_t head = ahead < nbytes ? ahead : nbytes, n = (nbytes - head) / sizeof(W),
                   tail = head + n * sizeof(W);
    copy_words<uint8_t>(to, from, head, index, step);
    copy_words<W>(to + head, from + head, n, index, step);
    copy_words<uint8_t>(to + tail, from + tail, nbytes - tail, index, step);
}

SYMM_DEV void copy(void *to, const void *from, uint64_t nbytes, uint64_t index, uint64_t step)
{
    char *const out = static_cast<char *>(to);
    const char *const in = static_cast<const char *>(from);
    const uintptr_t apart = (uintptr_t)out - (uintptr_t)in;
    if (apart % 16 == 0)
        copy_aligned<bits16>(out, in, nbytes, index, step);
    else if (apart % 4 == 0)
        copy_aligned<uint32_t>(out, in, nbytes, index, step);
    else if (apart % 2 == 0)
        copy_aligned<uint16_t>(out, in, nbytes, index, step);
    else
        copy_words<uint8_t>(out, in, nbytes, index, step);
}

/* ---------------------------------------------------------------------------------------- types */

/* The unsigned type of N bytes, for the bits of an element. */
template <int N> struct unsigned_of;
template <> struct unsigned_of<1> {
    typedef uint8_t type;
};
template <> struct unsigned_of<2> {
    typedef uint16_t type;
};
template <> struct unsigned_of<4> {
    typedef uint32_t type;
};
template <> struct unsigned_of<8> {
    typedef uint64_t type;
};

/* Reinterprets the bits as another type. */
template <typename To, typename From> SYMM_DEV To as(const From &x)
{
    static_assert(sizeof(To) == sizeof(From), "");
    To y;
    __builtin_memcpy(&y, &x, sizeof y);
    return y;
}

/*
 * The type used for additions: unsigned for signed, since two's complement sums have the same bits.
 */
template <typename T> struct added_as {
    typedef T type;
};
template <> struct added_as<int32_t> {
    typedef uint32_t type;
};
template <> struct added_as<int64_t> {
    typedef uint64_t type;
};

} /* namespace symm_detail */

/* ---------------------------------------------------------------------------------- data access */

SYMM_DEV symm_bits16 symm_dev_load_bits(const void *p)
{
    return symm_detail::load16(p);
}

SYMM_DEV void symm_dev_store_bits(void *p, const symm_bits16 &x)
{
    symm_detail::store16(p, x);
}

template <typename T> SYMM_DEV T symm_dev_load_one(const T *p)
{
    typedef typename symm_detail::unsigned_of<sizeof(T)>::type bits;
    return symm_detail::as<T>(symm_detail::load_scalar(reinterpret_cast<const bits *>(p)));
}

template <typename T> SYMM_DEV void symm_dev_store_one(T *p, T x)
{
    typedef typename symm_detail::unsigned_of<sizeof(T)>::type bits;
    symm_detail::store_scalar(reinterpret_cast<bits *>(p), symm_detail::as<bits>(x));
}

SYMM_DEV float symm_dev_widen(float x)
{
    return x;
}

SYMM_DEV float symm_dev_widen(symm_f16 x)
{
    return symm_detail::widen(x);
}

SYMM_DEV float symm_dev_widen(symm_bf16 x)
{
    return symm_detail::widen(x);
}

template <typename T> SYMM_DEV T symm_dev_narrow(float x)
{
    if constexpr (sizeof(T) == sizeof(float))
        return x;
    else
        return T{(uint16_t)symm_detail::narrow2<T>(x, 0.0f)};
}

template <typename T> SYMM_DEV symm_f32s<T> symm_dev_unpack(const symm_bits16 &x)
{
    symm_f32s<T> y;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if constexpr (sizeof(T) == sizeof(float)) {
            y.e[i] = symm_detail::bits_float(x.w[i]);
        } else {
            y.e[2 * i] = symm_detail::widen(T{(uint16_t)x.w[i]});
            y.e[2 * i + 1] = symm_detail::widen(T{(uint16_t)(x.w[i] >> 16)});
        }
    }
    return y;
}

template <typename T> SYMM_DEV symm_bits16 symm_dev_pack(const symm_f32s<T> &x)
{
    symm_bits16 y;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if constexpr (sizeof(T) == sizeof(float))
            y.w[i] = symm_detail::float_bits(x.e[i]);
        else
            y.w[i] = symm_detail::narrow2<T>(x.e[2 * i], x.e[2 * i + 1]);
    }
    return y;
}

template <typename T> SYMM_DEV symm_f32s<T> symm_dev_load(const T *p)
{
    return symm_dev_unpack<T>(symm_dev_load_bits(p));
}

template <typename T> SYMM_DEV void symm_dev_store(T *p, const symm_f32s<T> &x)
{
    symm_dev_store_bits(p, symm_dev_pack(x));
}

template <typename T> SYMM_DEV void symm_dev_add(symm_f32s<T> &sum, const symm_f32s<T> &x)
{
#pragma unroll
    for (int i = 0; i < (int)(16 / sizeof(T)); i++)
        sum.e[i] += x.e[i];
}

template <typename T> SYMM_DEV symm_f32s<T> symm_dev_sum(const symm_view &v, const T *symmetric)
{
    constexpr int AT_ONCE = 4; /* loads in flight */
    symm_f32s<T> sum;
    symm_detail::check_view(v);
#pragma unroll 1
    for (int first = 0; first < v.nranks; first += AT_ONCE) {
        symm_bits16 x[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (first + i < v.nranks)
                x[i] = symm_dev_load_bits(symm_dev_peer(v, symmetric, first + i));
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            if (first + i == 0)
                sum = symm_dev_unpack<T>(x[i]);
            else if (first + i < v.nranks)
                symm_dev_add(sum, symm_dev_unpack<T>(x[i]));
        }
    }
    return sum;
}

template <typename T>
SYMM_DEV void symm_dev_store_all(const symm_view &v, T *symmetric, const symm_f32s<T> &x)
{
    const symm_bits16 bits = symm_dev_pack(x);
    symm_detail::check_view(v);
    /* every rank begins with itself, which spreads the traffic */
    for (int i = 0; i < v.nranks; i++) {
        const int r = v.rank + i < v.nranks ? v.rank + i : v.rank + i - v.nranks;
        symm_dev_store_bits(symm_dev_peer(v, symmetric, r), bits);
    }
}

template <typename T> SYMM_DEV void symm_dev_red_add(T *p, T x)
{
    typedef typename symm_detail::added_as<T>::type type;
    symm_detail::red_add(reinterpret_cast<type *>(p), symm_detail::as<type>(x));
}

/* ------------------------------------------------------------------------------------ transfers */

SYMM_DEV void symm_dev_copy(void *to, const void *from, size_t nbytes)
{
    symm_detail::copy(to, from, nbytes, symm_detail::thread_index(), symm_detail::block_nthreads());
}

SYMM_DEV void symm_dev_copy_thread(void *to, const void *from, size_t nbytes)
{
    symm_detail::copy(to, from, nbytes, 0, 1);
}

SYMM_DEV void symm_dev_put(const symm_view &v, void *dst, const void *src, size_t nbytes, int to)
{
    symm_dev_copy(symm_dev_peer(v, static_cast<char *>(dst), to), src, nbytes);
}

SYMM_DEV void symm_dev_put_thread(const symm_view &v, void *dst, const void *src, size_t nbytes,
                                  int to)
{
    symm_dev_copy_thread(symm_dev_peer(v, static_cast<char *>(dst), to), src, nbytes);
}

SYMM_DEV void symm_dev_put_bulk(const symm_view &v, void *dst, const void *src, size_t nbytes,
                                int to, void *shared, uint32_t shared_nbytes)
{
    char *const out = symm_dev_peer(v, static_cast<char *>(dst), to);
    const bool fits = ((uintptr_t)out | (uintptr_t)src | nbytes) % 16 == 0 && shared_nbytes >= 1024;
    symm_detail::fence_async();
    if (fits && symm_detail::bulk_copy(out, src, nbytes, shared, shared_nbytes))
        symm_detail::bulk_wait();
    else
        symm_dev_copy_thread(out, src, nbytes);
}

/* ------------------------------------------------------------------------------------- multimem */

template <symm_redop OP, typename T> SYMM_DEV symm_bits16 symm_dev_multimem_reduce(const T *p)
{
    typedef symm_detail::multimem_load<OP> load;
    if constexpr (sizeof(load::of(p)) == 16) {
        return load::of(p);
    } else { /* no vector form */
        T x[16 / sizeof(T)];
#pragma unroll
        for (int i = 0; i < (int)(16 / sizeof(T)); i++)
            x[i] = load::of(p + i);
        return symm_detail::as<symm_bits16>(x);
    }
}

template <typename T> SYMM_DEV symm_f32s<T> symm_dev_multimem_sum(const T *multicast)
{
    return symm_dev_unpack<T>(symm_dev_multimem_reduce<SYMM_SUM>(multicast));
}

SYMM_DEV void symm_dev_multimem_store_bits(void *multicast, const symm_bits16 &x)
{
    symm_detail::multimem_store16(multicast, x);
}

template <typename T> SYMM_DEV void symm_dev_multimem_store(T *multicast, const symm_f32s<T> &x)
{
    symm_dev_multimem_store_bits(multicast, symm_dev_pack(x));
}

template <typename T> SYMM_DEV void symm_dev_multimem_red_add(T *multicast, T x)
{
    typedef typename symm_detail::added_as<T>::type type;
    symm_detail::multimem_red(reinterpret_cast<type *>(multicast), symm_detail::as<type>(x));
}

template <typename T> SYMM_DEV void symm_dev_multimem_red_add(T *multicast, const symm_f32s<T> &x)
{
    symm_detail::multimem_red(multicast, symm_dev_pack(x));
}

/* ---------------------------------------------------------------------------------------- block */

namespace symm_detail
{

/* The sum of x over the warp, in its first thread. */
SYMM_DEV float warp_sum(float x)
{
    const int t = thread_index(), lane = t % 32,
              nlanes = min(32, block_nthreads() - (t - lane)); /* the last warp may have fewer */
    const uint32_t mask = 0xffffffffu >> (32 - nlanes);
    for (int d = 16; d > 0; d /= 2) {
        const float y = __shfl_down_sync(mask, x, d);
        if (lane + d < nlanes)
            x += y;
    }
    return x;
}

} /* namespace symm_detail */

SYMM_DEV float symm_dev_block_sum(float x)
{
    __shared__ float sums[32];
    const int t = symm_detail::thread_index(), nthreads = symm_detail::block_nthreads();
    const float of_warp = symm_detail::warp_sum(x);
    __syncthreads(); /* all threads have read the sums of the previous call */
    if (t % 32 == 0)
        sums[t / 32] = of_warp;
    __syncthreads();
    float sum = 0;
    for (int w = 0; w < (nthreads + 31) / 32; w++)
        sum += sums[w];
    return sum;
}

#endif
