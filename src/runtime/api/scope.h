/* The beginning and the end of a call on streams, events or memory outside of groups. */
#ifndef SYMM_SCOPE_H
#define SYMM_SCOPE_H

#include "runtime/group/context.h"

struct symm_scope {
    const struct symm_driver *drv; /* NULL: not begun */
    bool pushed;
};

/*
 * Finds the driver and makes the stream's context current. For the legacy stream, keeps the current
 * context. Errors: ERROR_STATE, ERROR_DRIVER
 */
symm_status symm__scope_begin(struct symm_scope *s, CUstream stream);
/* Makes the context's primary context current. Errors: ERROR_ARGUMENT, ERROR_STATE, ERROR_DRIVER */
symm_status symm__scope_begin_in(struct symm_scope *s, struct symm_context *ctx);
/* Undoes a begin, also one that failed. On failure puts the call's name in front of the text. */
symm_status symm__scope_end(struct symm_scope *s, symm_status st, const char *call);

/* ERROR_ARGUMENT "NAME is NULL" if the argument is. */
symm_status symm__need(const void *argument, const char *name);

#endif
