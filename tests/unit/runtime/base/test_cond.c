/* Waits end at their deadline on the monotonic clock, and before it by a signal. */
#include "runtime/base/cond.h"
#include "runtime/base/thread.h"
#include "test.h"

TEST_GROUP(cond, 10);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static bool told;

static void *tell(void *arg)
{
    pthread_mutex_lock(&lock);
    told = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    return arg;
}

TEST(cond, waits_until_the_deadline)
{
    const int64_t start = symm__now_us();
    const symm_deadline deadline = symm__deadline_in(30);

    ck_assert_int_eq(symm__cond_init(&changed), SYMM_OK);
    pthread_mutex_lock(&lock);
    while (symm__cond_wait(&changed, &lock, deadline))
        ;
    ck_assert(!symm__cond_wait(&changed, &lock, deadline));
    pthread_mutex_unlock(&lock);
    ck_assert_int_ge(symm__now_us() - start, 29000);
    pthread_cond_destroy(&changed);
}

TEST(cond, waits_for_a_signal)
{
    const symm_deadline deadlines[] = {symm__deadline_in(9000), SYMM_NEVER};

    ck_assert_int_eq(symm__cond_init(&changed), SYMM_OK);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        told = false;
        pthread_mutex_lock(&lock);
        ck_assert_int_eq(symm__thread_start(&thread, "tell", tell, NULL), SYMM_OK);
        while (!told)
            ck_assert(symm__cond_wait(&changed, &lock, deadlines[i]));
        pthread_mutex_unlock(&lock);
        pthread_join(thread, NULL);
    }
    pthread_cond_destroy(&changed);
}
