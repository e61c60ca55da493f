/*
 * A table with open addressing. A communicator's place is never freed, only used again, so that
 * looking one up needs no lock.
 */
#include "comm.h"

#include <stdint.h>
#include <string.h>

enum { PLACES = 256 };

static struct nccl_comm places[PLACES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Stands for a communicator that is gone; the search goes on behind it. */
static char gone;
#define GONE ((ncclComm_t)(void *)&gone)

static size_t place_of(ncclComm_t real)
{
    return ((uintptr_t)real >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 56;
}

struct nccl_comm *nccl__comm_find(ncclComm_t real)
{
    if (!real)
        return NULL;
    for (size_t i = 0, at = place_of(real); i < PLACES; i++, at = (at + 1) % PLACES) {
        const ncclComm_t here = atomic_load_explicit(&places[at].real, memory_order_acquire);
        if (here == real)
            return &places[at];
        if (!here)
            return NULL;
    }
    return NULL;
}

struct nccl_comm *nccl__comm_add(ncclComm_t real)
{
    struct nccl_comm *comm = NULL;

    pthread_mutex_lock(&lock);
    for (size_t i = 0, at = place_of(real); i < PLACES && !comm; i++, at = (at + 1) % PLACES) {
        const ncclComm_t here = atomic_load(&places[at].real);
        if (!here || here == GONE)
            comm = &places[at];
    }
    if (comm) {
        comm->joined = true; /* there is no thread yet */
        comm->binding = NULL;
        atomic_store(&comm->state, NCCL_COMM_ATTACHING);
        atomic_store_explicit(&comm->real, real, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return comm;
}

bool nccl__comm_settle(struct nccl_comm *comm)
{
    if (!comm->joined) {
        pthread_join(comm->thread, NULL);
        comm->joined = true;
    }
    return atomic_load(&comm->state) == NCCL_COMM_ATTACHED;
}

void nccl__comm_remove(struct nccl_comm *comm)
{
    nccl__comm_settle(comm);
    atomic_store(&comm->real, GONE);
}
