/*
 * Starts and supervises the ranks of a job on this host. Leaves no process (grandchildren
 * included), no socket and no file.
 */
#ifndef SYMM_TOOLS_LAUNCH_H
#define SYMM_TOOLS_LAUNCH_H

#include <stdbool.h>

struct launch {
    const char *tool;   /* begins each line on stderr */
    int nranks;         /* 1 .. SYMM_MAX_RANKS */
    int nhosts;         /* pretended hosts, 1 .. nranks; 0: none are pretended */
    char *const *argv;  /* the program, looked for in PATH, and its arguments */
    const char *driver; /* SYMM_DRIVER of the ranks; NULL: as it is */
    bool keep_going;    /* do not stop the other ranks when one fails */
    double timeout_s;   /* 0: none */
    /* Output of the ranks; not both: */
    bool tag_output;        /* "[rank] " before each line */
    const char *output_dir; /* folder of a file for each rank; NULL: none */
};

/* Exit codes of a job that are not those of a rank. */
enum {
    LAUNCH_TIMED_OUT = 124,
    LAUNCH_CANNOT_EXECUTE = 126,
    LAUNCH_NOT_FOUND = 127,
    LAUNCH_SIGNAL = 128
};

/*
 * Runs the job to its end. Returns 0, or the exit code of the rank that failed first (LAUNCH_SIGNAL
 * + number when a signal ended it), or one of the numbers above.
 */
int launch_ranks(const struct launch *job);

#endif
