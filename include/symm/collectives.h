/*
 * symm/collectives.h - collectives on any device memory. The group is the first argument, the
 * stream the last. Counts have the same meaning as in NCCL.
 *
 * in and out may be any memory that the device can access: device memory, pinned or managed host
 * memory, and any host memory if GPUs share the host's page tables (HMM, ATS). The driver is asked
 * once for each allocation. Some algorithms access `in` or `out` of other ranks. If that buffer is
 * symmetric memory with the same offset on all ranks, aligned to 16 bytes, they use it in place;
 * else the same kernel goes through the group's staging area. For that there are three
 * more conditions. Except in an all-reduce, the count is a multiple of 16 bytes. In one_shot and
 * multimem_one_shot of an all-reduce, `out` is not `in` and is aligned to 16 bytes. For algorithms
 * of the switch, the memory is bound to the multicast object. The ranks agree on this in the
 * kernel. docs/collectives.md lists the buffers that each algorithm accesses.
 *
 * Every algorithm gives the same result, except for the rounding of sums made in the switch. AUTO
 * takes the fastest algorithm by SYMM_TUNING_FILE, which `symm-bench tune` writes, else by a model.
 */
#ifndef SYMM_COLLECTIVES_H
#define SYMM_COLLECTIVES_H

#include <symm/symm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All algorithms: value, name, what they do. */
#define SYMM_ALGO_MAP(X)                                                                           \
    X(AUTO, 0, "auto", "the fastest that can run")                                                 \
    X(LOW_LATENCY, 1, "low_latency", "one hop, with flags beside the data")                        \
    X(ONE_SHOT, 2, "one_shot", "one hop")                                                          \
    X(TWO_SHOT, 3, "two_shot", "all-reduce: every rank reduces its share and writes it to all")    \
    X(MULTIMEM, 4, "multimem", "the switch reduces, the switch copies")                            \
    X(MULTIMEM_ONE_SHOT, 5, "multimem_one_shot",                                                   \
      "all-reduce: every rank has the switch reduce everything")                                   \
    X(COPY_ENGINE, 6, "copy_engine", "copy engines move the data; see SYMM_SYMMETRIC")             \
    X(LOW_LATENCY_TWO_SHOT, 7, "low_latency_two_shot",                                             \
      "all-reduce: two-shot, with flags beside the data")                                          \
    X(LAMPORT, 8, "lamport", "reductions of floats: each pack of 16 bytes is its own flag")        \
    X(FLAT, 9, "flat", "groups of several domains: NCCL over all ranks")                           \
    X(HIERARCHICAL, 10, "hierarchical",                                                            \
      "groups of several domains: symm inside each, NCCL between them")

typedef enum symm_algo {
#define SYMM_ALGO_ENUM_(id, value, name, text) SYMM_ALGO_##id = value,
    SYMM_ALGO_MAP(SYMM_ALGO_ENUM_)
#undef SYMM_ALGO_ENUM_
} symm_algo;

/*
 * Flags. SYMM_SYMMETRIC promises that `out` of an all-reduce, all-gather or broadcast is symmetric
 * memory with the same offset on all ranks of the group. copy_engine writes into `out` of other
 * ranks, so AUTO takes it there only with this flag. `in`, and both buffers of a reduce-scatter,
 * may be any memory. If the flag is set, AUTO compares times with all buffers in symmetric memory.
 * Otherwise it compares times with plain device memory.
 *
 * If `out` is not symmetric memory, the rank gets ERROR_ARGUMENT at the call. If copy_engine runs
 * and the offsets differ, the ranks notice it on their devices. Then symm_synchronize() and later
 * calls return ERROR_MISMATCH on all ranks, and the copies may have overwritten other ranks' memory
 * at the offset of each rank.
 *
 * Copies by the engines cannot be stopped. If a group ends while a call with copy_engine is
 * enqueued on some ranks, the output of that call may be garbage on all ranks, even on ranks that
 * have not made the call.
 */
enum {
    SYMM_DETERMINISTIC = 1u, /* the same bits at every size, on every rank, in every run */
    SYMM_SYMMETRIC = 2u,
    SYMM_SCALE_ON_DEVICE = 4u /* options.scale is in device memory, read when the call runs */
};

typedef struct symm_options {
    symm_algo algo;
    uint32_t flags;
    uint32_t max_blocks; /* 0: the algorithm's choice */
    uint32_t reserved[11];
    /*
     * Multiplies this rank's elements by *scale before a reduction, 16-bit types in fp32, and
     * rounds the products to dtype. *scale is one element of dtype, in host memory, which is read
     * at once, or with SYMM_SCALE_ON_DEVICE in device memory. Ranks may have different numbers and
     * places, but all ranks have a number, or none (NULL). If count is 0, it is not read. Floating
     * types only; AUTO and lamport.
     */
    const void *scale;
} symm_options; /* NULL: all zero */

/*
 * Reduces count elements over all ranks: out[i] = in_0[i] op in_1[i] op ... on every rank. Types:
 * float32, float16, bfloat16, float64, int32, int64. Operations: sum (integers wrap around), min
 * and max (a number wins over a NaN), and average for floating types.
 *
 * Except for the multimem algorithms, all algorithms reduce in rank order, 16-bit types in fp32,
 * and round once. So every rank gets the same bits, whatever the algorithm and the size, except
 * that the bits of a NaN may differ. multimem and multimem_one_shot add in the switch, in an
 * unspecified order, 16-bit types in fp32; an average is rounded once more. multimem gives every
 * rank the same bits; multimem_one_shot may not.
 *
 * It is not a barrier: it orders only accesses to `in` and `out` between ranks.
 *
 * All collectives but the norm also run on groups of several domains, by NCCL between domains:
 * with AUTO, FLAT or HIERARCHICAL, without a scale, and with other bits than above (docs/hosts.md).
 * HIERARCHICAL and SYMM_DETERMINISTIC need domains of as many ranks each; of reductions, FLAT and
 * SYMM_DETERMINISTIC exclude each other. Their first call makes communicators: ERROR_STATE in a
 * capture, ERROR_UNSUPPORTED without NCCL.
 *
 * Scope:  Stream-ordered, all ranks of the group, with the same count, dtype, op and options.
 * Shapes: in, out [count]; out == in is in place; every other overlap is ERROR_ARGUMENT.
 *         Element-aligned.
 * Memory: in and out must stay valid until the call is done on the stream.
 * Errors: ERROR_ARGUMENT     NULL with count > 0, overlap, alignment, a count that overflows,
 *                            symmetric memory that is not this rank's or too short, memory that
 *                            the device cannot access, an unknown enum or flag, reserved words that
 *                            are not 0, SYMM_SCALE_ON_DEVICE without a scale, or with one that is
 *                            not aligned to its type or that the device cannot access
 *         ERROR_UNSUPPORTED  this dtype, op or algorithm does not run here: see
 *                            symm_all_reduce_unavailable(); or SYMM_DETERMINISTIC with an algorithm
 *                            of the switch; or a scale with an algorithm or a dtype that has none
 *         ERROR_MISMATCH     ranks called different things: at once with SYMM_CHECK=1, else sticky
 *                            and later. Low latency algorithms compare count and grid by a hash
 *                            modulo 509: docs/collectives.md, "Calls that differ"
 *         ERROR_SYSTEM       a call of NCCL failed, between domains; the group has ended
 *         ERROR_DRIVER, ERROR_MEMORY, ERROR_PEER, ERROR_TIMEOUT, ERROR_STATE
 * Source: one-shot and two-shot are the direct forms of reduce and of reduce-scatter + all-gather
 *         (Rabenseifner).
 */
SYMM_API symm_status symm_all_reduce(symm_group *group, const void *in, void *out, size_t count,
                                     symm_dtype dtype, symm_redop op, const symm_options *options,
                                     symm_stream stream);

/*
 * Reduces nranks * count elements over all ranks, and gives each rank count of them: out[i] =
 * in_0[rank * count + i] op in_1[rank * count + i] op ... Types, operations and rounding are those
 * of symm_all_reduce(). Except with multimem, the bits equal those of an all-reduce. It is not a
 * barrier.
 *
 * Scope:  Stream-ordered, all ranks of the group, with the same count, dtype, op and options.
 * Shapes: in [nranks * count], out [count]; out == in + rank * count is in place; every other
 *         overlap is ERROR_ARGUMENT. Element-aligned.
 * Memory: in and out must stay valid until the call is done on the stream. In place, the rest of
 *         `in` is not changed.
 * Errors: those of symm_all_reduce(); see symm_reduce_scatter_unavailable().
 * Source: the direct reduce-scatter: one hop, each share to the rank that reduces it.
 */
SYMM_API symm_status symm_reduce_scatter(symm_group *group, const void *in, void *out, size_t count,
                                         symm_dtype dtype, symm_redop op,
                                         const symm_options *options, symm_stream stream);

/*
 * Gives every rank the elements of all ranks in rank order: out[r * count + i] = in_r[i]. Any
 * symm_dtype; no bit is changed. It is not a barrier.
 *
 * Scope:  Stream-ordered, all ranks of the group, with the same count, dtype and options.
 * Shapes: in [count], out [nranks * count]; in == out + rank * count is in place; every other
 *         overlap is ERROR_ARGUMENT. Element-aligned.
 * Memory: in and out must stay valid until the call is done on the stream.
 * Errors: those of symm_all_reduce(); see symm_all_gather_unavailable().
 * Source: the direct all-gather: one hop, each rank's elements to all other ranks.
 */
SYMM_API symm_status symm_all_gather(symm_group *group, const void *in, void *out, size_t count,
                                     symm_dtype dtype, const symm_options *options,
                                     symm_stream stream);

/*
 * Gives every rank the elements of one rank, the root: out[i] = in_root[i]. Any symm_dtype; no bit
 * is changed. Algorithms: low_latency, one_shot, multimem, copy_engine. It is not a barrier.
 *
 * Scope:  Stream-ordered, all ranks of the group, with the same count, dtype, root and options.
 *         root is a rank of the group.
 * Shapes: in [count], on the root only: the other ranks ignore it, and may give NULL. out [count],
 *         on every rank. On the root out == in is in place; every other overlap there is
 *         ERROR_ARGUMENT. Element-aligned.
 * Memory: in and out must stay valid until the call is done on the stream.
 * Errors: as symm_all_reduce(); only the root checks `in`. Also:
 *         ERROR_ARGUMENT     root is no rank of the group
 *         ERROR_UNSUPPORTED  see symm_broadcast_unavailable()
 * Source: the direct broadcast: one hop, the root's elements to all other ranks.
 */
SYMM_API symm_status symm_broadcast(symm_group *group, const void *in, void *out, size_t count,
                                    symm_dtype dtype, int root, const symm_options *options,
                                    symm_stream stream);

/* The tensors of symm_all_reduce_rms_norm(): row-major, without gaps between rows. */
typedef struct symm_rms_norm {
    const void *in;       /* [rows, hidden]: what the ranks add up */
    const void *residual; /* [rows, hidden], the same on all ranks; NULL: zeros */
    const void *weight;   /* [hidden], the same on all ranks; NULL: ones */
    void *out;            /* [rows, hidden]: the norm */
    void *residual_out;   /* [rows, hidden]: the new residual */
    size_t rows, hidden;
    float eps;
    uint32_t reserved[9];
} symm_rms_norm;

/*
 * Sums over all ranks, adds the residual, and norms each row:
 *
 *     sum[i]          = in_0[i] + in_1[i] + ...
 *     residual_out[i] = residual[i] + sum[i]
 *     out[i]          = residual_out[i] / sqrt(mean of residual_out[j]^2 over the row + eps)
 *                       * weight[i]
 *
 * Every rank gets all rows of both outputs. Types: float16 and bfloat16. Algorithms: low_latency,
 * low_latency_two_shot, lamport.
 *
 * Computes in fp32. Each `=` of the three lines rounds to the type. So sum has the bits of
 * symm_all_reduce(), and residual_out those of an addition of 16-bit tensors. The norm is that of
 * the rounded residual_out. Models that call an all-reduce and then a fused kernel of residual and
 * norm compute the same way. `out` is rounded once, after weight. On GPUs, for hidden up to 2^24,
 * the error of `out` is at most (12 + hidden / 16384) 2^-23 times the norm of residual_out, plus
 * half a unit in the last place of the type.
 *
 * The bits are the same on every rank and in every run, for all algorithms, memory and alignments,
 * if all ranks have the same residual, weight, eps and kind of device. A row of zeros with eps 0
 * gives NaNs. It is not a barrier.
 *
 * Scope:  Stream-ordered, all ranks of the group, with the same rows, hidden, eps, dtype and
 *         options, and with a residual and a weight on all ranks or on none. Ranks with different
 *         values in residual and weight, or with different eps without SYMM_CHECK=1, get different
 *         results.
 * Shapes: as above; hidden is at least 1; without rows nothing happens. out == in and
 *         residual_out == residual are in place; any other overlap of an output with another tensor
 *         is ERROR_ARGUMENT. Element-aligned; fastest if all addresses and rows are aligned to 16
 *         bytes.
 * Units:  rows and hidden are in elements.
 * Memory: all tensors may be any memory, and must stay valid until the call is done on the stream.
 *         norm itself is read before the call returns.
 * Errors: ERROR_ARGUMENT     norm is NULL, hidden is 0 or above 2^32 - 1, rows x hidden overflows,
 *                            eps is negative or not finite, NULL for in, out or residual_out with
 *                            rows > 0, overlap, alignment, symmetric memory that is not this rank's
 *                            or too short, memory that the device cannot access, an unknown enum or
 *                            flag, reserved words that are not 0
 *         ERROR_UNSUPPORTED  this dtype or algorithm does not run here: see
 *                            symm_all_reduce_rms_norm_unavailable(); or a scale
 *         ERROR_MISMATCH     as in symm_all_reduce()
 *         ERROR_DRIVER, ERROR_PEER, ERROR_TIMEOUT, ERROR_STATE
 */
SYMM_API symm_status symm_all_reduce_rms_norm(symm_group *group, const symm_rms_norm *norm,
                                              symm_dtype dtype, const symm_options *options,
                                              symm_stream stream);

/*
 * Returns why this algorithm cannot run here with these elements; NULL: it can. The same on all
 * ranks. In a group of several domains it does not tell whether NCCL is there. The text lives
 * as long as the group. Scope: Local. For a NULL group, a text that says so.
 */
SYMM_API const char *symm_all_reduce_unavailable(symm_group *group, symm_algo algo,
                                                 symm_dtype dtype, symm_redop op);
SYMM_API const char *symm_reduce_scatter_unavailable(symm_group *group, symm_algo algo,
                                                     symm_dtype dtype, symm_redop op);
SYMM_API const char *symm_all_gather_unavailable(symm_group *group, symm_algo algo,
                                                 symm_dtype dtype);
SYMM_API const char *symm_broadcast_unavailable(symm_group *group, symm_algo algo,
                                                symm_dtype dtype);
SYMM_API const char *symm_all_reduce_rms_norm_unavailable(symm_group *group, symm_algo algo,
                                                          symm_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif
