/* steps [KERNEL [THREADS]]: launches one of the kernels and checks what it did. */
#include <symm/stream.h>
#include <symm/symm.h>
#include <stdlib.h>
#include <string.h>
#include "steps.h"
#include "try.h"

extern const symm_image steps_kernels; /* symm_add_kernels(steps steps.cu) */

enum { COUNT = 10000, LAUNCHES = 5 };

/* A rank's x in a launch. */
static float x_of(int launch, int rank, int i)
{
    return (float)(launch * 5 + rank * 1000 + i % 777);
}

/* What it must find in its y. */
static float y_of(const char *kernel, int launch, int rank, int nranks, int i)
{
    float sum = 0;

    if (strcmp(kernel, "peers") == 0)
        return x_of(launch, (rank + 1) % nranks, i);
    if (strcmp(kernel, "overlap") == 0)
        return x_of(launch, (rank + nranks - 1) % nranks, i) + 2 * x_of(launch, rank, i);
    for (int r = 0; r < nranks && strcmp(kernel, "sum") == 0; r++)
        sum += x_of(launch, r, i);
    return sum; /* nothing: y stays 0 */
}

int main(int argc, char **argv)
{
    const char *const name = argc > 1 ? argv[1] : "nothing";
    const uint32_t threads = argc > 2 ? (uint32_t)atoi(argv[2]) : 128; /* of a block */
    const size_t nbytes = COUNT * sizeof(float);
    symm_status st;
    symm_context *ctx = NULL;
    symm_stream s = NULL;
    symm_kernel *kernel = NULL;
    step_args a = {.count = COUNT};
    float host[COUNT];
    uint32_t blocks;
    int wrong = 0;

    /* This process becomes a rank. */
    TRY(symm_context_create(NULL, &ctx));
    symm_group *world = symm_context_world(ctx);
    const int rank = symm_rank(world), nranks = symm_nranks(world);

    /* Once, and by all ranks alike: what the kernel needs. */
    TRY(symm_kernel_load(ctx, &steps_kernels, name, &kernel));
    TRY(symm_kernel_max_blocks(world, kernel, threads, 0, &blocks));
    if (blocks > 8)
        blocks = 8;
    TRY(symm_signal_pad_alloc(world, 2 * (int)blocks, &a.pad));
    TRY(symm_alloc(world, nbytes, (void **)&a.x));
    TRY(symm_alloc(world, nbytes, (void **)&a.inbox));
    TRY(symm_device_alloc(ctx, nbytes, (void **)&a.y));
    TRY(symm_group_view(world, &a.view));
    TRY(symm_stream_create(ctx, &s));

    /* On the stream, as often as you like. */
    const symm_grid grid = {.blocks = blocks, .threads = threads};
    for (int launch = 0; launch < LAUNCHES; launch++) {
        for (int i = 0; i < COUNT; i++)
            host[i] = x_of(launch, rank, i);
        TRY(symm_copy(a.x, host, nbytes, s));
        TRY(symm_fill(a.y, 0, nbytes, s));
        TRY(symm_launch(world, kernel, &grid, &a, sizeof a, s));
        TRY(symm_copy(host, a.y, nbytes, s));
        TRY(symm_synchronize(world, s)); /* OK means that the results are right */
        for (int i = 0; i < COUNT; i++)
            wrong += host[i] != y_of(name, launch, rank, nranks, i);
    }
    printf("rank %d of %d: %s: %d elements are wrong\n", rank, nranks, name, wrong);
out:
    if (s)
        symm_stream_destroy(s);
    symm_context_destroy(ctx); /* frees what it gave out */
    return st != SYMM_OK || wrong;
}
