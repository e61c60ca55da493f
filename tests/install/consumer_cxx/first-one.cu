#include <symm/device.cuh>
#include "kernels.h"

SYMM_KERNEL(add, add_args, a, 32)
{
    a.x[threadIdx.x] += a.by;
}
