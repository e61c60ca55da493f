/* A group finds the plan of its last call, and of no other call. */
#include "collectives/planned.h"
#include "runtime/group/group.h"
#include "test.h"

TEST_GROUP(planned, 10);

static const struct symm_limits limits = {.nranks = 4,
                                          .nsms = 8,
                                          .max_threads = 1024,
                                          .compute_major = 9,
                                          .multicast_off = "off",
                                          .areas = {.packet_blocks = SYMM_BLOCKS_MAX,
                                                    .block_packets = 1024,
                                                    .block_slots = 1024,
                                                    .staging_nbytes = 1 << 20}};

static const struct symm_collective_call call = {
    .operation = SYMM_OPERATION_ALL_REDUCE, .dtype = SYMM_FLOAT32, .op = SYMM_SUM, .count = 1000};

static struct symm_group group = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void keep_one(void)
{
    struct symm_planned planned;

    symm__planned_make(&limits, &limits.areas, &call, &planned);
    symm__planned_keep(&group, &planned);
}

static void release(void)
{
    for (struct symm_attachment *at = group.attachments, *next; at; at = next) {
        next = at->next;
        at->release(at);
    }
    group.attachments = NULL;
    group.last_planned = NULL;
}

static bool finds(struct symm_collective_call other)
{
    struct symm_planned found;

    return symm__planned_find(&group, &other, &found);
}

TEST(planned, an_equal_call_has_the_same_plan)
{
    struct symm_planned made, found;

    ck_assert(!finds(call));
    keep_one();
    symm__planned_make(&limits, &limits.areas, &call, &made);
    ck_assert(symm__planned_find(&group, &call, &found));
    ck_assert(found.algorithm == made.algorithm);
    ck_assert_int_eq(found.plan.kernel, made.plan.kernel);
    ck_assert_uint_eq(found.plan.blocks, made.plan.blocks);
    ck_assert_uint_eq(found.plan.capacity, made.plan.capacity);
    ck_assert_uint_eq(found.call.count, 1000);
    release();
}

TEST(planned, no_other_call_has_it)
{
    struct symm_collective_call other[9];

    for (int i = 0; i < 9; i++)
        other[i] = call;
    other[0].operation = SYMM_OPERATION_REDUCE_SCATTER;
    other[1].algo = SYMM_ALGO_ONE_SHOT;
    other[2].flags = SYMM_SYMMETRIC;
    other[3].max_blocks = 1;
    other[4].dtype = SYMM_INT32;
    other[5].op = SYMM_MAX;
    other[6].count = 1001;
    other[7].root = 1;
    other[8].row = 10;
    keep_one();
    for (int i = 0; i < 9; i++)
        ck_assert_msg(!finds(other[i]), "call %d", i);
    ck_assert(finds(call));
    release();
}

/* The plan of a call depends on the group's areas. */
TEST(planned, a_plan_is_made_again_for_new_areas)
{
    keep_one();
    ck_assert(finds(call));
    group.full.staging = (char *)&group;
    ck_assert(!finds(call));
    keep_one();
    ck_assert(finds(call));
    group.full.staging++; /* larger ones in another place */
    ck_assert(!finds(call));
    group.full.staging = NULL;
    ck_assert(!finds(call));
    release();
}

TEST(planned, nothing_is_chosen_where_nothing_is_launched)
{
    struct symm_limits alone = limits;
    struct symm_collective_call empty = call;
    struct symm_planned planned;

    alone.nranks = 1;
    empty.count = 0;
    symm__planned_make(&alone, &limits.areas, &call, &planned);
    ck_assert(planned.algorithm == NULL);
    symm__planned_make(&limits, &limits.areas, &empty, &planned);
    ck_assert(planned.algorithm == NULL);
}
