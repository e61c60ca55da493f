#include "span.h"

#include "cost.h"

static const struct symm_cost reduce_scatters[] = {SYMM_COST_REDUCE_SCATTER_LOW_LATENCY,
                                                   SYMM_COST_REDUCE_SCATTER_ONE_SHOT};
static const struct symm_cost all_gathers[] = {SYMM_COST_ALL_GATHER_LOW_LATENCY,
                                               SYMM_COST_ALL_GATHER_ONE_SHOT};
static const struct symm_staged_cost staged = SYMM_COST_ALL_GATHER_ONE_SHOT_STAGED;

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t inside_ns(const struct symm_cost *cost, const struct symm_span_model *m)
{
    return symm__cost_ns(cost, m->width, m->nbytes, SYMM_MODEL_BLOCKS);
}

static uint64_t reduce_scatter_inside_ns(const struct symm_span_model *m)
{
    return least(inside_ns(&reduce_scatters[0], m), inside_ns(&reduce_scatters[1], m));
}

/* Into plain memory. */
static uint64_t all_gather_inside_ns(const struct symm_span_model *m)
{
    const uint64_t others = m->nbytes / m->width * (m->width - 1);

    return least(inside_ns(&all_gathers[0], m), inside_ns(&all_gathers[1], m) + staged.ns +
                                                    symm__transfer_ns(others, staged.bytes_per_us));
}

static uint64_t rail_ns(const struct symm_span_model *m)
{
    return symm__nccl_ns(&(struct symm_nccl_call){.operation = m->operation,
                                                  .nbytes = m->nbytes / m->width,
                                                  .nhosts = m->ndomains,
                                                  .width = 1,
                                                  .channels = SYMM_MODEL_CHANNELS});
}

static uint64_t flat_ns(const struct symm_span_model *m, bool nvls)
{
    return symm__nccl_ns(&(struct symm_nccl_call){.operation = m->operation,
                                                  .nbytes = m->nbytes,
                                                  .nhosts = m->ndomains,
                                                  .width = m->width,
                                                  .channels = SYMM_MODEL_CHANNELS * m->width,
                                                  .nvls = nvls});
}

uint64_t symm__flat_ns(const struct symm_span_model *m)
{
    return flat_ns(m, false);
}

uint64_t symm__flat_nvls_ns(const struct symm_span_model *m)
{
    return flat_ns(m, true);
}

/* A copy of the whole buffer puts the blocks of the ranks in order. */
static uint64_t sort_ns(const struct symm_span_model *m)
{
    return symm__transfer_ns(2 * m->nbytes, SYMM_MODEL_MEMORY_BYTES_PER_US);
}

uint64_t symm__hierarchical_ns(const struct symm_span_model *m)
{
    const uint64_t rail = rail_ns(m);

    if (m->width == 1)
        return rail;
    if (m->operation == SYMM_MODEL_ALL_REDUCE)
        return reduce_scatter_inside_ns(m) + rail + all_gather_inside_ns(m) +
               2 * SYMM_MODEL_NEXT_NS;
    return rail +
           (m->operation == SYMM_MODEL_ALL_GATHER ? all_gather_inside_ns(m)
                                                  : reduce_scatter_inside_ns(m)) +
           sort_ns(m) + 2 * SYMM_MODEL_NEXT_NS;
}

bool symm__hierarchical_pays(const struct symm_span_model *m)
{
    return m->ndomains > 1 && m->width > 1 && symm__hierarchical_ns(m) < symm__flat_ns(m) / 10 * 9;
}
