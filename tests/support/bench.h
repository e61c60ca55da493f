/* A world with a stream, buffers and a pad; an all-reduce at the end shows that it works. */
#ifndef TEST_BENCH_H
#define TEST_BENCH_H

#include <symm/stream.h>
#include "ranks.h"

enum { BENCH_NBYTES = 65536, BENCH_CHANNELS = 4 };

struct bench {
    struct rank *self;
    symm_context *ctx;
    symm_group *world;
    symm_stream s;
    char *x; /* BENCH_NBYTES of symmetric memory */
    symm_signal_pad *pad;
    void *plain, *result; /* BENCH_NBYTES of device memory each, zeros */
    bool ended;           /* set by a test that ends the world */
};

symm_status bench_open(struct rank *self, struct bench *b);
void bench_close(struct bench *b);

/* A RANKS_TEST whose function has `self`, `arg` and the bench `b`. */
#define BENCH_TEST(group, name, ...)                                                               \
    RANKS_TEST_WITH(group, name, struct bench, b, bench_open, bench_close, __VA_ARGS__)

#endif
