/* The two ways to launch the kernel: launch.c by symm_launch(), with_cudart.cu by <<<>>>. */
#ifndef LAUNCH_H
#define LAUNCH_H

#include <symm/symm.h>
#include "stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Loads the kernel, which stays with the context. Collective: *blocks is the same on every rank. */
symm_status stage_load(symm_context *ctx, uint32_t threads, uint32_t *blocks);
/* Stream-ordered. */
symm_status stage_launch(symm_group *group, uint32_t blocks, uint32_t threads,
                         const stage_args *args, symm_stream stream);

#ifdef __cplusplus
}
#endif

#endif
