/* The record of the last kernel that has settled: what ends it. */
#include "runtime/group/settled.h"
#include "runtime/group/context.h"
#include "test.h"

TEST_GROUP(settled, 10);

static struct symm_settled record = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct symm_group groups[2];

static CUstream stream(uintptr_t handle)
{
    return (CUstream)handle;
}

static void note(int group, uintptr_t handle)
{
    symm__settled_note(&record, &groups[group], stream(handle), false);
}

static bool take(int group, uintptr_t handle)
{
    return symm__settled_take(&record, &groups[group], stream(handle), false);
}

TEST(settled, the_next_kernel_of_group_and_stream_takes_it)
{
    note(0, 100);
    ck_assert(take(0, 100));
    ck_assert(!take(0, 100));
    note(0, 100);
    ck_assert(!symm__settled_take(&record, &groups[0], stream(100), true));
    ck_assert(!take(0, 100));
}

TEST(settled, calls_of_the_stream_or_of_the_group_end_it)
{
    note(0, 100);
    ck_assert(!take(1, 100));
    ck_assert(!take(0, 100));
    note(0, 100);
    ck_assert(!take(0, 200));
    ck_assert(!take(0, 100));
}

TEST(settled, others_do_not)
{
    note(0, 100);
    ck_assert(!take(1, 200));
    ck_assert(take(0, 100));
}

/* NULL and 1 name one stream, 2 a stream of each thread. */
TEST(settled, streams_with_several_handles_have_none)
{
    for (uintptr_t handle = 0; handle < 3; handle++) {
        note(0, handle);
        ck_assert(!take(0, handle));
    }
}
