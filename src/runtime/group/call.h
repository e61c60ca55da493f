/*
 * What every call on a group does before and after its work. All of them refuse dead groups and
 * forked children and note the call for the other ranks' error texts. A stream-ordered call also
 * keeps the group's one order (outside of captures a call on another stream waits for the call
 * before), and with SYMM_CHECK=1 is compared with the other ranks' calls. A collective one is
 * refused while a stream is being captured.
 */
#ifndef SYMM_CALL_H
#define SYMM_CALL_H

#include "context.h"
#include "kernel.h"

struct symm_call {
    struct symm_group *group;
    CUstream stream;
    bool capturing;
    char text[SYMM_CALL_MAX]; /* "symm_put(...)" */
};

/*
 * Begins a call. everyone: all ranks of the group make this call (so it can be compared); the
 * format is the call with its arguments, as ranks must agree on them. On OK, symm__call_end must
 * follow, and the primary context is current. On failure the text begins with the call's name.
 */
__attribute__((format(printf, 5, 6))) symm_status
symm__call_begin(struct symm_call *call, struct symm_group *group, symm_stream stream,
                 bool everyone, const char *fmt, ...);
/*
 * Ends it: restores the caller's context, records the order. Returns st, or the first failure of
 * its own; puts the call's name and this rank in front of the text.
 */
symm_status symm__call_end(struct symm_call *call, symm_status st);

/*
 * Launches one of the library's own kernels. early: it calls symm_dev_pdl_wait first and so may
 * begin while the kernel before it ends.
 */
symm_status symm__call_launch(struct symm_call *call, symm_kernel_id id, uint32_t blocks,
                              uint32_t threads, bool early, const void *args);
/* One whose blocks wait for nobody, so that they need not all be resident. */
symm_status symm__call_launch_local(struct symm_call *call, symm_kernel_id id, uint32_t blocks,
                                    uint32_t threads, const void *args);
/*
 * The same in clusters of so many blocks, or of 1 in none, each with so much dynamic shared memory,
 * which the kernel has been allowed.
 */
symm_status symm__call_launch_cluster(struct symm_call *call, symm_kernel_id id, uint32_t blocks,
                                      uint32_t threads, uint32_t cluster, uint32_t shared_nbytes,
                                      const void *args);

/*
 * The same for collective calls; call->text is what a vote brings. The text gets the call's name in
 * front. When a rank cannot even begin, all ranks of the group fail with it; with everyone false
 * the caller tells the others.
 */
__attribute__((format(printf, 4, 5))) symm_status symm__collective_begin(struct symm_call *call,
                                                                         struct symm_group *group,
                                                                         bool everyone,
                                                                         const char *fmt, ...);
symm_status symm__collective_end(struct symm_call *call, symm_status st);
/*
 * Ends a collective call that this rank cannot make because its arguments are wrong, instead of
 * going on: takes part in the others' vote, so that they hear of it. Returns ERROR_ARGUMENT with
 * this text.
 */
__attribute__((format(printf, 2, 3))) symm_status symm__collective_refuse(struct symm_call *call,
                                                                          const char *fmt, ...);

/* The collective call that this rank is in, for the others; NULL: it has returned. */
void symm__collective_note(struct symm_group *group, const char *call);

/*
 * The check that every call makes first: NULL, fork, and what the group has died of. Local; any
 * thread. Errors: ERROR_ARGUMENT, ERROR_STATE, the sticky status; the text begins with `call`.
 */
symm_status symm__enter(const struct symm_group *group, const char *call);
/* Whether this is a child of fork() of the context's process. */
bool symm__forked(const struct symm_context *ctx);

#endif
