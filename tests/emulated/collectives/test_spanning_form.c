/*
 * Which form a call of several domains takes: the call's own, SYMM_SPAN_ALGO, a row of the tuning
 * file, the model. A form shows in the kernels that are launched: flat calls launch none of symm's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <symm/collectives.h>
#include <symm/stream.h>
#include <unistd.h>
#include "hosts.h"
#include "standin.h"
#include "test.h"
#include "trace.h"

enum { HOSTS = 2, SIZE = 4, RANKS = HOSTS * SIZE, COUNT = 1 << 16 /* of floats: 256 KiB */ };

#define HEAD "symm-tuning 1\n"

struct scene {
    const char *setting; /* SYMM_SPAN_ALGO; NULL: not set */
    const char *table;   /* of the tuning file; NULL: none */
    struct {
        symm_algo algo;
        size_t count;
        bool hierarchical;
    } calls[4];
    struct hosts hosts;
};

static const struct scene scenes[] = {
    /* the model: an all-reduce of 256 KiB is hierarchical, a small one flat */
    {NULL,
     NULL,
     {{SYMM_ALGO_AUTO, COUNT, true},
      {SYMM_ALGO_AUTO, 16, false},
      {SYMM_ALGO_HIERARCHICAL, 16, true},
      {SYMM_ALGO_FLAT, COUNT, false}},
     {0}},
    {NULL,
     HEAD "all-reduce 2x4 any any 0 hierarchical\nall-reduce 2x4 float32 any 1024 flat\n"
          "all-reduce 2x2 float32 any 0 flat\n",
     {{SYMM_ALGO_AUTO, COUNT, false},
      {SYMM_ALGO_AUTO, 255, true},
      {SYMM_ALGO_HIERARCHICAL, COUNT, true},
      {SYMM_ALGO_FLAT, 255, false}},
     {0}},
    /* the setting comes before the table and the model */
    {"flat",
     HEAD "all-reduce 2x4 any any 0 hierarchical\n",
     {{SYMM_ALGO_AUTO, COUNT, false},
      {SYMM_ALGO_AUTO, 16, false},
      {SYMM_ALGO_HIERARCHICAL, 16, true},
      {SYMM_ALGO_FLAT, COUNT, false}},
     {0}},
    {"hierarchical",
     HEAD "all-reduce 2x4 any any 0 flat\n",
     {{SYMM_ALGO_AUTO, COUNT, true},
      {SYMM_ALGO_AUTO, 16, true},
      {SYMM_ALGO_HIERARCHICAL, 16, true},
      {SYMM_ALGO_FLAT, COUNT, false}},
     {0}},
};

/* This process's SYMM_TUNING_FILE becomes a file with this text, until the descriptor is closed. */
static int give_table(const char *text)
{
    char path[64];
    const int fd = memfd_create("table", 0);

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    setenv("SYMM_TUNING_FILE", path, 1);
    dprintf(fd, "%s", text);
    return fd;
}

static bool count_launch(void *launches, const char *line)
{
    *(int *)launches += strstr(line, "cuLaunchKernelEx") == line;
    return true;
}

static void call_each(struct rank *self, void *arg)
{
    const struct scene *scene = arg;
    symm_context *ctx = NULL;
    symm_stream s = NULL;
    symm_group *world;
    float *x;
    long at = 0;
    const int fd = scene->table ? give_table(scene->table) : -1;

    RANK_TRY(self, hosts_join(self, &scene->hosts, &ctx));
    world = symm_context_world(ctx);
    RANK_TRY(self, symm_stream_create(ctx, &s));
    RANK_TRY(self, symm_device_alloc(ctx, COUNT * sizeof *x, (void **)&x));
    RANK_TRY(self, symm_fill(x, 0, COUNT * sizeof *x, s));
    RANK_TRY(self, symm_group_reserve(world, 0));
    RANK_TRY(self, symm_synchronize(world, s));
    trace_read(self->rank, &at, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        const symm_options options = {.algo = scene->calls[i].algo};
        int launches = 0;
        RANK_TRY(self, symm_all_reduce(world, x, x, scene->calls[i].count, SYMM_FLOAT32, SYMM_SUM,
                                       &options, s));
        RANK_TRY(self, symm_synchronize(world, s));
        CHECK_RANK(self, trace_read(self->rank, &at, count_launch, &launches));
        CHECK_RANK_MSG(self, (launches > 0) == scene->calls[i].hierarchical,
                       "call %d: %d kernels of symm", i, launches);
    }
out:
    symm_stream_destroy(s);
    symm_context_destroy(ctx);
    if (fd >= 0)
        close(fd);
}

TEST_GROUP(form, 60);

TEST_LOOP(form, a_call_takes_the_form_that_is_asked_for, 0, sizeof scenes / sizeof scenes[0])
{
    struct scene scene = scenes[_i];

    standin_use();
    if (scene.setting)
        setenv("SYMM_SPAN_ALGO", scene.setting, 1);
    scene.hosts = (struct hosts){HOSTS, {SIZE, SIZE}, false, ""};
    hosts_address(&scene.hosts);
    trace_begin();
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, call_each, &scene, 60);
    trace_end();
}

/* Within a domain all ranks have the same rows, else its world is not created. */
static void differ(struct rank *self, void *arg)
{
    const struct hosts *hosts = arg;
    symm_context *ctx = NULL;
    symm_group *world;
    const int fd = give_table(self->rank < SIZE ? HEAD "all-reduce 2x4 any any 0 flat\n"
                                                : HEAD "all-reduce 2x4 any any 1 flat\n");

    RANK_TRY(self, hosts_join(self, hosts, &ctx));
    world = symm_context_world(ctx);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "SYMM_TUNING_FILE of rank 4 are not those of 0",
                     symm_group_reserve(world, 0));
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    self->report->status = SYMM_OK;
out:
    symm_context_destroy(ctx);
    close(fd);
}

TEST(form, domains_with_other_rows_are_told)
{
    struct hosts hosts = {HOSTS, {SIZE, SIZE}, false, ""};

    standin_use();
    hosts_address(&hosts);
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, differ, &hosts, 60);
}
