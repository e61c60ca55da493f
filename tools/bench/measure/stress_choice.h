/* What symm-bench stress does next: the same on all ranks, since it follows from the seed alone. */
#ifndef SYMM_BENCH_STRESS_CHOICE_H
#define SYMM_BENCH_STRESS_CHOICE_H

#include "bench/cli/options.h"
#include "operations/operation.h"

enum { STRESS_MAX_OFFSET = 16, STRESS_MAX_REPEATS = 3 };

enum stress_memory { STRESS_SYMMETRIC, STRESS_PLAIN, STRESS_MIXED /* symmetric on even ranks */ };

/* One call of all ranks of a group. */
struct stress_choice {
    const struct operation *operation;
    const struct variant *variant;
    const struct element *element;
    symm_redop op;
    size_t count;
    bool in_place, graph;
    enum stress_memory in_memory, out_memory;
    int in_offset, out_offset; /* elements behind an aligned address */
    bool uneven;               /* odd ranks' offsets are others */
    uint32_t flags;            /* of symm_options */
    int repeats;
    uint32_t max_blocks;
    uint64_t seed;      /* of the data */
    uint64_t late_seed; /* of how late each rank is */
    bool late_by_host, late_by_kernel;
};

/* The random numbers, in the order in which they are asked for. */
struct stress_stream {
    uint64_t seed, drawn;
};

uint64_t stress_draw(struct stress_stream *s);
/* Below n; n > 0. */
uint64_t stress_below(struct stress_stream *s, uint64_t n);

/* One of the calls that `world` can do; o says which are wanted. No operation: there are none. */
struct stress_choice stress_choose(struct stress_stream *s, const struct bench_options *o,
                                   symm_group *world);

/* Whether a variant of that name runs, of any operation with any type. */
bool stress_runs(symm_group *world, const char *variant);

/* All of it in words. */
void stress_describe(const struct stress_choice *c, char *out, size_t capacity);

#endif
