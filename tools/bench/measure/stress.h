/* symm-bench stress: random calls of every collective, each result checked. */
#ifndef SYMM_BENCH_STRESS_H
#define SYMM_BENCH_STRESS_H

#include "bench/cli/options.h"

/* Returns the exit code. */
int stress_run(struct bench_options *options);

#endif
