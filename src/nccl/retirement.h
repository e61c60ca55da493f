/* How a rank leaves the symm context of a communicator. */
#ifndef SYMM_NCCL_RETIREMENT_H
#define SYMM_NCCL_RETIREMENT_H

#include "comm.h"

/* Why a group ends by nccl__binding_abort(): the other ranks read it. */
#define NCCL_ABORTED "ncclCommAbort"

/* Ends the calls of a binding. Kernels that wait for other ranks end soon. Any thread. */
void nccl__binding_abort(struct nccl_binding *b);

/*
 * Work between these two has the binding's CUDA context, once it is known. It may allocate and free
 * memory while other threads capture, and their captures stay valid.
 */
void nccl__binding_enter(struct nccl_binding *b);
void nccl__binding_leave(struct nccl_binding *b);

/* Leaves a binding's symm context and its device, outside of such work. Frees nothing. */
void nccl__binding_close(struct nccl_binding *b);

/* Around the work of a thread that leaves a context. The process's exit waits 2 s for it. */
void nccl__retirement_begin(void);
void nccl__retirement_end(void);

/*
 * Waits for the calls of a binding, then leaves its context in a thread of its own: ranks leave at
 * different times or never, and the context's end is a vote. If the calls were aborted, the wait
 * has a limit, because other work may be before them on their streams. NULL is fine.
 */
void nccl__binding_retire(struct nccl_binding *b);

#endif
