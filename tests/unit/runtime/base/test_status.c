/* Failure texts: what they hold, how they are cut, whose they are. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include "runtime/base/status.h"
#include "test.h"

TEST_GROUP(status, 10);

TEST(status, a_failure_has_status_and_text)
{
    ck_assert_int_eq(symm__fail(SYMM_ERROR_PEER, "rank %d died", 3), SYMM_ERROR_PEER);
    ck_assert_str_eq(symm__failure_text(), "rank 3 died");
}

TEST(status, errno_is_named_and_told_apart)
{
    ck_assert_int_eq(symm__fail_errno(ENOENT, "opening %s", "x"), SYMM_ERROR_SYSTEM);
    ck_assert_str_eq(symm__failure_text(), "opening x: No such file or directory (2)");
    ck_assert_int_eq(symm__fail_errno(ENOMEM, "mmap"), SYMM_ERROR_MEMORY);
}

TEST(status, text_can_be_put_in_front)
{
    symm__fail(SYMM_ERROR_DRIVER, "cuMemMap");
    ck_assert_int_eq(symm__fail_in(SYMM_ERROR_DRIVER, "symm_alloc(%d): ", 7), SYMM_ERROR_DRIVER);
    ck_assert_str_eq(symm__failure_text(), "symm_alloc(7): cuMemMap");
}

TEST(status, arguments_may_be_the_text_itself)
{
    symm__fail(SYMM_ERROR_PEER, "rank 1 died");
    symm__fail(SYMM_ERROR_PEER, "rank 0: %s, %s", symm__failure_text(), symm__failure_text());
    ck_assert_str_eq(symm__failure_text(), "rank 0: rank 1 died, rank 1 died");
    ck_assert_int_eq(symm__fail_on(2, 2, SYMM_ERROR_PEER, "%s: ", "symm_check"), SYMM_ERROR_PEER);
    ck_assert_str_eq(symm__failure_text(),
                     "symm_check: rank 0: rank 1 died, rank 1 died (on rank 2)");
}

TEST(status, a_rank_of_a_group_has_both_numbers)
{
    symm__fail(SYMM_ERROR_ARGUMENT, "dst is NULL");
    symm__fail_on(0, 2, SYMM_ERROR_ARGUMENT, "symm_put: ");
    ck_assert_str_eq(symm__failure_text(), "symm_put: dst is NULL (on rank 0, world rank 2)");
}

TEST(status, long_texts_are_cut)
{
    char text[4000];

    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    symm__fail(SYMM_ERROR_ARGUMENT, "%s", text);
    ck_assert_uint_eq(strlen(symm__failure_text()), SYMM_TEXT_MAX - 1);
    symm__fail_errno(ENOENT, "%s", text);
    ck_assert_uint_eq(strlen(symm__failure_text()), SYMM_TEXT_MAX - 1);
    symm__fail_in(SYMM_ERROR_ARGUMENT, "front: ");
    ck_assert_uint_eq(strlen(symm__failure_text()), SYMM_TEXT_MAX - 1);
    ck_assert_int_eq(strncmp(symm__failure_text(), "front: xxx", 10), 0);
}

static void *fail_elsewhere(void *unused)
{
    (void)unused;
    const bool fresh = strcmp(symm__failure_text(), "no failure") == 0;
    symm__fail(SYMM_ERROR_STATE, "elsewhere");
    return fresh ? NULL : "the text of another thread";
}

TEST(status, texts_belong_to_threads)
{
    pthread_t thread;
    void *wrong;

    symm__fail(SYMM_ERROR_STATE, "here");
    ck_assert_int_eq(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    pthread_join(thread, &wrong);
    ck_assert_msg(!wrong, "%s", (const char *)wrong);
    ck_assert_str_eq(symm__failure_text(), "here");
}

TEST(status, every_status_has_a_name)
{
    ck_assert_str_eq(symm__status_name(SYMM_OK), "SYMM_OK");
    ck_assert_str_eq(symm__status_name(SYMM_ERROR_VERSION), "SYMM_ERROR_VERSION");
    ck_assert_str_eq(symm__status_name((symm_status)7), "an unknown status");
}
