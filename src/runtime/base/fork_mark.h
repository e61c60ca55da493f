/* Tells a process from its children of fork() without a system call: each call on a group asks. */
#ifndef SYMM_FORK_MARK_H
#define SYMM_FORK_MARK_H

#include <stdbool.h>
#include <sys/types.h>

struct symm_fork_mark {
    volatile char *page; /* 1; zeros in a child. NULL: the kernel cannot do this */
    pid_t pid;
};

void symm__fork_mark_set(struct symm_fork_mark *mark);
void symm__fork_mark_clear(struct symm_fork_mark *mark);
/* Whether this process was forked from the one that set the mark. */
bool symm__forked_since(const struct symm_fork_mark *mark);

#endif
