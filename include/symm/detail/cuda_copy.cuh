/* The copy unit of a GPU (TMA). */
#ifndef SYMM_DETAIL_CUDA_COPY_CUH
#define SYMM_DETAIL_CUDA_COPY_CUH

#include <symm/detail/cuda_memory.cuh>

namespace symm_detail
{

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/* Later asynchronous copies see the data that this thread sees. */
SYMM_DEV void fence_async(void)
{
    asm volatile("fence.proxy.async;" ::: "memory");
}

SYMM_DEV void mbarrier_init(uint64_t *bar)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(in_shared(bar)) : "memory");
}

SYMM_DEV void mbarrier_end(uint64_t *bar)
{
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(in_shared(bar)) : "memory");
}

SYMM_DEV void mbarrier_expect(uint64_t *bar, uint32_t nbytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(in_shared(bar)),
                 "r"(nbytes)
                 : "memory");
}

SYMM_DEV bool mbarrier_test(uint64_t *bar, uint32_t parity)
{
    uint32_t done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
                 " selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(in_shared(bar)), "r"(parity)
                 : "memory");
    return done;
}

SYMM_DEV void bulk_load(void *shared, const void *from, uint32_t nbytes, uint64_t *bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"(in_shared(shared)),
                 "l"(global(from)), "r"(nbytes), "r"(in_shared(bar))
                 : "memory");
}

/* Commits the store as its own group for bulk_wait_read. */
SYMM_DEV void bulk_store(void *to, const void *shared, uint32_t nbytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 "cp.async.bulk.commit_group;" ::"l"(global(to)),
                 "r"(in_shared(shared)), "r"(nbytes)
                 : "memory");
}

/* Waits until all stores except the last PENDING have read their source. */
template <int PENDING> SYMM_DEV void bulk_wait_read(void)
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

/* Waits until all stores are done. Their data then counts as written by this thread. */
SYMM_DEV void bulk_wait(void)
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/*
 * Starts the copy of nbytes, a multiple of 16, through shared memory. The pieces use four slots in
 * rotation, each with an mbarrier. Two pieces are loaded while two are stored. bulk_wait ends the
 * copy.
 */
SYMM_DEV bool bulk_copy(void *to, const void *from, uint64_t nbytes, void *shared,
                        uint32_t shared_nbytes)
{
    constexpr uint32_t SLOTS = 4, LEAD = 2, HEAD = 128, MOST = 64 << 10;
    uint64_t *bars = static_cast<uint64_t *>(shared);
    char *slots = static_cast<char *>(shared) + HEAD;
    const uint32_t room = (shared_nbytes - HEAD) / SLOTS & ~127u, piece = room < MOST ? room : MOST;
    const uint64_t npieces = (nbytes + piece - 1) / piece;

    for (uint32_t s = 0; s < SLOTS; s++)
        mbarrier_init(&bars[s]);
    fence_async();
    for (uint64_t i = 0; i < npieces + LEAD; i++) {
        if (i < npieces) {
            const uint64_t off = i * piece, left = nbytes - off;
            const uint32_t n = left < piece ? (uint32_t)left : piece;
            if (i >= SLOTS)
                bulk_wait_read<SLOTS - LEAD - 1>();
            mbarrier_expect(&bars[i % SLOTS], n);
            bulk_load(slots + i % SLOTS * piece, static_cast<const char *>(from) + off, n,
                      &bars[i % SLOTS]);
        }
        if (i >= LEAD) {
            const uint64_t j = i - LEAD, off = j * piece, left = nbytes - off;
            while (!mbarrier_test(&bars[j % SLOTS], (uint32_t)(j / SLOTS) & 1))
                ;
            bulk_store(static_cast<char *>(to) + off, slots + j % SLOTS * piece,
                       left < piece ? (uint32_t)left : piece);
        }
    }
    for (uint32_t s = 0; s < SLOTS; s++)
        mbarrier_end(&bars[s]);
    return true;
}

#else /* no copy unit */

SYMM_DEV void fence_async(void)
{
}

SYMM_DEV void bulk_wait(void)
{
}

SYMM_DEV bool bulk_copy(void *, const void *, uint64_t, void *, uint32_t)
{
    return false;
}

#endif

} /* namespace symm_detail */

#endif
