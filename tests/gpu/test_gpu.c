/*
 * symm on real GPUs, through the public interface only: 2 to 4 of them, a process each, without
 * multicast. Skipped, with the reason, where there are fewer than two.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "exercise.h"
#include "gpus.h"
#include "kernels.h"
#include "ranks.h"
#include "reference.h"
#include "test.h"

enum { MOST = 4 };

static int ngpus;

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

static symm_status bench_open(struct rank *self, struct bench *b)
{
    RANK_TRY(self, rank_join(self, &b->ctx));
    CHECK_RANK(self, strcmp(symm_context_driver(b->ctx), "cuda") == 0);
    b->w = symm_context_world(b->ctx);
    CHECK_RANK(self, symm_multicast_off(b->w)); /* never on the machines this runs on */
    RANK_TRY(self, symm_stream_create(b->ctx, &b->s));
out:
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

static void bench_close(struct bench *b)
{
    symm_stream_destroy(b->s);
    symm_context_destroy(b->ctx);
}

/* -------------------------------------------------------------------------------------- joining */

START_TEST(worlds_of_every_size_sum_right)
{
    NEEDS_GPUS();
    for (int n = 1; n <= ngpus; n++)
        ranks_run_ok(n, RANKS_AS_PROCESSES, exercise_world, NULL, 60);
}
END_TEST

START_TEST(ranks_are_threads_of_one_process)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_THREADS, exercise_world, NULL, 60);
}
END_TEST

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
        if (round == 1) /* what the driver keeps for itself it has by now */
            held = count_descriptors();
    }
    CHECK_RANK_MSG(self, count_descriptors() == held, "%d descriptors, then %d", held,
                   count_descriptors());
out:
    return;
}

START_TEST(a_world_is_made_again_and_again_and_leaves_no_descriptors)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, come_back, NULL, 120);
}
END_TEST

/* --------------------------------------------------------------------------------------- memory */

static size_t free_memory(symm_context *ctx)
{
    int (*info)(size_t *, size_t *) = NULL;
    size_t available = 0, total = 0;
    *(void **)&info = symm_context_driver_symbol(ctx, "cuMemGetInfo_v2");
    return info && info(&available, &total) == 0 ? available : 0;
}

static void take_and_give_back(struct rank *self, void *arg)
{
    enum { LIVE = 16 };
    struct bench b = {0};
    void *live[LIVE] = {NULL};
    symm_usage before, after;
    size_t available = 0;
    (void)arg;
    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    for (int again = 0; again < 2; again++) { /* the first time the driver takes what it keeps */
        RANK_TRY(self, symm_trim(b.w));
        RANK_TRY(self, symm_memory_usage(b.ctx, &before));
        available = free_memory(b.ctx);
        for (uint64_t round = 0; round < 300; round++) {
            void **slot = &live[reference_random(100 + (uint64_t)self->rank, round) % LIVE];
            const size_t nbytes = 1 + (size_t)reference_random(1, round) % (12u << 20);
            RANK_TRY(self, symm_free(b.w, *slot));
            *slot = NULL;
            RANK_TRY(self, symm_alloc(b.w, nbytes, slot));
        }
        for (int i = 0; i < LIVE; i++) {
            RANK_TRY(self, symm_free(b.w, live[i]));
            live[i] = NULL;
        }
        RANK_TRY(self, symm_exchange(b.w, NULL, 0, NULL));
        RANK_TRY(self, symm_trim(b.w));
        RANK_TRY(self, symm_memory_usage(b.ctx, &after));
        CHECK_RANK(self, before.segments == after.segments && after.pending == 0);
    }
    CHECK_RANK_MSG(self, free_memory(b.ctx) == available, "%zu bytes free, then %zu", available,
                   free_memory(b.ctx));
out:
    bench_close(&b);
}

START_TEST(random_allocations_are_given_back_to_the_device)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, take_and_give_back, NULL, 120);
}
END_TEST

static void move_data(struct rank *self, void *arg)
{
    enum { SIZE = 5000000 };
    struct bench b = {0};
    char *x = NULL, *host = malloc(SIZE);
    const int n = self->nranks;
    (void)arg;
    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    RANK_TRY(self, symm_alloc(b.w, 2 * SIZE, (void **)&x));
    for (uint64_t round = 0; round < 5; round++) {
        reference_poison(host, SIZE, round * 100 + (uint64_t)self->rank);
        RANK_TRY(self, symm_copy(x, host, SIZE, b.s));
        RANK_TRY(self, symm_put(b.w, x + SIZE, x, SIZE, (self->rank + 1) % n, b.s));
        RANK_TRY(self, symm_barrier(b.w, b.s));
        RANK_TRY(self, symm_copy(host, x + SIZE, SIZE, b.s));
        RANK_TRY(self, symm_synchronize(b.w, b.s));
        self->report->wrong +=
            reference_poison_wrong(host, SIZE, round * 100 + (uint64_t)((self->rank + n - 1) % n));
        RANK_TRY(self, symm_get(b.w, x + SIZE, x, SIZE, (self->rank + 1) % n, b.s));
        RANK_TRY(self, symm_copy(host, x + SIZE, SIZE, b.s));
        RANK_TRY(self, symm_barrier(b.w, b.s));
        RANK_TRY(self, symm_synchronize(b.w, b.s));
        self->report->wrong +=
            reference_poison_wrong(host, SIZE, round * 100 + (uint64_t)((self->rank + 1) % n));
    }
out:
    bench_close(&b);
    free(host);
}

START_TEST(put_and_get_move_every_byte)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, move_data, NULL, 60);
}
END_TEST

/* -------------------------------------------------------------------------------------- signals */

static void signal_round(struct rank *self, void *arg)
{
    enum { COUNT = 100000, ROUNDS = 200, FULL = 0, FREE = 1 };
    struct bench b = {0};
    symm_signal_pad *pad = NULL;
    symm_graph graph = NULL;
    int32_t *inbox = NULL, *source = NULL, *host = calloc(COUNT, sizeof *host);
    const int n = self->nranks, after = (self->rank + 1) % n, before = (self->rank + n - 1) % n;
    (void)arg;
    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    RANK_TRY(self, symm_signal_pad_alloc(b.w, 2, &pad));
    RANK_TRY(self, symm_alloc(b.w, COUNT * sizeof *inbox, (void **)&inbox));
    RANK_TRY(self, symm_device_alloc(b.ctx, COUNT * sizeof *source, (void **)&source));
    RANK_TRY(self, symm_signal(b.w, pad, FREE, before, 1, b.s)); /* a credit */
    RANK_TRY(self, symm_graph_begin(b.s));
    RANK_TRY(self, symm_wait(b.w, pad, FREE, after, 1, b.s));
    RANK_TRY(self, symm_put(b.w, inbox, source, COUNT * sizeof *source, after, b.s));
    RANK_TRY(self, symm_signal(b.w, pad, FULL, after, 1, b.s));
    RANK_TRY(self, symm_wait(b.w, pad, FULL, before, 1, b.s));
    RANK_TRY(self, symm_graph_end(b.s, &graph));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++)
            host[i] = self->rank * 100000000 + round * 100000 + i % 100000;
        RANK_TRY(self, symm_copy(source, host, COUNT * sizeof *host, b.s));
        RANK_TRY(self, symm_graph_launch(graph, b.s));
        RANK_TRY(self, symm_copy(host, inbox, COUNT * sizeof *host, b.s));
        RANK_TRY(self, symm_signal(b.w, pad, FREE, before, 1, b.s));
        RANK_TRY(self, symm_synchronize(b.w, b.s));
        for (int i = 0; i < COUNT; i++)
            self->report->wrong += host[i] != before * 100000000 + round * 100000 + i % 100000;
    }
out:
    symm_graph_destroy(graph);
    symm_device_free(b.ctx, source);
    bench_close(&b);
    free(host);
}

START_TEST(a_ring_of_puts_and_signals_is_replayed)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, signal_round, NULL, 60);
}
END_TEST

START_TEST(a_ring_of_puts_and_signals_is_right_across_the_wrap)
{
    NEEDS_GPUS();
    setenv("SYMM_EPOCH_START", "4294967250", 1);
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, signal_round, NULL, 60);
}
END_TEST

static void run_kernels(struct rank *self, void *arg)
{
    enum { BLOCKS = 8, THREADS = 128 };
    struct bench b = {0};
    symm_kernel *kernel = NULL;
    test_ring_args a = {.rounds = 2000};
    int32_t wrong[BLOCKS];
    const uint32_t *const smem_nbytes = arg;
    const symm_grid grid = {.blocks = BLOCKS, .threads = THREADS, .smem_nbytes = *smem_nbytes};
    uint32_t most = 0;
    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    RANK_TRY(self, symm_kernel_load(b.ctx, &test_kernels, "test_ring", &kernel));
    RANK_TRY(self, symm_kernel_max_blocks(b.w, kernel, THREADS, *smem_nbytes, &most));
    CHECK_RANK_MSG(self, most >= BLOCKS, "%u blocks", most);
    RANK_TRY(self, symm_signal_pad_alloc(b.w, BLOCKS, &a.pad));
    RANK_TRY(self, symm_alloc(b.w, 4 * BLOCKS * THREADS * sizeof *a.cells, (void **)&a.cells));
    RANK_TRY(self, symm_alloc(b.w, sizeof wrong, (void **)&a.wrong));
    RANK_TRY(self, symm_fill(a.wrong, 0, sizeof wrong, b.s));
    RANK_TRY(self, symm_group_view(b.w, &a.view));
    for (int i = 0; i < 5; i++)
        RANK_TRY(self, symm_launch(b.w, kernel, &grid, &a, sizeof a, b.s));
    RANK_TRY(self, symm_copy(wrong, a.wrong, sizeof wrong, b.s));
    RANK_TRY(self, symm_synchronize(b.w, b.s));
    for (int i = 0; i < BLOCKS; i++)
        self->report->wrong += wrong[i];
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "smem_nbytes",
                     symm_launch(b.w, kernel,
                                 &(symm_grid){.blocks = 1, .threads = 1, .smem_nbytes = 1u << 20},
                                 &a, sizeof a, b.s));
    rank_note(self, SYMM_OK);
out:
    symm_kernel_unload(kernel);
    bench_close(&b);
}

START_TEST(a_users_kernel_meets_the_other_ranks_ten_thousand_times)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, run_kernels, &(uint32_t){0}, 60);
}
END_TEST

START_TEST(a_users_kernel_gets_much_shared_memory)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, run_kernels, &(uint32_t){200u << 10}, 60);
}
END_TEST

/* ----------------------------------------------------------------------------------- all-reduce */

static const symm_algo algos[] = {SYMM_ALGO_AUTO, SYMM_ALGO_ONE_SHOT, SYMM_ALGO_TWO_SHOT};
static const symm_dtype dtypes[] = {SYMM_FLOAT32, SYMM_FLOAT16, SYMM_BFLOAT16};
static const size_t counts[] = {1, 7, 1000, 65536 + 3, 3000001};

enum { NALGOS = 3, NDTYPES = 3, NCOUNTS = 5 };

/*
 * Once in place in symmetric memory, once out of place in plain memory, at addresses that are only
 * just aligned.
 */
static symm_status sum_both_ways(struct rank *self, struct bench *b, symm_algo algo,
                                 symm_dtype dtype, size_t count, uint64_t round)
{
    const size_t size = reference_size(dtype), nbytes = count * size;
    const symm_options options = {.algo = algo};
    const enum reference_bound bound = (enum reference_bound)exercise_bound(algo);
    char *x = NULL, *in = NULL, *out = NULL, *host = malloc(nbytes);
    RANK_TRY(self, symm_alloc(b->w, nbytes, (void **)&x));
    RANK_TRY(self, symm_device_alloc(b->ctx, nbytes + size, (void **)&in));
    RANK_TRY(self, symm_device_alloc(b->ctx, nbytes + size, (void **)&out));
    reference_fill(host, count, dtype, round, self->rank);
    RANK_TRY(self, symm_copy(x, host, nbytes, b->s));
    RANK_TRY(self, symm_copy(in + size, host, nbytes, b->s));
    RANK_TRY(self, symm_all_reduce(b->w, x, x, count, dtype, SYMM_SUM, &options, b->s));
    RANK_TRY(self,
             symm_all_reduce(b->w, in + size, out + size, count, dtype, SYMM_SUM, &options, b->s));
    RANK_TRY(self, symm_copy(host, x, nbytes, b->s));
    RANK_TRY(self, symm_synchronize(b->w, b->s));
    self->report->wrong += reference_wrong(host, 0, count, dtype, round, self->nranks, bound);
    RANK_TRY(self, symm_copy(host, out + size, nbytes, b->s));
    RANK_TRY(self, symm_synchronize(b->w, b->s));
    self->report->wrong += reference_wrong(host, 0, count, dtype, round, self->nranks, bound);
out:
    symm_device_free(b->ctx, in);
    symm_device_free(b->ctx, out);
    symm_free(b->w, x);
    free(host);
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

static void sum_everything(struct rank *self, void *arg)
{
    struct bench b = {0};
    const symm_algo algo = algos[*(int *)arg];
    uint64_t round = 0;
    if (bench_open(self, &b) == SYMM_OK)
        for (int t = 0; t < NDTYPES; t++)
            for (int c = 0; c < NCOUNTS; c++)
                if (sum_both_ways(self, &b, algo, dtypes[t], counts[c], round++) != SYMM_OK)
                    goto out;
out:
    bench_close(&b);
}

START_TEST(sums_are_right_in_place_and_through_staging)
{
    NEEDS_GPUS();
    setenv("SYMM_STAGING_BYTES", "1M", 1); /* the largest goes through it in many pieces */
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, sum_everything, &(int){_i}, 120);
}
END_TEST

static void replay_two_groups(struct rank *self, void *arg)
{
    enum { COUNT = 30000, REPLAYS = 1000 };
    struct bench b = {0};
    struct {
        symm_group *g;
        symm_stream s;
        symm_graph graph;
        float *in, *out;
    } line[2] = {{NULL, NULL, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
    float *host = calloc(COUNT, sizeof *host);
    int all[MOST];
    (void)arg;
    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    for (int r = 0; r < self->nranks; r++)
        all[r] = r;
    for (uint64_t i = 0; i < 2; i++) {
        const symm_options options = {.algo = i ? SYMM_ALGO_TWO_SHOT : SYMM_ALGO_ONE_SHOT};
        RANK_TRY(self, symm_group_create(b.w, self->nranks, all, &line[i].g));
        RANK_TRY(self, symm_stream_create(b.ctx, &line[i].s));
        RANK_TRY(self, symm_alloc(line[i].g, COUNT * sizeof *host, (void **)&line[i].in));
        RANK_TRY(self, symm_alloc(line[i].g, COUNT * sizeof *host, (void **)&line[i].out));
        reference_fill(host, COUNT, SYMM_FLOAT32, i, self->rank);
        RANK_TRY(self, symm_copy(line[i].in, host, COUNT * sizeof *host, line[i].s));
        RANK_TRY(self, symm_synchronize(line[i].g, line[i].s));
        RANK_TRY(self, symm_graph_begin(line[i].s));
        RANK_TRY(self, symm_fill(line[i].out, 0xff, COUNT * sizeof *host, line[i].s));
        RANK_TRY(self, symm_all_reduce(line[i].g, line[i].in, line[i].out, COUNT, SYMM_FLOAT32,
                                       SYMM_SUM, &options, line[i].s));
        RANK_TRY(self, symm_graph_end(line[i].s, &line[i].graph));
    }
    for (int replay = 0; replay < REPLAYS; replay++) {
        for (int i = 0; i < 2; i++) {
            const int l = self->rank % 2 ? 1 - i : i; /* nothing orders the two groups */
            if (replay % 10 == 9)
                RANK_TRY(self,
                         symm_all_reduce(line[l].g, line[l].in, line[l].out, 100 + (size_t)replay,
                                         SYMM_FLOAT32, SYMM_SUM, NULL, line[l].s));
            RANK_TRY(self, symm_graph_launch(line[l].graph, line[l].s));
        }
        for (uint64_t i = 0; i < 2 && replay % 100 == 99; i++) {
            RANK_TRY(self, symm_copy(host, line[i].out, COUNT * sizeof *host, line[i].s));
            RANK_TRY(self, symm_synchronize(line[i].g, line[i].s));
            self->report->wrong +=
                reference_wrong(host, 0, COUNT, SYMM_FLOAT32, i, self->nranks, REFERENCE_EXACT);
        }
    }
out:
    for (int i = 0; i < 2; i++) {
        symm_graph_destroy(line[i].graph);
        symm_stream_destroy(line[i].s);
        symm_group_destroy(line[i].g);
    }
    bench_close(&b);
    free(host);
}

START_TEST(two_groups_on_two_streams_replay_their_graphs_a_thousand_times)
{
    NEEDS_GPUS();
    setenv("SYMM_CHECK", "0", 1); /* a call must not wait for those that come in another order */
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, replay_two_groups, NULL, 120);
}
END_TEST

/* --------------------------------------------------------------------------------------- deaths */

/* Sums until the last rank has gone; then the others go on without it. */
static void outlive(struct rank *self, void *arg)
{
    enum { COUNT = 200000 };
    const int victim = self->nranks - 1;
    const symm_options options = {.algo = SYMM_ALGO_TWO_SHOT};
    struct bench b = {0};
    symm_context *ctx = NULL;
    symm_config config = rank_config(self);
    float *x = NULL, *host = calloc(COUNT, sizeof *host);
    char session[96], device[16], who[32];
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
    snprintf(session, sizeof session, "%s-rest", self->session);
    snprintf(device, sizeof device, "%d", self->rank);
    config.session = session;
    config.device = device;
    config.nranks--;
    RANK_TRY(self, symm_context_create(&config, &ctx));
    RANK_TRY(self, exercise_group(self, ctx, symm_context_world(ctx), 3));
    RANK_TRY(self, symm_context_destroy(ctx));
    ctx = NULL;
out:
    symm_context_destroy(ctx);
    bench_close(&b);
    free(host);
}

START_TEST(the_others_survive_a_rank_killed_in_mid_run)
{
    struct rank_report reports[MOST];
    siginfo_t info;
    NEEDS_GPUS();
    struct ranks *run = ranks_start(ngpus, RANKS_AS_PROCESSES, outlive, &(int){0});
    for (int i = 0; i < 30000 && ranks_peek(run, ngpus - 1)->value[1] < 3; i++)
        pause_ms(1);
    kill(ranks_pid(run, ngpus - 1), SIGKILL);
    waitid(P_PID, (id_t)ranks_pid(run, ngpus - 1), &info, WEXITED | WNOWAIT);
    const int64_t death = now_ms();
    const char *missing = ranks_finish(run, reports, 60);
    ck_assert_msg(!missing, "%s", missing);
    ck_assert_int_eq(reports[ngpus - 1].end, RANK_KILLED);
    ranks_assert_ok(reports, ngpus - 1);
    for (int r = 0; r < ngpus - 1; r++)
        ck_assert_msg(reports[r].value[0] - death < 1000, "rank %d noticed after %lld ms", r,
                      (long long)(reports[r].value[0] - death));
}
END_TEST

START_TEST(the_others_go_on_after_a_rank_has_given_up)
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
END_TEST

static void stall(struct rank *self, void *arg)
{
    struct bench b = {0};
    symm_signal_pad *pad = NULL;
    (void)arg;
    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    RANK_TRY(self, symm_signal_pad_alloc(b.w, 4, &pad));
    const int64_t start = now_ms();
    if (self->rank == 0) {
        RANK_TRY(self, symm_wait(b.w, pad, 3, 1, 5, b.s));
        RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT, "channel 3", symm_synchronize(b.w, b.s));
        CHECK_RANK(self, strstr(self->report->text, "rank 1"));
    } else {
        while (symm_check(b.w) == SYMM_OK && now_ms() < start + 10000)
            pause_ms(20);
        CHECK_RANK(self, symm_check(b.w) != SYMM_OK);
    }
    rank_note(self, SYMM_OK);
out:
    bench_close(&b);
}

START_TEST(a_stalled_wait_ends_and_names_whom_it_waits_for)
{
    NEEDS_GPUS();
    setenv("SYMM_TIMEOUT_MS", "2000", 1);
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, stall, NULL, 60);
}
END_TEST

static void refuse_in_capture(struct rank *self, void *arg)
{
    struct bench b = {0};
    symm_graph graph = NULL;
    void *x = NULL, *p = NULL;
    (void)arg;
    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    RANK_TRY(self, symm_alloc(b.w, 4096, &x));
    RANK_TRY(self, symm_graph_begin(b.s));
    const symm_status refused = symm_alloc(b.w, 4096, &p);
    RANK_TRY(self, symm_all_reduce(b.w, x, x, 1024, SYMM_FLOAT32, SYMM_SUM, NULL, b.s));
    RANK_TRY(self, symm_graph_end(b.s, &graph));
    CHECK_RANK(self, refused == SYMM_ERROR_STATE);
    RANK_TRY(self, symm_graph_launch(graph, b.s));
    RANK_TRY(self, symm_synchronize(b.w, b.s));
out:
    symm_graph_destroy(graph);
    bench_close(&b);
}

START_TEST(collective_calls_are_refused_in_a_capture_that_goes_on)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, refuse_in_capture, NULL, 60);
}
END_TEST

static void look_at_libraries(struct rank *self, void *arg)
{
    struct bench b = {0};
    char line[512];
    FILE *maps = NULL;
    (void)arg;
    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    RANK_TRY(self, exercise_group(self, b.ctx, b.w, 1));
    maps = fopen("/proc/self/maps", "re");
    CHECK_RANK(self, maps);
    while (fgets(line, sizeof line, maps))
        CHECK_RANK_MSG(self, !strstr(line, "libcudart") && !strstr(line, "libsymm_emulated"), "%s",
                       line);
out:
    if (maps)
        fclose(maps);
    bench_close(&b);
}

START_TEST(no_cudart_is_loaded_and_no_emulated_driver)
{
    NEEDS_GPUS();
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, look_at_libraries, NULL, 60);
}
END_TEST

int main(void)
{
    setenv("SYMM_DRIVER", "cuda", 1);
    setenv("SYMM_MULTICAST", "0", 1);
    ngpus = gpus_count(MOST);
    Suite *suite = suite_create("gpu");
    /* The driver keeps descriptors, threads and mappings of its own: cases count by themselves. */
    TCase *joining = test_case_uncounted(suite, "joining", 180);
    tcase_add_test(joining, worlds_of_every_size_sum_right);
    tcase_add_test(joining, ranks_are_threads_of_one_process);
    tcase_add_test(joining, a_world_is_made_again_and_again_and_leaves_no_descriptors);
    tcase_add_test(joining, no_cudart_is_loaded_and_no_emulated_driver);
    TCase *memory = test_case_uncounted(suite, "memory", 180);
    tcase_add_test(memory, random_allocations_are_given_back_to_the_device);
    tcase_add_test(memory, put_and_get_move_every_byte);
    TCase *signals = test_case_uncounted(suite, "signals", 120);
    tcase_add_test(signals, a_ring_of_puts_and_signals_is_replayed);
    tcase_add_test(signals, a_ring_of_puts_and_signals_is_right_across_the_wrap);
    tcase_add_test(signals, a_users_kernel_meets_the_other_ranks_ten_thousand_times);
    tcase_add_test(signals, a_users_kernel_gets_much_shared_memory);
    TCase *sums = test_case_uncounted(suite, "all-reduce", 180);
    tcase_add_loop_test(sums, sums_are_right_in_place_and_through_staging, 0, NALGOS);
    tcase_add_test(sums, two_groups_on_two_streams_replay_their_graphs_a_thousand_times);
    TCase *deaths = test_case_uncounted(suite, "deaths", 120);
    tcase_add_test(deaths, the_others_survive_a_rank_killed_in_mid_run);
    tcase_add_test(deaths, the_others_go_on_after_a_rank_has_given_up);
    tcase_add_test(deaths, a_stalled_wait_ends_and_names_whom_it_waits_for);
    tcase_add_test(deaths, collective_calls_are_refused_in_a_capture_that_goes_on);
    return test_main(suite);
}
