/* A child of fork() knows that it is one, however deep, and its parent stays the process itself. */
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/base/fork_mark.h"
#include "test.h"

TEST_GROUP(fork_mark, 10);

/* The answer of a child of fork(). */
static bool child_says(const struct symm_fork_mark *mark, int depth)
{
    int status = 0;
    const pid_t pid = fork();

    if (pid == 0)
        _exit(depth > 1 ? child_says(mark, depth - 1) : symm__forked_since(mark));
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static void check_mark(const struct symm_fork_mark *mark)
{
    ck_assert(!symm__forked_since(mark));
    ck_assert(child_says(mark, 1));
    ck_assert(child_says(mark, 2));
    ck_assert(!symm__forked_since(mark));
}

TEST(fork_mark, tells_children)
{
    struct symm_fork_mark mark;

    symm__fork_mark_set(&mark);
    ck_assert(mark.page != NULL);
    check_mark(&mark);
    symm__fork_mark_clear(&mark);
    ck_assert(mark.page == NULL);
}

TEST(fork_mark, works_without_the_page)
{
    check_mark(&(struct symm_fork_mark){.page = NULL, .pid = getpid()});
}
