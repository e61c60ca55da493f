/* symm-bench tune: measures which algorithm is the fastest, and writes SYMM_TUNING_FILE. */
#ifndef SYMM_BENCH_TUNE_H
#define SYMM_BENCH_TUNE_H

#include "bench/cli/options.h"

/* Returns the exit code. */
int tune_run(struct bench_options *options);

#endif
