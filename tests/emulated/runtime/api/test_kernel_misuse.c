/*
 * Kernels that do what they may not: the emulated driver names the rule, the kernel, the thread and
 * the value, the launch fails as one of a GPU, and the other ranks hear of it. And views that
 * symm_group_view() has not filled in.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <symm/detail/emulated.h>
#include <symm/stream.h>
#include "emulated.h"
#include "kernels.h"
#include "ranks.h"
#include "test.h"

enum { NRANKS = 3, CHANNELS = 4, OFFENDER = 1, NBYTES = 64 };

struct bench {
    symm_context *ctx;
    symm_group *world;
    symm_stream s;
    symm_kernel *kernel;
    test_misuse_args a;
};

static symm_status bench_open(struct rank *self, struct bench *b)
{
    RANK_TRY(self, rank_join(self, &b->ctx));
    b->world = symm_context_world(b->ctx);
    RANK_TRY(self, symm_kernel_load(b->ctx, &test_kernels, "test_misuse", &b->kernel));
    RANK_TRY(self, symm_stream_create(b->ctx, &b->s));
    RANK_TRY(self, symm_signal_pad_alloc(b->world, CHANNELS, &b->a.pad));
    RANK_TRY(self, symm_alloc(b->world, NBYTES, (void **)&b->a.good));
    RANK_TRY(self, symm_fill(b->a.good, 0, NBYTES, b->s));
    RANK_TRY(self, symm_group_view(b->world, &b->a.view));
    b->a.other = b->a.view;
    b->a.offender = OFFENDER;
    b->a.data = b->a.good;
out:
    return self->report->status;
}

static void bench_close(struct bench *b)
{
    symm_kernel_unload(b->kernel);
    symm_stream_destroy(b->s);
    symm_context_destroy(b->ctx);
}

/* A RANKS_TEST whose function has the bench `b`. */
#define BENCH_TEST(group, name, ...)                                                               \
    RANKS_TEST_WITH(group, name, struct bench, b, bench_open, bench_close, __VA_ARGS__)

static symm_status bench_launch(struct bench *b)
{
    return symm_launch(b->world, b->kernel, &(symm_grid){.blocks = 1, .threads = 32}, &b->a,
                       sizeof b->a, b->s);
}

enum what { A_CHANNEL, A_RANK, ZERO_VIEW, NO_VIEW, HOST_ARRAY };

static const struct misuse {
    enum test_misuse misuse;
    enum what what;
    int value;        /* of the channel or rank */
    const char *rule; /* part of the line */
} misuses[] = {
    {TEST_MISUSE_SIGNAL, A_CHANNEL, CHANNELS, "channel is 4; the pad has channels 0 to 3"},
    {TEST_MISUSE_SIGNAL, A_CHANNEL, 9, "channel is 9; the pad has channels 0 to 3"},
    {TEST_MISUSE_SIGNAL, A_CHANNEL, -1, "channel is -1"},
    {TEST_MISUSE_WAIT, A_CHANNEL, 7, "channel is 7; the pad has channels 0 to 3"},
    {TEST_MISUSE_BARRIER, A_CHANNEL, CHANNELS, "channel is 4; the pad has channels 0 to 3"},
    {TEST_MISUSE_GRID_SYNC, A_CHANNEL, 6, "channel is 6; the pad has channels 0 to 3"},
    {TEST_MISUSE_EPOCH, A_CHANNEL, 5, "channel is 5; the pad has channels 0 to 3"},
    {TEST_MISUSE_SIGNAL, A_RANK, NRANKS, "symm_dev_signal: to is 3; the group has ranks 0 to 2"},
    {TEST_MISUSE_SIGNAL, A_RANK, -2, "symm_dev_signal: to is -2; the group has ranks 0 to 2"},
    {TEST_MISUSE_WAIT, A_RANK, 71, "symm_dev_wait: from is 71; the group has ranks 0 to 2"},
    {TEST_MISUSE_PEER, A_RANK, NRANKS, "symm_dev_peer: rank is 3; the group has ranks 0 to 2"},
    {TEST_MISUSE_SIGNAL, ZERO_VIEW, 0, "the view is all zeros"},
    {TEST_MISUSE_WAIT, ZERO_VIEW, 0, "the view is all zeros"},
    {TEST_MISUSE_BARRIER, ZERO_VIEW, 2, "the view is all zeros"},
    {TEST_MISUSE_GRID_SYNC, ZERO_VIEW, 2, "the view is all zeros"},
    {TEST_MISUSE_PEER, ZERO_VIEW, 0, "the view is all zeros"},
    {TEST_MISUSE_ABORTED, ZERO_VIEW, 0, "the view is all zeros"},
    {TEST_MISUSE_ARRIVE, ZERO_VIEW, 2, "the view is all zeros"},
    {TEST_MISUSE_WAIT_ALL, ZERO_VIEW, 2, "the view is all zeros"},
    {TEST_MISUSE_HAS_MULTICAST, ZERO_VIEW, 0, "the view is all zeros"},
    {TEST_MISUSE_MULTICAST, ZERO_VIEW, 0, "the view is all zeros"},
    {TEST_MISUSE_SUM, ZERO_VIEW, 0, "the view is all zeros"},
    {TEST_MISUSE_STORE_ALL, ZERO_VIEW, 0, "the view is all zeros"},
#ifdef __x86_64__ /* others divide by zero without a word, as GPUs do */
    {TEST_MISUSE_DIVIDE, ZERO_VIEW, 0, "an integer division by zero"},
#endif
    {TEST_MISUSE_BARRIER, NO_VIEW, 2, "the view is of no group: rank 1 of 99"},
    {TEST_MISUSE_LOAD, HOST_ARRAY, 0, "is memory of the host"},
    {TEST_MISUSE_LOAD_ONE, HOST_ARRAY, 0, "is memory of the host"},
    {TEST_MISUSE_STORE, HOST_ARRAY, 0, "is memory of the host"},
    {TEST_MISUSE_STORE_ONE, HOST_ARRAY, 0, "is memory of the host"},
    {TEST_MISUSE_ADD, HOST_ARRAY, 0, "is memory of the host"},
    {TEST_MISUSE_COPY, HOST_ARRAY, 0, "is memory of the host"},
    {TEST_MISUSE_BULK, A_CHANNEL, 3, "misaligned address"},
    {TEST_MISUSE_BULK_GLOBAL, A_CHANNEL, 0, "is not in shared memory of the block"},
};
enum { MISUSES = sizeof misuses / sizeof misuses[0] };

static const char *error_of(const struct misuse *m)
{
    if (m->misuse == TEST_MISUSE_BULK)
        return "MISALIGNED_ADDRESS";
    return m->misuse == TEST_MISUSE_DIVIDE ? "LAUNCH_FAILED" : "ILLEGAL_ADDRESS";
}

static void prepare(test_misuse_args *a, const struct misuse *m, uint32_t *host)
{
    a->misuse = m->misuse;
    a->channel = m->what == A_RANK ? 2 : m->value;
    a->rank = m->what == A_RANK ? m->value : 0;
    if (m->what == ZERO_VIEW)
        a->other = (symm_view){0};
    if (m->what == NO_VIEW)
        a->other.nranks = 99;
    if (m->what == HOST_ARRAY)
        a->data = host;
}

/* The offender's launch fails; the others wait for its signal, and are told of its device. */
RANK_WITH(misuse, struct bench, b, bench_open, bench_close)
{
    const struct misuse *m = arg;
    _Alignas(16) uint32_t host[4] = {0};
    prepare(&b->a, m, host);
    RANK_TRY(self, bench_launch(b));
    if (self->rank != OFFENDER) {
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "rank 1: its device has failed",
                         symm_synchronize(b->world, b->s));
        goto out;
    }
    RANK_EXPECT_TEXT(self, SYMM_ERROR_DRIVER, error_of(m), symm_synchronize(b->world, b->s));
    const char *const line = emulated_last_rule();
    CHECK_RANK_MSG(self, strncmp(line, "symm-emulated[rank 1]: test_misuse: rule: ", 42) == 0, "%s",
                   line);
    CHECK_RANK_MSG(self, strstr(line, m->rule), "no \"%s\" in: %s", m->rule, line);
    CHECK_RANK_MSG(self, strstr(line, ",0,0) of block (0,0,0)"), "%s", line);
    CHECK_RANK(self, host[0] == 0);
out:;
}

TEST_GROUP(rules, 30);

TEST_LOOP(rules, a_kernels_mistake_is_named_and_ends_the_group, 0, MISUSES)
{
    ranks_run_ok(NRANKS, RANKS_AS_PROCESSES, misuse, (void *)(uintptr_t)&misuses[_i], 20);
}

TEST_LOOP(rules, weakly_ordered_memory_makes_no_difference, 0, MISUSES)
{
    if (TEST_TSAN)
        TEST_SKIP("memory is as strong as the machine's under ThreadSanitizer");
    setenv("SYMM_EMULATED_WEAK", "1", 1);
    ranks_run_ok(NRANKS, RANKS_AS_PROCESSES, misuse, (void *)(uintptr_t)&misuses[_i], 20);
}

/* What is right on the last channel, with the last rank, and with the host's memory. */
BENCH_TEST(rules, correct_kernels_go_on, NRANKS, .env = {{"SYMM_EMULATED_PAGEABLE", "1"}})
{
    _Alignas(16) uint32_t host[4] = {0};
    b->a.data = host;
    for (int m = TEST_MISUSE_NONE; m <= TEST_MISUSE_DIVIDE; m++) {
        if (m == TEST_MISUSE_WAIT || m == TEST_MISUSE_WAIT_ALL || m == TEST_MISUSE_BARRIER)
            continue; /* nobody signals; all ranks would have to come */
        b->a.misuse = m;
        /* What counts on a channel has it for itself. */
        b->a.channel = m == TEST_MISUSE_SIGNAL || m == TEST_MISUSE_GRID_SYNC ? CHANNELS - 1 : 2;
        b->a.rank = NRANKS - 1;
        RANK_TRY(self, bench_launch(b));
    }
    RANK_TRY(self, symm_synchronize(b->world, b->s));
    CHECK_RANK(self, host[0] == (self->rank == OFFENDER));
out:;
}

/* Memory of the host in the place of device memory that a block of this thread has accessed. */
BENCH_TEST(rules, memory_of_the_host_in_the_place_of_freed_device_memory_is_found_out, 1)
{
    enum { PAGE = 4096 };
    void *device = NULL, *host = MAP_FAILED;
    b->a.offender = 0;
    b->a.misuse = TEST_MISUSE_LOAD_ONE;
    RANK_TRY(self, symm_device_alloc(b->ctx, PAGE, &device));
    b->a.data = device;
    RANK_TRY(self, bench_launch(b));
    RANK_TRY(self, symm_synchronize(b->world, b->s));
    symm_device_free(b->ctx, device);
    host = mmap(device, PAGE, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK_RANK(self, host == device);
    RANK_TRY(self, bench_launch(b));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_DRIVER, "ILLEGAL_ADDRESS", symm_synchronize(b->world, b->s));
out:
    if (host != MAP_FAILED)
        munmap(host, PAGE);
}

/* ---- views ---- */

static symm_status launch(struct bench *b, const char *name, const void *args, size_t nbytes)
{
    symm_kernel *kernel = NULL;
    symm_status st = symm_kernel_load(b->ctx, &test_kernels, name, &kernel);
    if (st == SYMM_OK)
        st = symm_launch(b->world, kernel, &(symm_grid){.blocks = 1, .threads = 32}, args, nbytes,
                         b->s);
    const symm_status done = st == SYMM_OK ? symm_synchronize(b->world, b->s) : SYMM_OK;
    symm_kernel_unload(kernel);
    return st == SYMM_OK ? done : st;
}

TEST_GROUP(views, 30);

BENCH_TEST(views, a_view_that_is_not_filled_in_is_refused_at_the_launch, 2)
{
    const symm_view none = {0};
    b->a.view = none;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "the view in args is all zeros: fill it in with",
                     bench_launch(b));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "symm_launch: the view in args", bench_launch(b));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "symm_group_view",
                     launch(b, "test_only_view", &none, sizeof none));
    b->a.view = b->a.other;
    b->a.view.abi = 9;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_VERSION, "the view in args has interface 9, this library 1",
                     bench_launch(b));
    memset(&b->a.view, 0xa5, sizeof b->a.view);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_VERSION, "symm_group_view", bench_launch(b));
    b->a.view = b->a.other;
    RANK_TRY(self, bench_launch(b));
    RANK_TRY(self, launch(b, "test_only_view", &b->a.view, sizeof b->a.view));
    const test_named_args named = {.group = b->a.view};
    RANK_TRY(self, launch(b, "test_named_view", &named, sizeof named));
out:;
}

/* symm_launch does not know a view by another name: its kernel does. */
BENCH_TEST(views, a_view_by_another_name_is_found_out_by_its_kernel, 1)
{
    const test_named_args named = {.number = 1};
    RANK_EXPECT_TEXT(self, SYMM_ERROR_DRIVER, "ILLEGAL_ADDRESS",
                     launch(b, "test_named_view", &named, sizeof named));
    const char *const line = emulated_last_rule();
    CHECK_RANK_MSG(self, strstr(line, "test_named_view: rule: the view is all zeros"), "%s", line);
out:;
}
