/* Work on the host by several threads. */
#ifndef SYMM_TOOLS_PARALLEL_H
#define SYMM_TOOLS_PARALLEL_H

#include <stddef.h>

enum { PARALLEL_MAX = 16 };

/* Does the items begin .. end - 1, part number `part`. */
typedef void (*parallel_work)(void *argument, int part, size_t begin, size_t end);

/*
 * Splits count items into at most PARALLEL_MAX parts of at least `least`, does them in parallel,
 * and returns the number of parts, at least 1.
 */
int parallel_run(size_t count, size_t least, parallel_work work, void *argument);

/* Sets the number of threads; at first 1. */
void parallel_threads(int nthreads);

#endif
