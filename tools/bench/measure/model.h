/* symm-bench model: what calls between hosts take by symm's model of them. */
#ifndef SYMM_BENCH_MODEL_H
#define SYMM_BENCH_MODEL_H

#include "bench/cli/options.h"

/* Returns the exit code. */
int model_run(struct bench_options *options);

#endif
