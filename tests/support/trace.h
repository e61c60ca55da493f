/* The driver calls of the ranks of a case, in files that the emulated driver writes. */
#ifndef TEST_TRACE_H
#define TEST_TRACE_H

#include <stdbool.h>

/* Before the ranks start, and after they ended. */
void trace_begin(void);
void trace_end(void);

/*
 * Gives take() the lines of a rank from the byte *at on, to the last one or until it returns false,
 * and moves *at behind them. Returns whether the file is there and no line was refused. take NULL:
 * skips the lines.
 */
bool trace_read(int rank, long *at, bool (*take)(void *arg, const char *line), void *arg);
/* The lines of a rank that contain a text. */
int trace_count(int rank, const char *text);

#endif
