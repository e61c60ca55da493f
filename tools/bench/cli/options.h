/* The command line of symm-bench. */
#ifndef SYMM_BENCH_OPTIONS_H
#define SYMM_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "operations/operation.h"

/* Bits, since most options are for several of them. */
enum bench_command {
    BENCH_OPERATION = 1,
    BENCH_P2P = 2,
    BENCH_STRESS = 4,
    BENCH_PLOT = 8,
    BENCH_TUNE = 16,
    BENCH_PRODUCT = 32,
    BENCH_GATHERED_PRODUCT = 64
};

/* How the calls of a repetition follow one another. */
enum bench_timing {
    TIMING_STREAM,  /* one after another, with the same input */
    TIMING_CHAIN,   /* each call's input is the last one's output */
    TIMING_ISOLATED /* the ranks meet before each call; the meeting itself is subtracted */
};

struct bench_options {
    enum bench_command command;
    const struct operation *operation; /* BENCH_OPERATION */
    char *const *files;                /* BENCH_PLOT: the JSON of so many runs */
    int nfiles;
    const char *driver;
    const char *operations, *dtypes;              /* BENCH_TUNE: lists, or "all" */
    const char *algos, *hows, *patterns, *blocks; /* lists, or "all"; NULL: what suits the driver */
    const struct element *element;
    symm_redop op;
    const char *sizes;             /* a list; NULL: from min_bytes to max_bytes by factor */
    uint64_t min_bytes, max_bytes; /* 0: what suits command and driver */
    uint64_t granule;              /* sizes are multiples of it */
    int factor;
    int iters, warmup; /* -1: what suits the driver */
    int threads;       /* 0: what suits the driver */
    enum bench_timing timing;
    bool graph, in_place, check, plain_memory;
    const char *peers; /* a list; NULL: what suits the command */
    bool nccl, cublas; /* what comes of it */
    int m, n, k, l;    /* of a product; 0: what suits the driver */
    double alpha, beta;
    double eps;                    /* 0: what suits k */
    const char *strategies;        /* a list, or "all" */
    bool suite;                    /* of many shapes, instead of one */
    const char *json, *csv, *plot; /* files */
    const char *output;            /* BENCH_PLOT: the picture; BENCH_TUNE: the tuning file */
    double floor_gbs;              /* 0: what suits the picture */
    const char *roofline;          /* BENCH_PLOT: TFLOP/s or "measured" */
    double seconds;
    bool has_seed;
    uint64_t seed;
    int timeout_ms;
};

/* Returns -1 when the run is to go on, else the exit code of the tool, which has said why. */
int bench_options_parse(int argc, char **argv, struct bench_options *out);

/* Whether a list has the item, or is "all". */
bool bench_options_want(const char *list, const char *item);

/* Whether a list has the item by its name. NULL, no list, has none. */
bool bench_options_name(const char *list, const char *item);

/*
 * The index-th size in bytes, from 0: a multiple of the granule. False past the last one. Call it
 * when max_bytes has been settled.
 */
bool bench_options_size(const struct bench_options *o, int index, uint64_t *out);

#endif
