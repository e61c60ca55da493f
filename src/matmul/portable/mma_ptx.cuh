/* The instructions of tile_mma.cuh: one PTX instruction a function, none newer than sm_80. */
#ifndef SYMM_MATMUL_MMA_PTX_CUH
#define SYMM_MATMUL_MMA_PTX_CUH

#include <symm/device.cuh>

/* Writes 16 bytes of shared memory: the first nbytes are copied from `from`, the rest are 0. */
SYMM_DEV void cp_async_16(void *shared, const void *from, uint32_t nbytes)
{
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(symm_detail::in_shared(shared)),
        "l"(symm_detail::global(from)), "r"(nbytes)
        : "memory");
}

/* This thread's copies since the last commit become one group. */
SYMM_DEV void cp_async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits for all of this thread's groups but the last PENDING. */
template <int PENDING> SYMM_DEV void cp_async_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/*
 * Loads four 8 x 8 matrices of 16-bit elements. Lane i gives the address of row i % 8 of matrix
 * i / 8, and gets elements 2 (i % 4) and 2 (i % 4) + 1 of row i / 4 of each matrix.
 */
SYMM_DEV void ldmatrix_x4(uint32_t (&x)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(symm_detail::in_shared(row))
                 : "memory");
}

/* The same of the transposed matrices: elements 2 (i % 4) and 2 (i % 4) + 1 of column i / 4. */
SYMM_DEV void ldmatrix_x4_trans(uint32_t (&x)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(symm_detail::in_shared(row))
                 : "memory");
}

/* d += a b, of 16 x 16 and 16 x 8 elements. Fragments as in the PTX manual. */
template <typename T>
SYMM_DEV void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

#define SYMM_MMA_M16N8K16(type, ptx)                                                               \
    template <>                                                                                    \
    __device__ __forceinline__ void mma_m16n8k16<type>(float(&d)[4], const uint32_t(&a)[4],        \
                                                       uint32_t b0, uint32_t b1)                   \
    {                                                                                              \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." ptx "." ptx ".f32 {%0, %1, %2, %3}, "         \
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                        \
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                       \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                       \
    }
SYMM_MMA_M16N8K16(symm_f16, "f16")
SYMM_MMA_M16N8K16(symm_bf16, "bf16")
#undef SYMM_MMA_M16N8K16

#endif
