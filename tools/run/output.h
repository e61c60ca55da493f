/* The standard output and error of the ranks: those of symm-run, tagged lines of them, or files. */
#ifndef SYMM_TOOLS_OUTPUT_H
#define SYMM_TOOLS_OUTPUT_H

#include "launch.h"

struct output; /* NULL: the ranks write where symm-run writes */

/* Makes the folder of the files. Returns 0 or errno. */
int output_create(const struct launch *job, struct output **out);

/*
 * Prepares a rank that is about to be forked: fds become its standard output and error, and are
 * close-on-exec; -1: as they are. Returns 0 or errno.
 */
int output_open(struct output *o, int rank, int fds[2]);

/* Closes the fds of output_open() in this process. */
void output_close(const int fds[2]);

/* Passes tagged lines on in a thread, when all ranks have been forked. Returns 0 or errno. */
int output_start(struct output *o);

/* Passes on the remaining lines of ranks that have ended. NULL is fine. */
void output_destroy(struct output *o);

#endif
