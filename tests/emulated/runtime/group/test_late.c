/*
 * Whom a timeout names. One of three ranks makes a mistake and goes on to destroy its context. It
 * waits there for the others, which wait for it on their devices: every rank's text must name the
 * rank that is elsewhere, and what the others wait for. And what a rank is said to have done that
 * is gone.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "exercise.h"
#include "kernels.h"
#include "test.h"
#include "world.h"

enum { NRANKS = 3, BAD = 2, COUNT = 1000, NHOSTS = 2 };

struct mistake {
    enum { SKIPS_A_CALL, LAUNCHES_FEWER_BLOCKS, REPLAYS_ONCE_LESS } kind;
    int late_ms;         /* of the rank, on its way to destroy */
    bool no_synchronize; /* the others go on to destroy, too */
    bool in_a_group;     /* in which the ranks have other numbers */
};

struct bench {
    symm_context *ctx;
    symm_group *group;
    symm_stream s;
    symm_signal_pad *pad;
    symm_kernel *kernel;
    symm_graph graph;
    float *x;
};

static symm_status open_bench(struct rank *self, struct bench *b, bool in_a_group)
{
    static const int turned[] = {2, 1, 0};

    RANK_TRY(self, rank_join(self, &b->ctx));
    b->group = symm_context_world(b->ctx);
    if (in_a_group)
        RANK_TRY(self, symm_group_create(b->group, NRANKS, turned, &b->group));
    RANK_TRY(self, symm_alloc(b->group, COUNT * sizeof *b->x, (void **)&b->x));
    RANK_TRY(self, symm_signal_pad_alloc(b->group, 8, &b->pad));
    RANK_TRY(self, symm_kernel_load(b->ctx, &test_kernels, "test_ring", &b->kernel));
    RANK_TRY(self, symm_stream_create(b->ctx, &b->s));
out:
    return self->report->status;
}

static symm_status add_up(struct bench *b)
{
    return symm_all_reduce(b->group, b->x, b->x, COUNT, SYMM_FLOAT32, SYMM_SUM, NULL, b->s);
}

static symm_status ring(struct rank *self, struct bench *b, uint32_t blocks)
{
    test_ring_args a = {.pad = b->pad, .rounds = 1};
    const symm_grid grid = {.blocks = blocks, .threads = 32};

    RANK_TRY(self, symm_group_view(b->group, &a.view));
    RANK_TRY(self, symm_alloc(b->group, 4096 * sizeof(float), (void **)&a.cells));
    RANK_TRY(self, symm_device_alloc(b->ctx, 4096, (void **)&a.wrong));
    RANK_TRY(self, symm_launch(b->group, b->kernel, &grid, &a, sizeof a, b->s));
out:
    return self->report->status;
}

/* Everyone's work, of which the bad rank leaves something out. */
static symm_status work(struct rank *self, struct bench *b, const struct mistake *how)
{
    const bool bad = self->rank == BAD;

    RANK_TRY(self, add_up(b));
    RANK_TRY(self, symm_synchronize(b->group, b->s));
    if (how->kind == SKIPS_A_CALL && !bad)
        RANK_TRY(self, add_up(b));
    if (how->kind == LAUNCHES_FEWER_BLOCKS)
        RANK_TRY(self, ring(self, b, bad ? 2 : 4));
    if (how->kind == REPLAYS_ONCE_LESS) {
        RANK_TRY(self, symm_graph_begin(b->s));
        RANK_TRY(self, add_up(b));
        RANK_TRY(self, symm_graph_end(b->s, &b->graph));
        for (int i = 0; i < (bad ? 2 : 3); i++)
            RANK_TRY(self, symm_graph_launch(b->graph, b->s));
    }
out:
    return self->report->status;
}

static void err(struct rank *self, void *arg)
{
    const struct mistake *how = arg;
    struct bench b = {.ctx = NULL};

    if (open_bench(self, &b, how->in_a_group) != SYMM_OK || work(self, &b, how) != SYMM_OK)
        goto out;
    if (self->rank == BAD) {
        RANK_TRY(self, symm_synchronize(b.group, b.s));
        pause_ms(how->late_ms);
    } else if (!how->no_synchronize) {
        rank_note(self, symm_synchronize(b.group, b.s));
    }
out:
    symm_graph_destroy(b.graph);
    symm_stream_destroy(b.s);
    if (self->rank == BAD || how->no_synchronize)
        rank_note(self, symm_context_destroy(b.ctx));
    else
        symm_context_destroy(b.ctx);
}

static void assert_says(const struct rank_report *r, const char *part, bool says)
{
    ck_assert_msg((strstr(r->text, part) != NULL) == says, "rank %d: %s \"%s\" in: %s", r->rank,
                  says ? "no" : "a", part, r->text);
}

static void expect_blame(struct mistake how)
{
    const char *waits_in =
        how.kind == LAUNCHES_FEWER_BLOCKS
            ? " waits in symm_launch(test_ring, 4 blocks, 32 threads) (after call "
            : ": symm_all_reduce(";
    struct rank_report reports[NRANKS];

    setenv("SYMM_CHECK", "0", 1);
    setenv("SYMM_TIMEOUT_MS", "1500", 1);
    ranks_run(NRANKS, RANKS_AS_PROCESSES, err, &how, reports, 60);
    ranks_assert_clean(reports, NRANKS);
    for (int r = 0; r < NRANKS; r++) {
        /* The end of the world may come before that of the group. */
        if (!how.in_a_group)
            ck_assert_int_eq(reports[r].status, SYMM_ERROR_TIMEOUT);
        assert_says(&reports[r], "did not reach", false);
        assert_says(&reports[r], " waits in ", true);
        assert_says(&reports[r], waits_in, true);
        assert_says(&reports[r], " for rank 2, ", true);
        assert_says(&reports[r], ", since ", true);
        assert_says(&reports[r], "rank 2 is in symm_context_destroy()", true);
        assert_says(&reports[r], "rank 2 waits", false);
        if (how.kind == LAUNCHES_FEWER_BLOCKS) {
            assert_says(&reports[r], ", after symm_launch(test_ring, 2 blocks, 32 threads)", true);
            assert_says(&reports[r], "expected ", true);
        }
    }
}

TEST_GROUP(mistakes, 60);

static const struct mistake mistakes[] = {
    {.kind = SKIPS_A_CALL},
    {.kind = SKIPS_A_CALL, .no_synchronize = true}, /* named by ranks in destroy */
    {.kind = SKIPS_A_CALL, .late_ms = 700},         /* named by devices */
    {.kind = SKIPS_A_CALL, .in_a_group = true},
    {.kind = LAUNCHES_FEWER_BLOCKS},
    {.kind = REPLAYS_ONCE_LESS},
};

/* Each mistake on a host as it is, and on a busy one. */
TEST_LOOP(mistakes, the_rank_that_makes_the_mistake_is_named, 0,
          NHOSTS *(int)(sizeof mistakes / sizeof mistakes[0]))
{
    setenv("SYMM_EMULATED_BUSY", _i % NHOSTS ? "1" : "0", 1);
    expect_blame(mistakes[_i / NHOSTS]);
}

/* ---- Slow allocations ---- */

static int slow_ms; /* how long the next memory takes */

/* The library's emulated device gets its memory here. */
__attribute__((visibility("default"))) int memfd_create(const char *name, unsigned flags)
{
    pause_ms(slow_ms);
    return (int)syscall(SYS_memfd_create, name, flags);
}

/* Each rank gets its memory after ms[rank] milliseconds. */
struct slow {
    int ms[2];
    symm_status want;
};

WORLD_RANK(allocate_slowly)
{
    const struct slow *slow = arg;
    void *p = NULL;

    slow_ms = slow->ms[self->rank];
    RANK_EXPECT(self, slow->want, symm_alloc(world, (size_t)1 << 24, &p));
out:
    slow_ms = 0;
}

TEST_GROUP(slow, 60);

TEST(slow, a_rank_that_still_allocates_has_come)
{
    struct slow slow = {{0, 1900}, SYMM_ERROR_TIMEOUT};
    struct rank_report reports[2];

    setenv("SYMM_TIMEOUT_MS", "1500", 1);
    ranks_run(2, RANKS_AS_PROCESSES, allocate_slowly, &slow, reports, 30);
    ranks_assert_clean(reports, 2);
    for (int r = 0; r < 2; r++) {
        assert_says(&reports[r], "rank 1 is still working in symm_alloc(16777216 bytes)", true);
        assert_says(&reports[r], "rank 0 is in symm_alloc(16777216 bytes): share since ", true);
        assert_says(&reports[r], "did not reach", false);
    }
}

TEST(slow, a_wait_begins_when_a_rank_has_its_memory)
{
    struct slow slow = {{1650, 1800}, SYMM_OK};

    setenv("SYMM_TIMEOUT_MS", "1500", 1);
    ranks_run_ok(2, RANKS_AS_PROCESSES, allocate_slowly, &slow, 30);
}

TEST_GROUP(exits, 60);

/* ---- Exits ---- */

WORLD_TEST(exits, a_rank_that_exits_is_not_called_dead, NRANKS, .lost = 1u << BAD)
{
    if (self->rank == BAD)
        exit(0);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "rank 2 (pid ", symm_exchange(world, NULL, 0, NULL));
    RANK_TEXT(self, ") exited without destroying its context");
out:;
}
