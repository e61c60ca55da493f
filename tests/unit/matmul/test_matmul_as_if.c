/* Views and checks of products that run as if they were of more ranks. */
#include <stdlib.h>
#include "matmul/as_if.h"
#include "runtime/group/pad.h"
#include "test.h"

enum { WINDOW = 1 << 20 };

TEST_GROUP(as_if, 20);

/* A group of two ranks, of which this is `rank`. */
static void make(struct symm_group *group, int rank, int nranks)
{
    *group = (struct symm_group){.rank = rank, .nranks = nranks};
    group->view = (symm_view){.abi = SYMM_VIEW_ABI,
                              .flags = SYMM_VIEW_MULTICAST,
                              .rank = rank,
                              .nranks = nranks,
                              .multicast = 5,
                              .poison = (uint32_t *)group};
    for (int r = 0; r < nranks; r++)
        group->view.peer[r] = (r - rank) * WINDOW;
}

TEST_LOOP(as_if, this_rank_is_the_first_one, 0, 2)
{
    static struct symm_group group;
    symm_view view;

    make(&group, _i, 2);
    setenv("SYMM_MATMUL_AS_IF", "5", 1);
    ck_assert_int_eq(symm__as_if(&group, SYMM_ALL_GATHER_MATMUL, &view), SYMM_OK);
    ck_assert_int_eq(view.rank, 0);
    ck_assert_int_eq(view.nranks, 5);
    ck_assert_int_eq(view.peer[0], 0);
    ck_assert_ptr_eq(view.poison, group.view.poison);
    ck_assert_uint_eq(view.flags & SYMM_VIEW_MULTICAST, 0);
    ck_assert_int_eq(view.flags >> SYMM_VIEW_PLAYER, 1 - _i);
    for (int r = 1; r < 5; r++) {
        ck_assert_int_eq(view.peer[r], group.view.peer[1 - _i]);
        ck_assert_int_eq(symm__pad_heard_as(&view, r), 5 - r);
    }
    ck_assert_int_eq(symm__pad_heard_as(&view, 0), 0);
    symm__as_if_slots(&view, 64);
    for (int r = 1; r < 5; r++)
        ck_assert_int_eq(view.peer[r], group.view.peer[1 - _i] + 64 * (5 - r));
}

TEST(as_if, without_it_the_view_is_the_groups)
{
    static struct symm_group group;
    symm_view view;

    make(&group, 1, 3);
    unsetenv("SYMM_MATMUL_AS_IF");
    ck_assert_int_eq(symm__as_if(&group, SYMM_ALL_GATHER_MATMUL, &view), SYMM_OK);
    ck_assert_mem_eq(&view, &group.view, sizeof view);
    for (int r = 0; r < 3; r++)
        ck_assert_int_eq(symm__pad_heard_as(&view, r), 1);
    setenv("SYMM_MATMUL_AS_IF", "4", 1);
    ck_assert_int_eq(symm__as_if(&group, SYMM_MATMUL, &view), SYMM_OK);
    ck_assert_mem_eq(&view, &group.view, sizeof view);
}

/* Fails with a text. */
static void refuse(const symm_view *view, const struct symm_problem *p, const char *why)
{
    ck_assert_int_eq(symm__as_if_check(view, p), SYMM_ERROR_UNSUPPORTED);
    ck_assert_pstr_eq(symm__failure_text(), why);
}

TEST(as_if, products_that_cannot_be_are_refused)
{
    symm_view view = {.flags = SYMM_VIEW_PLAYED, .nranks = 4};
    struct symm_problem p = {
        .kind = SYMM_ALL_GATHER_MATMUL, .strategy = SYMM_STRATEGY_AUTO, .m = 101, .l = 1, .nb = 2};
    static const char parts[] =
        "SYMM_MATMUL_AS_IF is 4: m must be a multiple of the ranks, in sums and in batches";

    refuse(&view, &p, "SYMM_MATMUL_AS_IF is 4: the strategy must be fused or pipelined");
    p.strategy = SYMM_STRATEGY_UNFUSED;
    refuse(&view, &p, "SYMM_MATMUL_AS_IF is 4: the strategy must be fused or pipelined");
    p.strategy = SYMM_STRATEGY_FUSED;
    ck_assert_int_eq(symm__as_if_check(&view, &p), SYMM_OK);
    p.l = 2;
    refuse(&view, &p, parts);
    p.l = 1;
    p.kind = SYMM_MATMUL_REDUCE_SCATTER;
    refuse(&view, &p, "SYMM_MATMUL_AS_IF is 4: a product whose results are sent must have one b");
    p.nb = 1;
    refuse(&view, &p, parts);
    p.m = 100;
    ck_assert_int_eq(symm__as_if_check(&view, &p), SYMM_OK);
    view.flags = 0;
    p.strategy = SYMM_STRATEGY_AUTO;
    ck_assert_int_eq(symm__as_if_check(&view, &p), SYMM_OK);
}
