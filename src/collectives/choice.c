/* By what AUTO chooses: a table that was measured on the limits, else a model of it. */
#include "choice.h"

/*
 * What a call takes, in nanoseconds: what it takes for one element, its bytes on the link, and what
 * it takes more if there are more packets than threads. In one direction a rank has (n - 1) times a
 * buffer on the link, or so many shares of it. Fitted to measurements on 2 and 4 H200 GPUs
 * (docs/performance.md); for other worlds it is a model.
 */
struct cost {
    symm_algo algo;
    uint32_t shares; /* on the link for every other rank; 0: everything */
    uint32_t first_ns, per_rank_ns;
    uint32_t pair_bytes_per_us, bytes_per_us; /* of two ranks; of more */
    uint32_t passes_ns;
};
enum { NCOSTS = 4, PASS_NBYTES = 256 * 12 /* of a block's packets */ };
static const struct cost costs[SYMM_OPERATION_COUNT][NCOSTS] = {
    [SYMM_OPERATION_ALL_REDUCE] = {{SYMM_ALGO_LOW_LATENCY, 0, 2200, 130, 227000, 227000, 1000},
                                   {SYMM_ALGO_LOW_LATENCY_TWO_SHOT, 2, 2300, 350, 240000, 240000,
                                    1000},
                                   {SYMM_ALGO_TWO_SHOT, 2, 4700, 800, 365000, 349000, 0},
                                   {SYMM_ALGO_COPY_ENGINE, 2, 0, 14300, 392000, 379000, 0}},
    /* On a pair copy_engine was slower at every size: its line begins higher, and is as steep. */
    [SYMM_OPERATION_REDUCE_SCATTER] = {{SYMM_ALGO_LOW_LATENCY, 1, 2000, 150, 215000, 215000, 0},
                                       {SYMM_ALGO_ONE_SHOT, 1, 6500, 700, 333000, 333000, 0},
                                       {SYMM_ALGO_COPY_ENGINE, 1, 44000, 4000, 333000, 377000, 0}},
    [SYMM_OPERATION_ALL_GATHER] = {{SYMM_ALGO_LOW_LATENCY, 1, 1700, 150, 215000, 215000, 1000},
                                   {SYMM_ALGO_ONE_SHOT, 1, 5300, 150, 365000, 357000, 0},
                                   {SYMM_ALGO_COPY_ENGINE, 1, 16000, 3750, 391000, 387000, 0}},
};

static uint64_t cost_ns(const struct cost *cost, const struct symm_limits *limits, uint64_t nbytes)
{
    const uint64_t nranks = (uint64_t)limits->nranks,
                   part = cost->shares ? nbytes / nranks + 1 : nbytes,
                   on_link = (nranks - 1) * part * (cost->shares ? cost->shares : 1),
                   per_us = nranks > 2 ? cost->bytes_per_us : cost->pair_bytes_per_us;

    return cost->first_ns + cost->per_rank_ns * nranks + on_link / per_us * 1000 +
           on_link % per_us * 1000 / per_us +
           (part > (uint64_t)limits->nsms * PASS_NBYTES ? cost->passes_ns : 0);
}

/* From here on the switch moves fewer bytes than the ranks do, for four of them or more. */
enum { SWITCH_NBYTES = 256 * 1024 };

/* Whether AUTO may take it. multimem_one_shot may round differently on each rank. */
static bool may_take(const struct symm_limits *limits, const struct symm_collective_call *call,
                     symm_algo algo)
{
    return algo != SYMM_ALGO_MULTIMEM_ONE_SHOT &&
           (!symm__needs_symmetric(call->operation, algo) || call->flags & SYMM_SYMMETRIC) &&
           !(symm__algo_by_switch(algo) && call->flags & SYMM_DETERMINISTIC &&
             call->operation != SYMM_OPERATION_ALL_GATHER) &&
           !symm__collective_reason(limits, call->operation, algo, call->dtype, call->op);
}

/*
 * By the table, the rows that say most of the call first; AUTO: there are none, or what they name
 * does not run here.
 */
static symm_algo choose_by_table(const struct symm_limits *limits,
                                 const struct symm_collective_call *call, uint64_t nbytes)
{
    for (int symmetric = (call->flags & SYMM_SYMMETRIC) != 0; symmetric >= 0; symmetric--)
        for (int any = 0; any < 2; any++) {
            const struct symm_tuning_key key = {.operation = call->operation,
                                                .nranks = limits->nranks,
                                                .dtype = any ? (symm_dtype)0 : call->dtype,
                                                .symmetric = symmetric};
            const symm_algo algo = symm__tuning_find(limits->tuning, &key, nbytes);
            if (algo != SYMM_ALGO_AUTO && may_take(limits, call, algo))
                return algo;
        }
    return SYMM_ALGO_AUTO;
}

static symm_algo choose_by_model(const struct symm_limits *limits,
                                 const struct symm_collective_call *call, uint64_t nbytes)
{
    const struct cost *const all = costs[call->operation], *best = NULL;

    if (limits->nranks >= 4 && nbytes >= SWITCH_NBYTES &&
        may_take(limits, call, SYMM_ALGO_MULTIMEM))
        return SYMM_ALGO_MULTIMEM;
    for (int i = 0; i < NCOSTS && all[i].algo; i++)
        if (may_take(limits, call, all[i].algo) &&
            (!best || cost_ns(&all[i], limits, nbytes) < cost_ns(best, limits, nbytes)))
            best = &all[i];
    return best->algo; /* what goes by packets runs everywhere */
}

symm_algo symm__choose(const struct symm_limits *limits, const struct symm_collective_call *call)
{
    const uint64_t nbytes = symm__collective_nbytes(limits, call);
    symm_algo algo = call->algo;

    if (algo == SYMM_ALGO_AUTO)
        algo = choose_by_table(limits, call, nbytes);
    return algo != SYMM_ALGO_AUTO ? algo : choose_by_model(limits, call, nbytes);
}
