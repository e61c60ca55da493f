/*
 * Tables with open addressing; the next one begins when one is full. A communicator's place is
 * never freed, only used again, so that looking one up needs no lock.
 */
#include "comm.h"

#include <stdint.h>
#include <stdlib.h>

enum { PLACES = 256 };

struct table {
    struct nccl_comm places[PLACES];
    _Atomic(struct table *) next;
};

static struct table tables;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Stands for a communicator that is gone; the search goes on behind it. */
static char gone;
#define GONE ((ncclComm_t)(void *)&gone)

static size_t place_of(ncclComm_t real)
{
    return ((uintptr_t)real >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 56;
}

static struct nccl_comm *find_in(struct table *table, ncclComm_t real)
{
    for (size_t i = 0, at = place_of(real); i < PLACES; i++, at = (at + 1) % PLACES) {
        struct nccl_comm *comm = &table->places[at];
        const ncclComm_t here = atomic_load_explicit(&comm->real, memory_order_acquire);
        if (here == real)
            return comm;
        if (!here)
            return NULL;
    }
    return NULL;
}

struct nccl_comm *nccl__comm_find(ncclComm_t real)
{
    struct nccl_comm *comm = NULL;

    for (struct table *t = &tables; real && t && !comm; t = atomic_load(&t->next))
        comm = find_in(t, real);
    return comm;
}

/* Lock held. NULL: the table is full. */
static struct nccl_comm *free_place(struct table *table, ncclComm_t real)
{
    for (size_t i = 0, at = place_of(real); i < PLACES; i++, at = (at + 1) % PLACES) {
        const ncclComm_t here = atomic_load(&table->places[at].real);
        if (!here || here == GONE)
            return &table->places[at];
    }
    return NULL;
}

struct nccl_comm *nccl__comm_add(ncclComm_t real)
{
    struct nccl_comm *comm = NULL;

    pthread_mutex_lock(&lock);
    for (struct table *t = &tables; t && !comm; t = atomic_load(&t->next)) {
        comm = free_place(t, real);
        if (!comm && !atomic_load(&t->next))
            atomic_store(&t->next, calloc(1, sizeof *t));
    }
    if (comm) {
        comm->joined = true; /* there is no thread yet */
        comm->binding = NULL;
        comm->why[0] = 0;
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
