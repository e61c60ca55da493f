/* Work that many tests want done and checked, through the public interface only. */
#ifndef TEST_EXERCISE_H
#define TEST_EXERCISE_H

#include <symm/collectives.h>
#include <symm/stream.h>
#include "ranks.h"

/*
 * Sums fresh data over the group, in place in symmetric memory, and adds the wrong elements to the
 * report. Makes and frees all it needs. Returns the first failure, which is noted.
 */
symm_status exercise_all_reduce(struct rank *self, symm_context *ctx, symm_group *group,
                                symm_algo algo, symm_dtype dtype, size_t count, uint64_t round);

/* A few sums with every algorithm that runs here. */
symm_status exercise_group(struct rank *self, symm_context *ctx, symm_group *group, uint64_t round);

/* Makes a group of all ranks of another one, in its order. */
symm_status group_of_all(symm_group *parent, symm_group **out);

/* A rank's function: joins, exercises the world, leaves. arg: a uint64_t, the round, or NULL. */
void exercise_world(struct rank *self, void *arg);

/* Bytes that are free on the device; 0: that could not be asked. */
size_t exercise_free_memory(symm_context *ctx);

/* Whether all that was enqueued is done. */
bool exercise_is_idle(symm_context *ctx, symm_stream s);

/* How exact an algorithm's results are promised to be. */
int exercise_bound(symm_algo algo);

/* Microseconds and milliseconds on the monotonic clock, and a pause. */
int64_t now_us(void);
int64_t now_ms(void);
void pause_ms(int ms);
/* Now and then this rank is late. */
void exercise_dawdle(const struct rank *self, uint64_t round);

#endif
