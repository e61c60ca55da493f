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

/* An option that means something else to another command is there once for each. */
enum { NSETTINGS = 57 };
extern const struct setting settings[NSETTINGS];

/* The index of the first setting of that id. */
int setting_find(int id);

/* Whether a command has an option of that name; `operation` is that of BENCH_OPERATION. */
bool setting_is_for(const char *name, enum bench_command command,
                    const struct operation *operation);

/* The variants of an operation; with NULL those of all operations, each once. Returns `out`. */
enum { SETTING_ALGOS = 256 };
const char *setting_algos(const struct operation *operation, const char *separator,
                          char out[SETTING_ALGOS]);

/*
 * Prints the help of a command, which is called `name`: the options that it has for itself, and the
 * names of the common ones. With command 0: the commands, and the common options.
 */
void setting_help(enum bench_command command, const struct operation *operation, const char *name);

#endif
