/* symm-bench p2p: measures links by kernels and copy engines, and the latency of signals. */
#ifndef SYMM_BENCH_P2P_H
#define SYMM_BENCH_P2P_H

#include "bench/cli/options.h"

/* Returns the exit code. */
int p2p_run(struct bench_options *options);

#endif
