/*
 * What symm wants of a library that communicates between domains. The operations are enqueued on a
 * stream and may be captured. One thread at a time uses a communicator, except for
 * symm__engine_error() and symm__engine_abort().
 */
#ifndef SYMM_ENGINE_H
#define SYMM_ENGINE_H

#include <stdatomic.h>
#include <symm/types.h>
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"

struct symm_engine;      /* the library, opened once in a process */
struct symm_engine_comm; /* a communicator */

/* Names a communicator that is being made: one rank draws it, all have it. */
struct symm_engine_id {
    char bytes[128];
};

/* Errors: ERROR_UNSUPPORTED (no library; the text says what to install or to set) */
symm_status symm__engine_open(const struct symm_engine **out);
/* The same number on all ranks that can communicate. */
int symm__engine_version(const struct symm_engine *engine);
/* "NCCL 2.28.3" */
struct symm_engine_name {
    char text[32];
};
struct symm_engine_name symm__engine_name(int version);

/* Errors: ERROR_SYSTEM */
symm_status symm__engine_id(const struct symm_engine *engine, struct symm_engine_id *out);

/*
 * Makes a communicator of nranks ranks on the current device. Waits for the others until the
 * deadline, or until *ended. On failure *out is NULL, or a communicator that may only be aborted.
 * Errors: ERROR_MEMORY, ERROR_SYSTEM, ERROR_TIMEOUT, ERROR_PEER (ended)
 */
symm_status symm__engine_init(const struct symm_engine *engine, int nranks, int rank,
                              const struct symm_engine_id *id, int most_blocks,
                              const atomic_bool *ended, symm_deadline deadline,
                              struct symm_engine_comm **out);

/*
 * Registers memory of this rank, so that network cards reach it without a copy by the library. Once
 * for a communicator, whose abort or destruction ends it before anything else. Either all ranks of
 * the communicator keep theirs, or none: NCCL defines no operation in which ranks differ. Local.
 * Errors: ERROR_UNSUPPORTED (the library cannot, or does not want to), ERROR_SYSTEM
 */
symm_status symm__engine_register(struct symm_engine_comm *comm, void *at, size_t nbytes);
/* Does nothing without a registration. NULL is fine. Local. */
void symm__engine_deregister(struct symm_engine_comm *comm);

/*
 * Enqueue an operation, with the meaning of symm's. reduce_scatter and all_gather: count elements
 * of a rank. all_gather and broadcast move bytes. in == out is in place for all_reduce and
 * broadcast. Errors: ERROR_ARGUMENT (a type that it does not reduce), ERROR_SYSTEM, ERROR_TIMEOUT,
 * ERROR_PEER
 */
symm_status symm__engine_all_reduce(struct symm_engine_comm *comm, const void *in, void *out,
                                    size_t count, symm_dtype dtype, symm_redop op,
                                    symm_stream stream);
symm_status symm__engine_reduce_scatter(struct symm_engine_comm *comm, const void *in, void *out,
                                        size_t count, symm_dtype dtype, symm_redop op,
                                        symm_stream stream);
symm_status symm__engine_all_gather(struct symm_engine_comm *comm, const void *in, void *out,
                                    size_t nbytes, symm_stream stream);
symm_status symm__engine_broadcast(struct symm_engine_comm *comm, const void *in, void *out,
                                   size_t nbytes, int root, symm_stream stream);

/*
 * Gives each rank a block of nbytes of each other one. in: a block for each rank, of which its own
 * is not read. out: the blocks of the other ranks, in their order. Errors: as the operations above
 */
symm_status symm__engine_exchange(struct symm_engine_comm *comm, const void *in, void *out,
                                  size_t nbytes, int nranks, symm_stream stream);

/* OK, or the failure that the library has noticed meanwhile. Never blocks. */
symm_status symm__engine_error(struct symm_engine_comm *comm);
/* Ends what is enqueued. May block. The communicator is gone. */
void symm__engine_abort(struct symm_engine_comm *comm);
/* After its work has ended. NULL is fine. */
void symm__engine_destroy(struct symm_engine_comm *comm);

#endif
