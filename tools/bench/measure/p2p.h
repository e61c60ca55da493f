/* symm-bench p2p: what the links and the ways to use them can do. */
#ifndef SYMM_BENCH_P2P_H
#define SYMM_BENCH_P2P_H

#include <stdbool.h>

struct bench_options;

#define P2P_HOWS "store load bulk_put bulk_get put get signal packet"
#define P2P_PATTERNS "pair pair_both ring ring_both all"

bool p2p_is_how(const char *name);
bool p2p_is_pattern(const char *name);

/* Returns the exit code. */
int p2p_run(struct bench_options *options);

#endif
