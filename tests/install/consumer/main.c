/* A C program outside of symm's tree: sums one number over the ranks on the emulated driver. */
#include <symm/collectives.h>
#include <symm/matmul.h>
#include <symm/names.h>
#include <symm/dlpack.h>
#include <symm/stream.h>
#include <stdio.h>

int main(void)
{
    const symm_config config = {.driver = "emulated"};
    symm_context *ctx = NULL;
    symm_stream stream = NULL;
    symm_group *world;
    void *x = NULL;
    float mine, sum = -1, want = 0;
    int ok = symm_version() == SYMM_VERSION && symm_context_create(&config, &ctx) == SYMM_OK;

    world = symm_context_world(ctx);
    mine = (float)(symm_rank(world) + 1);
    for (int r = 0; r < symm_nranks(world); r++)
        want += (float)(r + 1);
    ok = ok && symm_alloc(world, sizeof mine, &x) == SYMM_OK;
    ok = ok && symm_stream_create(ctx, &stream) == SYMM_OK;
    ok = ok && symm_copy(x, &mine, sizeof mine, stream) == SYMM_OK;
    ok = ok && symm_all_reduce(world, x, x, 1, SYMM_FLOAT32, SYMM_SUM, NULL, stream) == SYMM_OK;
    ok = ok && symm_copy(&sum, x, sizeof sum, stream) == SYMM_OK;
    ok = ok && symm_synchronize(world, stream) == SYMM_OK;
    if (!ok)
        fprintf(stderr, "%s\n", symm_error_text());
    symm_stream_destroy(stream);
    ok = symm_context_destroy(ctx) == SYMM_OK && ok;
    printf("sum %g, wanted %g\n", (double)sum, (double)want);
    return ok && sum == want ? 0 : 1;
}
