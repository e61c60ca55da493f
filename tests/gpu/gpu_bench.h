/*
 * A world of real GPUs: 2 to 4 of them, a process each, without multicast. Tests are skipped, with
 * the reason, where there are fewer than two.
 */
#ifndef TEST_GPU_BENCH_H
#define TEST_GPU_BENCH_H

#include <stdlib.h>
#include <string.h>
#include <symm/stream.h>
#include "gpus.h"
#include "ranks.h"
#include "test.h"

enum { MOST = 4 };

static int ngpus;

void test_setup(void)
{
    test_uncounted = true;
    setenv("SYMM_DRIVER", "cuda", 1);
    setenv("SYMM_MULTICAST", "0", 1);
    ngpus = gpus_count(MOST);
}

#define NEEDS_GPUS()                                                                               \
    do {                                                                                           \
        if (ngpus < 2)                                                                             \
            TEST_SKIP("%d GPUs; it takes 2", ngpus);                                               \
    } while (0)

/* A world for the length of a rank's function. */
struct bench {
    symm_context *ctx;
    symm_group *w;
    symm_stream s;
};

static inline symm_status bench_open(struct rank *self, struct bench *b)
{
    RANK_TRY(self, rank_join(self, &b->ctx));
    CHECK_RANK(self, strcmp(symm_context_driver(b->ctx), "cuda") == 0);
    b->w = symm_context_world(b->ctx);
    CHECK_RANK(self, symm_multicast_off(b->w)); /* never on the machines this runs on */
    RANK_TRY(self, symm_stream_create(b->ctx, &b->s));
out:
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

static inline void bench_close(struct bench *b)
{
    symm_stream_destroy(b->s);
    symm_context_destroy(b->ctx);
}

/* A test of all GPUs, whose ranks have the bench `b`; with fields of a struct ranks_test. */
#define GPU_TEST(group, name, ...)                                                                 \
    static void name##_rank(struct rank *self, void *arg);                                         \
    TEST_LOOP(group, name, ((struct ranks_test){__VA_ARGS__}).loop.first,                          \
              ((struct ranks_test){__VA_ARGS__}).loop.end)                                         \
    {                                                                                              \
        NEEDS_GPUS();                                                                              \
        ranks_test_run(&(struct ranks_test){.n = ngpus, __VA_ARGS__}, name##_rank);                \
    }                                                                                              \
    RANK_WITH(name##_rank, struct bench, b, bench_open, bench_close)

#endif
