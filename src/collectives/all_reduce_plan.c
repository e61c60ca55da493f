/* The rules by which an all-reduce gets its algorithm, kernel and grid. */
#include "all_reduce_plan.h"

enum { THREADS = 512, WARP = 32, PACK_NBYTES = 16 };

/*
 * Up to here, in bytes times ranks, reading everything from everyone is faster than a second step.
 */
enum { ONE_SHOT_NBYTES = 512 * 1024 };

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

const char *symm__redop_name(symm_redop op)
{
    static const char *const names[] = {
        [SYMM_SUM] = "sum", [SYMM_AVG] = "avg", [SYMM_MIN] = "min", [SYMM_MAX] = "max"};
    return (unsigned)op < sizeof names / sizeof names[0] ? names[op] : NULL;
}

const char *symm__algo_name(symm_algo algo)
{
    static const char *const names[] = {
        [SYMM_ALGO_AUTO] = "auto",
        [SYMM_ALGO_LOW_LATENCY] = "low_latency",
        [SYMM_ALGO_ONE_SHOT] = "one_shot",
        [SYMM_ALGO_TWO_SHOT] = "two_shot",
        [SYMM_ALGO_MULTIMEM] = "multimem",
        [SYMM_ALGO_MULTIMEM_ONE_SHOT] = "multimem_one_shot",
        [SYMM_ALGO_COPY_ENGINE] = "copy_engine",
    };
    return (unsigned)algo < sizeof names / sizeof names[0] ? names[algo] : NULL;
}

static bool by_switch(symm_algo algo)
{
    return algo == SYMM_ALGO_MULTIMEM || algo == SYMM_ALGO_MULTIMEM_ONE_SHOT;
}

const char *symm__all_reduce_reason(const struct symm_all_reduce_machine *machine, symm_algo algo,
                                    symm_dtype dtype, symm_redop op)
{
    if (!symm__algo_name(algo))
        return "there is no such algorithm";
    if (!symm__dtype_name(dtype))
        return "there is no such dtype";
    if (!symm__redop_name(op))
        return "there is no such op";
    if (algo == SYMM_ALGO_LOW_LATENCY || algo == SYMM_ALGO_COPY_ENGINE)
        return "this algorithm is not in this version";
    if (dtype != SYMM_FLOAT32 && dtype != SYMM_FLOAT16 && dtype != SYMM_BFLOAT16)
        return "this dtype is not in this version: float32, float16 and bfloat16 are";
    if (op != SYMM_SUM)
        return "this op is not in this version: sum is";
    if (by_switch(algo) && machine->multicast_off)
        return machine->multicast_off;
    if (by_switch(algo) && machine->compute_major < 9)
        return "multimem instructions need compute capability 9.0 on every rank";
    return NULL;
}

/*
 * multimem_one_shot is never chosen, since its ranks may round differently. With fewer than four
 * ranks the switch moves more bytes than the ranks themselves do.
 */
static symm_algo choose(const struct symm_all_reduce_machine *machine,
                        const struct symm_all_reduce_call *call, uint64_t nbytes)
{
    if (call->algo != SYMM_ALGO_AUTO)
        return call->algo;
    if (nbytes <= ONE_SHOT_NBYTES / (uint64_t)machine->nranks)
        return SYMM_ALGO_ONE_SHOT;
    if (machine->nranks >= 4 && !(call->flags & SYMM_DETERMINISTIC) &&
        !symm__all_reduce_reason(machine, SYMM_ALGO_MULTIMEM, call->dtype, call->op))
        return SYMM_ALGO_MULTIMEM;
    return SYMM_ALGO_TWO_SHOT;
}

/*
 * In the order of kernels.def: for each dtype one_shot and two_shot for 2, 4, 8 and any number of
 * ranks, the others.
 */
static enum symm_kernel_id kernel_of(symm_algo algo, symm_dtype dtype, int nranks)
{
    const int first = dtype == SYMM_FLOAT32   ? SYMM_KERNEL_all_reduce_one_shot_float32_2
                      : dtype == SYMM_FLOAT16 ? SYMM_KERNEL_all_reduce_one_shot_float16_2
                                              : SYMM_KERNEL_all_reduce_one_shot_bfloat16_2;
    const int unrolled = nranks == 2 ? 0 : nranks == 4 ? 1 : nranks == 8 ? 2 : 3;

    switch (algo) {
    case SYMM_ALGO_ONE_SHOT:
        return (enum symm_kernel_id)(first + unrolled);
    case SYMM_ALGO_TWO_SHOT:
        return (enum symm_kernel_id)(first + 4 + unrolled);
    case SYMM_ALGO_MULTIMEM:
        return (enum symm_kernel_id)(first + 8);
    default:
        return (enum symm_kernel_id)(first + 9);
    }
}

struct symm_all_reduce_plan symm__all_reduce_plan(const struct symm_all_reduce_machine *machine,
                                                  const struct symm_all_reduce_call *call)
{
    const uint64_t nbytes = call->count * symm__dtype_size(call->dtype);
    const symm_algo algo = choose(machine, call, nbytes);
    const bool shared = algo == SYMM_ALGO_TWO_SHOT || algo == SYMM_ALGO_MULTIMEM;
    /* Packs that one rank reduces: a thread each, until the grid is full. */
    const uint64_t npacks =
        ceil_div(ceil_div(nbytes, PACK_NBYTES), shared ? (uint64_t)machine->nranks : 1);
    uint64_t threads = smaller(THREADS, (uint64_t)machine->max_threads);
    /*
     * Half of the device, so that two groups can be active at once, and no more than the links
     * need.
     */
    uint64_t blocks = smaller(algo == SYMM_ALGO_TWO_SHOT ? SYMM_BLOCKS_MAX : SYMM_BLOCKS_MAX / 2,
                              (uint64_t)machine->nsms / 2);

    if (threads >= WARP)
        threads = smaller(threads / WARP, ceil_div(npacks, WARP)) * WARP;
    if (call->max_blocks)
        blocks = smaller(blocks, call->max_blocks);
    blocks = smaller(blocks, machine->staging_nbytes / PACK_NBYTES); /* each needs a part of it */
    blocks = smaller(blocks, ceil_div(npacks, threads));
    return (struct symm_all_reduce_plan){
        .algo = algo,
        .kernel = kernel_of(algo, call->dtype, machine->nranks),
        .blocks = blocks ? (uint32_t)blocks : 1,
        .threads = (uint32_t)threads,
    };
}
