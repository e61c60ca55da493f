/*
 * The binary interface between kernels and the library: what kernels compiled against the oldest
 * headers (tests/abi) hold of it stays where it was, and they run with today's library, alone and
 * beside kernels of today. symm_launch refuses a view of another version.
 * With SYMM_DRIVER=cuda it runs on GPUs.
 */
#include <stdlib.h>
#include <string.h>
#include <symm/detail/emulated.h>
#include <symm/detail/image.h>
#include <symm/detail/wait_record.h>
#include <symm/stream.h>
#include "../../abi/kernels.h"
#include "gpus.h"
#include "ranks.h"
#include "test.h"

/* Version 1, member by member. New members come behind, or out of the reserved ones. */
#define AT(type, member, offset)                                                                   \
    _Static_assert(offsetof(type, member) == (offset), #type "." #member " has moved")
#define SIZE(type, nbytes) _Static_assert(sizeof(type) == (nbytes), #type " has another size")

_Static_assert(SYMM_VIEW_ABI == 1, "a new version: freeze its headers in tests/abi, too");
_Static_assert(SYMM_MAX_RANKS == 72 && SYMM_VIEW_MULTICAST == 1, "the view's numbers");
SIZE(symm_view, 640);
AT(symm_view, abi, 0);
AT(symm_view, flags, 4);
AT(symm_view, rank, 8);
AT(symm_view, nranks, 12);
AT(symm_view, multicast, 16);
AT(symm_view, abort, 24);
AT(symm_view, poison, 32);
AT(symm_view, record, 40);
AT(symm_view, reserved, 48);
AT(symm_view, peer, 64);

SIZE(struct symm_signal_cell, 16);
AT(struct symm_signal_cell, arrived, 0);
AT(struct symm_signal_cell, sent, 8);
AT(struct symm_signal_cell, taken, 12);
SIZE(struct symm_wait_record, 64);
AT(struct symm_wait_record, valid, 0);
AT(struct symm_wait_record, kind, 4);
AT(struct symm_wait_record, from, 8);
AT(struct symm_wait_record, channel, 12);
AT(struct symm_wait_record, expected, 16);
AT(struct symm_wait_record, seen, 20);
AT(struct symm_wait_record, pad, 24);
AT(struct symm_device_line, poison, 0);
AT(struct symm_device_line, claim, 4);
AT(struct symm_device_line, serial, 8);
_Static_assert(SYMM_WAIT_SIGNAL == 1 && SYMM_WAIT_MISMATCH == 2, "the kinds of waits");

SIZE(struct symm_image, 24);
AT(struct symm_image, abi, 0);
AT(struct symm_image, fatbin, 8);
AT(struct symm_image, emulated, 16);
SIZE(struct symm_emulated_kernel, 32);
AT(struct symm_emulated_kernel, name, 0);
AT(struct symm_emulated_kernel, run, 8);
AT(struct symm_emulated_kernel, args_nbytes, 16);
AT(struct symm_emulated_kernel, max_threads, 20);
AT(struct symm_emulated_kernel, view_at, 24);
SIZE(struct symm_emulated_module, 40);
AT(struct symm_emulated_module, abi, 8);
AT(struct symm_emulated_module, kernel_nbytes, 12);
AT(struct symm_emulated_module, first, 16);
AT(struct symm_emulated_module, last, 24);
AT(struct symm_emulated_module, ops, 32);
SIZE(struct symm_emulated_thread, 48);
AT(struct symm_emulated_ops, abi, 0);
AT(struct symm_emulated_ops, self, 8);
AT(struct symm_emulated_ops, sync_threads, 16);
AT(struct symm_emulated_ops, yield, 24);
AT(struct symm_emulated_ops, warp_exchange, 32);
AT(struct symm_emulated_ops, replicas, 40);
AT(struct symm_emulated_ops, home, 48);
AT(struct symm_emulated_ops, fault, 56);
_Static_assert(sizeof(struct symm_emulated_ops) >= 128, "the driver's functions");

extern const symm_image abi_1, abi_now;

static int ranks_here = 4;

/* Which ranks run the old kernel: a bit each. */
static const unsigned old_ranks[] = {0xf, 0x0, 0x5, 0xa, 0x1, 0xe};

static void exercise(struct rank *self, void *arg)
{
    enum { BLOCKS = 3, MOST_THREADS = 64 };
    static const uint32_t threads[] = {1, 3, 32, MOST_THREADS};
    const bool old = *(const unsigned *)arg >> self->rank & 1;
    const size_t packs = 16 * BLOCKS * MOST_THREADS;
    symm_context *ctx = NULL;
    symm_kernel *kernel = NULL;
    symm_stream s = NULL;
    symm_graph graph = NULL;
    abi_args a = {.rounds = 5};
    int32_t wrong[BLOCKS];

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *w = symm_context_world(ctx);
    RANK_TRY(self, symm_kernel_load(ctx, old ? &abi_1 : &abi_now, "abi_exercise", &kernel));
    RANK_TRY(self, symm_signal_pad_alloc(w, ABI_CHANNELS * BLOCKS, &a.pad));
    RANK_TRY(self, symm_alloc(w, packs, (void **)&a.summed));
    RANK_TRY(self, symm_alloc(w, packs, (void **)&a.given));
    RANK_TRY(self, symm_alloc(w, packs, (void **)&a.spread));
    RANK_TRY(self, symm_alloc(w, packs, (void **)&a.halves));
    RANK_TRY(self, symm_device_alloc(ctx, sizeof wrong, (void **)&a.wrong));
    RANK_TRY(self, symm_stream_create(ctx, &s));
    RANK_TRY(self, symm_group_view(w, &a.view));
    RANK_TRY(self, symm_fill(a.wrong, 0, sizeof wrong, s));
    RANK_TRY(self, symm_graph_begin(s));
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++)
        RANK_TRY(self, symm_launch(w, kernel, &(symm_grid){.blocks = BLOCKS, .threads = threads[i]},
                                   &a, sizeof a, s));
    RANK_TRY(self, symm_graph_end(s, &graph));
    for (int replay = 0; replay < 2; replay++)
        RANK_TRY(self, symm_graph_launch(graph, s));
    memset(wrong, 0xff, sizeof wrong);
    RANK_TRY(self, symm_copy(wrong, a.wrong, sizeof wrong, s));
    RANK_TRY(self, symm_synchronize(w, s));
    for (int b = 0; b < BLOCKS; b++)
        self->report->wrong += wrong[b] != 0;
    self->report->value[0] = symm_multicast_off(w) == NULL;
out:
    symm_graph_destroy(graph);
    symm_kernel_unload(kernel);
    symm_stream_destroy(s);
    symm_device_free(ctx, a.wrong);
    symm_context_destroy(ctx);
}

#define NEEDS_RANKS()                                                                              \
    do {                                                                                           \
        if (ranks_here < 2)                                                                        \
            TEST_SKIP("%d GPUs; it takes 2", ranks_here);                                          \
    } while (0)

static void run(enum ranks_mode mode, unsigned old, bool multicast)
{
    struct rank_report reports[RANKS_MAX];
    ranks_run(ranks_here, mode, exercise, &old, reports, 60);
    ranks_assert_ok(reports, ranks_here);
    for (int r = 0; r < ranks_here; r++)
        ck_assert_int_eq(reports[r].value[0], multicast);
}

/* An old image does not say where its kernels have their view: it must be at the beginning. */
static void launch_other_view(struct rank *self, void *arg)
{
    const bool old = *(const bool *)arg;
    symm_context *ctx = NULL;
    symm_kernel *kernel = NULL;
    symm_stream s = NULL;
    abi_args a = {.rounds = 0};

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *w = symm_context_world(ctx);
    RANK_TRY(self, symm_kernel_load(ctx, old ? &abi_1 : &abi_now, "abi_exercise", &kernel));
    RANK_TRY(self, symm_stream_create(ctx, &s));
    RANK_TRY(self, symm_group_view(w, &a.view));
    a.view.abi = SYMM_VIEW_ABI + 1;
    RANK_EXPECT_TEXT(
        self, SYMM_ERROR_VERSION, "the view in args has interface 2, this library 1",
        symm_launch(w, kernel, &(symm_grid){.blocks = 1, .threads = 1}, &a, sizeof a, s));
    rank_note(self, SYMM_OK);
out:
    symm_kernel_unload(kernel);
    symm_stream_destroy(s);
    symm_context_destroy(ctx);
}

START_TEST(a_view_of_another_version_is_refused)
{
    const bool old = _i;
    ranks_run_ok(1, RANKS_AS_PROCESSES, launch_other_view, (void *)(uintptr_t)&old, 20);
}
END_TEST

static bool emulated(void)
{
    const char *driver = getenv("SYMM_DRIVER");
    return !driver || strcmp(driver, "cuda") != 0;
}

/* A GPU's driver keeps threads and descriptors of a process that has used it. */
static enum ranks_mode threads_if(bool wanted)
{
    return wanted && emulated() ? RANKS_AS_THREADS : RANKS_AS_PROCESSES;
}

START_TEST(old_and_new_kernels_meet)
{
    NEEDS_RANKS();
    setenv("SYMM_MULTICAST", "0", 1);
    run(threads_if(_i % 2), old_ranks[_i], false);
}
END_TEST

START_TEST(old_and_new_kernels_meet_across_the_wrap_of_the_counters)
{
    NEEDS_RANKS();
    setenv("SYMM_MULTICAST", "0", 1);
    setenv("SYMM_EPOCH_START", "4294967280", 1);
    run(RANKS_AS_PROCESSES, old_ranks[_i], false);
}
END_TEST

START_TEST(old_and_new_kernels_meet_through_the_switch)
{
    NEEDS_RANKS();
    run(threads_if(_i % 2 == 0), old_ranks[_i], SYMM_MULTICAST);
}
END_TEST

int main(void)
{
    enum { MIXTURES = sizeof old_ranks / sizeof old_ranks[0] };
    Suite *suite = suite_create("view");
    TCase *tc = test_case(suite, "kernels", 60);

    if (!emulated())
        ranks_here = gpus_count(ranks_here);
    if (ranks_here > 0)
        tcase_add_loop_test(tc, a_view_of_another_version_is_refused, 0, 2);
    tcase_add_loop_test(tc, old_and_new_kernels_meet, 0, MIXTURES);
    tcase_add_loop_test(tc, old_and_new_kernels_meet_across_the_wrap_of_the_counters, 0, 3);
    if (emulated()) /* the switch is shared with others: on GPUs nothing here asks for it */
        tcase_add_loop_test(tc, old_and_new_kernels_meet_through_the_switch, 0, MIXTURES);
    return test_main(suite);
}
