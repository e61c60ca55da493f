/*
 * The binary interface between kernels and the library, which tests/abi cannot see: members stay at
 * their offsets. symm_launch refuses a view of another version.
 */
#include <symm/detail/emulated.h>
#include <symm/detail/image.h>
#include <symm/detail/wait_record.h>
#include <symm/stream.h>
#include "kernels.h"
#include "test.h"
#include "world.h"

/* Version 1, member by member. New members come behind, or out of the reserved ones. */
#define AT(type, member, offset)                                                                   \
    _Static_assert(offsetof(type, member) == (offset), #type "." #member " has moved")
#define SIZE(type, nbytes) _Static_assert(sizeof(type) == (nbytes), #type " has another size")

_Static_assert(SYMM_VIEW_ABI == 1, "a new version: new offsets below");
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
AT(struct symm_emulated_kernel, registers, 28);
AT(struct symm_emulated_kernel, min_blocks, 30);
SIZE(struct symm_emulated_module, 56);
AT(struct symm_emulated_module, abi, 8);
AT(struct symm_emulated_module, kernel_nbytes, 12);
AT(struct symm_emulated_module, first, 16);
AT(struct symm_emulated_module, last, 24);
AT(struct symm_emulated_module, ops, 32);
AT(struct symm_emulated_module, hopper, 40);
AT(struct symm_emulated_module, static_shared, 48);
SIZE(struct symm_emulated_thread, 48);
AT(struct symm_emulated_ops, abi, 0);
AT(struct symm_emulated_ops, self, 8);
AT(struct symm_emulated_ops, sync_threads, 16);
AT(struct symm_emulated_ops, yield, 24);
AT(struct symm_emulated_ops, warp_exchange, 32);
AT(struct symm_emulated_ops, replicas, 40);
AT(struct symm_emulated_ops, home, 48);
AT(struct symm_emulated_ops, fault, 56);
AT(struct symm_emulated_ops, dynamic_shared, 104);
AT(struct symm_emulated_ops, clock_ns, 112);
AT(struct symm_emulated_ops, pdl, 120);
_Static_assert(sizeof(struct symm_emulated_ops) >= 128, "the driver's functions");

TEST_GROUP(kernels, 20);

WORLD_TEST(kernels, a_view_of_another_version_is_refused, 1)
{
    symm_kernel *kernel = NULL;
    test_ring_args a = {.rounds = 0};

    RANK_TRY(self, symm_kernel_load(ctx, &test_kernels, "test_ring", &kernel));
    RANK_TRY(self, symm_group_view(world, &a.view));
    a.view.abi = SYMM_VIEW_ABI + 1;
    RANK_EXPECT_TEXT(
        self, SYMM_ERROR_VERSION, "the view in args has interface 2, this library 1",
        symm_launch(world, kernel, &(symm_grid){.blocks = 1, .threads = 1}, &a, sizeof a, s));
out:
    symm_kernel_unload(kernel);
}
