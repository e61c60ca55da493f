/* The help of symm-bench. */
#ifndef SYMM_BENCH_HELP_H
#define SYMM_BENCH_HELP_H

#include "options.h"

#define HELP_COMMANDS                                                                              \
    OPERATION_NAMES ", " OPERATION_NORM ", " PRODUCT_NAMES                                         \
                    ", p2p, stress, tune, model, plot and report"

/*
 * Prints the help of the command of `o`: its own options, and the names of the common ones. Without
 * a command: the commands, and the common options.
 */
void help_print(const struct bench_options *o);

#endif
