/*
 * Each communicator attaches in a thread of its own, because a thread may have communicators of
 * several devices, and attaching waits for the other ranks. The messages between the ranks go over
 * the real communicator.
 */
#include "attach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/base/log.h"
#include "runtime/base/settings.h"
#include "runtime/base/thread.h"
#include "runtime/driver/driver.h"
#include "runtime/group/context.h"
#include "alone.h"
#include "children.h"
#include "error.h"
#include "queue.h"
#include "real.h"
#include "retirement.h"
#include "settings.h"

enum { NCCL_CHANNELS = 32, POLL_US = 1000, STAGING_BYTES = 64 << 20, MESSAGE_BYTES = 1024 };

/* A rank's part of a vote. */
struct card {
    uint32_t version, settings;
    char why[NCCL_WHY_BYTES - 32]; /* "rank N: " fits before it */
};
_Static_assert(sizeof(struct card) <= MESSAGE_BYTES, "a vote is a message");

struct attachment {
    struct nccl_comm *comm;
    ncclComm_t real;
    struct nccl_binding *binding;
    CUstream stream;
    CUdeviceptr buffer;       /* of MESSAGE_BYTES a rank */
    struct card *cards;       /* of all ranks; NULL: out of host memory */
    char why[NCCL_WHY_BYTES]; /* the reason not to attach; empty: none */
};

/*
 * Begins a call of the real library. False: the communicator is being aborted, and may be gone.
 * nccl__comm_give_up() sets one of the two marks and looks at the other.
 */
static bool enter_real(struct attachment *a)
{
    atomic_store(&a->comm->in_real, true);
    if (!atomic_load(&a->comm->aborting))
        return true;
    atomic_store(&a->comm->in_real, false);
    return false;
}

static ncclResult_t leave_real(struct attachment *a, ncclResult_t result)
{
    atomic_store(&a->comm->in_real, false);
    return result;
}
#define REAL(a, name, arguments)                                                                   \
    (enter_real(a) ? leave_real(a, NCCL_REAL(name, arguments)) : ncclRemoteError)

/* The state of the communicator. */
static ncclResult_t ask(struct attachment *a)
{
    ncclResult_t state = ncclInProgress;
    const ncclResult_t result = REAL(a, ncclCommGetAsyncError, (a->real, &state));

    return result == ncclSuccess ? state : result;
}

/* A nonblocking communicator returns InProgress until the call is done. */
static bool done(struct attachment *a, ncclResult_t result, const char *call)
{
    while (result == ncclInProgress) {
        usleep(POLL_US);
        result = ask(a);
    }
    if (result != ncclSuccess && !a->why[0])
        snprintf(a->why, sizeof a->why, "%s: %s", call, nccl__real()->ncclGetErrorString(result));
    return result == ncclSuccess;
}

static bool works(struct attachment *a, CUresult result, const char *call)
{
    if (result != CUDA_SUCCESS && !a->why[0])
        snprintf(a->why, sizeof a->why, "%s: error %d", call, (int)result);
    return result == CUDA_SUCCESS;
}
#define CU(a, fn, ...) works(a, (a)->binding->driver->fn(__VA_ARGS__), #fn)

/* Waits for the messages; an abort of the real library ends them. Tells of errors meanwhile. */
static bool await_messages(struct attachment *a)
{
    CUresult result;

    while ((result = a->binding->driver->cuStreamQuery(a->stream)) == CUDA_ERROR_NOT_READY) {
        const ncclResult_t state = ask(a);
        if (state != ncclInProgress)
            atomic_store(&a->comm->error, state);
        usleep(POLL_US);
    }
    return works(a, result, "cuStreamQuery") && done(a, ask(a), "ncclAllGather");
}

/*
 * An all-gather of host memory, as symm_config.all_gather. all NULL: gives, and gets nothing. Takes
 * part also if this rank's copy fails: the other ranks would take its next message for this one.
 */
static int gather(void *user, const void *mine, void *all, size_t nbytes)
{
    struct attachment *a = user;
    const size_t total = nbytes * (size_t)a->binding->nranks;

    if (nbytes == 0)
        return 0;
    if (nbytes > MESSAGE_BYTES)
        return 1;
    const CUdeviceptr own = a->buffer + nbytes * (size_t)a->binding->rank;
    bool ok = CU(a, cuMemcpyAsync, own, (CUdeviceptr)(uintptr_t)mine, nbytes, a->stream);
    ok = done(a,
              REAL(a, ncclAllGather,
                   ((const void *)(uintptr_t)own, (void *)(uintptr_t)a->buffer, nbytes, ncclUint8,
                    a->real, a->stream)),
              "ncclAllGather") &&
         ok;
    if (ok && all)
        ok = CU(a, cuMemcpyAsync, (CUdeviceptr)(uintptr_t)all, a->buffer, total, a->stream);
    /* Also after a failure: the copies use memory of the caller. */
    return !(await_messages(a) && ok);
}

/* Sets the reason if this rank's card has one. A card of another version may be no text. */
static void judge(struct attachment *a, int rank)
{
    const struct card *card = &a->cards[rank];

    if (card->version != a->cards[0].version)
        snprintf(a->why, sizeof a->why, "rank %d has another version of symm", rank);
    else if (card->why[0])
        snprintf(a->why, sizeof a->why, "rank %d: %.*s", rank, (int)sizeof card->why - 1,
                 card->why);
    else if (card->settings != a->cards[0].settings)
        snprintf(a->why, sizeof a->why, "rank %d has other settings SYMM_NCCL_*", rank);
}

/* Whether no rank has a reason against it. Every rank sets the reason of the first one. */
static bool vote(struct attachment *a)
{
    struct card mine = {.version = SYMM_VERSION, .settings = nccl__settings_hash()};

    memcpy(mine.why, a->why, sizeof mine.why - 1);
    if (gather(a, &mine, a->cards, sizeof mine) != 0 || !a->cards)
        return false;
    a->why[0] = 0;
    for (int r = 0; r < a->binding->nranks && !a->why[0]; r++)
        judge(a, r);
    return !a->why[0];
}

/* The stream and the memory of the messages, which stay: to free memory waits for the device. */
static bool open_messages(struct attachment *a)
{
    const struct nccl_binding *b = a->binding;

    a->cards = calloc((size_t)b->nranks, sizeof *a->cards);
    if (!a->cards)
        snprintf(a->why, sizeof a->why, "out of host memory");
    return CU(a, cuStreamCreate, &a->stream, CU_STREAM_NON_BLOCKING) &&
           CU(a, cuMemAlloc, &a->buffer, (size_t)b->nranks * MESSAGE_BYTES);
}

/* The facts of the real communicator, and its device. */
static bool open_device(struct attachment *a)
{
    struct nccl_binding *b = a->binding;

    if (!done(a, ncclInProgress, "ncclCommGetAsyncError") ||
        !done(a, REAL(a, ncclCommCount, (a->real, &b->nranks)), "ncclCommCount") ||
        !done(a, REAL(a, ncclCommUserRank, (a->real, &b->rank)), "ncclCommUserRank") ||
        !done(a, REAL(a, ncclCommCuDevice, (a->real, &b->device)), "ncclCommCuDevice"))
        return false;
    if (b->nranks < 2 && !nccl__real()->alone)
        return false;
    if (!CU(a, cuDevicePrimaryCtxRetain, &b->context, b->device) ||
        !CU(a, cuCtxSetCurrent, b->context) || (!nccl__real()->alone && !open_messages(a)) ||
        !CU(a, cuEventCreate, &b->order, CU_EVENT_DISABLE_TIMING))
        return false;
    return !a->why[0];
}

/*
 * The most blocks of a call. Kernels of both libraries wait for other ranks. So all kernels that
 * run at once must fit on the device. A forwarded call has at most NCCL_CHANNELS blocks, each of
 * which fills an SM; two blocks of taken calls fit on one. So two taken calls fit beside a
 * forwarded one, and one beside two.
 */
static uint32_t most_blocks(int sms)
{
    const int left = sms - NCCL_CHANNELS, blocks = left > sms / 2 ? left : sms > 1 ? sms / 2 : 1;

    return nccl__settings()->max_blocks ? nccl__settings()->max_blocks : (uint32_t)blocks;
}

/*
 * The world group takes the eager calls, and a second group those in captures. Their areas are made
 * now: a call must not wait on the host, since one thread may have several ranks.
 */
static void create(struct attachment *a)
{
    struct nccl_binding *b = a->binding;
    const bool given = symm__setting_is_set(SYMM_SETTING_STAGING_BYTES);
    const uint64_t staging = given ? 0 : STAGING_BYTES;
    const bool alone = nccl__real()->alone;
    const symm_config config = {.rank = b->rank,
                                .nranks = b->nranks,
                                .session = alone ? nccl__alone_session(a->real) : NULL,
                                .timeout_ms = -1, /* a rank may be late by any time */
                                .check = -1,      /* a call must not wait on the host */
                                .hold = 1,        /* as NCCL's kernels, until an abort */
                                .staging_bytes = staging,
                                .all_gather = alone ? NULL : gather,
                                .user = a};
    int ranks[SYMM_MAX_RANKS];

    if (b->nranks > SYMM_MAX_RANKS) {
        snprintf(a->why, sizeof a->why, "more than %d ranks", SYMM_MAX_RANKS);
        return;
    }
    for (int r = 0; r < b->nranks; r++)
        ranks[r] = r;
    symm_status st = symm_context_create(&config, &b->symm);
    if (st == SYMM_OK) {
        /* llm.c reduces four floats in memory of one; NCCL does not check. */
        symm__memory_accept_pages(b->symm->memory);
        b->eager = symm_context_world(b->symm);
        b->max_blocks = most_blocks(b->symm->agreed.nsms);
        st = symm_group_create(b->eager, b->nranks, ranks, &b->captured);
    }
    if (st == SYMM_OK)
        st = symm_group_reserve(b->eager, 0);
    if (st == SYMM_OK)
        st = symm_group_reserve(b->captured, 0);
    if (st != SYMM_OK && !a->why[0])
        snprintf(a->why, sizeof a->why, "%.240s", symm_error_text());
}

static void tell(const struct attachment *a)
{
    const struct symm_log log = {.rank = a->binding->rank};

    if (a->binding->rank == 0 && a->binding->nranks > 1)
        symm__log(&log, SYMM_LOG_WARNING, "a communicator of %d ranks goes to NCCL alone: %s",
                  a->binding->nranks, a->why);
}

/*
 * Votes before and after the work, so that all ranks attach or none. Without NCCL, creating the
 * context is the vote.
 */
static bool attach_together(struct attachment *a)
{
    bool ok = open_device(a);

    if (nccl__real()->alone) {
        if (ok)
            create(a);
        return ok && !a->why[0];
    }
    if (!a->buffer) /* no other rank, or no message can be sent */
        return false;
    ok = vote(a) && ok;
    if (ok) {
        create(a);
        ok = vote(a);
    }
    return ok;
}

static void close_messages(struct attachment *a)
{
    if (a->buffer)
        a->binding->driver->cuMemFree(a->buffer);
    if (a->stream)
        a->binding->driver->cuStreamDestroy(a->stream);
    free(a->cards);
}

/*
 * Ends a binding that nobody uses. After an abort the other ranks may have attached: they learn of
 * it by the end of the groups. b: NULL: the attachment has one on the stack.
 */
static void discard(struct attachment *a, struct nccl_binding *b, bool aborted)
{
    if (aborted)
        nccl__binding_abort(a->binding);
    if (a->binding->driver)
        nccl__binding_close(a->binding);
    free(b);
}

/*
 * A rank with a reason against it takes part, since the others wait for its vote. Nobody waits
 * until a context that is not used has ended, which may be long.
 */
static void *attach(void *arg)
{
    struct nccl_comm *c = arg;
    struct nccl_binding *b = calloc(1, sizeof *b), spare = {0};
    struct attachment a = {.comm = c, .real = atomic_load(&c->real), .binding = b ? b : &spare};
    bool attached = false;

    nccl__retirement_begin();
    snprintf(a.why, sizeof a.why, "%s", b ? c->why : "out of host memory");
    if (symm__driver_open(NULL, &a.binding->driver) == SYMM_OK) {
        nccl__binding_enter(a.binding);
        attached = attach_together(&a);
        close_messages(&a);
        nccl__binding_leave(a.binding);
    }
    if (!attached) {
        tell(&a);
        snprintf(c->why, sizeof c->why, "%s", a.why);
    }
    const bool aborted = atomic_load(&c->aborting),
               kept = nccl__comm_end_attach(c, attached ? b : NULL);
    if (!kept || !attached)
        discard(&a, b, aborted || !kept);
    nccl__retirement_end();
    return NULL;
}

/* Those without a thread. */
static pthread_mutex_t rest_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct nccl_comm *) rest;

static void add_to_rest(struct nccl_comm *comm)
{
    pthread_mutex_lock(&rest_lock);
    comm->next = atomic_load(&rest);
    atomic_store(&rest, comm);
    pthread_mutex_unlock(&rest_lock);
}

void nccl__attach_rest(void)
{
    while (atomic_load(&rest)) {
        pthread_mutex_lock(&rest_lock);
        struct nccl_comm *comm = atomic_load(&rest);
        if (comm)
            atomic_store(&rest, comm->next);
        pthread_mutex_unlock(&rest_lock);
        if (comm)
            attach(comm);
    }
}

void nccl__attach(ncclComm_t real, bool blocking)
{
    struct nccl_comm nowhere = {.real = real}, *comm;
    pthread_t thread;

    if (!real || nccl__comm_find(real))
        return;
    comm = nccl__comm_add(real, blocking);
    if (comm && nccl__settings()->forwards_all && !nccl__real()->alone)
        snprintf(comm->why, sizeof comm->why, "SYMM_NCCL_FORWARD=all");
    if (comm && symm__thread_start(&thread, "symm attach", attach, comm) == SYMM_OK) {
        pthread_detach(thread);
        return;
    }
    snprintf(comm ? comm->why : nowhere.why, sizeof nowhere.why,
             "no memory or thread to attach with");
    if (comm)
        add_to_rest(comm);
    else
        attach(&nowhere);
}

ncclResult_t nccl__attach_wait(ncclComm_t real)
{
    struct nccl_comm *comm = nccl__comm_find(real);

    nccl__attach_rest();
    if (!comm || nccl__comm_settle(comm) || !nccl__real()->alone)
        return ncclSuccess;
    nccl__fail(ncclSystemError, "%s", comm->why);
    nccl__comm_remove(comm);
    nccl__alone_free(real);
    return ncclSystemError;
}

/*
 * Lets the thread of an attaching communicator end on its own, since it may wait for ever. False:
 * none was attaching.
 */
static bool give_up(struct nccl_comm *comm)
{
    if (nccl__comm_give_up(comm))
        return true;
    if (comm->binding)
        nccl__binding_abort(comm->binding); /* its windows may still be mapped, by votes */
    return false;
}

struct nccl_binding *nccl__detach(ncclComm_t real, bool aborted)
{
    struct nccl_comm *comm = nccl__comm_find(real);

    nccl__children_forget(real);
    nccl__queue_forget(real);
    if (!comm || (aborted && !nccl__real()->alone && give_up(comm)))
        return NULL;
    nccl__attach_rest();
    struct nccl_binding *b = nccl__comm_settle(comm) ? comm->binding : NULL;
    if (b && (aborted || symm_check(b->eager) || symm_check(b->captured)))
        nccl__binding_abort(b);
    nccl__comm_remove(comm);
    return b;
}

struct nccl_binding *nccl__detach_calls(ncclComm_t real)
{
    struct nccl_comm *comm = nccl__comm_find(real);

    if (!comm)
        return NULL;
    const bool blocking = comm->blocking;
    struct nccl_binding *b = nccl__detach(real, true);
    comm = nccl__comm_add(real, blocking);
    if (comm)
        nccl__comm_end_attach(comm, NULL);
    return b;
}
