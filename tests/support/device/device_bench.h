/*
 * The cases that try symm/device.cuh, for the emulated driver and for GPUs, and what they share. A
 * test program says where it runs, and adds all of them.
 */
#ifndef TEST_DEVICE_BENCH_H
#define TEST_DEVICE_BENCH_H

#include <stdbool.h>
#include <symm/stream.h>
#include "device_kernels.h"
#include "ranks.h"
#include "test.h"

/* Where the cases run. */
struct device_setting {
    int nworlds, worlds[8]; /* the sizes of the worlds in which ranks meet */
    int pair;               /* of the world in which a rank has one neighbour, if that will do */
    bool emulated;          /* fewer rounds; ranks are also threads */
    bool slow;              /* fewer rounds still */
    const char *why_not;    /* NULL: they do run */
};
extern struct device_setting device_setting; /* defined by the program */

#define NEEDS_DEVICES()                                                                            \
    do {                                                                                           \
        if (device_setting.why_not)                                                                \
            TEST_SKIP("%s", device_setting.why_not);                                               \
    } while (0)

/* The block sizes that everything is tried with. */
enum { DEVICE_SHAPES = 5, DEVICE_THREADS_MAX = 256, DEVICE_BLOCKS_MAX = 64 };
extern const uint32_t device_threads[DEVICE_SHAPES];

/* The counters begin here in cases that cross the wrap. */
#define DEVICE_EPOCH_START 0xfffffff0u
#define DEVICE_BELOW_WRAP "SYMM_EPOCH_START", "4294967280" /* as a variable */

/* As many rounds as there is time for. */
uint32_t device_rounds(uint32_t emulated, uint32_t gpu);
/* Blocks that the ranks of a world of this size can run at once, in reasonable time. */
uint32_t device_blocks(int nranks);

/* A rank with a kernel to launch. */
struct device_bench {
    struct rank *self;
    symm_context *ctx;
    symm_group *w;
    symm_stream s;
    symm_kernel *kernel;
    test_device_args a;
    uint32_t nthreads; /* launched since device_settle */
};

/* Joins, loads the kernel, makes a pad and a tally. Failures of these four are in the report. */
symm_status device_open(struct rank *self, struct device_bench *b, const char *kernel,
                        int nchannels);
symm_status device_load(struct device_bench *b, const char *kernel); /* another one */
symm_status device_launch(struct device_bench *b, uint32_t blocks, uint32_t threads);
/* Waits for all launches; all threads must have ended. Adds wrong results to the report. */
symm_status device_settle(struct device_bench *b);
/* Both; the second one between barriers of all ranks. */
symm_status device_run(struct device_bench *b, uint32_t blocks, uint32_t threads);
symm_status device_run_together(struct device_bench *b, uint32_t blocks, uint32_t threads);
void device_close(struct device_bench *b);

/*
 * A rank's function, and a RANKS_TEST, with a bench `b` that has this kernel and a pad of
 * `nchannels` channels.
 * After the channels come the fields of a struct ranks_test.
 */
#define DEVICE_RANK(name, kernel, nchannels)                                                       \
    static symm_status name##_open(struct rank *self, struct device_bench *b)                      \
    {                                                                                              \
        return device_open(self, b, kernel, (int)(nchannels));                                     \
    }                                                                                              \
    RANK_WITH(name, struct device_bench, b, name##_open, device_close)
#define DEVICE_TEST(group, name, kernel, nchannels, ...)                                           \
    static void name##_rank(struct rank *self, void *arg);                                         \
    TEST_LOOP(group, name, ((struct ranks_test){.n = __VA_ARGS__}).loop.first,                     \
              ((struct ranks_test){.n = __VA_ARGS__}).loop.end)                                    \
    {                                                                                              \
        NEEDS_DEVICES();                                                                           \
        ranks_test_run(&(struct ranks_test){.n = __VA_ARGS__}, name##_rank);                       \
    }                                                                                              \
    DEVICE_RANK(name##_rank, kernel, nchannels)

/* Between host and device, done when they return. Failures are in the report. */
symm_status device_write(struct device_bench *b, void *device, const void *host, size_t nbytes);
symm_status device_read(struct device_bench *b, void *host, const void *device, size_t nbytes);

#endif
