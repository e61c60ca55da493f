/* The table of communicators: it has room for any number, and uses places again. */
#include "nccl/retirement.h"
#include "test.h"

TEST_GROUP(nccl_comm, 20);

enum { N = 1000 };

/* Handles are never looked into. */
static ncclComm_t handle(size_t i)
{
    static char memory[2 * N][64];

    return (ncclComm_t)(void *)memory[i];
}

TEST(nccl_comm, a_table_grows)
{
    struct nccl_comm *comms[N];

    ck_assert_ptr_null(nccl__comm_find(NULL));
    for (size_t i = 0; i < N; i++) {
        comms[i] = nccl__comm_add(handle(i), true);
        ck_assert_ptr_nonnull(comms[i]);
        ck_assert_int_eq(atomic_load(&comms[i]->state), NCCL_COMM_ATTACHING);
    }
    for (size_t i = 0; i < N; i++)
        ck_assert_ptr_eq(nccl__comm_find(handle(i)), comms[i]);
    ck_assert_ptr_null(nccl__comm_find(handle(N)));
    for (size_t i = 0; i < N; i += 2) {
        ck_assert(nccl__comm_end_attach(comms[i], NULL));
        nccl__comm_remove(comms[i]);
    }
    for (size_t i = 0; i < N; i++)
        ck_assert_ptr_eq(nccl__comm_find(handle(i)), i % 2 ? comms[i] : NULL);
}

/* As many communicators as ever are in one table, one after the other. */
TEST(nccl_comm, places_are_used_again)
{
    struct nccl_comm *comm = NULL, *least = NULL, *most = NULL;

    for (size_t i = 0; i < 2 * N; i++) {
        comm = nccl__comm_add(handle(i), true);
        ck_assert_ptr_nonnull(comm);
        ck_assert_ptr_eq(nccl__comm_find(handle(i)), comm);
        ck_assert_int_eq(comm->why[0], 0);
        comm->why[0] = 'x';
        least = !least || comm < least ? comm : least;
        most = comm > most ? comm : most;
        ck_assert(nccl__comm_end_attach(comm, NULL));
        nccl__comm_remove(comm);
        ck_assert_ptr_null(nccl__comm_find(handle(i)));
    }
    ck_assert_int_lt(most - least, 256);
}
