/*
 * A panel: the part of one factor that is in shared memory at a time, PANEL_LINES rows of A or
 * columns of B, which are both called lines here, times PANEL_DEPTH of k. It lies there as it lies
 * in memory, along k or along the lines, in chunks of 16 bytes that take turns in the banks: so
 * that neither eight lines of one chunk nor the chunks of one line meet in a bank.
 */
#ifndef SYMM_MATMUL_PANEL_CUH
#define SYMM_MATMUL_PANEL_CUH

#include "mma_ptx.cuh"

enum { PANEL_LINES = 128, PANEL_DEPTH = 32, PANEL_THREADS = 256, CHUNK = 8 /* elements */ };

typedef uint16_t panel_slot[PANEL_LINES * PANEL_DEPTH];

/* Where a chunk begins in a slot: the one that has element (line, k). */
template <bool ALONG_K> SYMM_DEV int32_t place_of(int32_t line, int32_t k)
{
    if (ALONG_K) /* 64 bytes a line: two lines use all banks */
        return line * PANEL_DEPTH + (k / CHUNK ^ (line >> 1 & 3)) * CHUNK;
    return k * PANEL_LINES + (line / CHUNK ^ (k & 7)) * CHUNK;
}

/* 16 lines times 16 of k, as the operands of multiply_add: of A all four, of B 0, 2 and 1, 3. */
template <bool ALONG_K>
SYMM_DEV void load_fragment(uint32_t (&x)[4], const panel_slot &slot, int32_t line, int32_t k)
{
    const int32_t lane = (int32_t)threadIdx.x % 32, in = lane % 8, below = lane / 8 % 2 * 8,
                  behind = lane / 16 * 8;
    if (ALONG_K)
        load_matrices(x, slot + place_of<true>(line + below + in, k + behind));
    else
        load_matrices_transposed(x, slot + place_of<false>(line + below, k + behind + in));
}

/* One factor in memory, and what of it this thread brings. */
template <bool ALONG_K> struct panel {
    static constexpr int32_t ACROSS = (ALONG_K ? PANEL_DEPTH : PANEL_LINES) / CHUNK, /* chunks */
        APART = PANEL_THREADS / ACROSS, /* lines, or of k, between the two chunks of a thread */
        CHUNKS = PANEL_LINES * PANEL_DEPTH / CHUNK / PANEL_THREADS;

    const uint16_t *from; /* this thread's first chunk */
    int64_t line_stride, k_stride;
    int32_t lines, depth; /* how many there are of them, from this thread's first on */
    int32_t place;
    bool whole; /* chunks are aligned, and one element after the other */

    SYMM_DEV_IN_CLASS panel(const void *data, int64_t to_line, int64_t to_k, int32_t nlines,
                            int32_t k)
        : line_stride(to_line), k_stride(to_k)
    {
        const int32_t chunk = (int32_t)threadIdx.x % ACROSS * CHUNK,
                      other = (int32_t)threadIdx.x / ACROSS, line = ALONG_K ? other : chunk,
                      first_k = ALONG_K ? chunk : other;
        from = static_cast<const uint16_t *>(data) + line * to_line + first_k * to_k;
        lines = nlines - line;
        depth = k - first_k;
        place = place_of<ALONG_K>(line, first_k);
        whole = (ALONG_K ? to_k : to_line) == 1 && (ALONG_K ? to_line : to_k) % CHUNK == 0 &&
                (uintptr_t)data % 16 == 0;
    }

    /* Starts to bring the panel that begins at this k, and is then at the next one. */
    SYMM_DEV_IN_CLASS void bring(panel_slot &slot)
    {
#pragma unroll
        for (int32_t i = 0; i < CHUNKS; i++) {
            const int32_t line = ALONG_K ? i * APART : 0, k = ALONG_K ? 0 : i * APART,
                          along = ALONG_K ? depth - k : lines - line,
                          across = ALONG_K ? lines - line : depth - k,
                          n = across > 0 ? min(max(along, 0), (int32_t)CHUNK) : 0;
            /* APART is a multiple of 8: the turn in the banks is the same. */
            uint16_t *to = slot + place + i * APART * (ALONG_K ? PANEL_DEPTH : PANEL_LINES);
            const uint16_t *chunk = from + line * line_stride + k * k_stride;
            if (whole)
                copy16_async(to, chunk, (uint32_t)(n * 2));
            else
                bring_elements(to, chunk, n);
        }
        from += PANEL_DEPTH * k_stride;
        depth -= PANEL_DEPTH;
    }

  private:
    SYMM_DEV_IN_CLASS void bring_elements(uint16_t *to, const uint16_t *chunk, int32_t n) const
    {
        const int64_t stride = ALONG_K ? k_stride : line_stride;
        uint32_t pairs[CHUNK / 2];
#pragma unroll
        for (int32_t i = 0; i < CHUNK; i += 2) {
            const uint32_t low = i < n ? symm_dev_load_one(chunk + i * stride) : 0u,
                           high = i + 1 < n ? symm_dev_load_one(chunk + (i + 1) * stride) : 0u;
            pairs[i / 2] = low | high << 16;
        }
        *reinterpret_cast<uint4 *>(to) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
};

#endif
