/* What a rank does with a chunk: here it adds one. */
#include <symm/device.cuh>
#include "stage.h"

SYMM_KERNEL(stage, stage_args, a, 256)
{
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < a.count;
         i += (int)(gridDim.x * blockDim.x))
        a.out[i] = a.in[i] + 1;
}
