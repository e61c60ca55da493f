/* The clock of the device, and where a thread runs. */
#ifndef SYMM_MATMUL_CLOCK_CUH
#define SYMM_MATMUL_CLOCK_CUH

#include <symm/device.cuh>

struct place {
    int32_t sm, block, thread;
};

#ifdef __CUDACC__

SYMM_DEV uint64_t clock_ns(void)
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
    return ns;
}

/* Read anew each time, so that no register keeps it meanwhile. */
SYMM_DEV place this_place(void)
{
    place p;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(p.sm));
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(p.block));
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(p.thread));
    return p;
}

#else

SYMM_DEV uint64_t clock_ns(void)
{
    return symm_emulated_driver->clock_ns();
}

/* The emulated driver has no SM for a block: the block's index takes its place. */
SYMM_DEV place this_place(void)
{
    const int32_t block = (int32_t)blockIdx.x;
    return {block, block, (int32_t)threadIdx.x};
}

#endif

#endif
