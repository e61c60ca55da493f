/* Which foreign memory the device can access, by a driver that knows one allocation. */
#include "runtime/memory/state.h"
#include "test.h"

enum { START = 0x10f00, NBYTES = 4, TO_PAGE_END = 0x100 };

static CUresult attribute(void *out, int attribute, CUdeviceptr at)
{
    if (at < START || at >= START + NBYTES)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
        *(CUdeviceptr *)out = START;
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
        *(size_t *)out = NBYTES;
    return CUDA_SUCCESS;
}

static CUresult device_attribute(int *out, int attribute, CUdevice device)
{
    (void)attribute, (void)device;
    *out = 0;
    return CUDA_SUCCESS;
}

static const struct symm_driver driver = {.cuPointerGetAttribute = attribute,
                                          .cuDeviceGetAttribute = device_attribute};

static bool accepts(struct symm_memory *m, CUdeviceptr at, size_t nbytes)
{
    return symm__memory_is_known(m, at, nbytes) ||
           symm__memory_ask(m, (void *)(uintptr_t)at, nbytes);
}

TEST_GROUP(foreign, 10);

TEST(foreign, memory_ends_with_its_allocation)
{
    struct symm_memory m = {.config = {.drv = &driver}, .lock = PTHREAD_RWLOCK_INITIALIZER};

    for (int i = 0; i < 2; i++) { /* asked, then known */
        ck_assert(accepts(&m, START, NBYTES));
        ck_assert(accepts(&m, START + 3, 1));
        ck_assert(!accepts(&m, START, NBYTES + 1));
        ck_assert(!accepts(&m, START - 1, 1));
    }
}

TEST(foreign, or_with_its_last_page)
{
    struct symm_memory m = {.config = {.drv = &driver}, .lock = PTHREAD_RWLOCK_INITIALIZER};

    symm__memory_accept_pages(&m);
    for (int i = 0; i < 2; i++) {
        ck_assert(accepts(&m, START, TO_PAGE_END));
        ck_assert(!accepts(&m, START, TO_PAGE_END + 1));
        ck_assert(!accepts(&m, START - 1, 2));
    }
}
