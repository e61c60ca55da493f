/* symm-run --nccl. */
#ifndef SYMM_TOOLS_PRELOAD_H
#define SYMM_TOOLS_PRELOAD_H

#include <stdbool.h>

/*
 * Puts libsymm_nccl.so, which lies beside libsymm.so, in front of LD_PRELOAD; with
 * SYMM_NCCL_LIBRARY=none nccl/libnccl.so.2. Returns false, with a line on stderr, if the library is
 * missing.
 */
bool preload_nccl(const char *tool);

/* Runs a program in this process's place. Returns an exit code of launch.h if it cannot. */
int preload_run(const char *tool, char *const *argv);

#endif
