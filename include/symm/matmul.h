/*
 * symm/matmul.h - matrix products fused with communication.
 *
 * Create a product once (compares the ranks' shapes if they communicate, allocates workspace,
 * chooses the transport), run it often (Stream-ordered: only enqueues, may be captured), destroy
 * it. Strides give the layout: matrices with any two strides are accepted, so there are no flags
 * for transposition.
 *
 * docs/matmul.md explains the data flow and the waits.
 */
#ifndef SYMM_MATMUL_H
#define SYMM_MATMUL_H

#include <symm/symm.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * m: rows of A on all ranks; n: columns of D; k: the common extent; l: batch, products of this
 * shape. r: this rank, of R ranks.
 *
 *     kind                   a           b           c           d           every rank gets
 *     MATMUL                 [m, k]      [k, n]      [m, n]      [m, n]      its own product
 *     ALL_GATHER_MATMUL      [m of r, k] [k, n]      [m, n]      [m, n]      all rows, its columns
 *     MATMUL_REDUCE_SCATTER  [m, k]      [k, n]      [m of r, n] [m of r, n] its rows of the sum
 *     MATMUL_ALL_REDUCE      [m, k]      [k, n]      [m, n]      [m, n]      the whole sum
 *     MATMUL_ALL_SCATTER     [m, k]      [k, n of r] [m, n of r] [m, n]      everyone's columns
 *
 * The sums are over the products of all ranks. Their k may differ between ranks.
 *
 * "m of r": m / R rows, and one more if r < m % R. The ranks' rows are in rank order. "n of r" is
 * the same of the columns of each d, of which there are at least R.
 */
typedef enum symm_matmul_kind {
    SYMM_MATMUL = 0,
    SYMM_ALL_GATHER_MATMUL,
    SYMM_MATMUL_REDUCE_SCATTER,
    SYMM_MATMUL_ALL_REDUCE,
    SYMM_MATMUL_ALL_SCATTER
} symm_matmul_kind;

/* x, x (1 + erf(x / sqrt 2)) / 2, x / (1 + exp(-x)) */
typedef enum symm_activation { SYMM_NONE = 0, SYMM_GELU, SYMM_SILU } symm_activation;

/* How communication is combined with the product. An ALL_SCATTER is never PIPELINED. */
#define SYMM_STRATEGY_MAP(X)                                                                       \
    X(AUTO, 0, "auto", "the fastest by estimate")                                                  \
    X(FUSED, 1, "fused", "one product; it uses rows as they arrive, or sends tiles as they end")   \
    X(PIPELINED, 2, "pipelined",                                                                   \
      "one product per rank's rows, overlapping the transfer of the next, or of the last")         \
    X(UNFUSED, 3, "unfused", "one after the other")

typedef enum symm_strategy {
#define SYMM_STRATEGY_ENUM_(id, value, name, text) SYMM_STRATEGY_##id = value,
    SYMM_STRATEGY_MAP(SYMM_STRATEGY_ENUM_)
#undef SYMM_STRATEGY_ENUM_
} symm_strategy;

/*
 * Flags. By default, a product has the same bits in every run. The bits may depend on the strategy,
 * the schedule, the shape, the layout, the device, and the versions of symm and cuBLASLt. If a
 * product has at most 5e11 multiply-adds, symm_matmul_create() times algorithms of cuBLASLt and
 * takes the fastest one: of its first 8 proposals, and on Hopper GPUs of 18 configurations for the
 * shape. They split k into the same number of parts, so they have the same bits. A longer product
 * takes the first proposal. If symm's kernels have the same bits and are faster, they compute. For
 * an all-gather product of at most 2e12 multiply-adds, AUTO uses measured times if all strategies
 * have the same bits. SYMM_MATMUL_TRIALS=0 takes the first algorithm with the same bits, and AUTO
 * counts with estimates.
 *
 *     SAME_BITS  the bits of an element depend only on the data of its row and column, on k, and on
 *                the kind of device: all strategies, all shapes and all numbers of ranks agree. On
 *                a Hopper GPU they also depend on whether the layout suits its kernel. cuBLASLt is
 *                not used. Sums over ranks also depend on how k is split among them, and on the
 *                type of the partial sums.
 *     TRACE      kernels record events: see symm_matmul_trace(). A run takes longer. Its bits are
 *                the same.
 *     ANY_ORDER  sums may be added in any order. The order over ranks may change from run to run,
 *                the order over k from product to product. Only the error bound below holds. With
 *                multicast the switch may add, on three ranks or more also beside a FUSED product.
 *                All of cuBLASLt's first 8 proposals count, and AUTO counts with the measured time.
 *                Not with SAME_BITS.
 *     CONSTANT_B b does not change while runs are enqueued, as weights do not. A run may read b
 *                before the kernel in front of it on its stream has ended. Copies to b must have
 *                ended when a run is enqueued, or launched with a graph. The bits are the same.
 */
enum {
    SYMM_MATMUL_SAME_BITS = 1u,
    SYMM_MATMUL_TRACE = 2u,
    SYMM_MATMUL_ANY_ORDER = 4u,
    SYMM_MATMUL_CONSTANT_B = 8u
};

/*
 * How symm's kernels share a product among SMs. AUTO: cuBLASLt where it may compute, else the
 * fastest by estimate. The others: symm's kernels only.
 *
 *     DATA_PARALLEL  each tile of D is multiplied by one block, with all of k.
 *     STREAM_K       if the last wave has tiles for at most half of the SMs, two blocks share the
 *                    k of each of its tiles. With few rows, up to eight blocks share each tile.
 *                    Not with SAME_BITS. The portable kernel is always data parallel: on GPUs
 *                    older than Hopper, and for data that do not suit the Hopper kernel.
 */
typedef enum symm_schedule {
    SYMM_SCHEDULE_AUTO = 0,
    SYMM_SCHEDULE_DATA_PARALLEL,
    SYMM_SCHEDULE_STREAM_K
} symm_schedule;

#define SYMM_MATMUL_MAX_B 4

/*
 * d[i] = activation(alpha a b[i] + beta c[i] + bias[i]), for i from 0 to nb - 1. In a sum over
 * ranks, a b[i] is that sum. Each element takes alpha, beta, c, bias and the activation from one
 * rank: from the rank that computes the element or, in a sum, from the rank that has its row (see
 * "m of r"). In a sum alpha and beta are the same on all ranks.
 *
 * Tensors have two dimensions, or three, [l, rows, columns], all with the same l. With two
 * dimensions l is 1. A tensor with dtype 0 is absent; all tensors from index nb on must be absent.
 * `data` may be NULL here and be given to symm_matmul_run() instead.
 */
typedef struct symm_matmul_desc {
    symm_matmul_kind kind;
    symm_strategy strategy;
    symm_activation activation;
    int nb;                              /* number of products with the same A; 0 means 1 */
    symm_tensor a;                       /* bfloat16 or float16 */
    symm_tensor b[SYMM_MATMUL_MAX_B];    /* of a's type */
    symm_tensor c[SYMM_MATMUL_MAX_B];    /* optional; bfloat16, float16 or float32 */
    symm_tensor d[SYMM_MATMUL_MAX_B];    /* bfloat16, float16 or float32 */
    symm_tensor bias[SYMM_MATMUL_MAX_B]; /* optional; [n], [1, n] or [l, 1, n]; as c */
    symm_tensor gathered_a;              /* optional output; [m, k] of a's type: all of A */
    uint64_t flags;     /* SYMM_MATMUL_SAME_BITS, _TRACE, _ANY_ORDER, _CONSTANT_B */
    symm_dtype partial; /* of the partial sums that ranks send each other; 0: the type of each d */
    symm_schedule schedule;
    uint64_t reserved[6];
} symm_matmul_desc;

typedef struct symm_matmul_args {
    /* NULL: the data of the tensor that the product was created with. */
    const void *a, *b[SYMM_MATMUL_MAX_B], *c[SYMM_MATMUL_MAX_B], *bias[SYMM_MATMUL_MAX_B];
    void *d[SYMM_MATMUL_MAX_B], *gathered_a;
    const float *alpha, *beta; /* in host memory; NULL: 1 and 0 */
} symm_matmul_args;

typedef struct symm_matmul symm_matmul;

/*
 * Prepares a product. Products accumulate in fp32, add bias and c in fp32, and round once.
 *
 * Sums over ranks: each rank rounds its partial sum, its own part too, to desc.partial. The rank
 * that needs a sum adds the partial sums in fp32, in rank order, and applies alpha, beta c, bias
 * and the activation once. If an UNFUSED product applies only alpha, it may apply alpha before it
 * rounds. Then a collective of the library makes the sums (docs/matmul.md tells when). The error
 * before the activation and the last rounding is at most
 *
 *     (k + R + 2) 2^-23 (|alpha| sum |a b| + |beta c| + |bias|) + u |alpha| sum |p_r|
 *
 * with all ranks' k, p_r the exact partial sum of rank r, and u the unit roundoff of desc.partial:
 * 2^-8 for bfloat16, 2^-11 for float16, 2^-24 for float32. For float16 add max(1, |alpha|) R 2^-25,
 * since small partial sums are subnormal; and partial sums, or alpha times them, may overflow
 * although the result would not.
 *
 * Scope:  MATMUL: Local; nothing is compared with other ranks. All other kinds, and a NULL desc:
 *         Collective over the group. The ranks compare kind, strategy, schedule, m, l, a's type,
 *         SAME_BITS and ANY_ORDER; in ALL_GATHER_MATMUL also k; in the kinds that communicate
 *         after the product also nb, the columns and types of each d, and partial. All else may
 *         differ: strides, c, bias, the activation, whether gathered_a is given, TRACE, CONSTANT_B.
 *         The first product loads the kernels of products, and the first traced product the traced
 *         kernels. Loading may wait for running kernels: no kernel should wait for a later call.
 *         Trials of cuBLASLt, of each shape once in a context, wait for the device, too.
 * Shapes: as above. Every extent is at least 1. Exception: rows that the ranks share may be fewer
 *         than the ranks. Then a, or d, has no rows on some ranks. a, b, c and bias may have any
 *         strides from 0; the elements of d and gathered_a must not overlap. Every layout runs.
 *         Contiguous rows or columns, aligned to 16 bytes, are fastest.
 * Units:  strides are in elements.
 * Memory: on two ranks or more, a product that communicates allocates symmetric memory of the group
 *         until it is destroyed. ALL_GATHER_MATMUL: all of A (m x k x l elements, m rounded up to a
 *         multiple of nranks, rows to 16 bytes). REDUCE_SCATTER: partial sums (m x n x l elements
 *         for each d, m rounded up to a multiple of nranks, rows to 8 elements); FUSED on two
 *         ranks: twice that. ALL_REDUCE: also a rank's rows of d, unless a collective makes the
 *         sums. A FUSED one without c, bias and activation on two ranks: 2 nranks times the partial
 *         sums; with few rows: 4 nranks times the partial sums. If the switch adds beside the
 *         product: the partial sums, and all rows of d. Where a collective makes sums, and for an
 *         UNFUSED ALL_GATHER_MATMUL, the group also gets full staging areas if they are faster.
 *         ALL_SCATTER: a rank's columns of d; FUSED: all columns.
 *         A product that uses cuBLASLt has up to 32 MiB of device memory, after an all-gather up to
 *         the size of A more, and a traced one 4 MiB. When it is destroyed, the next such product
 *         reuses this memory.
 *         Trials need memory of the size of A, B and D, and 32 MiB, during symm_matmul_create();
 *         without it cuBLASLt's first algorithm with the same bits is used.
 * Errors: if Collective, on all ranks if on one, which the text names
 *         ERROR_ARGUMENT     a shape, type or stride that does not fit, an unknown enum or flag,
 *                            STREAM_K with SAME_BITS, reserved words that are not 0, NULL, a number
 *                            of rows that is not this rank's part of m, a tensor past nb, data that
 *                            symm_matmul_run would refuse, MATMUL with a strategy, gathered_a of
 *                            another kind than ALL_GATHER_MATMUL, partial of a kind without sums,
 *                            SAME_BITS with ANY_ORDER
 *         ERROR_UNSUPPORTED  an extent, or l times the rows that a rank sends, above 2^31 - 1024;
 *                            2^31 or more tiles; a PIPELINED ALL_SCATTER
 *         ERROR_MISMATCH     ranks differ in a compared value: the text names ranks and values
 *         ERROR_MEMORY, ERROR_DRIVER, ERROR_SYSTEM (descriptor limit), ERROR_PEER, ERROR_TIMEOUT,
 *         ERROR_STATE (capturing)
 */
SYMM_API symm_status symm_matmul_create(symm_group *group, const symm_matmul_desc *desc,
                                        symm_matmul **out);

/*
 * Enqueues the product. The a of an ALL_GATHER_MATMUL need not be symmetric memory. If its rows are
 * contiguous and aligned to 16 bytes, they are sent from a itself, else from a copy.
 *
 * It is not a barrier: it orders only accesses to a, d and gathered_a between ranks. Communication
 * after the product needs no symmetric memory either.
 *
 * alpha and beta are read before the call returns, so a graph keeps the values of its capture. In
 * REDUCE_SCATTER and ALL_REDUCE they must be the same on all ranks, as in one call of BLAS; if they
 * are not, the result is undefined. In the other kinds each rank applies its own to the elements
 * that it computes. As in BLAS, a factor of 0 drops its term, including NaNs and infinities:
 *
 *     beta 0   c is not read.
 *     alpha 0  d[i] = activation(beta c[i] + bias[i]), for every strategy, with and without
 *              cuBLASLt. a and b must be valid; rows of A are gathered, and gathered_a is written,
 *              as always.
 *
 * Scope:  Stream-ordered; all kinds but MATMUL by all ranks of the group, with products that were
 *         created together. Runs of one product are ordered, also on different streams.
 * Memory: all matrices must stay valid until the run is done on the stream. d and gathered_a must
 *         not overlap any input, except that d[i] may be c[i] with the same type and strides.
 * Errors: ERROR_ARGUMENT  NULL for a tensor without data, data for an absent tensor, beta other
 *                         than 0 without c, an address that is not aligned to its elements,
 *                         symmetric memory that is too short, memory that the device cannot access
 *                         (a host array), an overlap, m is NULL
 *         ERROR_DRIVER, ERROR_MEMORY  a call of the driver or of cuBLASLt failed. In a kind that
 *                         communicates, other ranks wait for this rank's run. So the group ends
 *                         with ERROR_PEER if the run had begun its work for them, outside of a
 *                         capture. If it had not, the group stays usable: symm_check() returns OK.
 *                         Then this rank may run the product again, if SYMM_CHECK is 0, or call
 *                         symm_abort(). An unfused ALL_GATHER_MATMUL never ends the group. But its
 *                         rows may have been gathered: call symm_abort(), unless all ranks failed
 *         ERROR_MISMATCH  with SYMM_CHECK=1: ranks run different products, or sums with different
 *                         alpha or beta; the text names both
 *         ERROR_PEER, ERROR_TIMEOUT, ERROR_STATE
 */
SYMM_API symm_status symm_matmul_run(symm_matmul *m, const symm_matmul_args *args,
                                     symm_stream stream);

/*
 * Destroys the product. Its runs must be done on this rank. Its symmetric workspace is used again
 * once every rank has destroyed the product. Scope: Local; never waits. NULL is fine. A group
 * destroys its remaining products.
 */
SYMM_API void symm_matmul_destroy(symm_matmul *m);

/*
 * The strategy that symm_matmul_run() uses: the requested one, or the choice of AUTO. AUTO if
 * nothing is communicated or m is NULL. The same on all ranks. Scope: Local.
 */
SYMM_API symm_strategy symm_matmul_strategy(const symm_matmul *m);

/* What a traced kernel does from `begin` to `end` of an event. */
#define SYMM_MATMUL_EVENT_MAP(X)                                                                   \
    X(TILE, 1, "tile", "multiplies a tile of D, with the rows of A of `rank`")                     \
    X(WAIT_ROWS, 2, "wait for rows", "waits for chunk `chunk` of the rows of `rank`")              \
    X(WAIT_WORKSPACE, 3, "wait for workspace", "waits until `rank` may be sent rows")              \
    X(SEND, 4, "send", "SMs send chunk `chunk` of the own rows to `rank`, and its signal")         \
    X(OPEN_ROUND, 5, "open round", "begins the transfers of a run")                                \
    X(WAIT_PART, 7, "wait for part", "waits for the other rank's part of the sums in a tile of D") \
    X(ADD, 8, "add", "adds that part to the tile of D")

typedef enum symm_matmul_event_kind {
#define SYMM_MATMUL_EVENT_ENUM_(id, value, name, text) SYMM_MATMUL_EVENT_##id = value,
    SYMM_MATMUL_EVENT_MAP(SYMM_MATMUL_EVENT_ENUM_)
#undef SYMM_MATMUL_EVENT_ENUM_
} symm_matmul_event_kind;

/* The threads that an event is of. */
#define SYMM_MATMUL_ROLE_MAP(X)                                                                    \
    X(BLOCK, 1, "block", "a block of the portable kernel")                                         \
    X(PRODUCER, 2, "producer", "the thread of a block of the Hopper kernel that loads operands")   \
    X(CONSUMER, 3, "consumer", "the threads of such a block that multiply; recorded by the first") \
    X(SENDER, 4, "sender", "a block that sends rows")                                              \
    X(ROUND, 5, "round", "a kernel before transfers, or before a product of a rank's rows")

typedef enum symm_matmul_role {
#define SYMM_MATMUL_ROLE_ENUM_(id, value, name, text) SYMM_MATMUL_ROLE_##id = value,
    SYMM_MATMUL_ROLE_MAP(SYMM_MATMUL_ROLE_ENUM_)
#undef SYMM_MATMUL_ROLE_ENUM_
} symm_matmul_role;

typedef struct symm_matmul_event {
    uint64_t begin, end; /* nanoseconds of this device's clock, %globaltimer */
    uint16_t kind, role; /* symm_matmul_event_kind, symm_matmul_role */
    int32_t sm;          /* emulated: the index of the block */
    int32_t block;       /* its index in its grid */
    int32_t thread;      /* of the block, that recorded it */
    int32_t rank, chunk; /* by kind; else 0 */
    int32_t product, batch, row, column, rows, columns; /* of a tile: its part of d[product] */
} symm_matmul_event;                                    /* 64 bytes */

/*
 * The events of the last run of a product with SYMM_MATMUL_TRACE, in the order in which they began.
 * The run must be done on its stream. docs/matmul.md tells what they mean.
 *
 * The event of a tile ends when the tile is multiplied and stored. Exception: if the Hopper kernel
 * stores the tile while it multiplies the next one, the event ends when the tile is multiplied. If
 * two blocks share the k of a tile, each has an event of it. The first wait for a chunk that ends
 * tells when the chunk had arrived. A wait for a part begins when the part's tile is stored. For
 * the block's last tile, it begins when the tile before has been added. Not recorded: cuBLASLt's
 * kernels, the collective of an unfused run, kernels that collect results, copies of rows on this
 * device, and sends by copy engines.
 *
 * Scope:  Local; waits for a copy.
 * Units:  times are in nanoseconds of the device's clock.
 * Memory: *events belongs to the product, until the next call of this function for it, or until it
 *         is destroyed. The kernels of a run have room for 65536 events; *ndropped is the number of
 *         those beyond. Before the first run both numbers are 0, and *events may be NULL.
 * Errors: ERROR_ARGUMENT  m, events, nevents or ndropped is NULL; m was created without
 *                         SYMM_MATMUL_TRACE
 *         ERROR_MEMORY    out of host memory
 *         ERROR_PEER, ERROR_TIMEOUT, ERROR_STATE (also: capturing), ERROR_DRIVER
 */
SYMM_API symm_status symm_matmul_trace(symm_matmul *m, const symm_matmul_event **events,
                                       size_t *nevents, size_t *ndropped);

#ifdef __cplusplus
}
#endif

#endif
