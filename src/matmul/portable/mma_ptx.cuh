/*
 * The machine under tile_mma.cuh: one PTX instruction a function, and nothing that needs more than
 * sm_80.
 */
#ifndef SYMM_MATMUL_MMA_CUDA_CUH
#define SYMM_MATMUL_MMA_CUDA_CUH

#include <symm/device.cuh>

/* 16 bytes of shared memory, of which the first nbytes come from `from` and the others are 0. */
SYMM_DEV void copy16_async(void *shared, const void *from, uint32_t nbytes)
{
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(symm_detail::in_shared(shared)),
        "l"(symm_detail::global(from)), "r"(nbytes)
        : "memory");
}

/* What this thread has copied since the last time becomes one group. */
SYMM_DEV void copies_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* All of this thread's groups but the last PENDING have come. */
template <int PENDING> SYMM_DEV void copies_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/*
 * Four matrices of 8 x 8 elements of 16 bits. Lane i gives row i % 8 of matrix i / 8, and gets of
 * each matrix elements 2 (i % 4) and the next of row i / 4.
 */
SYMM_DEV void load_matrices(uint32_t (&x)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(symm_detail::in_shared(row))
                 : "memory");
}

/* The same of the transposed matrices: column i / 4, elements 2 (i % 4) and the next. */
SYMM_DEV void load_matrices_transposed(uint32_t (&x)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(symm_detail::in_shared(row))
                 : "memory");
}

/*
 * d += a b, of 16 x 16 and 16 x 8 elements. Lane i has in a rows i / 4 and i / 4 + 8, in b and d
 * columns i / 4 and 2 (i % 4) as the PTX manual shows.
 */
template <typename T>
SYMM_DEV void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

#define SYMM_MULTIPLY_ADD(type, ptx)                                                               \
    template <>                                                                                    \
    __device__ __forceinline__ void multiply_add<type>(float(&d)[4], const uint32_t(&a)[4],        \
                                                       uint32_t b0, uint32_t b1)                   \
    {                                                                                              \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." ptx "." ptx ".f32 {%0, %1, %2, %3}, "         \
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                        \
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                       \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                       \
    }
SYMM_MULTIPLY_ADD(symm_f16, "f16")
SYMM_MULTIPLY_ADD(symm_bf16, "bf16")
#undef SYMM_MULTIPLY_ADD

#endif
