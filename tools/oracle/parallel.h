/* Work on the host by several threads: this rank's share of the processors. */
#ifndef SYMM_TOOLS_PARALLEL_H
#define SYMM_TOOLS_PARALLEL_H

#include <stddef.h>

enum { PARALLEL_MAX = 16 };

/* Does the items begin .. end - 1, which are part number `part` of them all. */
typedef void (*parallel_work)(void *argument, int part, size_t begin, size_t end);

/*
 * Splits count items into parts of at least `least`, at most PARALLEL_MAX of them, does them side
 * by side, and returns how many parts there were: one or more.
 */
int parallel_run(size_t count, size_t least, parallel_work work, void *argument);

/* How many threads there may be. 1 at the start. */
void parallel_threads(int nthreads);

#endif
