/* A page that the kernel zeroes in children. */
#include "fork_mark.h"

#include <sys/mman.h>
#include <unistd.h>

void symm__fork_mark_set(struct symm_fork_mark *mark)
{
    const size_t nbytes = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    *mark = (struct symm_fork_mark){.pid = getpid()};
    if (page == MAP_FAILED)
        return;
    if (madvise(page, nbytes, MADV_WIPEONFORK) != 0) {
        munmap(page, nbytes);
        return;
    }
    mark->page = page;
    *mark->page = 1;
}

void symm__fork_mark_clear(struct symm_fork_mark *mark)
{
    if (mark->page)
        munmap((void *)mark->page, (size_t)sysconf(_SC_PAGESIZE));
    *mark = (struct symm_fork_mark){.page = NULL};
}

bool symm__forked_since(const struct symm_fork_mark *mark)
{
    return mark->page ? !*mark->page : mark->pid != getpid();
}
