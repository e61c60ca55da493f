/* What can only be judged when all options are known. */
#ifndef SYMM_BENCH_OPTIONS_CHECK_H
#define SYMM_BENCH_OPTIONS_CHECK_H

#include "options.h"

bool options_are_of_product(const struct bench_options *o);

/* Returns -1 when they are right, else the exit code of the tool, which has said what is wrong. */
int options_check(const struct bench_options *o);

#endif
