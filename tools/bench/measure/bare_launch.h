/* The driver's launch of an empty kernel: the least host time of a call that launches one. */
#ifndef SYMM_BENCH_BARE_LAUNCH_H
#define SYMM_BENCH_BARE_LAUNCH_H

#include <symm/symm.h>

struct bare_launch;

/* NULL: the driver failed. Local. */
struct bare_launch *bare_launch_open(symm_context *ctx);
/* Launches it as a small collective is launched: one block, as many arguments, an early start. */
symm_status bare_launch_enqueue(const struct bare_launch *bare, symm_stream stream);
/* NULL is fine. */
void bare_launch_close(struct bare_launch *bare);

#endif
