/* symm-bench PRODUCT: measures and verifies products beside their peers. */
#ifndef SYMM_BENCH_MATMUL_H
#define SYMM_BENCH_MATMUL_H

#include "bench/cli/options.h"

/* Returns the exit code. */
int matmul_run(struct bench_options *options);

#endif
