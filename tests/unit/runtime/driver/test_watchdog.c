/* Calls that may not come back: waited for, given up, and cleaned up after if they do come back. */
#include <semaphore.h>
#include <stdlib.h>
#include "runtime/driver/watchdog.h"
#include "test.h"

struct call {
    sem_t go, dropped;
    int ran;
};

static void run(void *job)
{
    struct call *c = job;
    sem_wait(&c->go);
    c->ran++;
}

static void drop(void *job)
{
    sem_post(&((struct call *)job)->dropped);
}

static void call_init(struct call *c)
{
    *c = (struct call){.ran = 0};
    sem_init(&c->go, 0, 0);
    sem_init(&c->dropped, 0, 0);
}

TEST_GROUP(watchdog, 30);

TEST(watchdog, a_call_that_returns_is_the_callers_again)
{
    const symm_deadline deadlines[] = {SYMM_NEVER, symm__deadline_in(20000)};
    for (int i = 0; i < 2; i++) {
        struct call c;
        bool late = true;
        call_init(&c);
        sem_post(&c.go);
        ck_assert_int_eq(symm__watch(run, drop, &c, deadlines[i], &late), SYMM_OK);
        ck_assert(!late && c.ran == 1);
        ck_assert_int_ne(sem_trywait(&c.dropped), 0);
    }
}

TEST(watchdog, a_call_that_does_not_is_given_up_and_dropped_when_it_does)
{
    struct call c;
    bool late = false;
    call_init(&c);
    const int64_t start = symm__now_us();
    ck_assert_int_eq(symm__watch(run, drop, &c, symm__deadline_in(50), &late), SYMM_OK);
    const int64_t took = symm__now_us() - start;
    ck_assert(late);
    ck_assert_msg(took >= 50000 && took < 2000000, "%lld us", (long long)took);
    ck_assert_int_eq(c.ran, 0);
    sem_post(&c.go);
    ck_assert_int_eq(sem_wait(&c.dropped), 0);
    ck_assert_int_eq(c.ran, 1);
}
