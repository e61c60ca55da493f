/* The command line of symm-bench. */
#ifndef SYMM_BENCH_OPTIONS_H
#define SYMM_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "operation.h"

struct bench_options {
    const struct operation *operation;
    const char *driver;
    const char *algos; /* a list, or "all" */
    const struct element *element;
    const char *sizes;             /* a list; NULL: from min_bytes to max_bytes by factor */
    uint64_t min_bytes, max_bytes; /* max_bytes 0: what suits the driver */
    int factor;
    int iters, warmup; /* -1: what suits the driver */
    bool graph, in_place, check, plain_memory, nccl;
    const char *json, *csv; /* files */
    bool has_seed;
    uint64_t seed;
    int timeout_ms;
};

/* Returns -1 when the run is to go on, else the exit code of the tool, which has said why. */
int bench_options_parse(int argc, char **argv, struct bench_options *out);

/*
 * The index-th size in bytes, from 0: a multiple of the element's. False past the last one. Call it
 * when max_bytes has been settled.
 */
bool bench_options_size(const struct bench_options *o, int index, uint64_t *out);

#endif
