#include "cost.h"

uint64_t symm__transfer_ns(uint64_t nbytes, uint64_t bytes_per_us)
{
    return nbytes / bytes_per_us * 1000 + nbytes % bytes_per_us * 1000 / bytes_per_us;
}

uint64_t symm__cost_ns(const struct symm_cost *cost, uint64_t nranks, uint64_t nbytes,
                       uint64_t blocks)
{
    const uint64_t part = cost->shares ? nbytes / nranks + 1 : nbytes,
                   on_link = (nranks - 1) * part * (cost->shares ? cost->shares : 1),
                   per_us = nranks > 2 ? cost->bytes_per_us : cost->pair_bytes_per_us,
                   ns = cost->first_ns + cost->per_rank_ns * nranks +
                        symm__transfer_ns(on_link, per_us);

    return part > blocks * SYMM_COST_PASS_NBYTES ? ns + cost->passes_ns : ns;
}
