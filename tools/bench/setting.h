/* Every option of symm-bench, of which commands it is one, and its help. */
#ifndef SYMM_BENCH_SETTING_H
#define SYMM_BENCH_SETTING_H

#include "options.h"

enum {
    OPT_ALGO = 256 /* past all letters */,
    OPT_HOW,
    OPT_PATTERN,
    OPT_BLOCKS,
    OPT_THREADS,
    OPT_DTYPE,
    OPT_OPERATIONS,
    OPT_DTYPES,
    OPT_OP,
    OPT_MIN,
    OPT_MAX,
    OPT_FACTOR,
    OPT_SIZES,
    OPT_ITERS,
    OPT_WARMUP,
    OPT_GRAPH,
    OPT_IN_PLACE,
    OPT_CHAIN,
    OPT_ISOLATED,
    OPT_MEMORY,
    OPT_CHECK,
    OPT_ALPHA,
    OPT_BETA,
    OPT_EPS,
    OPT_STRATEGY,
    OPT_SUITE,
    OPT_SECONDS,
    OPT_SEED,
    OPT_PEER,
    OPT_JSON,
    OPT_CSV,
    OPT_PLOT,
    OPT_FLOOR,
    OPT_ROOFLINE,
    OPT_DRIVER,
    OPT_TIMEOUT,
    OPT_VERSION
};

struct setting {
    const char *name;
    int id;
    const char *value; /* NULL: it has none */
    int commands;      /* bits */
    const char *help;
};

/* Ends with --help and --version. */
enum { NSETTINGS = 45 };
extern const struct setting settings[NSETTINGS];

/* The index of the first setting of that id. */
int setting_find(int id);

/* The help of a command; of all of them if it is 0. */
void setting_help(enum bench_command command);

#endif
