/* Arguments of the kernel of symm-bench stress. */
#ifndef SYMM_BENCH_STRESS_ARGS_H
#define SYMM_BENCH_STRESS_ARGS_H

#include <symm/types.h>

typedef struct stress_args {
    uint32_t *word;
    uint64_t rounds;
} stress_args;

#endif
