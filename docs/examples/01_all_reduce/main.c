/*
 * All-reduce of a symmetric tensor, under any launcher: symm-run -n 4 ./01_all_reduce,
 * torchrun --no-python --nproc-per-node 4 ./01_all_reduce, mpirun -n 4 ./01_all_reduce, or without
 * a launcher, as a world of one.
 */
#include <symm/collectives.h>
#include <symm/stream.h>
#include "try.h"

int main(void)
{
    symm_status st;
    symm_context *ctx = NULL;
    symm_stream s = NULL;
    symm_tensor x = {0};
    float host[4] = {0};
    int wrong = 0;

    TRY(symm_context_create(NULL, &ctx));
    symm_group *world = symm_context_world(ctx);
    const int rank = symm_rank(world), nranks = symm_nranks(world);
    const int64_t shape[] = {1024, 1024};
    TRY(symm_tensor_alloc(world, SYMM_FLOAT32, 2, shape, &x));
    TRY(symm_stream_create(ctx, &s));
    for (int i = 0; i < 4; i++)
        host[i] = (float)(rank + i);
    TRY(symm_fill(x.data, 0, 4u << 20, s));
    TRY(symm_copy(x.data, host, sizeof host, s));
    TRY(symm_all_reduce(world, x.data, x.data, 1024 * 1024, SYMM_FLOAT32, SYMM_SUM, NULL, s));
    TRY(symm_copy(host, x.data, sizeof host, s));
    TRY(symm_synchronize(world, s));
    printf("rank %d of %d: %g %g\n", rank, nranks, (double)host[0], (double)host[1]);
    for (int i = 0; i < 4; i++)
        wrong += host[i] != (float)(nranks * (nranks - 1) / 2 + nranks * i);
    if (wrong)
        fprintf(stderr, "rank %d: %d of 4 sums are wrong\n", rank, wrong);
out:
    if (s)
        symm_stream_destroy(s);
    symm_context_destroy(ctx); /* frees x; NULL is fine; never hangs */
    return st != SYMM_OK || wrong;
}
