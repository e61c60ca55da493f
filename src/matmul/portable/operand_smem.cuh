/*
 * A stage of one operand in shared memory: STAGE_LINES lines, which are rows of A or columns of B,
 * times STAGE_DEPTH elements of k. It keeps the layout that the operand has in memory, along k or
 * along the lines, in packs of 16 bytes. The packs are swizzled, so that neither eight lines of one
 * pack nor the packs of one line conflict in a bank.
 */
#ifndef SYMM_MATMUL_OPERAND_SMEM_CUH
#define SYMM_MATMUL_OPERAND_SMEM_CUH

#include "mma_ptx.cuh"

enum { STAGE_LINES = 128, STAGE_DEPTH = 32, STAGE_THREADS = 256, PACK = 8 /* elements */ };

typedef uint16_t operand_smem[STAGE_LINES * STAGE_DEPTH];

/* The offset of the pack with element (line, k). */
template <bool ALONG_K> SYMM_DEV int32_t smem_offset(int32_t line, int32_t k)
{
    if (ALONG_K) /* 64 bytes a line: two lines use all banks */
        return line * STAGE_DEPTH + (k / PACK ^ (line >> 1 & 3)) * PACK;
    return k * STAGE_LINES + (line / PACK ^ (k & 7)) * PACK;
}

/* 16 lines times 16 of k as operands of mma_m16n8k16: of A all four; of B words 0, 2 and 1, 3. */
template <bool ALONG_K>
SYMM_DEV void load_fragment(uint32_t (&x)[4], const operand_smem &smem, int32_t line, int32_t k)
{
    const int32_t lane = (int32_t)threadIdx.x % 32, in = lane % 8, below = lane / 8 % 2 * 8,
                  behind = lane / 16 * 8;
    if (ALONG_K)
        ldmatrix_x4(x, smem + smem_offset<true>(line + below + in, k + behind));
    else
        ldmatrix_x4_trans(x, smem + smem_offset<false>(line + below, k + behind + in));
}

/* Loads one operand stage by stage: the packs of this thread. */
template <bool ALONG_K> struct operand_loader {
    static constexpr int32_t ACROSS = (ALONG_K ? STAGE_DEPTH : STAGE_LINES) / PACK, /* packs */
        APART = STAGE_THREADS / ACROSS, /* lines, or of k, between the two packs of a thread */
        PACKS = STAGE_LINES * STAGE_DEPTH / PACK / STAGE_THREADS;

    const uint16_t *from; /* this thread's first pack */
    int64_t line_stride, k_stride;
    int32_t lines, depth; /* left, from this thread's first pack on */
    int32_t offset;
    bool aligned; /* packs are contiguous and aligned to 16 bytes */

    SYMM_DEV_IN_CLASS operand_loader(const void *data, int64_t to_line, int64_t to_k,
                                     int32_t nlines, int32_t k)
        : line_stride(to_line), k_stride(to_k)
    {
        const int32_t pack = (int32_t)threadIdx.x % ACROSS * PACK,
                      other = (int32_t)threadIdx.x / ACROSS, line = ALONG_K ? other : pack,
                      first_k = ALONG_K ? pack : other;
        from = static_cast<const uint16_t *>(data) + line * to_line + first_k * to_k;
        lines = nlines - line;
        depth = k - first_k;
        offset = smem_offset<ALONG_K>(line, first_k);
        aligned = (ALONG_K ? to_k : to_line) == 1 && (ALONG_K ? to_line : to_k) % PACK == 0 &&
                  (uintptr_t)data % 16 == 0;
    }

    /* Starts to load the stage at the current k, and advances k by a stage. */
    SYMM_DEV_IN_CLASS void load_stage(operand_smem &smem)
    {
#pragma unroll
        for (int32_t i = 0; i < PACKS; i++) {
            const int32_t line = ALONG_K ? i * APART : 0, k = ALONG_K ? 0 : i * APART,
                          along = ALONG_K ? depth - k : lines - line,
                          across = ALONG_K ? lines - line : depth - k,
                          n = across > 0 ? min(max(along, 0), (int32_t)PACK) : 0;
            /* APART is a multiple of 8, so the swizzle is the same. */
            uint16_t *to = smem + offset + i * APART * (ALONG_K ? STAGE_DEPTH : STAGE_LINES);
            const uint16_t *pack = from + line * line_stride + k * k_stride;
            if (aligned)
                cp_async_16(to, pack, (uint32_t)(n * 2));
            else
                load_elements(to, pack, n);
        }
        from += STAGE_DEPTH * k_stride;
        depth -= STAGE_DEPTH;
    }

  private:
    SYMM_DEV_IN_CLASS void load_elements(uint16_t *to, const uint16_t *pack, int32_t n) const
    {
        const int64_t stride = ALONG_K ? k_stride : line_stride;
        uint32_t pairs[PACK / 2];
#pragma unroll
        for (int32_t i = 0; i < PACK; i += 2) {
            const uint32_t low = i < n ? symm_dev_load_one(pack + i * stride) : 0u,
                           high = i + 1 < n ? symm_dev_load_one(pack + (i + 1) * stride) : 0u;
            pairs[i / 2] = low | high << 16;
        }
        *reinterpret_cast<uint4 *>(to) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
};

#endif
