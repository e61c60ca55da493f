/*
 * Activations summed over the ranks of a host, gradients over all ranks: the same program on one
 * host and on several.
 *
 * symm-run -n 4 ./p9 | symm-run -n 4 --hosts 2 ./p9 (pretended hosts) | torchrun, srun or mpirun on
 * several hosts: docs/hosts.md
 */
#include <symm/collectives.h>
#include <symm/stream.h>
#include "try.h"

enum { COUNT = 100000 };

/* x: COUNT elements, of which the first one is this rank's number in the world plus `add`. */
static symm_status sum(symm_group *group, float *x, float add, symm_stream s, float *out)
{
    const float mine = (float)symm_world_rank(group, symm_rank(group)) + add;
    symm_status st;

    TRY(symm_fill(x, 0, COUNT * sizeof *x, s));
    TRY(symm_copy(x, &mine, sizeof mine, s));
    TRY(symm_all_reduce(group, x, x, COUNT, SYMM_FLOAT32, SYMM_SUM, NULL, s));
    TRY(symm_copy(out, x, sizeof *out, s));
    TRY(symm_synchronize(group, s));
out:
    return st;
}

static float expected(const symm_group *group, float add)
{
    float total = 0;

    for (int r = 0; r < symm_nranks(group); r++)
        total += (float)symm_world_rank(group, r) + add;
    return total;
}

int main(void)
{
    symm_status st;
    symm_context *ctx = NULL;
    symm_stream s = NULL;
    void *activations = NULL, *gradients = NULL;
    float near = 0, all = 0;
    int wrong = 0;

    TRY(symm_context_create(&(symm_config){.span = 1}, &ctx));
    symm_group *world = symm_context_world(ctx), *host = symm_context_domain(ctx);
    TRY(symm_stream_create(ctx, &s));
    /* Symmetric memory belongs to the ranks of a host. The world takes any memory. */
    TRY(symm_alloc(host, COUNT * sizeof(float), &activations));
    TRY(symm_device_alloc(ctx, COUNT * sizeof(float), &gradients));
    TRY(symm_group_reserve(world, 0)); /* the first call would do it */
    TRY(sum(host, activations, 1, s, &near));
    TRY(sum(world, gradients, 0.5f, s, &all));
    printf("rank %d of %d, on host %u of %u: %g here, %g in all\n", symm_rank(world),
           symm_nranks(world), symm_group_domain_of(world, symm_rank(world)),
           symm_group_ndomains(world), (double)near, (double)all);
    wrong = near != expected(host, 1) || all != expected(world, 0.5f);
    if (wrong)
        fprintf(stderr, "rank %d: wrong sums\n", symm_rank(world));
out:
    if (s)
        symm_stream_destroy(s);
    symm_context_destroy(ctx); /* frees both buffers */
    return st != SYMM_OK || wrong;
}
