/* How AUTO chooses: by a table that was measured on the machine, else by a model of it. */
#include "choice.h"

#include "runtime/base/numbers.h"
#include "model/span.h"
#include "runtime/group/tuning.h"
#include "plan.h"

static uint64_t chunks_of(const struct symm_limits *limits, const struct symm_collective_call *call,
                          const struct symm_algorithm *algorithm)
{
    const struct symm_plan plan = symm__plan(limits, call, algorithm);

    return symm__plan_chunks(&plan);
}

static uint64_t cost_ns(const struct symm_algorithm *algorithm, const struct symm_limits *limits,
                        const struct symm_collective_call *call, uint64_t nbytes)
{
    const uint64_t nranks = (uint64_t)limits->nranks, nsms = (uint64_t)limits->nsms,
                   blocks = call->max_blocks ? symm__min(nsms, call->max_blocks) : nsms;
    uint64_t ns = symm__cost_ns(&algorithm->cost, nranks, nbytes, blocks);

    if (algorithm->cost.chunk_ns)
        ns += (chunks_of(limits, call, algorithm) - 1) * algorithm->cost.chunk_ns;
    if (algorithm->staged.bytes_per_us && !(call->flags & SYMM_SYMMETRIC)) {
        const uint64_t staged =
            algorithm->cost.shares ? (nranks - 1) * (nbytes / nranks + 1) : nbytes;
        ns += algorithm->staged.ns + symm__transfer_ns(staged, algorithm->staged.bytes_per_us);
    }
    return ns;
}

/* Whether AUTO may take it for this call. */
static bool may_take(const struct symm_limits *limits, const struct symm_collective_call *call,
                     const struct symm_algorithm *algorithm)
{
    const bool symmetric = call->flags & SYMM_SYMMETRIC,
               deterministic =
                   call->flags & SYMM_DETERMINISTIC && symm__operation_reduces(call->operation);

    return !algorithm->ranks_differ && (symmetric || !symm__needs_symmetric(algorithm)) &&
           !(deterministic && algorithm->by_switch) && (algorithm->scales || !call->scaled) &&
           !symm__algorithm_reason(algorithm, limits, call->dtype, call->op);
}

/* By the table, exact rows first. NULL: there is no row, or its algorithm may not be taken. */
static const struct symm_algorithm *choose_by_table(const struct symm_limits *limits,
                                                    const struct symm_collective_call *call,
                                                    uint64_t nbytes)
{
    for (int symmetric = (call->flags & SYMM_SYMMETRIC) != 0; symmetric >= 0; symmetric--)
        for (int any = 0; any < 2; any++) {
            const struct symm_tuning_key key = {.operation = call->operation,
                                                .nranks = limits->nranks,
                                                .dtype = any ? (symm_dtype)0 : call->dtype,
                                                .symmetric = symmetric};
            const struct symm_algorithm *algorithm = symm__algorithm_find(
                call->operation, symm__tuning_find(limits->tuning, &key, nbytes));
            if (algorithm && may_take(limits, call, algorithm))
                return algorithm;
        }
    return NULL;
}

/* The first algorithm that is preferred from this number of ranks and bytes on. NULL: none. */
static const struct symm_algorithm *preferred(const struct symm_limits *limits,
                                              const struct symm_collective_call *call,
                                              uint64_t nbytes)
{
    for (int i = 0; i < symm__nalgorithms; i++) {
        const struct symm_algorithm *algorithm = &symm__algorithms[i];

        if (algorithm->operation == call->operation && algorithm->preferred.nranks &&
            limits->nranks >= algorithm->preferred.nranks &&
            nbytes >= algorithm->preferred.nbytes && may_take(limits, call, algorithm))
            return algorithm;
    }
    return NULL;
}

/* The algorithm with the lowest estimated time. Algorithms without an estimate do not count. */
static const struct symm_algorithm *
fastest(const struct symm_limits *limits, const struct symm_collective_call *call, uint64_t nbytes)
{
    const struct symm_algorithm *best = NULL;
    uint64_t best_ns = 0;

    for (int i = 0; i < symm__nalgorithms; i++) {
        const struct symm_algorithm *algorithm = &symm__algorithms[i];

        if (algorithm->operation != call->operation || !algorithm->cost.bytes_per_us ||
            !may_take(limits, call, algorithm))
            continue;
        const uint64_t ns = cost_ns(algorithm, limits, call, nbytes);
        if (!best || ns < best_ns) {
            best = algorithm;
            best_ns = ns;
        }
    }
    return best; /* low_latency runs everywhere, lamport with a scale */
}

const struct symm_algorithm *symm__choose(const struct symm_limits *limits,
                                          const struct symm_collective_call *call)
{
    const uint64_t nbytes = symm__collective_nbytes(limits, call);
    const struct symm_algorithm *algorithm;

    if (call->algo != SYMM_ALGO_AUTO)
        return symm__algorithm_find(call->operation, call->algo);
    algorithm = choose_by_table(limits, call, nbytes);
    if (!algorithm)
        algorithm = preferred(limits, call, nbytes);
    return algorithm ? algorithm : fastest(limits, call, nbytes);
}

uint64_t symm__choice_ns(const struct symm_limits *limits, const struct symm_collective_call *call)
{
    const uint64_t nbytes = symm__collective_nbytes(limits, call);
    const struct symm_algorithm *algorithm = symm__choose(limits, call);

    if (!algorithm->cost.bytes_per_us)
        algorithm = fastest(limits, call, nbytes);
    return cost_ns(algorithm, limits, call, nbytes);
}

/* ---- Between domains ---- */

static symm_algo form_by_model(const struct symm_collective_call *call, uint64_t nbytes,
                               uint32_t ndomains, uint32_t width)
{
    struct symm_span_model m = {.nbytes = nbytes, .ndomains = ndomains, .width = width};

    switch (call->operation) {
    case SYMM_OPERATION_ALL_REDUCE:
        m.operation = SYMM_MODEL_ALL_REDUCE;
        break;
    case SYMM_OPERATION_ALL_GATHER:
        m.operation = SYMM_MODEL_ALL_GATHER;
        break;
    case SYMM_OPERATION_REDUCE_SCATTER:
        m.operation = SYMM_MODEL_REDUCE_SCATTER;
        break;
    default:
        return SYMM_ALGO_FLAT;
    }
    return symm__hierarchical_pays(&m) ? SYMM_ALGO_HIERARCHICAL : SYMM_ALGO_FLAT;
}

symm_algo symm__choose_form(const struct symm_tuning *tuning,
                            const struct symm_collective_call *call, uint32_t ndomains,
                            uint32_t width)
{
    const uint64_t shares =
                       symm__operation_has_shares(call->operation) ? (uint64_t)ndomains * width : 1,
                   nbytes = call->count * shares * symm_dtype_size(call->dtype);
    struct symm_tuning_key key = {.operation = call->operation,
                                  .nranks = (int)width,
                                  .dtype = call->dtype,
                                  .ndomains = ndomains};
    symm_algo form = symm__tuning_find(tuning, &key, nbytes);

    if (form == SYMM_ALGO_AUTO) {
        key.dtype = (symm_dtype)0;
        form = symm__tuning_find(tuning, &key, nbytes);
    }
    return form == SYMM_ALGO_AUTO ? form_by_model(call, nbytes, ndomains, width) : form;
}
