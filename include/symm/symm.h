/*
 * symm/symm.h - symmetric memory for programs on several GPUs of one NVLink domain, with one rank
 * per GPU; and groups of ranks of several domains (symm_config.span, docs/hosts.md).
 *
 * A context joins this rank to the other ranks. A group is a set of ranks and one order of
 * operations among them. Memory of a group is symmetric: it has the same offset in every rank's
 * window. So this rank's address of an object plus a rank identify the copy of that rank, and
 * kernels reach it with one addition.
 *
 *     symm_context *ctx = NULL;  void *x;
 *     symm_context_create(NULL, &ctx);        // under a launcher, or alone: a world of one
 *     symm_alloc(symm_context_world(ctx), 1 << 20, &x);
 *     ...
 *     symm_context_destroy(ctx);
 *
 * Words used below
 *   Local           no other rank takes part.
 *   Collective      all ranks of the group call it, in the same order, with the same arguments. It
 *                   is a vote: it succeeds on all ranks or fails on all ranks alike. It blocks the
 *                   host until the last rank has come, and no longer than the context's timeout.
 *                   Never inside a stream capture.
 *   Stream-ordered  returns once enqueued. Never votes, allocates or blocks the host, so it may be
 *                   captured into a graph. If ranks wait for each other in it, all of them must
 *                   call it in the same order. Exceptions, outside of captures: a group's first
 *                   large collective votes and allocates (symm_group_reserve()). With SYMM_CHECK=1,
 *                   the emulated driver's default, ranks compare such calls by a vote before they
 *                   are enqueued, so calls on several groups need the same order on all ranks. In a
 *                   group of several domains, the first call waits for all ranks, and each call
 *                   until NCCL has enqueued it, for 60 s at most.
 *
 * Rules that hold everywhere
 *   - Zero is the default of every field of every input struct. Outputs come last and are untouched
 *     on failure.
 *   - A function that fails leaves nothing to free. Destroy functions accept NULL and objects of
 *     ended groups.
 *   - symm never exits, aborts, traps or prints. symm_error_text() has the text of this thread's
 *     last failure.
 *   - Once a rank of a group has died, aborted or stalled, or ranks called different things on
 *     their devices, any call on the group may return the group's sticky status: ERROR_PEER,
 *     ERROR_TIMEOUT or ERROR_MISMATCH; ERROR_MEMORY or ERROR_SYSTEM if a rank ran out of memory or
 *     descriptors during a vote. Afterwards only symm_check(), the getters and the destroy
 *     functions are useful. To continue, the survivors create a new context with an explicit rank,
 *     nranks and session.
 *   - Where ERROR_DRIVER is listed, a driver without memory gives ERROR_MEMORY, and a driver call
 *     that a capture forbids gives ERROR_STATE.
 *   - A death ends the groups that contain the rank. The process of a domain's lowest rank carries
 *     the messages of its domain: its death also ends all other groups with ranks of that domain.
 *     The death of rank 0 also ends all groups of several domains. In a job of one domain, that is
 *     every group.
 *   - In a child of fork() every call on a context, group, stream, event or graph that returns a
 *     status returns ERROR_STATE.
 *
 * Streams: calls on one group run in the order of the calls, also on two streams that nothing else
 * orders: outside of captures a call waits, by an event, for the call before.
 *
 * Threads: one thread at a time per group; different groups and contexts concurrently. A process
 * that drives several GPUs has a context and a thread for each, because ranks wait for each other
 * in Collective calls. Each thread gives rank, nranks and session (docs/examples/07_threads).
 * symm_check(), symm_abort(), symm_free() and the getters may be called from any thread at any
 * time. Each context runs one I/O thread, with all signals blocked. No handler is installed and
 * nothing is registered with atexit(). If a process exits with a context, the library's destructor
 * tells the other ranks within 0.2 s.
 */
#ifndef SYMM_SYMM_H
#define SYMM_SYMM_H

#include <symm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct symm_context symm_context; /* this rank: process or thread, device, driver */
typedef struct symm_group symm_group;     /* ranks, and one order of operations among them */
typedef struct symm_kernel symm_kernel;   /* a loaded kernel */
typedef struct symm_image symm_image; /* compiled kernels; made by symm_add_kernels() in CMake */

/* -------------------------------------------------------------------------------------- Context */

/*
 * How this rank joins. If nranks is 0, everything comes from the launcher's environment: symm-run
 * (SYMM_RANK, SYMM_NRANKS, SYMM_SESSION), torchrun (RANK, WORLD_SIZE, LOCAL_RANK,
 * LOCAL_WORLD_SIZE), Open MPI, Slurm. Without any of these it is a world of one rank. Variables of
 * other launchers (PMI_RANK, PMIX_RANK) are refused: set SYMM_RANK, SYMM_NRANKS and SYMM_SESSION,
 * or rank, nranks and session here.
 */
typedef struct symm_config {
    int rank, nranks;
    const char *session; /* names the rendezvous: the same text on all ranks of one job */
    /* "0", a UUID or a bus id. NULL: SYMM_DEVICE, else the current one, else the local rank's. */
    const char *device;
    const char *driver; /* "cuda" or "emulated"; NULL: SYMM_DRIVER, else "cuda" */
    int timeout_ms; /* of a Collective call and of a stalled wait; 0: SYMM_TIMEOUT_MS; -1: never */
    /*
     * Your own bootstrap: gathers nbytes from every rank into all, rank by rank; returns 0 on
     * success. With it the ranks need no session: rank 0 draws one and distributes it.
     */
    int (*all_gather)(void *user, const void *mine, void *all, size_t nbytes);
    /*
     * Level 1 error, 2 warning, 3 information, 4 detail. NULL: SYMM_LOG, else silent. Called from
     * any thread, from several at once, and from the thread that serves all ranks. So it must not
     * block, and may call only functions that any thread may call at any time. If a write may
     * block, hand the line to a thread of your own.
     */
    void (*log)(void *user, int level, const char *line);
    void *user; /* passed to both */
    /*
     * Settings, named as their environment variables: 0 or NULL leaves one to the environment.
     * check, staging_bytes and the rows of tuning_file must be the same on all ranks. If one rank
     * has multicast off, all have.
     */
    int check;     /* SYMM_CHECK: 1 on, -1 off */
    int multicast; /* SYMM_MULTICAST: -1 off; nothing here turns it on */
    int slow_ms;   /* SYMM_SLOW_MS */
    /*
     * 1: if a group ends, kernels of this rank that wait for other ranks keep waiting until this
     * rank aborts, leaves or destroys the group. For programs that learn of an end by symm_check(),
     * and want no later work on the stream to see the results of a call that has failed.
     */
    int hold;
    uint64_t staging_bytes;  /* SYMM_STAGING_BYTES */
    const char *tuning_file; /* SYMM_TUNING_FILE; "": none */
    /*
     * 1: ranks may be on several hosts. The world may then span several domains (docs/hosts.md),
     * and the ranks first meet over TCP. 0: ranks on several hosts are ERROR_UNSUPPORTED.
     */
    uint32_t span;
    uint32_t reserved32;
    /*
     * With span: "HOST:PORT" at which rank 0 listens, the same on all ranks; port 0, for any, only
     * with all_gather. NULL: SYMM_ADDRESS; else with all_gather rank 0's own address, and under
     * torchrun MASTER_ADDR and a port by the session.
     */
    const char *address;
    uint64_t reserved[2];
} symm_config;

/*
 * Joins the other ranks, opens the device, reserves the address windows and creates the world
 * group.
 *
 * Scope:  Collective over all ranks of the job. Afterwards the device's primary context is current
 *         in this thread.
 * Memory: the context owns its groups, their memory and its kernels. It frees memory of
 *         symm_device_alloc() and symm_host_alloc() that is left at its end. The caller owns
 *         streams, events and graphs. config is not kept.
 * Errors: ERROR_ARGUMENT     a field or variable is wrong, only some of a launcher's variables are
 *                            set, or another user's process is in the way: named
 *         ERROR_SYSTEM       socket, directory or descriptor limit; errno in the text
 *         ERROR_DRIVER       no driver or device, or a driver call failed; on every rank alike
 *         ERROR_MEMORY       host or device memory
 *         ERROR_UNSUPPORTED  ranks on more than one host without span, no peer access, a driver
 *                            without a needed entry
 *         ERROR_MISMATCH     ranks disagree on nranks, a rank came twice, two ranks on one GPU,
 *                            settings differ
 *         ERROR_PEER         a rank died while joining
 *         ERROR_TIMEOUT      not all ranks came in time: the text names the missing ones
 *         ERROR_STATE        this process already uses the other driver, or the session is in use
 *         ERROR_VERSION      a rank has another version of symm, or this header another one than
 *                            the library
 */
SYMM_API symm_status symm_context_create_v(const symm_config *config, uint32_t version,
                                           symm_context **out);

static inline symm_status symm_context_create(const symm_config *config, symm_context **out)
{
    return symm_context_create_v(config, SYMM_VERSION, out);
}

/*
 * Destroys the context with its groups and memory. Pointers into its memory become invalid.
 *
 * Scope:  Collective while the world is healthy; after a failure Local and bounded. NULL is fine.
 * Memory: waits for the work enqueued through symm; other work that uses the memory must be done.
 * Errors: ERROR_DRIVER  a clean-up call failed; everything else was done
 *         ERROR_PEER, ERROR_TIMEOUT, ERROR_MISMATCH, or another sticky status: the ranks did not
 *                       destroy it together; this rank has released its part
 *         ERROR_STATE   in a child of fork(), or while a stream is being captured: nothing was done
 */
SYMM_API symm_status symm_context_destroy(symm_context *ctx);

/* The group of all ranks; it lives as long as the context. Scope: Local. NULL for NULL. */
SYMM_API symm_group *symm_context_world(symm_context *ctx);

/*
 * The group of the ranks of this rank's domain, which share memory; it lives as long as the
 * context. It is the world if the job has one domain. Scope: Local. NULL for NULL.
 */
SYMM_API symm_group *symm_context_domain(symm_context *ctx);

/* "cuda" or "emulated"; the text lives as long as the library. Scope: Local. NULL for NULL. */
SYMM_API const char *symm_context_driver(const symm_context *ctx);

/*
 * The device of this rank: its number in this process, as cudaSetDevice() and cuDeviceGet() count.
 * Scope: Local. -1 for NULL.
 */
SYMM_API int symm_context_device(const symm_context *ctx);

/*
 * The driver's context that this context works in: the device's primary context, which cudart uses
 * too. It lives at least as long as ctx. Scope: Local. NULL for NULL.
 */
SYMM_API symm_device_context symm_context_primary(const symm_context *ctx);

/*
 * An entry of this context's driver by its library name, such as "cuMemAlloc_v2", for calls that
 * symm/stream.h does not have.
 * Scope: Local. Returns NULL if ctx or name is NULL, or the driver has no such entry.
 */
SYMM_API void *symm_context_driver_symbol(symm_context *ctx, const char *name);

/* --------------------------------------------------------------------------------------- Groups */

/*
 * Creates a group of the ranks ranks[0..nranks-1] of `of`, in that order. A second group over the
 * same ranks is cheap. Use one group per stream to communicate on several streams at the same time.
 *
 * Scope:  Collective over the members only; other ranks do not take part.
 * Memory: the context owns the group, until symm_group_destroy() or symm_group_leave().
 * Errors: ERROR_ARGUMENT  ranks is NULL, nranks is not 1 to that of `of`, a rank outside of `of`,
 *                         a rank twice, or this rank not in the list: on this rank alone; the
 *                         others wait for a correct call. out is NULL: on all members
 *         ERROR_MISMATCH  the members gave the same ranks in different orders
 *         ERROR_TIMEOUT   a member did not reach it, or gave other ranks. `of` stays alive, and the
 *                         members may try again
 *         ERROR_MEMORY, ERROR_DRIVER, ERROR_SYSTEM (descriptor limit), ERROR_PEER, ERROR_STATE
 *         (capturing)
 */
SYMM_API symm_status symm_group_create(symm_group *of, int nranks, const int *ranks,
                                       symm_group **out);

/*
 * For a group of several domains, makes its communicators and its staging memory. Else the group's
 * first call outside of captures makes them. staging_nbytes has no effect, but is checked.
 *
 * For others: makes the group's full areas: staging_nbytes of staging (0: SYMM_STAGING_BYTES), an
 * eighth of that for packets, and as much for slots of lamport, but at most 4 MiB for each rank.
 * Until then a group has first areas of 2 MiB, enough for collectives of 64 KiB. With more than 8
 * ranks, each further rank adds some 0.2 MiB. The first collective that is slower without full
 * areas makes them, too: outside of captures it blocks the host until all ranks have made the same
 * call. Reserve before a capture, or where no call may block.
 *
 * Scope:  Collective. Does nothing if the group has one rank, or full areas that are large enough.
 *         Smaller ones are freed with the group, since graphs may use them.
 * Memory: of the group; symm_usage.internal counts it.
 * Errors: ERROR_ARGUMENT     staging_nbytes does not fit the window
 *         ERROR_UNSUPPORTED  several domains, and a rank has no NCCL
 *         ERROR_MEMORY       on any rank; the group keeps the areas that it has
 *         ERROR_DRIVER       also if the group has multicast, and the new areas could not be bound
 *         ERROR_SYSTEM, ERROR_MISMATCH, ERROR_PEER, ERROR_TIMEOUT, ERROR_STATE
 */
SYMM_API symm_status symm_group_reserve(symm_group *group, size_t staging_nbytes);

/*
 * Destroys the group and frees its memory. Waits for the stream of the group's last call.
 *
 * Scope:  Collective while healthy, else Local and bounded. NULL is fine. The world group and the
 *         domain's group: ERROR_ARGUMENT.
 * Errors: as symm_context_destroy
 */
SYMM_API symm_status symm_group_destroy(symm_group *group);

/*
 * Leaves the group: releases this rank's part of it without the other ranks. Waits for the group's
 * work that this rank has enqueued, which may need the other ranks. Their memory stays as it is,
 * and this rank's bytes are used again when all ranks have freed them. If one of them needs this
 * rank later, the group ends for it with ERROR_PEER: a Collective call at once, a wait on the
 * device after the timeout. Ranks that have all left may create a group again.
 *
 * Scope:  Local. NULL is fine. The world group and the domain's group: ERROR_ARGUMENT.
 * Memory: a multicast object stays until the context is destroyed.
 * Errors: as symm_group_destroy
 */
SYMM_API symm_status symm_group_leave(symm_group *group);

SYMM_API int
symm_rank(const symm_group *group); /* Local. This rank's number in the group; -1 for NULL */
SYMM_API int symm_nranks(const symm_group *group); /* Local. 0 for NULL */

/*
 * The number of domains in which the group has ranks. A group of one domain can do everything. One
 * of several has no symmetric memory, no pads, no kernels and no products: those calls are
 * ERROR_ARGUMENT. It has symm_exchange(), symm_check(), symm_synchronize(), symm_abort(),
 * symm_barrier(), symm_group_reserve(), symm_group_create(), the functions that end a group, and
 * the collectives of symm/collectives.h except the norm. If the ranks of a new group share a
 * domain, that group is an ordinary one. NCCL moves the bytes between domains: ERROR_UNSUPPORTED if
 * a rank has no NCCL, ERROR_MISMATCH if versions differ.
 * Scope: Local. 0 for NULL.
 */
SYMM_API uint32_t symm_group_ndomains(const symm_group *group);

/*
 * The domain of a rank of the group, from 0 to symm_group_ndomains() - 1. Domains are numbered in
 * the order of the job's. Scope: Local. 0 for NULL and for a rank that the group does not have.
 */
SYMM_API uint32_t symm_group_domain_of(const symm_group *group, int rank);

/* The context that the group was created in. Scope: Local. NULL for NULL. */
SYMM_API symm_context *symm_group_context(const symm_group *group);

/*
 * The number in the world of rank `rank` of the group. Scope: Local. -1 if the group is NULL or has
 * no such rank.
 */
SYMM_API int symm_world_rank(const symm_group *group, int rank);

/*
 * All-gather on the host: all receives nranks * nbytes, rank by rank. With nbytes 0 it is a barrier
 * of the calling threads.
 *
 * Scope:  Collective. Any nbytes, the same on all ranks. mine and all may be NULL when nbytes is 0.
 * Memory: mine and all are host memory, and not used after the call.
 * Errors: ERROR_ARGUMENT, ERROR_MEMORY, ERROR_DRIVER, ERROR_MISMATCH, ERROR_PEER, ERROR_TIMEOUT,
 *         ERROR_STATE
 */
SYMM_API symm_status symm_exchange(symm_group *group, const void *mine, size_t nbytes, void *all);

/*
 * Returns OK, or the group's sticky error if this rank has received it. ERROR_ARGUMENT for NULL.
 * Scope: Local; a few loads of host memory; any thread. If a kernel has seen that ranks called
 * different things, it waits until the group has ended, for some 5 s at most.
 */
SYMM_API symm_status symm_check(symm_group *group);

/*
 * Waits for the stream. Then asks the process of the domain's lowest rank whether the group is
 * alive, since that process learns of an end before any rank does. For a group of several domains,
 * the processes of all of them answer. If this returns OK, the results of all calls of this group
 * on the stream are right.
 *
 * Scope:  Local; one round trip on a socket, some ten microseconds. If a peer is dead, this
 *         returns, too, because the waits of kernels end with the group. With symm_config.hold they
 *         do not: then another thread must call symm_abort().
 * Errors: ERROR_ARGUMENT  group is NULL
 *         ERROR_PEER, ERROR_TIMEOUT, ERROR_MISMATCH  sticky; the text names rank and cause. If only
 *                         the answer of rank 0 is late, ERROR_TIMEOUT is not sticky
 *         ERROR_DRIVER    the stream has failed. If the device has, the group ends with ERROR_PEER
 *                         on the other ranks
 *         ERROR_STATE     the stream is capturing
 *         ERROR_MEMORY, ERROR_SYSTEM  the question could not be sent
 */
SYMM_API symm_status symm_synchronize(symm_group *group, symm_stream stream);

/*
 * symm_synchronize() of several groups: streams[i] is that of groups[i]; a stream or a group may
 * come several times. Goes on after a failure, so that every stream has finished at the end.
 *
 * Scope:  Local; a round trip for each group.
 * Errors: ERROR_ARGUMENT  ngroups is negative, or groups or streams is NULL and ngroups is not 0
 *         the first failure of a group, as symm_synchronize(): the text tells its index
 */
SYMM_API symm_status symm_synchronize_groups(int ngroups, symm_group *const *groups,
                                             const symm_stream *streams);

/*
 * Ends the group on all ranks. Every wait on host and device returns, and every rank gets
 * ERROR_PEER with this rank's number in the world and `why`. If symm_config.hold is set, the
 * device's waits return on this rank alone; if the group has ended before, too.
 * Scope: Local; any thread; NULL is fine for both. why is copied; NULL: no reason given.
 */
SYMM_API void symm_abort(symm_group *group, const char *why);

/*
 * The text of this thread's last failure: call, number, rank. Never NULL; valid until the thread's
 * next failure. Scope: Local; any thread.
 */
SYMM_API const char *symm_error_text(void);

/* The name of a status: "SYMM_ERROR_PEER". Never NULL. Scope: Local; any thread. */
SYMM_API const char *symm_status_name(symm_status status);

/*
 * The reason why multicast is off in this group; NULL if it is on. The same on all ranks. The text
 * lives as long as the group. Scope: Local. For NULL, a text that says so.
 */
SYMM_API const char *symm_multicast_off(const symm_group *group);

/* --------------------------------------------------------------------------------------- Memory */

/*
 * Allocates nbytes of symmetric memory, aligned to 1024 bytes, on every rank of the group. Contents
 * are undefined.
 *
 * Scope:  Collective.
 * Memory: the group owns it, until symm_free() or the group's end.
 * Errors: ERROR_ARGUMENT  nbytes is 0 or does not fit the window, or out is NULL
 *         ERROR_MEMORY    on any rank; the text names it
 *         ERROR_MISMATCH  sizes differ; the text names the ranks and their sizes. A rank whose size
 *                         is wrong gets ERROR_ARGUMENT instead
 *         ERROR_DRIVER, ERROR_SYSTEM, ERROR_PEER, ERROR_TIMEOUT, ERROR_STATE
 */
SYMM_API symm_status symm_alloc(symm_group *group, size_t nbytes, void **out);

/*
 * Frees memory of symm_alloc(), symm_tensor_alloc() or symm_register(). Its bytes are used again
 * once every rank of the group has freed it; ranks agree on that at their next Collective call. No
 * enqueued work of this rank may still use it.
 *
 * Scope:  Local; never waits, except that unmapping registered memory may wait for the device; any
 *         thread. NULL is fine.
 * Errors: ERROR_ARGUMENT  not the start of a live allocation of this group: freed, interior or
 *                         foreign
 */
SYMM_API symm_status symm_free(symm_group *group, void *ptr);

/*
 * Returns segments of device memory without allocations to the device. Enqueued work must be done.
 *
 * Scope:  Collective.
 * Errors: ERROR_ARGUMENT (group is NULL), ERROR_MEMORY (of rank 0's host), ERROR_DRIVER,
 *         ERROR_MISMATCH, ERROR_PEER, ERROR_TIMEOUT, ERROR_STATE. If the driver does not release a
 *         segment, symm_context_destroy() returns that error.
 */
SYMM_API symm_status symm_trim(symm_group *group);

/*
 * Makes memory of other code symmetric: maps it in the windows of all ranks. *out is a second
 * address of the object at theirs, with the use of memory of symm_alloc(). The memory must come
 * from cuMemCreate() with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, as that of ncclMemAlloc() does.
 * theirs has the same offset in an allocation of the same size on all ranks.
 *
 * A kernel should use only one of the two addresses. If a kernel writes through one address, the
 * next kernel in the stream sees the data through the other, unless the next kernel begins early
 * (SYMM_GRID_PDL). Collectives on registered memory do not begin early. symm cannot tell that two
 * buffers overlap if they are given by different addresses.
 *
 * Scope:  Collective.
 * Memory: symm_free(group, *out) unmaps it on this rank, which may wait for the device; other ranks
 *         keep their mappings until they free it. The allocation lives until its owner and all
 *         ranks have released it. symm_usage.registered counts nbytes.
 * Errors: ERROR_ARGUMENT     theirs or out is NULL, or nbytes is 0. The driver does not
 *                            know theirs, as memory of malloc(). theirs is memory of another
 *                            device or of symm. Less than nbytes of the allocation are left from
 *                            theirs on, or the allocation does not fit the window
 *         ERROR_UNSUPPORTED  the memory is not from cuMemCreate(), as that of cudaMalloc() or
 *                            pinned host memory: the driver maps it only at an address of its own
 *                            choice. Its location is not a device. The handle type is missing. The
 *                            size is no multiple of the granularity
 *         ERROR_MISMATCH     nbytes, the offset or the size of the allocation differ
 *         ERROR_MEMORY, ERROR_DRIVER, ERROR_SYSTEM, ERROR_PEER, ERROR_TIMEOUT, ERROR_STATE
 */
SYMM_API symm_status symm_register(symm_group *group, void *theirs, size_t nbytes, void **out);

/*
 * Allocates a contiguous, row-major symmetric tensor.
 *
 * Scope:  Collective.
 * Shapes: 1 <= ndim <= SYMM_MAX_DIMS, every extent >= 1, the product fits size_t.
 * Units:  extents are in elements.
 * Memory: as of symm_alloc(): symm_free(group, out->data). shape is copied.
 * Errors: as symm_alloc. A rank whose dtype, ndim or shape is outside of these limits, or that
 *         passes NULL, gets ERROR_ARGUMENT. The other ranks get ERROR_MISMATCH; the text names that
 *         rank
 */
SYMM_API symm_status symm_tensor_alloc(symm_group *group, symm_dtype dtype, int ndim,
                                       const int64_t *shape, symm_tensor *out);

/*
 * Describes memory that exists as a tensor. Looks at no memory: data may be NULL, for descriptions
 * whose data come later.
 *
 * Scope:  Local.
 * Shapes: as symm_tensor_alloc(). strides: in elements, one an extent, of any sign or 0; NULL:
 *         contiguous and row-major.
 * Memory: shape and strides are copied; *out owns nothing and keeps nothing alive.
 * Errors: ERROR_ARGUMENT  shape or out is NULL, a wrong dtype, ndim or extent, or a tensor whose
 *                         bytes do not fit size_t: named
 */
SYMM_API symm_status symm_tensor_of(void *data, symm_dtype dtype, int ndim, const int64_t *shape,
                                    const int64_t *strides, symm_tensor *out);

/*
 * The bytes from `local` to the end of the allocation that it lies in; for the start of an
 * allocation, its size as requested. Scope: Local; any thread. Returns 0, with a text, if local is
 * not symmetric memory of the group.
 */
SYMM_API size_t symm_alloc_nbytes(const symm_group *group, const void *local);

/*
 * The address of rank `rank`'s copy of the object at `local`, in this rank's address space. `local`
 * may point anywhere into an allocation. Scope: Local. Returns NULL, with a text, if local is not
 * symmetric memory of the group or the rank is wrong.
 */
SYMM_API void *symm_peer(const symm_group *group, const void *local, int rank);

/*
 * The multicast address of the object at `local`, which stands for the copies of all ranks. Only
 * for multimem instructions.
 * Scope: Local. Returns NULL, with a text, if multicast is off, if local is not symmetric memory of
 * the group, or if its segment could not be bound.
 */
SYMM_API void *symm_multicast(const symm_group *group, const void *local);

/* Memory of the context on this rank, in bytes. */
typedef struct symm_usage {
    uint64_t window;   /* address space reserved for each rank */
    uint64_t segments; /* device memory taken, in whole segments */
    uint64_t nsegments;
    uint64_t allocated;  /* live allocations, rounded up to their alignment, with internal ones */
    uint64_t requested;  /* live allocations as requested */
    uint64_t pending;    /* freed on this rank, not yet on all */
    uint64_t internal;   /* of allocated: signal pads, areas of groups, workspaces of products */
    uint64_t registered; /* memory of symm_register(), in none of the counts above but window */
    uint64_t reserved[8];
} symm_usage;

/*
 * Counts the memory of the context on this rank, in bytes.
 * Scope: Local. Errors: ERROR_ARGUMENT (a NULL), ERROR_STATE (a child of fork())
 */
SYMM_API symm_status symm_memory_usage(symm_context *ctx, symm_usage *out);

/* ------------------------------------------------------------- One-sided operations and signals */

/*
 * Signals count like a semaphore. A wait takes n signals: it returns when n signals that no earlier
 * wait has taken have come from rank `from` on that channel. The counters live on the device, so
 * graphs replay. Each (pad, channel, rank) may have one signaller and one waiter at a time. Host
 * calls and kernels (symm/device.cuh) share the counters.
 */

/*
 * Allocates a pad with channels 0 .. nchannels-1, all at zero. Freed with symm_free(group, pad) or
 * with the group.
 * Scope: Collective. Errors: as symm_alloc; ERROR_ARGUMENT: nchannels < 1
 */
SYMM_API symm_status symm_signal_pad_alloc(symm_group *group, int nchannels, symm_signal_pad **out);

/*
 * Copies nbytes from src, in any memory, to rank `to`'s copy of the symmetric object at dst. A
 * signal enqueued later on the same stream arrives after the data. If nbytes is 0, src may be NULL,
 * and dst is checked all the same.
 *
 * Scope:  Stream-ordered; only this rank calls it.
 * Memory: src and dst must stay valid until the copy is done on the stream. They must not overlap,
 *         unless they are equal.
 * Errors: ERROR_ARGUMENT  dst or its end is not symmetric memory, a NULL, a wrong rank
 *         ERROR_DRIVER, ERROR_PEER, ERROR_TIMEOUT, ERROR_STATE
 */
SYMM_API symm_status symm_put(symm_group *group, void *dst, const void *src, size_t nbytes, int to,
                              symm_stream stream);

/*
 * Copies nbytes from rank `from`'s copy of the symmetric object at src to dst, in any memory. If
 * nbytes is 0, dst may be NULL. Scope and errors: as symm_put
 */
SYMM_API symm_status symm_get(symm_group *group, void *dst, const void *src, size_t nbytes,
                              int from, symm_stream stream);

/*
 * Adds n signals of this rank on the channel of rank `to`, after all work enqueued on the stream so
 * far.
 * Scope:  Stream-ordered; only this rank calls it. n >= 1, and fewer than 2^31 signals outstanding.
 * Errors: ERROR_ARGUMENT, ERROR_DRIVER, ERROR_PEER, ERROR_TIMEOUT, ERROR_STATE
 */
SYMM_API symm_status symm_signal(symm_group *group, symm_signal_pad *pad, int channel, int to,
                                 uint32_t n, symm_stream stream);

/*
 * Blocks the stream until n signals of rank `from` have come on the channel, and takes them. Later
 * work on the stream sees the data that `from` wrote before its signals. Ends, with a sticky error,
 * if the group is aborted. Scope and errors: as symm_signal
 */
SYMM_API symm_status symm_wait(symm_group *group, symm_signal_pad *pad, int channel, int from,
                               uint32_t n, symm_stream stream);

/*
 * Barrier of the ranks' streams, also of several domains. Later work on this stream runs after all
 * work that every rank enqueued before its barrier, and sees the data it wrote. Scope:
 * Stream-ordered, all ranks.
 * Errors: as symm_signal; ERROR_MISMATCH (SYMM_CHECK=1). On several domains as symm_all_reduce()
 */
SYMM_API symm_status symm_barrier(symm_group *group, symm_stream stream);

/* ----------------------------------------------------------------------------- Your own kernels */

typedef struct symm_grid {
    uint32_t blocks, threads; /* both at least 1 */
    uint32_t smem_nbytes;     /* dynamic shared memory */
    uint32_t cluster;         /* blocks of a cluster; 0: no clusters */
    uint32_t flags, reserved[3];
} symm_grid;

enum {
    SYMM_GRID_PDL = 1u
}; /* programmatic dependent launch: may start before the previous kernel has ended */

/*
 * Fills in this group's view for kernels: a copy, valid until the group is released.
 * Scope: Local. Errors: ERROR_ARGUMENT (a NULL, or a group of several domains), ERROR_STATE
 */
SYMM_API symm_status symm_group_view(symm_group *group, symm_view *out);

/*
 * Loads the kernel `name` of an image eagerly. Load all kernels before ranks wait for each other in
 * kernels.
 * Scope:  Local. The kernel belongs to the context.
 * Errors: ERROR_ARGUMENT (a NULL, no kernel of that name), ERROR_UNSUPPORTED (no code for this
 *         driver or device), ERROR_VERSION (the image has another interface), ERROR_MEMORY,
 *         ERROR_DRIVER, ERROR_STATE (this thread is capturing)
 */
SYMM_API symm_status symm_kernel_load(symm_context *ctx, const symm_image *image, const char *name,
                                      symm_kernel **out);

/*
 * Computes how many blocks of the kernel can be resident together on every rank of the group; 0 if
 * none can.
 * Scope:  Collective, so that all ranks get the same number.
 * Errors: ERROR_ARGUMENT (a NULL, threads is 0 or too many for the kernel, too much shared memory,
 *         a kernel of another context), ERROR_DRIVER, ERROR_MISMATCH, ERROR_PEER, ERROR_TIMEOUT,
 *         ERROR_STATE
 */
SYMM_API symm_status symm_kernel_max_blocks(symm_group *group, symm_kernel *kernel,
                                            uint32_t threads, uint32_t smem_nbytes, uint32_t *out);

/*
 * Launches the kernel with its argument struct, which is copied. Fails if not all blocks can be
 * resident together.
 *
 * Checks the view if its offset is known. If the image has code for the emulated driver, this is
 * the member `view`, or the whole struct if it is a symm_view. With an image for GPUs only, checks
 * only the ABI of a view of this group at the beginning of the struct.
 *
 * Scope:  Stream-ordered.
 * Errors: ERROR_ARGUMENT  a NULL, a kernel of another context, a grid that cannot be resident,
 *                         blocks that are no multiple of cluster, more threads or shared memory
 *                         than the kernel can have, unknown flags, a wrong size of the argument (if
 *                         that is unknown: more than 4092 bytes), a view of zeros, reserved words
 *                         that are not 0
 *         ERROR_VERSION   a view of another ABI
 *         ERROR_DRIVER, ERROR_PEER, ERROR_TIMEOUT, ERROR_STATE
 */
SYMM_API symm_status symm_launch(symm_group *group, symm_kernel *kernel, const symm_grid *grid,
                                 const void *args, size_t nbytes, symm_stream stream);

/* Unloads the kernel; it must not be running. Scope: Local. NULL is fine. */
SYMM_API void symm_kernel_unload(symm_kernel *kernel);

/* ------------------------------------------------------------------------------------- Settings */

/* One environment variable that symm reads. */
typedef struct symm_setting {
    const char *name, *type, *fallback, *help; /* fallback: the default */
    const char *value;                         /* value in this process; NULL: not set */
} symm_setting;

/*
 * The index-th setting, from 0. value is valid until the environment changes; the other texts live
 * as long as the library. Scope: Local. Returns 0 past the last one or if out is NULL, else 1.
 */
SYMM_API int symm_setting_at(int index, symm_setting *out);

/*
 * The index-th environment variable, from 0, that begins with SYMM_ but is no setting, as
 * "NAME=value": probably a mistake. symm_context_create() logs each as a warning; symm-run and
 * `symm-info --env` print them. Valid until the environment changes.
 * Scope: Local. Returns NULL past the last one.
 */
SYMM_API const char *symm_setting_unknown(int index);

#ifdef __cplusplus
}
#endif

#endif
