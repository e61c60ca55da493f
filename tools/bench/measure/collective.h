/* symm-bench OPERATION: measures and verifies an operation in all its variants. */
#ifndef SYMM_BENCH_COLLECTIVE_H
#define SYMM_BENCH_COLLECTIVE_H

#include "bench/cli/options.h"

/* Returns the exit code. */
int collective_run(struct bench_options *options);

#endif
