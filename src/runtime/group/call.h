/*
 * The beginning and end of every call on a group. Every call refuses ended groups and forked
 * children, and is noted for error texts of other ranks. A stream-ordered call also keeps the order
 * of the group: outside of captures, a call on another stream waits for the call before, and for
 * the work on that call's stream up to now. With SYMM_CHECK=1 it is compared with the other ranks'
 * calls. A collective call is refused while a stream is being captured.
 */
#ifndef SYMM_CALL_H
#define SYMM_CALL_H

#include "context.h"
#include "kernel.h"

struct symm_call {
    struct symm_group *group;
    CUstream stream;
    bool spans;                 /* the group may have several domains */
    bool capturing, pushed;     /* pushed: the primary context was not current before */
    struct symm_late_text late; /* of a stream-ordered call */
    char text[SYMM_CALL_MAX];   /* "symm_put(...)"; empty if only `late` has it */
};

/*
 * Begins a stream-ordered call. all_ranks: all ranks of the group make this call, so it can be
 * compared. The format gives the call with the arguments that must agree, as
 * symm__late_text_keep() takes it. On OK, the primary context is current and symm__call_end() must
 * follow. On failure the text begins with the call's name.
 */
__attribute__((format(printf, 5, 6))) symm_status
symm__call_begin(struct symm_call *call, struct symm_group *group, symm_stream stream,
                 bool all_ranks, const char *fmt, ...);
/* The same for a group that may have several domains: the call does not use its memory. */
__attribute__((format(printf, 5, 6))) symm_status
symm__call_begin_spanning(struct symm_call *call, struct symm_group *group, symm_stream stream,
                          bool all_ranks, const char *fmt, ...);
/*
 * Ends the call: records the order and restores the caller's context. A call that has failed is in
 * the order, too: it may have enqueued a part of its work. Returns st, or its own first failure.
 * Adds the call's name and this rank to the text.
 */
symm_status symm__call_end(struct symm_call *call, symm_status st);

/* *out: an event behind the group's last call outside of captures, which there has to be. */
symm_status symm__group_last(struct symm_group *group, CUevent *out);

/*
 * Launches a kernel of the library. pdl: the kernel calls symm_dev_pdl_wait() before it accesses
 * memory, so it may begin before the previous kernel has ended.
 */
symm_status symm__call_launch(struct symm_call *call, symm_kernel_id id, uint32_t blocks,
                              uint32_t threads, bool pdl, const void *args);
/* Launches a kernel whose blocks never wait, so they need not be resident together. */
symm_status symm__call_launch_local(struct symm_call *call, symm_kernel_id id, uint32_t blocks,
                                    uint32_t threads, const void *args);
/*
 * The same with clusters of `cluster` blocks (1: no clusters) and shared_nbytes of dynamic shared
 * memory for each block. The kernel's attribute must allow that size. pdl: as above.
 */
symm_status symm__call_launch_cluster(struct symm_call *call, symm_kernel_id id, uint32_t blocks,
                                      uint32_t threads, uint32_t cluster, uint32_t shared_nbytes,
                                      bool pdl, const void *args);

/*
 * Tells that the kernel launched last settles (settled.h). The group's next launch finds
 * group->settled true if no other call or launch comes between them on the stream.
 */
void symm__call_settles(struct symm_call *call);
/* Tells that something else comes on the call's stream. Every launch above does so. */
void symm__call_unsettles(struct symm_call *call);

/*
 * Allocates symmetric memory of the library for the call's group, owned by `owner`. Collective,
 * during a collective call. Errors: as symm__memory_alloc(), but ERROR_MEMORY if the window cannot
 * hold it: the caller has named no number of bytes.
 */
symm_status symm__call_alloc(struct symm_call *call, void *owner, uint64_t nbytes, void **out);

/*
 * Begins a collective call; its votes use call->text. The failure text begins with the call's name.
 * If a rank cannot begin, it votes a failure and all ranks of the group fail. With all_ranks false,
 * the caller has to tell the other ranks.
 */
__attribute__((format(printf, 4, 5))) symm_status symm__collective_begin(struct symm_call *call,
                                                                         struct symm_group *group,
                                                                         bool all_ranks,
                                                                         const char *fmt, ...);
/* The same for calls that need no memory, so that the group may have several domains. */
__attribute__((format(printf, 4, 5))) symm_status
symm__collective_begin_spanning(struct symm_call *call, struct symm_group *group, bool all_ranks,
                                const char *fmt, ...);
symm_status symm__collective_end(struct symm_call *call, symm_status st);
/*
 * Ends a collective call whose arguments are wrong on this rank: votes ERROR_ARGUMENT, so that the
 * call fails on all ranks. Returns ERROR_ARGUMENT with this text.
 */
__attribute__((format(printf, 2, 3))) symm_status symm__collective_refuse(struct symm_call *call,
                                                                          const char *fmt, ...);

/* "call 12: symm_all_reduce(...)"; empty: no call. */
void symm__enqueued_write(const struct symm_enqueued *enqueued, char *text, size_t nbytes);

/* Notes the current collective call of this rank for other ranks' texts; NULL: it has returned. */
void symm__collective_note(struct symm_group *group, const char *call);

/*
 * The first check of every call: NULL, forked child, sticky status of the group. Local; any thread.
 * Errors: ERROR_ARGUMENT, ERROR_STATE, the sticky status; the text begins with `call`.
 */
symm_status symm__enter(const struct symm_group *group, const char *call);
/*
 * Whether this process was forked from the context's process. Memory of a destroyed context may
 * look so, too, and SYMM_GONE() is the text for both.
 */
bool symm__forked(const struct symm_context *ctx);
#define SYMM_GONE(noun)                                                                            \
    "the " noun " was destroyed, or belongs to the process this one was forked from"

#endif
