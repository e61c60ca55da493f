/* The kernel that makes a rank late. */
#include <symm/device.cuh>
#include "stress_args.h"

/* a.rounds dependent round trips to memory. */
SYMM_KERNEL(stress_delay, stress_args, a, 32)
{
    if (threadIdx.x != 0)
        return;
    for (uint64_t round = 0; round < a.rounds; round++)
        symm_dev_store_one(a.word, symm_dev_load_one(a.word) * 1664525u + 1013904223u);
}
