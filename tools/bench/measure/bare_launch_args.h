/* Arguments of the empty kernel. */
#ifndef SYMM_BENCH_BARE_LAUNCH_ARGS_H
#define SYMM_BENCH_BARE_LAUNCH_ARGS_H

#include <symm/types.h>

/* As large as those of a collective. */
typedef struct bare_launch_args {
    symm_view view;
    uint64_t words[20];
} bare_launch_args;

#endif
