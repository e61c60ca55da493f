/* SYMM_TUNING_FILE on several ranks: auto follows it, and all ranks have the same rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "collective.h"
#include "reference.h"
#include "test.h"
#include "trace.h"
#include "world.h"

#define HEAD "symm-tuning 1\n"

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

/* ---- Ranks that differ ---- */

struct tables {
    const char *texts[4]; /* of each rank; NULL: none */
    symm_status want;
    const char *part; /* of every rank's error */
};

static void join_with_table(struct rank *self, void *arg)
{
    const struct tables *tables = arg;
    symm_context *ctx = NULL;
    int fd = -1;

    unsetenv("SYMM_TUNING_FILE");
    setenv("SYMM_TIMEOUT_MS", "8000", 1);
    if (tables->texts[self->rank])
        fd = give_table(tables->texts[self->rank]);
    RANK_EXPECT(self, tables->want, rank_join(self, &ctx));
    CHECK_RANK_MSG(self, !tables->part || strstr(self->report->text, tables->part), "%s",
                   self->report->text);
    CHECK_RANK(self, !ctx == (tables->want != SYMM_OK));
out:
    symm_context_destroy(ctx);
    if (fd >= 0)
        close(fd);
}

static void join_all(struct tables tables)
{
    ranks_run_ok(4, RANKS_AS_PROCESSES, join_with_table, &tables, 30);
}

#define ROWS HEAD "all-reduce 4 any any 0 one_shot\n"
#define OTHER HEAD "all-reduce 4 any any 1 one_shot\n"

TEST_GROUP(ranks, 60);

TEST(ranks, ranks_with_the_same_rows_join)
{
    join_all((struct tables){{ROWS, "# of rank 1\n" ROWS, ROWS "\n\n", ROWS}, SYMM_OK, NULL});
}

TEST(ranks, ranks_with_other_rows_are_named)
{
    join_all((struct tables){{ROWS, OTHER, ROWS, OTHER},
                             SYMM_ERROR_MISMATCH,
                             "SYMM_TUNING_FILE on rank 1, 3 differ from those on rank 0"});
    join_all((struct tables){{ROWS, ROWS, NULL, ROWS},
                             SYMM_ERROR_MISMATCH,
                             "SYMM_TUNING_FILE on rank 2 differ from those on rank 0"});
    join_all((struct tables){{NULL, ROWS, ROWS, ROWS},
                             SYMM_ERROR_MISMATCH,
                             "SYMM_TUNING_FILE on rank 1, 2, 3 differ from those on rank 0"});
}

TEST(ranks, a_file_that_is_no_table_fails_all_ranks)
{
    join_all((struct tables){{ROWS, ROWS, HEAD "all-reduce 4 any any 0 ring\n", ROWS},
                             SYMM_ERROR_ARGUMENT,
                             ", line 2: \"ring\" is not an algorithm"});
}

TEST(ranks, a_table_of_another_machine_fails_all_ranks)
{
    char mine[128], others[128];

    snprintf(mine, sizeof mine, HEAD "machine emulated %d.%d.%d SYMM emulated device\n",
             SYMM_VERSION_MAJOR, SYMM_VERSION_MINOR, SYMM_VERSION_PATCH);
    snprintf(others, sizeof others, HEAD "machine cuda %d.%d.%d NVIDIA H200\n", SYMM_VERSION_MAJOR,
             SYMM_VERSION_MINOR, SYMM_VERSION_PATCH);
    join_all((struct tables){{mine, mine, mine, mine}, SYMM_OK, NULL});
    join_all((struct tables){
        {mine, others, mine, mine}, SYMM_ERROR_ARGUMENT, ", line 2: measured on \"cuda "});
    join_all((struct tables){{others, others, others, others},
                             SYMM_ERROR_ARGUMENT,
                             " NVIDIA H200\", and this is \"emulated "});
}

/* ---- The choice of auto ---- */

enum { MAX_LAUNCH = 512 };

/* Keeps the kernel, grid and block of a launch. */
static bool keep_launch(void *launch, const char *line)
{
    const char *stream = strstr(line, " stream=");

    if (strstr(line, "cuLaunchKernelEx") == line && stream)
        snprintf(launch, MAX_LAUNCH, "%.*s", (int)(stream - line), line);
    return true;
}

/* Bytes of the larger buffer, and the expected choice of auto. */
struct expected {
    enum collective_operation operation;
    size_t nbytes;
    uint32_t flags;
    symm_dtype dtype;
    symm_algo algo;
};

enum { RANKS = 3, BUFFER = 96 << 10 };

static symm_status call(symm_group *group, char *in, const struct expected *e, symm_algo algo)
{
    const size_t shares = collective_has_shares(e->operation) ? RANKS : 1;
    const struct collective c = {.operation = e->operation,
                                 .algo = algo,
                                 .dtype = e->dtype,
                                 .op = SYMM_SUM,
                                 .count = e->nbytes / symm_dtype_size(e->dtype) / shares,
                                 .flags = e->flags};
    return collective_call(&c, group, in, in + BUFFER, NULL);
}

static const struct expected expected[] = {
    {ALL_REDUCE, 8, 0, SYMM_BFLOAT16, SYMM_ALGO_ONE_SHOT},
    {ALL_REDUCE, 1024, 0, SYMM_BFLOAT16, SYMM_ALGO_ONE_SHOT},
    {ALL_REDUCE, 4094, 0, SYMM_BFLOAT16, SYMM_ALGO_ONE_SHOT},
    {ALL_REDUCE, 4096, 0, SYMM_BFLOAT16, SYMM_ALGO_TWO_SHOT},
    {ALL_REDUCE, 8192, 0, SYMM_BFLOAT16, SYMM_ALGO_LOW_LATENCY},
    {ALL_REDUCE, 16384, 0, SYMM_BFLOAT16, SYMM_ALGO_LOW_LATENCY_TWO_SHOT},
    {ALL_REDUCE, 65536, 0, SYMM_BFLOAT16, SYMM_ALGO_LOW_LATENCY_TWO_SHOT},
    {ALL_REDUCE, 65534, SYMM_SYMMETRIC, SYMM_BFLOAT16, SYMM_ALGO_ONE_SHOT},
    {ALL_REDUCE, 65536, SYMM_SYMMETRIC, SYMM_BFLOAT16, SYMM_ALGO_COPY_ENGINE},
    {ALL_REDUCE, 1024, 0, SYMM_FLOAT32, SYMM_ALGO_TWO_SHOT}, /* a row of any dtype */
    {ALL_REDUCE, 1024, 0, SYMM_FLOAT64, SYMM_ALGO_LOW_LATENCY_TWO_SHOT},
    {ALL_REDUCE, 1024, SYMM_DETERMINISTIC, SYMM_FLOAT16, SYMM_ALGO_TWO_SHOT},
    {REDUCE_SCATTER, 1020, 0, SYMM_BFLOAT16, SYMM_ALGO_ONE_SHOT},
    {REDUCE_SCATTER, 6000, 0, SYMM_BFLOAT16, SYMM_ALGO_LOW_LATENCY},
    {ALL_GATHER, 96, 0, SYMM_FLOAT8_E5M2, SYMM_ALGO_LOW_LATENCY},
    {ALL_GATHER, 3000, 0, SYMM_INT32, SYMM_ALGO_ONE_SHOT},
    {ALL_GATHER, 96, SYMM_SYMMETRIC, SYMM_UINT8, SYMM_ALGO_COPY_ENGINE},
    {BROADCAST, 96, 0, SYMM_FLOAT8_E5M2, SYMM_ALGO_ONE_SHOT},
    {BROADCAST, 3000, 0, SYMM_INT32, SYMM_ALGO_LOW_LATENCY},
    {BROADCAST, 96, SYMM_SYMMETRIC, SYMM_UINT8, SYMM_ALGO_COPY_ENGINE},
};

static const char table[] = HEAD "all-reduce 3 bfloat16 any 0 one_shot\n"
                                 "all-reduce 3 bfloat16 any 4096 two_shot\n"
                                 "all-reduce 3 bfloat16 any 8192 low_latency\n"
                                 "all-reduce 3 bfloat16 any 16384 low_latency_two_shot\n"
                                 "all-reduce 3 bfloat16 symmetric 16384 one_shot\n"
                                 "all-reduce 3 bfloat16 symmetric 65536 copy_engine\n"
                                 "all-reduce 3 any any 0 two_shot\n"
                                 "all-reduce 3 float64 any 0 low_latency_two_shot\n"
                                 "all-reduce 3 float16 any 0 multimem\n"
                                 "all-reduce 2 any any 0 one_shot\n"
                                 "reduce-scatter 3 any any 0 one_shot\n"
                                 "reduce-scatter 3 any any 6000 low_latency\n"
                                 "all-gather 3 any any 0 low_latency\n"
                                 "all-gather 3 any any 3000 one_shot\n"
                                 "all-gather 3 uint8 symmetric 0 copy_engine\n"
                                 "broadcast 3 any any 0 one_shot\n"
                                 "broadcast 3 any any 3000 low_latency\n"
                                 "broadcast 3 uint8 symmetric 0 copy_engine\n";

WORLD_RANK(follow_the_table)
{
    char by_name[MAX_LAUNCH] = "", by_table[MAX_LAUNCH] = "";
    char *buffers;
    long at = 0;

    RANK_TRY(self, symm_alloc(world, 2 * BUFFER, (void **)&buffers));
    RANK_TRY(self, symm_fill(buffers, 0, 2 * BUFFER, NULL));
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        RANK_TRY(self, call(world, buffers, &expected[i], expected[i].algo));
        trace_read(self->rank, &at, keep_launch, by_name);
        RANK_TRY(self, symm_synchronize(world, NULL));
        RANK_TRY(self, call(world, buffers, &expected[i], SYMM_ALGO_AUTO));
        trace_read(self->rank, &at, keep_launch, by_table);
        RANK_TRY(self, symm_synchronize(world, NULL));
        CHECK_RANK_MSG(self, *by_name && strcmp(by_name, by_table) == 0,
                       "case %zu: \"%s\", and by the table \"%s\"", i, by_name, by_table);
    }
out:;
}

TEST_GROUP(auto, 60);

TEST(auto, auto_goes_by_the_rows_of_its_kind)
{
    const int fd = give_table(table);
    trace_begin();
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, follow_the_table, NULL, 60);
    trace_end();
    close(fd);
}
