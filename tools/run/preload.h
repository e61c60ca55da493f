/* symm-run --nccl. */
#ifndef SYMM_TOOLS_PRELOAD_H
#define SYMM_TOOLS_PRELOAD_H

#include <stdbool.h>
#include "launch.h"

/*
 * Puts libsymm_nccl.so, which lies beside libsymm.so, in front of LD_PRELOAD; with
 * SYMM_NCCL_LIBRARY=none nccl/libnccl.so.2. Returns false, with a line on stderr, if the library is
 * missing.
 */
bool preload_nccl(const char *tool);

/*
 * Runs the program of a job without ranks in this process's place. Returns an exit code of launch.h
 * if it cannot.
 */
int preload_run(const struct launch *job);

#endif
