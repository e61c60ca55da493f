/* The command line of symm-bench. */
#ifndef SYMM_BENCH_OPTIONS_H
#define SYMM_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "operations/operation.h"
#include "operations/product.h"
#include "operations/schedule.h"

/* Bits, since most options are for several of them. */
enum bench_command {
    BENCH_OPERATION = 1,
    BENCH_P2P = 2,
    BENCH_STRESS = 4,
    BENCH_PLOT = 8,
    BENCH_TUNE = 16,
    BENCH_MATMUL = 32,
    BENCH_ALL_GATHER_MATMUL = 64,
    BENCH_REPORT = 128,
    BENCH_MATMUL_SUMS = 256, /* reduce-scatter and all-reduce */
    BENCH_MATMUL_ALL_SCATTER = 512,
    BENCH_MODEL = 1024,
    BENCH_FILES = BENCH_PLOT | BENCH_REPORT,
    BENCH_COLLECTED = BENCH_MATMUL_SUMS | BENCH_MATMUL_ALL_SCATTER,
    BENCH_COMMUNICATING = BENCH_ALL_GATHER_MATMUL | BENCH_COLLECTED,
    BENCH_PRODUCTS = BENCH_MATMUL | BENCH_COMMUNICATING
};

/* How the calls of a repetition follow one another. */
enum bench_timing {
    TIMING_STREAM,   /* one after another, with the same input */
    TIMING_CHAIN,    /* each call's input is the output of the call before */
    TIMING_ISOLATED, /* a barrier before each call; its time is subtracted */
    TIMING_HOST      /* as TIMING_STREAM; the host's time is measured */
};

enum { BENCH_MAX_THREADS = 512, BENCH_MAX_BLOCKS = 1 << 16, BENCH_MAX_HOSTS = 1 << 20 };

struct bench_options {
    enum bench_command command;
    const char *name;                  /* of the command */
    const struct operation *operation; /* BENCH_OPERATION */
    symm_matmul_kind kind;             /* BENCH_PRODUCTS */
    char *const *files;                /* BENCH_FILES: JSON */
    int nfiles;
    bool help, version, has_seed;
    const char *driver, *dtype, *op_name, *memory;
    const char *operations, *dtypes;              /* BENCH_TUNE: lists, or "all" */
    const char *algos, *hows, *patterns, *blocks; /* lists, or "all"; NULL: by driver and hosts */
    const struct element *element;                /* by dtype */
    const char *partial_name;                     /* NULL: dtype */
    const struct element *partial;                /* by partial_name */
    symm_redop op;                                /* by op_name */
    const char *sizes;             /* a list; NULL: from min_bytes to max_bytes by factor */
    uint64_t min_bytes, max_bytes; /* 0: by command, operation and driver */
    uint64_t granule;              /* sizes are multiples of it */
    int factor;
    int iters, warmup; /* -1: by the driver */
    int threads;       /* 0: by the driver */
    bool chain, isolated, host_time;
    enum bench_timing timing; /* by chain, isolated and host_time */
    bool graph, in_place, check, same_bits, any_order, constant_b;
    bool plain_memory; /* by memory */
    const char *peers; /* a list; NULL: by the command */
    bool nccl, cublas; /* whether the peers have them */
    int m, n, k, l;    /* of a product; 0: by the driver */
    int as_if;         /* SYMM_MATMUL_AS_IF; 0: the group's ranks */
    int hidden;        /* elements of a row that is normed; 0: by the driver */
    int root;          /* of a broadcast */
    const char *hosts; /* BENCH_MODEL: a list */
    int ranks_per_host;
    int count; /* of random shapes; 0: by the driver */
    double alpha, beta;
    double eps;                      /* 0: by k */
    const char *strategies;          /* a list, or "all" */
    const char *schedules;           /* the same */
    const char *schedule_name;       /* NULL: none */
    const struct schedule *schedule; /* by schedule_name and kind */
    const char *suite;               /* several shapes instead of one; NULL: one */
    const char *json, *csv, *plot;   /* files */
    const char *trace;               /* a file; NULL: no timeline */
    const char *output;              /* BENCH_FILES: picture or page; BENCH_TUNE: the tuning file */
    double floor_gbs;                /* 0: by the device */
    const char *roofline;            /* BENCH_PLOT: TFLOP/s or "measured" */
    double seconds;
    uint64_t seed;
    double timeout_s; /* 0: SYMM_TIMEOUT_MS */
};

/* Returns -1 if the run goes on, else the exit code of the tool; the reason has been printed. */
int bench_options_parse(int argc, char **argv, struct bench_options *out);

/* Whether a list has the item, or is "all". */
bool bench_options_want(const char *list, const char *item);

bool bench_options_want_dtype(const char *list, symm_dtype dtype);

/* Whether a list has the item by its name. A list that is NULL has none. */
bool bench_options_name(const char *list, const char *item);

/*
 * The index-th size in bytes, from 0: a multiple of the granule. False past the last one. max_bytes
 * must not be 0.
 */
bool bench_options_size(const struct bench_options *o, int index, uint64_t *out);

#endif
