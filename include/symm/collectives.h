/*
 * symm/collectives.h - collectives on any device memory. Group first, stream last; counts mean what
 * they mean in NCCL.
 *
 * in and out are any device pointers. Where the same symmetric memory is passed on all ranks it is
 * used in place; anything else goes through the group's staging area inside the same kernel. The
 * ranks agree on that in the kernel's first barrier.
 */
#ifndef SYMM_COLLECTIVES_H
#define SYMM_COLLECTIVES_H

#include <symm/symm.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum symm_algo {
    SYMM_ALGO_AUTO = 0,
    SYMM_ALGO_LOW_LATENCY,       /* in a later version */
    SYMM_ALGO_ONE_SHOT,          /* every rank reads everything */
    SYMM_ALGO_TWO_SHOT,          /* every rank reduces its share and writes it to all */
    SYMM_ALGO_MULTIMEM,          /* two-shot, with the switch reducing and copying */
    SYMM_ALGO_MULTIMEM_ONE_SHOT, /* one-shot, with the switch reducing */
    SYMM_ALGO_COPY_ENGINE        /* in a later version */
} symm_algo;

enum { SYMM_DETERMINISTIC = 1u }; /* the same bits at every size, on every rank, in every run */

typedef struct symm_options {
    symm_algo algo;
    uint32_t flags;
    uint32_t max_blocks; /* 0: as many as the algorithm likes */
    uint32_t reserved[13];
} symm_options; /* NULL: all zero */

/*
 * Sums count elements over all ranks: out[i] = in_0[i] + in_1[i] + ... on every rank.
 *
 * one_shot and two_shot add in fp32, in the order of the ranks, and round once, so every rank gets
 * the same bits. multimem and multimem_one_shot add in fp32 in the switch, in an order of its own;
 * multimem gives every rank the same bits, multimem_one_shot need not.
 *
 * Scope:  Stream-ordered, all ranks of the group, with the same count, dtype, op and options.
 * Shapes: in, out [count]; out == in is in place; every other overlap is ERROR_ARGUMENT.
 *         Element-aligned.
 * Memory: in and out must stay valid until the call is done on the stream.
 * Errors: ERROR_ARGUMENT     NULL with count > 0, overlap, alignment, a count that overflows, an
 *                            unknown enum
 *         ERROR_UNSUPPORTED  this dtype, op or algorithm does not run here;
 *                            symm_all_reduce_unavailable() says why
 *         ERROR_MISMATCH     ranks called different things (at once with SYMM_CHECK=1, else sticky,
 *                            later)
 *         ERROR_DRIVER, ERROR_PEER, ERROR_TIMEOUT, ERROR_STATE
 * Source: one-shot and two-shot are the direct forms of reduce and of reduce-scatter + all-gather
 *         (Rabenseifner).
 */
SYMM_API symm_status symm_all_reduce(symm_group *group, const void *in, void *out, size_t count,
                                     symm_dtype dtype, symm_redop op, const symm_options *options,
                                     symm_stream stream);

/*
 * Why this algorithm cannot run here for these elements; NULL: it runs. The same on all ranks.
 * Scope: Local.
 */
SYMM_API const char *symm_all_reduce_unavailable(symm_group *group, symm_algo algo,
                                                 symm_dtype dtype, symm_redop op);

#ifdef __cplusplus
}
#endif

#endif
