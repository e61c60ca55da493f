/*
 * The host's side of a fused kernel, without cudart: it runs on GPUs and, under
 * `symm-run --emulated`, without any. with_cudart.cu is the same with cudart.
 */
#include <symm/stream.h>
#include <symm/symm.h>
#include "numbers.h"
#include "problem.h"
#include "try.h"

extern const symm_image fused_kernels; /* symm_add_kernels(03_rms_norm fused.cu) */

int main(int argc, char **argv)
{
    symm_status st;
    symm_context *ctx = NULL;
    symm_stream s = NULL;
    symm_kernel *k = NULL;
    norm_args a = {0};
    problem p = {0};
    void *x, *y, *w;
    uint32_t blocks;
    uint64_t seed;
    long wrong = -1;

    TRY(symm_context_create(NULL, &ctx));
    symm_group *tp = symm_context_world(ctx);
    /* The emulated driver is for being right, not for being fast: less of everything. */
    const int emulated = strcmp(symm_context_driver(ctx), "emulated") == 0;
    if (problem_create(&p, argc, argv, emulated ? 37 : 256, emulated ? 1000 : 8192))
        goto out;
    const size_t row = sizeof(symm_bf16) * (size_t)p.hidden;

    /* Collective, once: kernel, memory, a channel of signals for each block. */
    TRY(symm_kernel_load(ctx, &fused_kernels, "all_reduce_bias_rmsnorm", &k));
    TRY(symm_kernel_max_blocks(tp, k, p.threads, 0, &blocks)); /* the same on every rank */
    if (blocks > 64)
        blocks = 64;
    TRY(symm_signal_pad_alloc(tp, (int)blocks, &a.pad));
    TRY(symm_alloc(tp, p.nbytes, &x));
    TRY(symm_alloc(tp, p.nbytes, &y));
    TRY(symm_device_alloc(ctx, 2 * row, &w));
    TRY(symm_group_view(tp, &a.view));
    TRY(symm_stream_create(ctx, &s));
    TRY(random_seed(tp, &seed));
    problem_fill(&p, seed, symm_rank(tp));
    a.x = x;
    a.y = y;
    a.bias = w;
    a.gain = a.bias + p.hidden;
    a.rows = p.rows;
    a.hidden = p.hidden;
    a.eps = p.eps;

    /* Stream-ordered, as often as you like. */
    TRY(symm_copy(x, p.x, p.nbytes, s));
    TRY(symm_copy(w, p.bias_gain, 2 * row, s));
    TRY(symm_fill(y, 0xff, p.nbytes, s)); /* NaNs: whatever is not written is wrong */
    TRY(symm_barrier(tp, s));             /* nobody writes into a y that is still to be filled */
    TRY(symm_launch(tp, k, &(symm_grid){.blocks = blocks, .threads = p.threads}, &a, sizeof a, s));
    TRY(symm_copy(p.y, y, p.nbytes, s));
    TRY(symm_synchronize(tp, s));

    wrong = problem_count_wrong(&p, symm_nranks(tp));
    if (wrong)
        fprintf(stderr, "rank %d: %ld elements are wrong (seed %llu)\n", symm_rank(tp), wrong,
                (unsigned long long)seed);
    if (symm_rank(tp) == 0)
        printf("%d ranks, %d x %d, %u blocks of %u threads, %s: %ld elements are wrong\n",
               symm_nranks(tp), p.rows, p.hidden, blocks, p.threads,
               a.view.flags & SYMM_VIEW_MULTICAST ? "multicast" : "unicast", wrong);
out:
    problem_destroy(&p);
    symm_kernel_unload(k);
    if (s)
        symm_stream_destroy(s);
    symm_context_destroy(ctx); /* frees all of its memory */
    return st != SYMM_OK || wrong != 0;
}
