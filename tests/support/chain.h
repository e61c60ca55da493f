/*
 * Calls in a chain of a user's kernels, all launched with SYMM_GRID_PDL and each of which lets the
 * next one begin at once: a slow one writes a call's input, one overwrites the input right behind
 * the call, a slow one reads the output, and right behind that the next call writes the output
 * again.
 */
#ifndef TEST_CHAIN_H
#define TEST_CHAIN_H

#include "collective.h"
#include "ranks.h"

struct chain {
    const struct collective_variant *variants; /* variants that cannot run here are left out */
    int nvariants;
    size_t count;  /* of words, as the operations count */
    int turns;     /* of two calls each: replays of a graph, and now and then eager ones */
    bool eager;    /* no replays */
    uint32_t spin; /* how long the slow ones take: microseconds on GPUs, else looks */
    const symm_image *image; /* test_kernels of kernels.h */
};

/* A rank's function, which does so with every variant, in symmetric and in plain memory; arg: a
 * struct chain. Counts variants in value[0] of the report. */
void chain_run(struct rank *self, void *arg);

#endif
