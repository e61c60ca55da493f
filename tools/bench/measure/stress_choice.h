/* The random calls of symm-bench stress: the seed determines them, so that all ranks agree. */
#ifndef SYMM_BENCH_STRESS_CHOICE_H
#define SYMM_BENCH_STRESS_CHOICE_H

#include "bench/cli/options.h"
#include "operations/operation.h"
#include "operations/product.h"

enum { STRESS_MAX_OFFSET = 16, STRESS_MAX_REPEATS = 3, STRESS_MAX_BATCH = 3 };

enum stress_memory { STRESS_SYMMETRIC, STRESS_PLAIN, STRESS_MIXED /* symmetric on even ranks */ };

/* A product of all ranks of a group. */
struct stress_product {
    const struct product_variant *variant; /* NULL: the call is no product */
    symm_matmul_kind kind;
    struct cublas_shape shape;
    symm_dtype partial;
    bool same_bits, any_order, constant_b;
};

/* One call of all ranks of a group: of an operation, or a product. */
struct stress_choice {
    struct stress_product product;
    const struct operation *operation;
    const struct variant *variant;
    const struct element *element;
    symm_redop op;
    size_t count;
    bool in_place, graph;
    int root; /* of an operation from a root, modulo the ranks of the group; else 0 */
    enum stress_memory in_memory, out_memory;
    int in_offset, out_offset; /* elements after an aligned address */
    bool uneven;               /* odd ranks have other offsets */
    uint32_t flags;            /* of symm_options */
    int repeats;
    uint32_t max_blocks;
    uint64_t seed;      /* of the data */
    uint64_t late_seed; /* of the delay of each rank */
    bool late_by_host, late_by_kernel;
};

/* A stream of random numbers. */
struct stress_stream {
    uint64_t seed, drawn;
};

uint64_t stress_draw(struct stress_stream *s);
/* Below n; n > 0. */
uint64_t stress_below(struct stress_stream *s, uint64_t n);

/*
 * Chooses a call that runs in `world`, by the options, or a product. There is one. most_blocks: of
 * a call of an operation.
 */
struct stress_choice stress_choose(struct stress_stream *s, const struct bench_options *o,
                                   symm_group *world, uint32_t most_blocks);
struct stress_choice stress_choose_product(struct stress_stream *s, const struct bench_options *o,
                                           int nranks);

/* Whether an operation has a variant of the list's that runs with any type. */
bool stress_runs(symm_group *world, const char *variants);
/* Whether the options have a strategy of products. */
bool stress_multiplies(const struct bench_options *o);

/* Describes the call in words. */
void stress_describe(const struct stress_choice *c, char *out, size_t capacity);

#endif
