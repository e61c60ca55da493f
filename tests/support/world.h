/* Tests of ranks in a world: it is joined before a rank's function and left after it. */
#ifndef TEST_WORLD_H
#define TEST_WORLD_H

#include <symm/stream.h>
#include "ranks.h"

/* A rank's function between joining and leaving. */
typedef void (*world_fn)(struct rank *self, void *arg, symm_context *ctx, symm_group *world,
                         symm_stream s);

/* Joins, creates a stream, calls fn, destroys both. */
void world_run(struct rank *self, void *arg, world_fn fn);

#define WORLD_BODY_(name)                                                                          \
    static void name##_body(                                                                       \
        __attribute__((unused)) struct rank *self, __attribute__((unused)) void *arg,              \
        __attribute__((unused)) symm_context *ctx, __attribute__((unused)) symm_group *world,      \
        __attribute__((unused)) symm_stream s)

/* A rank's function that has `self`, `arg`, `ctx`, `world` and a stream `s`. */
#define WORLD_RANK(name)                                                                           \
    WORLD_BODY_(name);                                                                             \
    static void name(struct rank *self, void *arg)                                                 \
    {                                                                                              \
        world_run(self, arg, name##_body);                                                         \
    }                                                                                              \
    WORLD_BODY_(name)

/* A RANKS_TEST of such a function. */
#define WORLD_TEST(group, name, ...)                                                               \
    WORLD_BODY_(name);                                                                             \
    RANKS_TEST(group, name, __VA_ARGS__)                                                           \
    {                                                                                              \
        world_run(self, arg, name##_body);                                                         \
    }                                                                                              \
    WORLD_BODY_(name)

#endif
