/* Suites of products: shapes that symm-bench measures one after another. */
#ifndef SYMM_BENCH_SUITE_H
#define SYMM_BENCH_SUITE_H

#include <stdbool.h>
#include <stdint.h>

struct suite_shape {
    int m, n, k;
};

/*
 * The index-th shape of a suite, from 0; false past the last one.
 *
 * llama:  feed-forward layers of three sizes on eight ranks, with three numbers of tokens.
 * random: `count` shapes of the seed: layers of transformers. k is a hidden size; n is the part of
 *         a rank of 2, 4 or 8 of their qkv, up, or gate and up projections; m is up to 1023, by its
 *         logarithm, and from 1024 to 16384, in turns.
 */
bool suite_shape_at(const char *suite, uint64_t seed, int count, int index,
                    struct suite_shape *out);

#endif
