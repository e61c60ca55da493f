/*
 * Tables with open addressing; the next one begins when one is full. A communicator's place is
 * never freed, only used again, so that looking one up needs no lock.
 */
#include "comm.h"

#include <stdint.h>
#include <stdlib.h>
#include "runtime/base/deadline.h"

enum { PLACES = 256, POLL_US = 1000, IN_REAL_MS = 1000 };

struct table {
    struct nccl_comm places[PLACES];
    _Atomic(struct table *) next;
};

static struct table tables;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t attached = PTHREAD_COND_INITIALIZER;

/*
 * Stand for a communicator that is gone, and for one that was aborted while its thread was
 * attaching it; the search goes on behind them.
 */
static char gone, left;
#define GONE ((ncclComm_t)(void *)&gone)
#define LEFT ((ncclComm_t)(void *)&left)

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

struct nccl_comm *nccl__comm_add(ncclComm_t real, bool blocking)
{
    struct nccl_comm *comm = NULL;

    pthread_mutex_lock(&lock);
    for (struct table *t = &tables; t && !comm; t = atomic_load(&t->next)) {
        comm = free_place(t, real);
        if (!comm && !atomic_load(&t->next))
            atomic_store(&t->next, calloc(1, sizeof *t));
    }
    if (comm) {
        comm->blocking = blocking;
        atomic_store(&comm->aborting, false);
        atomic_store(&comm->error, ncclSuccess);
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
    pthread_mutex_lock(&lock);
    while (atomic_load(&comm->state) == NCCL_COMM_ATTACHING)
        pthread_cond_wait(&attached, &lock);
    pthread_mutex_unlock(&lock);
    return atomic_load(&comm->state) == NCCL_COMM_ATTACHED;
}

void nccl__comm_remove(struct nccl_comm *comm)
{
    nccl__comm_settle(comm);
    atomic_store(&comm->real, GONE);
}

/* Lock held. */
static void set_state(struct nccl_comm *comm, enum nccl_comm_state state)
{
    atomic_store(&comm->state, state);
    pthread_cond_broadcast(&attached);
}

bool nccl__comm_end_attach(struct nccl_comm *comm, struct nccl_binding *binding)
{
    pthread_mutex_lock(&lock);
    const bool kept = atomic_load(&comm->real) != LEFT;
    if (kept) {
        comm->binding = binding;
        set_state(comm, binding ? NCCL_COMM_ATTACHED : NCCL_COMM_FORWARDED);
    } else {
        atomic_store(&comm->real, GONE);
    }
    pthread_mutex_unlock(&lock);
    return kept;
}

bool nccl__comm_give_up(struct nccl_comm *comm)
{
    const symm_deadline deadline = symm__deadline_in(IN_REAL_MS);

    pthread_mutex_lock(&lock);
    const bool attaches = atomic_load(&comm->state) == NCCL_COMM_ATTACHING && !comm->binding;
    atomic_store(&comm->aborting, true);
    pthread_mutex_unlock(&lock);
    if (!attaches)
        return false;
    /* A call that blocks ends by the real library's abort. */
    while (atomic_load(&comm->in_real) && !symm__deadline_over(deadline))
        symm__sleep_us(POLL_US);
    pthread_mutex_lock(&lock);
    const bool gives_up = atomic_load(&comm->state) == NCCL_COMM_ATTACHING;
    if (gives_up) {
        atomic_store(&comm->real, LEFT);
        set_state(comm, NCCL_COMM_FORWARDED);
    }
    pthread_mutex_unlock(&lock);
    return gives_up;
}
