#include <symm/device.cuh>
#include "steps.h"

/* Step 1 */
SYMM_KERNEL(nothing, step_args, a, 128)
{
    (void)a;
}

/* Step 2: y = the next rank's x */
SYMM_KERNEL(peers, step_args, a, 128)
{
    const symm_view &v = a.view;
    const float *const theirs = symm_dev_peer(v, a.x, (v.rank + 1) % v.nranks);

    symm_dev_barrier(v, a.pad, blockIdx.x); /* all have written their x */
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += gridDim.x * blockDim.x)
        a.y[i] = symm_dev_load_one(theirs + i);
    symm_dev_barrier(v, a.pad, blockIdx.x); /* all have read: x may change again */
}

/* Step 3: y = the sum of all ranks' x */
SYMM_KERNEL(sum, step_args, a, 128)
{
    const symm_view &v = a.view;
    const int first = 4 * (blockIdx.x * blockDim.x + threadIdx.x);

    symm_dev_barrier(v, a.pad, blockIdx.x);
    for (int i = first; i < a.count; i += 4 * gridDim.x * blockDim.x)
        symm_dev_store(a.y + i, symm_dev_sum(v, a.x + i));
    symm_dev_barrier(v, a.pad, blockIdx.x);
}

/* Step 4: y = the rank before's x + twice my own */
SYMM_KERNEL(overlap, step_args, a, 128)
{
    const symm_view &v = a.view;
    const int next = (v.rank + 1) % v.nranks, before = (v.rank + v.nranks - 1) % v.nranks;
    const int given = blockIdx.x, taken = gridDim.x + blockIdx.x; /* channels */
    const int part = (a.count + gridDim.x - 1) / gridDim.x;       /* of a block */
    const int first = min((int)blockIdx.x * part, a.count), last = min(first + part, a.count);

    /* My part of x goes to the next rank, with a signal behind it. */
    if (!symm_dev_aborted(v))
        symm_dev_put(v, a.inbox + first, a.x + first, (last - first) * sizeof(float), next);
    __syncthreads(); /* the signal covers what its block has written before */
    if (threadIdx.x == 0)
        symm_dev_signal(v, a.pad, given, next);

    /* While it travels there is work. */
    for (int i = first + threadIdx.x; i < last; i += blockDim.x)
        a.y[i] = 2 * a.x[i];

    /* What comes from the rank before. */
    if (threadIdx.x == 0)
        symm_dev_wait(v, a.pad, given, before);
    __syncthreads(); /* what one thread waited for is there for all of its block */
    for (int i = first + threadIdx.x; i < last; i += blockDim.x)
        a.y[i] += symm_dev_load_one(a.inbox + i);

    /* The inbox may be written again when it has been read. */
    __syncthreads();
    if (threadIdx.x == 0) {
        symm_dev_signal(v, a.pad, taken, before);
        symm_dev_wait(v, a.pad, taken, next);
    }
}
