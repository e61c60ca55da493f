/* The harness: leaks on purpose are caught, ranks that hang are named. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "abi/cuda_driver.h"
#include "leaks.h"
#include "ranks.h"
#include "reference.h"
#include "test.h"

static void assert_caught(const struct leaks *before, const char *what)
{
    char text[512];
    ck_assert(!leaks_none_since(before, text, sizeof text));
    ck_assert_msg(strstr(text, what), "no \"%s\" in: %s", what, text);
}

static void assert_none(const struct leaks *before)
{
    char text[512];
    ck_assert_msg(leaks_none_since(before, text, sizeof text), "%s", text);
}

TEST_GROUP(leaks, 20);

TEST(leaks, a_descriptor_left_open_is_caught)
{
    struct leaks before;
    leaks_take(&before);
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_caught(&before, "1 descriptors");
    close(fd);
    assert_none(&before);
}

TEST(leaks, a_shared_mapping_left_behind_is_caught)
{
    struct leaks before;
    leaks_take(&before);
    const int fd = memfd_create("harness", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, 65536), 0);
    void *at = mmap(NULL, 65536, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert(at != MAP_FAILED);
    close(fd);
    assert_caught(&before, "1 mappings");
    munmap(at, 65536);
    assert_none(&before);
}

TEST(leaks, reserved_address_space_left_behind_is_caught)
{
    const size_t nbytes = (size_t)4 << 30;
    struct leaks before;
    if (!leaks_sees_all())
        TEST_SKIP("a sanitizer has threads and reservations of its own");
    leaks_take(&before);
    void *at = mmap(NULL, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert(at != MAP_FAILED);
    assert_caught(&before, "1 reservations");
    munmap(at, nbytes);
    assert_none(&before);
}

static void *sleep_on(void *arg)
{
    pthread_mutex_lock(arg);
    pthread_mutex_unlock(arg);
    return NULL;
}

TEST(leaks, a_thread_left_running_is_caught)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;
    struct leaks before;
    if (!leaks_sees_all())
        TEST_SKIP("a sanitizer has threads and reservations of its own");
    leaks_take(&before);
    pthread_mutex_lock(&lock);
    ck_assert_int_eq(pthread_create(&thread, NULL, sleep_on, &lock), 0);
    assert_caught(&before, "1 threads");
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    assert_none(&before);
}

static void leave_a_descriptor(struct rank *self, void *arg)
{
    (void)arg;
    if (self->rank == 1)
        self->report->value[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

TEST_GROUP(ranks, 30);

TEST(ranks, a_rank_that_leaves_a_descriptor_is_caught)
{
    struct rank_report reports[3];
    ranks_run(3, RANKS_AS_PROCESSES, leave_a_descriptor, NULL, reports, 20);
    ck_assert_str_eq(reports[0].leaks, "");
    ck_assert(strstr(reports[1].leaks, "1 descriptors"));
    ck_assert_str_eq(reports[2].leaks, "");
}

static void leave_a_driver_handle(struct rank *self, void *arg)
{
    CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,
                       unsigned long long);
    CUresult (*granularity)(size_t *, const CUmemAllocationProp *, int);
    CUmemGenericAllocationHandle handle;
    size_t nbytes = 0;
    symm_context *ctx = NULL;
    (void)arg;
    RANK_TRY(self, rank_join(self, &ctx));
    *(void **)&create = symm_context_driver_symbol(ctx, "cuMemCreate");
    *(void **)&granularity = symm_context_driver_symbol(ctx, "cuMemGetAllocationGranularity");
    CHECK_RANK(self, create && granularity);
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CHECK_RANK(self, granularity(&nbytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS);
    CHECK_RANK(self, create(&handle, nbytes, &prop, 0) == CUDA_SUCCESS);
out:
    symm_context_destroy(ctx);
}

TEST(ranks, a_rank_that_leaves_a_driver_handle_is_caught_twice)
{
    struct rank_report report;
    ranks_run(1, RANKS_AS_PROCESSES, leave_a_driver_handle, NULL, &report, 20);
    ck_assert_str_eq(report.failed, "");
    ck_assert_msg(strstr(report.leaks, "1 driver handles"), "%s", report.leaks);
    /* The driver has its own oracle, which fails the process at its end. */
    ck_assert_int_eq(report.end, RANK_EXITED);
    ck_assert_int_ne(report.code, 0);
}

static void hang_on_some(struct rank *self, void *arg)
{
    (void)arg;
    if (self->rank == 1 || self->rank == 3)
        pause();
}

TEST(ranks, ranks_that_hang_are_named_and_killed)
{
    struct rank_report reports[4];
    struct ranks *run = ranks_start(4, RANKS_AS_PROCESSES, hang_on_some, NULL);
    const pid_t pid = ranks_pid(run, 3);
    const char *missing = ranks_finish(run, reports, 1);
    ck_assert(missing);
    ck_assert_str_eq(missing, "not at their end after 1 s: rank 1 3");
    ck_assert_int_eq(reports[0].end, RANK_RETURNED);
    ck_assert(kill(pid, 0) == -1 && errno == ESRCH);
}

static void end_in_four_ways(struct rank *self, void *arg)
{
    (void)arg;
    if (self->rank == 1)
        exit(3);
    if (self->rank == 2)
        raise(SIGKILL);
    if (self->rank == 3)
        CHECK_RANK(self, 1 + 1 == 3);
out:
    self->report->value[0] = 10 + self->rank;
}

TEST(ranks, how_a_rank_ended_is_told_apart)
{
    struct rank_report reports[4];
    ranks_run(4, RANKS_AS_PROCESSES, end_in_four_ways, NULL, reports, 20);
    ck_assert_int_eq(reports[0].end, RANK_RETURNED);
    ck_assert_int_eq(reports[0].value[0], 10);
    ck_assert_int_eq(reports[1].end, RANK_EXITED);
    ck_assert_int_eq(reports[1].code, 3);
    ck_assert_int_eq(reports[2].end, RANK_KILLED);
    ck_assert_int_eq(reports[2].code, SIGKILL);
    ck_assert_int_eq(reports[3].end, RANK_RETURNED);
    ck_assert_msg(strstr(reports[3].failed, "1 + 1 == 3") &&
                      strstr(reports[3].failed, "test_harness.c:"),
                  "%s", reports[3].failed);
}

static void say_who_i_am(struct rank *self, void *arg)
{
    const char *rank = getenv("SYMM_RANK"), *session = getenv("SYMM_SESSION");
    self->report->value[0] = self->rank + *(int *)arg;
    self->report->value[1] = getpid();
    self->report->value[2] =
        rank && session && atoi(rank) == self->rank && !strcmp(session, self->session);
}

TEST(ranks, ranks_are_processes_or_threads_as_asked)
{
    struct rank_report reports[RANKS_MAX];
    int hundred = 100;
    ranks_run(5, RANKS_AS_PROCESSES, say_who_i_am, &hundred, reports, 20);
    for (int r = 0; r < 5; r++) {
        ck_assert_int_eq(reports[r].value[0], 100 + r);
        ck_assert_int_ne(reports[r].value[1], getpid());
        ck_assert_int_eq(reports[r].value[2], 1);
    }
    ranks_run(5, RANKS_AS_THREADS, say_who_i_am, &hundred, reports, 20);
    for (int r = 0; r < 5; r++) {
        ck_assert_int_eq(reports[r].value[0], 100 + r);
        ck_assert_int_eq(reports[r].value[1], getpid());
        ck_assert_int_eq(reports[r].value[2], 0);
    }
}

/* Runs cases in a process of its own. Returns the return code of main. */
static int run_entries_apart(struct test_entry *entries, int n)
{
    fflush(NULL);
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        const int null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        unsetenv("SYMM_TEST_SUMMARY");
        unsetenv("CK_RUN_CASE");
        setenv("CK_FORK", "yes", 1);
        test_forget();
        for (int i = 0; i < n; i++)
            test_register(&entries[i]);
        _exit(test_main());
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int run_suite_apart(TFun first, TFun second)
{
    struct test_group apart = {.name = "apart", .timeout_s = 10};
    struct test_entry entries[] = {{&apart, {"first", first, __FILE__, __LINE__}, 0, 1, 0, NULL},
                                   {&apart, {"second", second, __FILE__, __LINE__}, 0, 1, 0, NULL}};
    return run_entries_apart(entries, second ? 2 : 1);
}

TEST_BODY(apart_passes)
{
    ck_assert_int_eq(1, 1);
}

TEST_BODY(apart_leaves_a_descriptor)
{
    ck_assert_int_ge(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
}

TEST_BODY(apart_is_skipped)
{
    TEST_SKIP("nothing to see here");
}

TEST(leaks, a_case_that_leaves_a_descriptor_fails)
{
    ck_assert_int_eq(run_suite_apart(apart_passes, NULL), 0);
    ck_assert_int_eq(run_suite_apart(apart_passes, apart_leaves_a_descriptor), 1);
}

TEST(ranks, a_suite_is_skipped_when_all_of_its_cases_are)
{
    ck_assert_int_eq(run_suite_apart(apart_is_skipped, NULL), 77);
    ck_assert_int_eq(run_suite_apart(apart_is_skipped, apart_passes), 0);
}

static uint64_t *rounds; /* a bit for each round that ran, shared with the cases */

TEST_BODY(apart_notes_its_round)
{
    *rounds |= UINT64_C(1) << _i;
}

/* The rounds that run of a loop of 40 at a line of this file. */
static uint64_t rounds_of(const char *sample, int line)
{
    struct test_group apart = {.name = "apart", .timeout_s = 10};
    struct test_entry loop = {&apart, {"loop", apart_notes_its_round, __FILE__, line}, 0, 40, 0,
                              NULL};
    *rounds = 0;
    if (sample)
        setenv("SYMM_TEST_SAMPLE", sample, 1);
    else
        unsetenv("SYMM_TEST_SAMPLE");
    ck_assert_int_eq(run_entries_apart(&loop, 1), 0);
    return *rounds;
}

TEST(ranks, a_sample_of_a_loop_is_drawn)
{
    rounds = mmap(NULL, sizeof *rounds, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const uint64_t all = (UINT64_C(1) << 40) - 1, some = rounds_of("25", 1);
    ck_assert_uint_eq(rounds_of(NULL, 1), all);
    ck_assert_uint_eq(rounds_of("100", 2), all);
    ck_assert_int_eq(__builtin_popcountll(some), 10);
    ck_assert_uint_eq(rounds_of("25", 1), some);
    ck_assert_uint_ne(rounds_of("25", 2), some);
    ck_assert_int_eq(__builtin_popcountll(rounds_of("1", 3)), 1);
    munmap(rounds, sizeof *rounds);
}

TEST_GROUP(reference, 20);

TEST(reference, conversions_are_right_for_every_half)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const double h = reference_get(&bits, 0, SYMM_FLOAT16),
                     b = reference_get(&bits, 0, SYMM_BFLOAT16);
        if (!isnan(h))
            ck_assert_uint_eq(reference_half(h, SYMM_FLOAT16), bits);
        if (!isnan(b))
            ck_assert_uint_eq(reference_half(b, SYMM_BFLOAT16), bits);
    }
    ck_assert_uint_eq(reference_half(1.0f + 0x1p-11f, SYMM_FLOAT16), 0x3c00); /* ties go to even */
    ck_assert_uint_eq(reference_half(1.0f + 0x3p-11f, SYMM_FLOAT16), 0x3c02);
    ck_assert_uint_eq(reference_half(65519.0f, SYMM_FLOAT16), 0x7bff);
    ck_assert_uint_eq(reference_half(65520.0f, SYMM_FLOAT16), 0x7c00);
    ck_assert_uint_eq(reference_half(0x1p-25f, SYMM_FLOAT16), 0);
    ck_assert_uint_eq(reference_half(0x1.8p-25f, SYMM_FLOAT16), 1);
    ck_assert_uint_eq(reference_half(1.0f + 0x1p-8f, SYMM_BFLOAT16), 0x3f80);
    ck_assert_uint_eq(reference_half(1.0f + 0x3p-8f, SYMM_BFLOAT16), 0x3f82);
}

TEST(reference, the_reference_sees_one_wrong_bit)
{
    static const symm_dtype dtypes[] = {SYMM_FLOAT32, SYMM_FLOAT16, SYMM_BFLOAT16};
    enum { COUNT = 1000, RANKS = 4 };
    for (int t = 0; t < 3; t++) {
        uint8_t data[RANKS][4 * COUNT], out[4 * COUNT];
        const size_t size = symm_dtype_size(dtypes[t]);
        for (int r = 0; r < RANKS; r++)
            reference_fill(data[r], COUNT, dtypes[t], 7, r);
        for (size_t i = 0; i < COUNT; i++) {
            float sum = 0;
            for (int r = 0; r < RANKS; r++)
                sum += reference_get(data[r], i, dtypes[t]);
            reference_set(out, i, dtypes[t], sum);
        }
        ck_assert_int_eq(reference_wrong(out, 0, COUNT, dtypes[t], 7, RANKS, REFERENCE_EXACT), 0);
        ck_assert_int_eq(reference_wrong(out, 0, COUNT, dtypes[t], 7, RANKS, REFERENCE_SWITCH), 0);
        ck_assert_int_gt(reference_wrong(out, 0, COUNT, dtypes[t], 8, RANKS, REFERENCE_SWITCH),
                         COUNT / 2);
        out[10 * size] ^= 1;
        ck_assert_int_eq(reference_wrong(out, 0, COUNT, dtypes[t], 7, RANKS, REFERENCE_EXACT), 1);
        out[10 * size + size - 1] ^= 0x40;
        ck_assert_int_eq(reference_wrong(out, 0, COUNT, dtypes[t], 7, RANKS, REFERENCE_SWITCH), 1);
        ck_assert_int_eq(reference_wrong(out + size, 1, 9, dtypes[t], 7, RANKS, REFERENCE_EXACT),
                         0);
    }
}

/* By hand, apart from the way in which the reference does it. */
TEST(reference, the_reference_knows_doubles_integers_and_operations)
{
    enum { COUNT = 1000, RANKS = 3 };
    double d[RANKS][COUNT], sum[COUNT], least[COUNT], average[COUNT];
    int32_t n[RANKS][COUNT], total[COUNT], most[COUNT];
    for (int r = 0; r < RANKS; r++) {
        reference_fill(d[r], COUNT, SYMM_FLOAT64, 3, r);
        reference_fill(n[r], COUNT, SYMM_INT32, 3, r);
    }
    for (int i = 0; i < COUNT; i++) {
        sum[i] = d[0][i] + d[1][i] + d[2][i];
        average[i] = sum[i] / 3;
        least[i] = d[0][i] < d[1][i] ? d[0][i] : d[1][i];
        least[i] = d[2][i] < least[i] ? d[2][i] : least[i];
        total[i] = (int32_t)((uint32_t)n[0][i] + (uint32_t)n[1][i] + (uint32_t)n[2][i]);
        most[i] = n[0][i] > n[1][i] ? n[0][i] : n[1][i];
        most[i] = n[2][i] > most[i] ? n[2][i] : most[i];
    }
#define WRONG(array, dtype, op)                                                                    \
    reference_reduction_wrong(array, 0, COUNT, dtype, op, 3, RANKS, REFERENCE_EXACT)
    ck_assert_int_eq(WRONG(sum, SYMM_FLOAT64, SYMM_SUM), 0);
    ck_assert_int_eq(WRONG(average, SYMM_FLOAT64, SYMM_AVG), 0);
    ck_assert_int_eq(WRONG(least, SYMM_FLOAT64, SYMM_MIN), 0);
    ck_assert_int_eq(WRONG(total, SYMM_INT32, SYMM_SUM), 0);
    ck_assert_int_eq(WRONG(most, SYMM_INT32, SYMM_MAX), 0);
    ck_assert_int_gt(WRONG(least, SYMM_FLOAT64, SYMM_MAX), COUNT / 2);
    ck_assert_int_gt(WRONG(most, SYMM_INT32, SYMM_MIN), COUNT / 2);
    ck_assert_int_gt(WRONG(sum, SYMM_FLOAT64, SYMM_AVG), COUNT / 2);
    sum[5] += 0x1p-40;
    most[5] ^= 1;
    ck_assert_int_eq(WRONG(sum, SYMM_FLOAT64, SYMM_SUM), 1);
    ck_assert_int_eq(WRONG(most, SYMM_INT32, SYMM_MAX), 1);
#undef WRONG
}
