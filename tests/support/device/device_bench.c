/* Shared by the cases of symm/device.cuh. */
#include "device_bench.h"

#include <stdlib.h>
#include <string.h>

const uint32_t device_threads[DEVICE_SHAPES] = {1, 3, 32, 64, DEVICE_THREADS_MAX};

uint32_t device_rounds(uint32_t emulated, uint32_t gpu)
{
    return device_setting.slow ? emulated / 4 + 1 : device_setting.emulated ? emulated : gpu;
}

uint32_t device_blocks(int nranks)
{
    if (!device_setting.emulated)
        return DEVICE_BLOCKS_MAX;
    return nranks <= 2 ? 12 : nranks <= 4 ? 4 : 2;
}

symm_status device_open(struct rank *self, struct device_bench *b, const char *kernel,
                        int nchannels)
{
    b->self = self;
    RANK_TRY(self, rank_join(self, &b->ctx));
    b->w = symm_context_world(b->ctx);
    RANK_TRY(self, symm_stream_create(b->ctx, &b->s));
    RANK_TRY(self, symm_signal_pad_alloc(b->w, nchannels, &b->a.pad));
    RANK_TRY(self, symm_alloc(b->w, 2 * sizeof *b->a.tally, (void **)&b->a.tally));
    RANK_TRY(self, symm_fill(b->a.tally, 0, 2 * sizeof *b->a.tally, b->s));
    RANK_TRY(self, symm_group_view(b->w, &b->a.view));
    return device_load(b, kernel);
out:
    return SYMM_ERROR_STATE;
}

symm_status device_load(struct device_bench *b, const char *kernel)
{
    symm_kernel_unload(b->kernel);
    b->kernel = NULL;
    RANK_TRY(b->self, symm_kernel_load(b->ctx, &test_device_kernels, kernel, &b->kernel));
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

symm_status device_launch(struct device_bench *b, uint32_t blocks, uint32_t threads)
{
    const symm_grid grid = {.blocks = blocks, .threads = threads};
    RANK_TRY(b->self, symm_launch(b->w, b->kernel, &grid, &b->a, sizeof b->a, b->s));
    b->nthreads += blocks * threads;
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

symm_status device_settle(struct device_bench *b)
{
    uint32_t tally[2] = {~0u, ~0u};
    RANK_TRY(b->self, symm_copy(tally, b->a.tally, sizeof tally, b->s));
    RANK_TRY(b->self, symm_fill(b->a.tally, 0, sizeof tally, b->s));
    RANK_TRY(b->self, symm_synchronize(b->w, b->s));
    CHECK_RANK_MSG(b->self, tally[1] == b->nthreads, "%u threads came to their end, of %u",
                   tally[1], b->nthreads);
    b->self->report->wrong += tally[0];
    b->nthreads = 0;
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

symm_status device_run(struct device_bench *b, uint32_t blocks, uint32_t threads)
{
    const symm_status st = device_launch(b, blocks, threads);
    return st == SYMM_OK ? device_settle(b) : st;
}

symm_status device_run_together(struct device_bench *b, uint32_t blocks, uint32_t threads)
{
    RANK_TRY(b->self, symm_barrier(b->w, b->s));
    RANK_TRY(b->self, device_launch(b, blocks, threads));
    RANK_TRY(b->self, symm_barrier(b->w, b->s));
    return device_settle(b);
out:
    return SYMM_ERROR_STATE;
}

void device_close(struct device_bench *b)
{
    symm_kernel_unload(b->kernel);
    symm_stream_destroy(b->s);
    symm_context_destroy(b->ctx);
}

static symm_status copy(struct device_bench *b, void *to, const void *from, size_t nbytes)
{
    RANK_TRY(b->self, symm_copy(to, from, nbytes, b->s));
    RANK_TRY(b->self, symm_synchronize(b->w, b->s));
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

symm_status device_write(struct device_bench *b, void *device, const void *host, size_t nbytes)
{
    return copy(b, device, host, nbytes);
}

symm_status device_read(struct device_bench *b, void *host, const void *device, size_t nbytes)
{
    return copy(b, host, device, nbytes);
}
