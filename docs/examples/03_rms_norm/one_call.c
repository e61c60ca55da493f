/*
 * The same norm by one call of the library: symm_all_reduce_rms_norm(), in any memory. It adds a
 * residual, which here is the bias in each row, and returns the sum as the new residual.
 */
#include <symm/collectives.h>
#include <symm/stream.h>
#include "numbers.h"
#include "problem.h"
#include "try.h"

int main(int argc, char **argv)
{
    symm_status st;
    symm_context *ctx = NULL;
    symm_stream s = NULL;
    problem p = {0};
    void *x, *bias, *residual, *gain;
    uint64_t seed;
    long wrong = -1;

    TRY(symm_context_create(NULL, &ctx));
    symm_group *tp = symm_context_world(ctx);
    const int emulated = strcmp(symm_context_driver(ctx), "emulated") == 0;
    if (problem_create(&p, argc, argv, emulated ? 37 : 256, emulated ? 1000 : 8192))
        goto out;
    p.roundings = 2; /* the new residual is a bf16, too */
    const size_t row = sizeof(symm_bf16) * (size_t)p.hidden;

    TRY(symm_device_alloc(ctx, p.nbytes, &x));
    TRY(symm_device_alloc(ctx, p.nbytes, &bias));
    TRY(symm_device_alloc(ctx, p.nbytes, &residual));
    TRY(symm_device_alloc(ctx, row, &gain));
    TRY(symm_stream_create(ctx, &s));
    TRY(random_seed(tp, &seed));
    problem_fill(&p, seed, symm_rank(tp));
    TRY(symm_copy(x, p.x, p.nbytes, s));
    for (int i = 0; i < p.rows; i++)
        TRY(symm_copy((char *)bias + (size_t)i * row, p.bias_gain, row, s));
    TRY(symm_copy(gain, p.bias_gain + p.hidden, row, s));

    const symm_rms_norm norm = {.in = x,
                                .residual = bias,
                                .weight = gain,
                                .out = x, /* in place */
                                .residual_out = residual,
                                .rows = (size_t)p.rows,
                                .hidden = (size_t)p.hidden,
                                .eps = p.eps};
    TRY(symm_all_reduce_rms_norm(tp, &norm, SYMM_BFLOAT16, NULL, s));
    TRY(symm_copy(p.y, x, p.nbytes, s));
    TRY(symm_synchronize(tp, s));

    wrong = problem_count_wrong(&p, symm_nranks(tp));
    if (wrong)
        fprintf(stderr, "rank %d: %ld elements are wrong (seed %llu)\n", symm_rank(tp), wrong,
                (unsigned long long)seed);
    if (symm_rank(tp) == 0)
        printf("%d ranks, %d x %d, one call: %ld elements are wrong\n", symm_nranks(tp), p.rows,
               p.hidden, wrong);
out:
    problem_destroy(&p);
    if (s)
        symm_stream_destroy(s);
    symm_context_destroy(ctx); /* frees all of its memory */
    return st != SYMM_OK || wrong != 0;
}
