/* The functions of NCCL that symm sees. Each has a second name, which begins with p. */
#include <stdlib.h>
#include <string.h>
#include "attach.h"
#include "runtime/group/group.h"
#include "children.h"
#include "error.h"
#include "queue.h"
#include "real.h"
#include "retirement.h"
#include "settings.h"
#include "stats.h"
#include "windows.h"

#define ENTRY(type, name)                                                                          \
    extern __typeof__(name) p##name __attribute__((alias(#name)));                                 \
    type name

/* The part of a communicator that is symm's; NULL: it has none. comm: NULL is fine. */
static struct nccl_binding *binding_of(struct nccl_comm *comm)
{
    return comm && atomic_load(&comm->state) == NCCL_COMM_ATTACHED ? comm->binding : NULL;
}

/* ------------------------------------------------------------------------------------- groups */

ENTRY(ncclResult_t, ncclGroupStart)(void)
{
    const ncclResult_t result = NCCL_REAL(ncclGroupStart, ());

    if (result == ncclSuccess && !nccl__inside)
        nccl__group_enter();
    return result;
}

/* The forwarded calls of the group go first: its calls have no order among them. */
ENTRY(ncclResult_t, ncclGroupEnd)(void)
{
    const ncclResult_t result = NCCL_REAL(ncclGroupEnd, ());

    if (nccl__inside || nccl__group_depth() == 0 || !nccl__group_leave())
        return result;
    if (result != ncclSuccess && result != ncclInProgress) {
        nccl__queue_drop();
        return result;
    }
    const ncclResult_t taken = nccl__queue_run();
    return taken == ncclSuccess ? result : taken;
}

/* Ends a group without its calls. */
ENTRY(ncclResult_t, ncclGroupSimulateEnd)(ncclSimInfo_t *info)
{
    const bool exists = nccl__real()->ncclGroupSimulateEnd;
    const ncclResult_t result = NCCL_REAL(ncclGroupSimulateEnd, (info));

    if (exists && !nccl__inside && nccl__group_depth() > 0 && nccl__group_leave())
        nccl__queue_drop();
    return result;
}

/* ------------------------------------------------------------------------------- communicators */

/* Whether a new communicator's calls block, as NCCL decides it. parent: NULL: it has none. */
static bool blocks(ncclComm_t parent, const ncclConfig_t *config)
{
    const struct nccl_comm *known = nccl__comm_find(parent);
    const char *of_all = getenv("NCCL_COMM_BLOCKING");

    if (nccl__real()->alone)
        return true;
    if (of_all && (strcmp(of_all, "0") == 0 || strcmp(of_all, "1") == 0))
        return *of_all == '1';
    if (config)
        return config->blocking != 0; /* an undefined field, too */
    return !known || known->blocking;
}

/*
 * After the real library has begun to make a communicator. A nonblocking one is not ready, even if
 * the real library has made it already: its ranks still have to attach.
 */
static ncclResult_t attach(ncclResult_t result, const struct nccl_comm_request *made)
{
    if (nccl__inside || (result != ncclSuccess && result != ncclInProgress))
        return result;
    if (nccl__group_depth() > 0 || made->parent) {
        const ncclResult_t kept =
            nccl__group_depth() > 0 ? nccl__queue_comm(made) : nccl__children_add(made);
        return kept == ncclSuccess ? result : kept;
    }
    nccl__attach(*made->place, made->blocking);
    if (!made->waits)
        return ncclInProgress;
    if (nccl__attach_wait(*made->place) == ncclSuccess)
        return result;
    *made->place = NULL;
    return ncclSystemError;
}

/* grows: the communicator whose ranks it has, and others; NULL: there is none. */
static ncclResult_t attach_new(ncclResult_t result, ncclComm_t grows, ncclComm_t *comm,
                               const ncclConfig_t *config)
{
    const bool blocking = blocks(grows, config);

    return attach(result, &(struct nccl_comm_request){
                              .place = comm, .blocking = blocking, .waits = blocking});
}

static ncclResult_t attach_child(ncclResult_t result, ncclComm_t parent, ncclComm_t *child,
                                 const ncclConfig_t *config)
{
    const bool waits = blocks(parent, NULL);

    return attach(result, &(struct nccl_comm_request){.parent = waits ? NULL : parent,
                                                      .place = child,
                                                      .blocking = blocks(parent, config),
                                                      .waits = waits});
}

ENTRY(ncclResult_t, ncclCommInitRank)(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    return attach_new(NCCL_REAL(ncclCommInitRank, (comm, nranks, id, rank)), NULL, comm, NULL);
}

ENTRY(ncclResult_t, ncclCommInitRankConfig)
(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    return attach_new(NCCL_REAL(ncclCommInitRankConfig, (comm, nranks, id, rank, config)), NULL,
                      comm, config);
}

ENTRY(ncclResult_t, ncclCommInitRankScalable)
(ncclComm_t *comm, int nranks, int rank, int nids, ncclUniqueId *ids, ncclConfig_t *config)
{
    return attach_new(NCCL_REAL(ncclCommInitRankScalable, (comm, nranks, rank, nids, ids, config)),
                      NULL, comm, config);
}

ENTRY(ncclResult_t, ncclCommInitAll)(ncclComm_t *comms, int ndevices, const int *devices)
{
    ncclResult_t result = NCCL_REAL(ncclCommInitAll, (comms, ndevices, devices));

    if (nccl__inside || result != ncclSuccess)
        return result;
    for (int i = 0; i < ndevices; i++)
        nccl__attach(comms[i], true);
    for (int i = 0; i < ndevices; i++)
        if (nccl__attach_wait(comms[i]) != ncclSuccess) {
            comms[i] = NULL;
            result = ncclSystemError;
        }
    return result;
}

ENTRY(ncclResult_t, ncclCommSplit)
(ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config)
{
    return attach_child(NCCL_REAL(ncclCommSplit, (comm, color, key, child, config)), comm, child,
                        config);
}

/*
 * A call of the real library that ends calls of a communicator; the binding is what symm loses. It
 * goes first: taken calls may wait behind forwarded ones, which it ends.
 */
#define ENDING(binding, call)                                                                      \
    __extension__({                                                                                \
        struct nccl_binding *lost_ = nccl__inside ? NULL : (binding);                              \
        const ncclResult_t ended_ = call;                                                          \
        nccl__binding_retire(lost_);                                                               \
        ended_;                                                                                    \
    })

ENTRY(ncclResult_t, ncclCommShrink)
(ncclComm_t comm, int *excluded, int nexcluded, ncclComm_t *child, ncclConfig_t *config, int flags)
{
    const bool aborts = flags & NCCL_SHRINK_ABORT;
    const ncclResult_t result =
        ENDING(aborts ? nccl__detach_calls(comm) : NULL,
               NCCL_REAL(ncclCommShrink, (comm, excluded, nexcluded, child, config, flags)));

    return attach_child(result, comm, child, config);
}

/* No child: its handle comes at once, and its own state tells whether it is ready. */
ENTRY(ncclResult_t, ncclCommGrow)
(ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *grown,
 ncclConfig_t *config)
{
    const ncclResult_t result = NCCL_REAL(ncclCommGrow, (comm, nranks, id, rank, grown, config)),
                       attached = attach_new(result, comm, grown, config);

    return attached == ncclInProgress ? result : attached;
}

ENTRY(ncclResult_t, ncclCommDestroy)(ncclComm_t comm)
{
    nccl__binding_retire(nccl__inside ? NULL : nccl__detach(comm, false));
    return NCCL_REAL(ncclCommDestroy, (comm));
}

ENTRY(ncclResult_t, ncclCommAbort)(ncclComm_t comm)
{
    return ENDING(nccl__detach(comm, true), NCCL_REAL(ncclCommAbort, (comm)));
}

ENTRY(ncclResult_t, ncclCommRevoke)(ncclComm_t comm, int flags)
{
    return ENDING(nccl__detach_calls(comm), NCCL_REAL(ncclCommRevoke, (comm, flags)));
}

/*
 * A rank whose process has exited is an error for NCCL only if another rank needs it. An abort of
 * another rank is none: NCCL's is local. Calls that need the rank wait for this rank's own abort.
 */
static ncclResult_t state_of(symm_group *group)
{
    const symm_status st = symm_check(group);
    const bool aborted = st == SYMM_ERROR_PEER && strstr(symm_error_text(), ": " NCCL_ABORTED);

    return aborted || (st == SYMM_ERROR_PEER && symm__group_ended_unnoticed(group))
               ? ncclSuccess
               : nccl__result(st);
}

/* Of a communicator that the real library has found ready: its children may attach. */
static ncclResult_t own_state(ncclComm_t comm, const struct nccl_binding *b)
{
    const bool ready = nccl__children_ready(comm);
    ncclResult_t state = b ? state_of(b->eager) : ncclSuccess;

    if (b && state == ncclSuccess)
        state = state_of(b->captured);
    return state == ncclSuccess && !ready ? ncclInProgress : state;
}

/*
 * A communicator that attaches is not ready. Its thread asks the real library meanwhile, which
 * allows this to one thread at a time. If the communicator's group has ended, the result is that
 * error.
 */
ENTRY(ncclResult_t, ncclCommGetAsyncError)(ncclComm_t comm, ncclResult_t *error)
{
    if (!nccl__inside) {
        nccl__children_begin();
        nccl__attach_rest();
    }
    struct nccl_comm *known = nccl__inside ? NULL : nccl__comm_find(comm);

    if (known && error && atomic_load(&known->state) == NCCL_COMM_ATTACHING) {
        *error = atomic_load(&known->error);
        *error = *error == ncclSuccess ? ncclInProgress : *error;
        return ncclSuccess;
    }
    const ncclResult_t result = NCCL_REAL(ncclCommGetAsyncError, (comm, error));
    if (nccl__inside || result != ncclSuccess || *error == ncclInProgress)
        return result;
    if (*error == ncclSuccess)
        *error = own_state(comm, binding_of(known));
    else
        nccl__children_forget(comm);
    return result;
}

ENTRY(const char *, ncclGetLastError)(ncclComm_t comm)
{
    const char *text = nccl__error_text();

    if (text || !nccl__real()->ncclGetLastError)
        return text ? text : "";
    return nccl__real()->ncclGetLastError(comm);
}

/* ------------------------------------------------------------------------------------- windows */

ENTRY(ncclResult_t, ncclCommWindowRegister)
(ncclComm_t comm, void *ptr, size_t nbytes, ncclWindow_t *window, int flags)
{
    const ncclResult_t result =
        NCCL_REAL(ncclCommWindowRegister, (comm, ptr, nbytes, window, flags));
    const struct nccl_window_request request = {nccl__inside ? NULL : nccl__comm_find(comm), ptr,
                                                nbytes, window};

    if (!request.comm || !(flags & NCCL_WIN_COLL_SYMMETRIC) ||
        (result != ncclSuccess && result != ncclInProgress))
        return result;
    if (nccl__group_depth() > 0) {
        const ncclResult_t queued = nccl__queue_window(&request);
        return queued == ncclSuccess ? result : queued;
    }
    nccl__windows_add(request.comm, &request, 1);
    if (request.comm->blocking)
        nccl__comm_settle(request.comm);
    return result;
}

ENTRY(ncclResult_t, ncclCommWindowDeregister)(ncclComm_t comm, ncclWindow_t window)
{
    struct nccl_comm *known = nccl__inside ? NULL : nccl__comm_find(comm);

    if (known && window)
        nccl__windows_remove(known, window);
    return NCCL_REAL(ncclCommWindowDeregister, (comm, window));
}

/* --------------------------------------------------------------------------- scaled reductions */

ENTRY(ncclResult_t, ncclRedOpCreatePreMulSum)
(ncclRedOp_t *op, void *scalar, ncclDataType_t type, ncclScalarResidence_t residence,
 ncclComm_t comm)
{
    const ncclResult_t result =
        NCCL_REAL(ncclRedOpCreatePreMulSum, (op, scalar, type, residence, comm));
    struct nccl_binding *b = nccl__inside ? NULL : binding_of(nccl__comm_find(comm));
    struct nccl_scale scale = {.type = type};

    if (result != ncclSuccess || !b)
        return result;
    if (residence == ncclScalarDevice)
        scale.on_device = scalar;
    else
        memcpy(scale.value, scalar, nccl__type_nbytes(type));
    if (nccl__scale_add(b, *op, &scale))
        return result;
    NCCL_REAL(ncclRedOpDestroy, (*op, comm));
    return ncclSystemError;
}

ENTRY(ncclResult_t, ncclRedOpDestroy)(ncclRedOp_t op, ncclComm_t comm)
{
    struct nccl_binding *b = nccl__inside ? NULL : binding_of(nccl__comm_find(comm));

    if (b)
        nccl__scale_remove(b, op);
    return NCCL_REAL(ncclRedOpDestroy, (op, comm));
}

/* ---------------------------------------------------------------------------------- operations */

/* Returns whether symm runs the call, and its result. */
static bool take(const struct nccl_call *call, ncclResult_t *result)
{
    if (nccl__inside)
        return false;
    const bool takes = nccl__takes(call);
    nccl__count(call, takes);
    if (!takes)
        return false;
    nccl__error_forget();
    *result = nccl__group_depth() > 0 ? nccl__queue_call(call) : nccl__take(call);
    return true;
}

/* A reduction, perhaps by one of the program's own. */
static struct nccl_call reduction(enum nccl_operation operation, const void *in, void *out,
                                  size_t count, ncclDataType_t type, ncclRedOp_t op,
                                  ncclComm_t comm, CUstream stream)
{
    struct nccl_call call = {.comm = nccl__comm_find(comm),
                             .operation = operation,
                             .in = in,
                             .out = out,
                             .count = count,
                             .type = type,
                             .op = op,
                             .stream = stream};
    const struct nccl_binding *b = op < ncclNumOps ? NULL : binding_of(call.comm);
    const struct nccl_scale *scale = b ? nccl__scale_find(b, op) : NULL;

    call.scaled = scale != NULL;
    if (scale)
        call.scale = *scale;
    return call;
}

ENTRY(ncclResult_t, ncclAllReduce)
(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
 CUstream stream)
{
    const struct nccl_call call =
        reduction(NCCL_ALL_REDUCE, send, recv, count, type, op, comm, stream);
    ncclResult_t result;

    if (take(&call, &result))
        return result;
    return NCCL_REAL(ncclAllReduce, (send, recv, count, type, op, comm, stream));
}

ENTRY(ncclResult_t, ncclReduceScatter)
(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
 CUstream stream)
{
    const struct nccl_call call =
        reduction(NCCL_REDUCE_SCATTER, send, recv, count, type, op, comm, stream);
    ncclResult_t result;

    if (take(&call, &result))
        return result;
    return NCCL_REAL(ncclReduceScatter, (send, recv, count, type, op, comm, stream));
}

ENTRY(ncclResult_t, ncclAllGather)
(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm, CUstream stream)
{
    const struct nccl_call call = {.comm = nccl__comm_find(comm),
                                   .operation = NCCL_ALL_GATHER,
                                   .in = send,
                                   .out = recv,
                                   .count = count,
                                   .type = type,
                                   .op = ncclSum,
                                   .stream = stream};
    ncclResult_t result;

    if (take(&call, &result))
        return result;
    return NCCL_REAL(ncclAllGather, (send, recv, count, type, comm, stream));
}
