/* symm on real GPUs, through the public interface only: joining, memory, signals and deaths. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "exercise.h"
#include "gpu_bench.h"
#include "kernels.h"
#include "reference.h"
#include "test.h"

TEST_GROUP(joining, 180);

/* -------------------------------------------------------------------------------------- joining */

TEST(joining, worlds_of_every_size_sum_right)
{
    NEEDS_GPUS();
    for (int n = 1; n <= ngpus; n++)
        ranks_run_ok(n, RANKS_AS_PROCESSES, exercise_world, NULL, 60);
}

TEST(joining, ranks_are_threads_of_one_process)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_THREADS, exercise_world, NULL, 60);
}

static int count_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) {
        char path[32], to[8];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        n += readlink(path, to, sizeof to) >= 0;
    }
    return n;
}

static void come_back(struct rank *self, void *arg)
{
    int held = 0;
    (void)arg;
    for (uint64_t round = 0; round < 4; round++) {
        exercise_world(self, &round);
        if (self->report->failed[0])
            return;
        if (round == 1) /* the driver has allocated its own memory by now */
            held = count_descriptors();
    }
    CHECK_RANK_MSG(self, count_descriptors() == held, "%d descriptors, then %d", held,
                   count_descriptors());
out:
    return;
}

TEST(joining, a_world_is_made_again_and_again_and_leaves_no_descriptors)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, come_back, NULL, 120);
}

TEST_GROUP(memory, 180);

/* --------------------------------------------------------------------------------------- memory */

GPU_TEST(memory, random_allocations_are_given_back_to_the_device, .timeout_s = 120)
{
    enum { LIVE = 16 };
    void *live[LIVE] = {NULL};
    symm_usage before, after;
    size_t available = 0;
    for (int again = 0; again < 2;
         again++) { /* the driver allocates its own memory the first time */
        RANK_TRY(self, symm_trim(b->w));
        RANK_TRY(self, symm_memory_usage(b->ctx, &before));
        available = exercise_free_memory(b->ctx);
        for (uint64_t round = 0; round < 300; round++) {
            void **slot = &live[reference_random(100 + (uint64_t)self->rank, round) % LIVE];
            const size_t nbytes = 1 + (size_t)reference_random(1, round) % (12u << 20);
            RANK_TRY(self, symm_free(b->w, *slot));
            *slot = NULL;
            RANK_TRY(self, symm_alloc(b->w, nbytes, slot));
        }
        for (int i = 0; i < LIVE; i++) {
            RANK_TRY(self, symm_free(b->w, live[i]));
            live[i] = NULL;
        }
        RANK_TRY(self, symm_exchange(b->w, NULL, 0, NULL));
        RANK_TRY(self, symm_trim(b->w));
        RANK_TRY(self, symm_memory_usage(b->ctx, &after));
        CHECK_RANK(self, before.segments == after.segments && after.pending == 0);
    }
    CHECK_RANK_MSG(self, exercise_free_memory(b->ctx) == available, "%zu bytes free, then %zu",
                   available, exercise_free_memory(b->ctx));
out:;
}

GPU_TEST(memory, put_and_get_move_every_byte, .timeout_s = 60)
{
    enum { SIZE = 5000000 };
    char *x = NULL, *host = malloc(SIZE);
    const int n = self->nranks;
    RANK_TRY(self, symm_alloc(b->w, 2 * SIZE, (void **)&x));
    for (uint64_t round = 0; round < 5; round++) {
        reference_poison(host, SIZE, round * 100 + (uint64_t)self->rank);
        RANK_TRY(self, symm_copy(x, host, SIZE, b->s));
        RANK_TRY(self, symm_put(b->w, x + SIZE, x, SIZE, (self->rank + 1) % n, b->s));
        RANK_TRY(self, symm_barrier(b->w, b->s));
        RANK_TRY(self, symm_copy(host, x + SIZE, SIZE, b->s));
        RANK_TRY(self, symm_synchronize(b->w, b->s));
        self->report->wrong +=
            reference_poison_wrong(host, SIZE, round * 100 + (uint64_t)((self->rank + n - 1) % n));
        RANK_TRY(self, symm_get(b->w, x + SIZE, x, SIZE, (self->rank + 1) % n, b->s));
        RANK_TRY(self, symm_copy(host, x + SIZE, SIZE, b->s));
        RANK_TRY(self, symm_barrier(b->w, b->s));
        RANK_TRY(self, symm_synchronize(b->w, b->s));
        self->report->wrong +=
            reference_poison_wrong(host, SIZE, round * 100 + (uint64_t)((self->rank + 1) % n));
    }
out:
    free(host);
}

/* -------------------------------------------------------------------------------------- signals */

TEST_GROUP(signals, 120);

/* In the second round the counters wrap. */
GPU_TEST(signals, a_ring_of_puts_and_signals_is_replayed, .timeout_s = 60,
         .env = {{"SYMM_EPOCH_START", _i ? "4294967250" : "0"}}, .loop = {0, 2})
{
    enum { COUNT = 100000, ROUNDS = 200, FULL = 0, FREE = 1 };
    symm_signal_pad *pad = NULL;
    symm_graph graph = NULL;
    int32_t *inbox = NULL, *source = NULL, *host = calloc(COUNT, sizeof *host);
    const int n = self->nranks, after = (self->rank + 1) % n, before = (self->rank + n - 1) % n;
    RANK_TRY(self, symm_signal_pad_alloc(b->w, 2, &pad));
    RANK_TRY(self, symm_alloc(b->w, COUNT * sizeof *inbox, (void **)&inbox));
    RANK_TRY(self, symm_device_alloc(b->ctx, COUNT * sizeof *source, (void **)&source));
    RANK_TRY(self, symm_signal(b->w, pad, FREE, before, 1, b->s)); /* a credit */
    RANK_TRY(self, symm_graph_begin(b->s));
    RANK_TRY(self, symm_wait(b->w, pad, FREE, after, 1, b->s));
    RANK_TRY(self, symm_put(b->w, inbox, source, COUNT * sizeof *source, after, b->s));
    RANK_TRY(self, symm_signal(b->w, pad, FULL, after, 1, b->s));
    RANK_TRY(self, symm_wait(b->w, pad, FULL, before, 1, b->s));
    RANK_TRY(self, symm_graph_end(b->s, &graph));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++)
            host[i] = self->rank * 100000000 + round * 100000 + i % 100000;
        RANK_TRY(self, symm_copy(source, host, COUNT * sizeof *host, b->s));
        RANK_TRY(self, symm_graph_launch(graph, b->s));
        RANK_TRY(self, symm_copy(host, inbox, COUNT * sizeof *host, b->s));
        RANK_TRY(self, symm_signal(b->w, pad, FREE, before, 1, b->s));
        RANK_TRY(self, symm_synchronize(b->w, b->s));
        for (int i = 0; i < COUNT; i++)
            self->report->wrong += host[i] != before * 100000000 + round * 100000 + i % 100000;
    }
out:
    symm_graph_destroy(graph);
    symm_device_free(b->ctx, source);

    free(host);
}

/* In the second round with much shared memory. */
GPU_TEST(signals, a_users_kernel_meets_the_other_ranks_ten_thousand_times, .timeout_s = 60,
         .arg = &(uint32_t){_i ? 200u << 10 : 0}, .loop = {0, 2})
{
    enum { BLOCKS = 8, THREADS = 128 };
    symm_kernel *kernel = NULL;
    test_ring_args a = {.rounds = 2000};
    int32_t wrong[BLOCKS];
    const uint32_t *const smem_nbytes = arg;
    const symm_grid grid = {.blocks = BLOCKS, .threads = THREADS, .smem_nbytes = *smem_nbytes};
    uint32_t most = 0;
    RANK_TRY(self, symm_kernel_load(b->ctx, &test_kernels, "test_ring", &kernel));
    RANK_TRY(self, symm_kernel_max_blocks(b->w, kernel, THREADS, *smem_nbytes, &most));
    CHECK_RANK_MSG(self, most >= BLOCKS, "%u blocks", most);
    RANK_TRY(self, symm_signal_pad_alloc(b->w, BLOCKS, &a.pad));
    RANK_TRY(self, symm_alloc(b->w, 4 * BLOCKS * THREADS * sizeof *a.cells, (void **)&a.cells));
    RANK_TRY(self, symm_alloc(b->w, sizeof wrong, (void **)&a.wrong));
    RANK_TRY(self, symm_fill(a.wrong, 0, sizeof wrong, b->s));
    RANK_TRY(self, symm_group_view(b->w, &a.view));
    for (int i = 0; i < 5; i++)
        RANK_TRY(self, symm_launch(b->w, kernel, &grid, &a, sizeof a, b->s));
    RANK_TRY(self, symm_copy(wrong, a.wrong, sizeof wrong, b->s));
    RANK_TRY(self, symm_synchronize(b->w, b->s));
    for (int i = 0; i < BLOCKS; i++)
        self->report->wrong += wrong[i];
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "smem_nbytes",
                     symm_launch(b->w, kernel,
                                 &(symm_grid){.blocks = 1, .threads = 1, .smem_nbytes = 1u << 20},
                                 &a, sizeof a, b->s));
out:
    symm_kernel_unload(kernel);
}

/* --------------------------------------------------------------------------------------- deaths */

/* Sums until the last rank has gone; then the others go on without it. */
static void outlive(struct rank *self, void *arg)
{
    enum { COUNT = 200000 };
    const int victim = self->nranks - 1;
    const symm_options options = {.algo = SYMM_ALGO_TWO_SHOT};
    struct bench b = {0};
    symm_context *ctx = NULL;
    float *x = NULL, *host = calloc(COUNT, sizeof *host);
    char who[32];
    const bool gives_up = *(int *)arg;
    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    RANK_TRY(self, symm_alloc(b.w, COUNT * sizeof *x, (void **)&x));
    for (uint64_t round = 0; round < 1000000; round++) {
        symm_status st;
        reference_fill(host, COUNT, SYMM_FLOAT32, round, self->rank);
        st = symm_copy(x, host, COUNT * sizeof *x, b.s);
        if (st == SYMM_OK)
            st = symm_all_reduce(b.w, x, x, COUNT, SYMM_FLOAT32, SYMM_SUM, &options, b.s);
        if (st == SYMM_OK)
            st = symm_copy(host, x, COUNT * sizeof *x, b.s);
        if (st == SYMM_OK)
            st = symm_synchronize(b.w, b.s);
        if (rank_note(self, st) != SYMM_OK)
            break;
        self->report->wrong +=
            reference_wrong(host, 0, COUNT, SYMM_FLOAT32, round, self->nranks, REFERENCE_EXACT);
        self->report->value[1]++;
        if (gives_up && self->rank == victim && round == 5)
            symm_abort(b.w, "that is enough");
    }
    self->report->value[0] = now_ms();
    snprintf(who, sizeof who, "rank %d", victim);
    CHECK_RANK_MSG(self, self->report->status == SYMM_ERROR_PEER && strstr(self->report->text, who),
                   "%s: %s", symm_status_name(self->report->status), self->report->text);
    bench_close(&b);
    b = (struct bench){0};
    if (self->rank == victim)
        goto out;
    RANK_TRY(self, rank_join_without(self, victim, "rest", &ctx));
    RANK_TRY(self, exercise_group(self, ctx, symm_context_world(ctx), 3));
    RANK_TRY(self, symm_context_destroy(ctx));
    ctx = NULL;
out:
    symm_context_destroy(ctx);
    bench_close(&b);
    free(host);
}

TEST_GROUP(deaths, 120);

TEST(deaths, the_others_survive_a_rank_killed_in_mid_run)
{
    struct rank_report reports[MOST];
    NEEDS_GPUS();
    struct ranks *run = ranks_start(ngpus, RANKS_AS_PROCESSES, outlive, &(int){0});
    const int64_t death = ranks_kill_at(run, ngpus - 1, 1, 3);
    const char *missing = ranks_finish(run, reports, 60);
    ck_assert_msg(!missing, "%s", missing);
    ck_assert_int_eq(reports[ngpus - 1].end, RANK_KILLED);
    ranks_assert_ok(reports, ngpus - 1);
    for (int r = 0; r < ngpus - 1; r++)
        ck_assert_msg(reports[r].value[0] - death < 1000, "rank %d noticed after %lld ms", r,
                      (long long)(reports[r].value[0] - death));
}

TEST(deaths, the_others_go_on_after_a_rank_has_given_up)
{
    struct rank_report reports[MOST];
    NEEDS_GPUS();
    ranks_run(ngpus, RANKS_AS_PROCESSES, outlive, &(int){1}, reports, 60);
    ranks_assert_clean(reports, ngpus);
    for (int r = 0; r < ngpus; r++)
        ck_assert_int_eq(reports[r].wrong, 0);
    for (int r = 0; r < ngpus - 1; r++)
        ck_assert_msg(reports[r].status == SYMM_OK, "rank %d: %s", r, reports[r].text);
}

GPU_TEST(deaths, a_stalled_wait_ends_and_names_whom_it_waits_for, .timeout_s = 60,
         .env = {{"SYMM_TIMEOUT_MS", "2000"}})
{
    symm_signal_pad *pad = NULL;
    RANK_TRY(self, symm_signal_pad_alloc(b->w, 4, &pad));
    const int64_t start = now_ms();
    if (self->rank == 0) {
        RANK_TRY(self, symm_wait(b->w, pad, 3, 1, 5, b->s));
        RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT, "channel 3", symm_synchronize(b->w, b->s));
        RANK_TEXT(self, "rank 1");
    } else {
        while (symm_check(b->w) == SYMM_OK && now_ms() < start + 10000)
            pause_ms(20);
        CHECK_RANK(self, symm_check(b->w) != SYMM_OK);
    }
out:;
}

GPU_TEST(deaths, collective_calls_are_refused_in_a_capture_that_goes_on, .timeout_s = 60)
{
    symm_graph graph = NULL;
    void *x = NULL, *p = NULL;
    RANK_TRY(self, symm_alloc(b->w, 4096, &x));
    RANK_TRY(self, symm_graph_begin(b->s));
    const symm_status refused = symm_alloc(b->w, 4096, &p);
    RANK_TRY(self, symm_all_reduce(b->w, x, x, 1024, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    RANK_TRY(self, symm_graph_end(b->s, &graph));
    CHECK_RANK(self, refused == SYMM_ERROR_STATE);
    RANK_TRY(self, symm_graph_launch(graph, b->s));
    RANK_TRY(self, symm_synchronize(b->w, b->s));
out:
    symm_graph_destroy(graph);
}

GPU_TEST(joining, no_cudart_is_loaded_and_no_emulated_driver, .timeout_s = 60)
{
    char line[512];
    FILE *maps = NULL;
    RANK_TRY(self, exercise_group(self, b->ctx, b->w, 1));
    maps = fopen("/proc/self/maps", "re");
    CHECK_RANK(self, maps);
    while (fgets(line, sizeof line, maps))
        CHECK_RANK_MSG(self, !strstr(line, "libcudart") && !strstr(line, "libsymm_emulated"), "%s",
                       line);
out:
    if (maps)
        fclose(maps);
}
