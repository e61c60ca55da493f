#include "children.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "error.h"

struct child {
    struct child *next;
    struct nccl_comm_request request;
    ncclComm_t real; /* NULL: not attaching yet */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct child *first;
static atomic_int count; /* of the list, so that most calls need no lock */

ncclResult_t nccl__children_add(const struct nccl_comm_request *request)
{
    struct child *child = calloc(1, sizeof *child);

    if (!child)
        return nccl__fail(ncclSystemError, "out of host memory");
    pthread_mutex_lock(&lock);
    *child = (struct child){.next = first, .request = *request};
    first = child;
    atomic_fetch_add(&count, 1);
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

/*
 * Begins to attach a child if that has not begun. Returns whether it is still attaching. A rank
 * without a color has no child.
 */
static bool attaches(struct child *child)
{
    struct nccl_comm *comm;

    if (!child->real) {
        child->real = __atomic_load_n(child->request.place, __ATOMIC_ACQUIRE);
        nccl__attach(child->real, child->request.blocking);
    }
    comm = nccl__comm_find(child->real);
    return comm && atomic_load(&comm->state) == NCCL_COMM_ATTACHING;
}

void nccl__children_begin(void)
{
    if (atomic_load(&count) == 0)
        return;
    pthread_mutex_lock(&lock);
    for (struct child *child = first; child; child = child->next)
        attaches(child);
    pthread_mutex_unlock(&lock);
}

/*
 * Removes the parent's children from the list. Returns whether none is left. keep_attaching:
 * children that are still attaching stay.
 */
static bool remove_children(ncclComm_t parent, bool keep_attaching)
{
    bool all = true;

    if (atomic_load(&count) == 0)
        return true;
    pthread_mutex_lock(&lock);
    for (struct child **at = &first; *at;) {
        struct child *child = *at;
        if (child->request.parent != parent || (keep_attaching && attaches(child))) {
            all = all && child->request.parent != parent;
            at = &child->next;
            continue;
        }
        *at = child->next;
        free(child);
        atomic_fetch_sub(&count, 1);
    }
    pthread_mutex_unlock(&lock);
    return all;
}

bool nccl__children_ready(ncclComm_t parent)
{
    return remove_children(parent, true);
}

void nccl__children_forget(ncclComm_t parent)
{
    remove_children(parent, false);
}
