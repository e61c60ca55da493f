/*
 * main.c with cudart: its streams, its copies, <<<>>>. There is no cudart without a GPU.
 *
 * The preload rule: CUDA loads a kernel at its first launch, and that may wait until the device is
 * idle. It never is while a kernel waits for a rank whose own kernel is still to be loaded. So load
 * every kernel before the first one waits for another rank: cudaFuncGetAttributes() on each, as
 * below, or CUDA_MODULE_LOADING=EAGER in the environment. symm_kernel_load() does it by itself.
 *
 * Nor does <<<>>> look whether all blocks are resident together, without which a barrier never
 * ends: resident_blocks() of try_cuda.h asks for the number, and takes the least of all ranks.
 */
#include <symm/symm.h>
#include "fused.cu" /* <<<>>> must see the kernel */
#include "numbers.h"
#include "problem.h"
#include "try_cuda.h"

int main(int argc, char **argv)
{
    symm_status st;
    symm_context *ctx = NULL;
    symm_group *tp;
    cudaStream_t s = NULL;
    norm_args a = {};
    problem p = {};
    void *x, *y;
    symm_bf16 *w = NULL;
    uint32_t blocks;
    uint64_t seed;
    size_t row;
    long wrong = -1;

    TRY(symm_context_create(NULL, &ctx)); /* from here on the rank's device is the current one */
    tp = symm_context_world(ctx);
    if (problem_create(&p, argc, argv, 256, 8192))
        goto out;
    row = sizeof(symm_bf16) * (size_t)p.hidden;
    TRY(resident_blocks(tp, all_reduce_bias_rmsnorm, p.threads, &blocks));
    if (blocks > 64)
        blocks = 64;
    TRY(symm_signal_pad_alloc(tp, (int)blocks, &a.pad));
    TRY(symm_alloc(tp, p.nbytes, &x));
    TRY(symm_alloc(tp, p.nbytes, &y));
    TRY_CUDA(cudaMalloc(&w, 2 * row));
    TRY(symm_group_view(tp, &a.view));
    TRY_CUDA(cudaStreamCreate(&s));
    TRY(random_seed(tp, &seed));
    problem_fill(&p, seed, symm_rank(tp));
    a.x = (const symm_bf16 *)x;
    a.y = (symm_bf16 *)y;
    a.bias = w;
    a.gain = w + p.hidden;
    a.rows = p.rows;
    a.hidden = p.hidden;
    a.eps = p.eps;

    TRY_CUDA(cudaMemcpyAsync(x, p.x, p.nbytes, cudaMemcpyDefault, s));
    TRY_CUDA(cudaMemcpyAsync(w, p.bias_gain, 2 * row, cudaMemcpyDefault, s));
    TRY_CUDA(cudaMemsetAsync(y, 0xff, p.nbytes, s));
    TRY(symm_barrier(tp, s)); /* nobody writes into a y that is still to be filled */
    all_reduce_bias_rmsnorm<<<blocks, p.threads, 0, s>>>(a);
    TRY_CUDA(cudaGetLastError());
    TRY_CUDA(cudaMemcpyAsync(p.y, y, p.nbytes, cudaMemcpyDefault, s));
    TRY(symm_synchronize(tp, s)); /* a cudaStreamSynchronize that also says whether it is right */

    wrong = problem_count_wrong(&p, symm_nranks(tp));
    if (wrong)
        fprintf(stderr, "rank %d: %ld elements are wrong (seed %llu)\n", symm_rank(tp), wrong,
                (unsigned long long)seed);
    if (symm_rank(tp) == 0)
        printf("%d ranks, %d x %d, %u blocks of %u threads, %s, cudart: %ld elements are wrong\n",
               symm_nranks(tp), p.rows, p.hidden, blocks, p.threads,
               a.view.flags & SYMM_VIEW_MULTICAST ? "multicast" : "unicast", wrong);
out:
    problem_destroy(&p);
    cudaFree(w);
    if (s)
        cudaStreamDestroy(s);
    symm_context_destroy(ctx);
    return st != SYMM_OK || wrong != 0;
}
