/*
 * One process drives several GPUs: each has a thread with a context of its own. The threads are the
 * ranks of a job without a launcher, so each configures rank, nranks, session and device.
 *
 *     ./07_threads [GPUS]                          4 GPUs if none are given
 *     SYMM_DRIVER=emulated ./07_threads [GPUS]     without a GPU
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdlib.h>
#include <symm/collectives.h>
#include <symm/stream.h>
#include <unistd.h>
#include "try.h"

enum { GPUS = 4, COUNT = 10000 };

struct gpu {
    pthread_t thread;
    int rank, nranks;
    const char *session;
    int failed;
};

static float x_of(int rank, int i)
{
    return (float)(rank + i % 1000);
}

/* The number of wrong sums. */
static int check(const float *sums, int nranks)
{
    int wrong = 0;

    for (int i = 0; i < COUNT; i++)
        wrong += sums[i] != (float)(nranks * (nranks - 1) / 2 + nranks * (i % 1000));
    return wrong;
}

/* A rank from its first to its last call, all of them from this thread. */
static void *drive(void *arg)
{
    static const size_t nbytes = COUNT * sizeof(float);
    struct gpu *gpu = arg;
    char device[16];
    symm_config config = {.rank = gpu->rank, .nranks = gpu->nranks, .session = gpu->session};
    symm_context *ctx = NULL;
    symm_stream s = NULL;
    void *x, *host;
    int wrong = 0;
    symm_status st;

    snprintf(device, sizeof device, "%d", gpu->rank);
    config.device = device;
    TRY(symm_context_create(&config, &ctx));
    symm_group *world = symm_context_world(ctx);
    TRY(symm_alloc(world, nbytes, &x));
    TRY(symm_host_alloc(ctx, nbytes, &host));
    TRY(symm_stream_create(ctx, &s));
    for (int i = 0; i < COUNT; i++)
        ((float *)host)[i] = x_of(gpu->rank, i);
    TRY(symm_copy(x, host, nbytes, s));
    TRY(symm_all_reduce(world, x, x, COUNT, SYMM_FLOAT32, SYMM_SUM, NULL, s));
    TRY(symm_copy(host, x, nbytes, s));
    TRY(symm_synchronize(world, s));
    wrong = check(host, gpu->nranks);
    printf("rank %d of %d on device %d: %d sums are wrong\n", gpu->rank, gpu->nranks,
           symm_context_device(ctx), wrong);
out:
    if (s)
        symm_stream_destroy(s);
    symm_context_destroy(ctx); /* waits for the other threads; frees x and host */
    gpu->failed = st != SYMM_OK || wrong;
    return NULL;
}

int main(int argc, char **argv)
{
    const int n = argc > 1 ? atoi(argv[1]) : GPUS;
    struct gpu gpus[SYMM_MAX_RANKS];
    char session[32];
    int failed = 0;

    if (n < 1 || n > SYMM_MAX_RANKS) {
        fprintf(stderr, "usage: 07_threads [GPUS], 1 to %d\n", SYMM_MAX_RANKS);
        return 2;
    }
    snprintf(session, sizeof session, "threads-%d", (int)getpid()); /* this job's alone */
    for (int r = 0; r < n; r++) {
        gpus[r] = (struct gpu){.rank = r, .nranks = n, .session = session};
        if (pthread_create(&gpus[r].thread, NULL, drive, &gpus[r]) != 0) {
            perror("pthread_create");
            return 1;
        }
    }
    for (int r = 0; r < n; r++) {
        pthread_join(gpus[r].thread, NULL);
        failed |= gpus[r].failed;
    }
    return failed;
}
