/* Costs of symm's algorithms: latency and bandwidth. Pure. */
#ifndef SYMM_COST_H
#define SYMM_COST_H

#include <stdint.h>

/*
 * time = first + nranks * per_rank + bytes on the link / bandwidth + passes + chunks. Bandwidth 0:
 * the model does not take it.
 */
struct symm_cost {
    uint32_t shares; /* on the link for each other rank; 0: the whole buffer */
    uint32_t first_ns, per_rank_ns;
    uint32_t pair_bytes_per_us, bytes_per_us; /* of two ranks; of more */
    uint32_t passes_ns;                       /* added where there are more packets than threads */
    uint32_t chunk_ns;                        /* added for each chunk of a block after the first */
};

/* Added where `out` is not symmetric memory: it is written by way of the staging area. */
struct symm_staged_cost {
    uint32_t ns, bytes_per_us;
};

/* The costs that the model of calls between domains shares with the table of algorithms. */
#define SYMM_COST_REDUCE_SCATTER_LOW_LATENCY                                                       \
    {                                                                                              \
        1, 2000, 150, 215000, 215000, 700, 0                                                       \
    }
#define SYMM_COST_REDUCE_SCATTER_ONE_SHOT                                                          \
    {                                                                                              \
        1, 6500, 700, 333000, 333000, 0, 0                                                         \
    }
#define SYMM_COST_ALL_GATHER_LOW_LATENCY                                                           \
    {                                                                                              \
        1, 1700, 150, 240000, 215000, 1000, 0                                                      \
    }
#define SYMM_COST_ALL_GATHER_ONE_SHOT                                                              \
    {                                                                                              \
        1, 5300, 150, 365000, 357000, 0, 0                                                         \
    }
#define SYMM_COST_ALL_GATHER_ONE_SHOT_STAGED                                                       \
    {                                                                                              \
        5500, 1400000                                                                              \
    }

enum { SYMM_COST_PASS_NBYTES = 256 * 12 /* of a block's packets */ };

uint64_t symm__transfer_ns(uint64_t nbytes, uint64_t bytes_per_us);

/*
 * Without chunks. In one direction a rank has (nranks - 1) times its buffer on the link, or so many
 * shares of it. nbytes: of the buffer. blocks: of the kernel.
 */
uint64_t symm__cost_ns(const struct symm_cost *cost, uint64_t nranks, uint64_t nbytes,
                       uint64_t blocks);

#endif
