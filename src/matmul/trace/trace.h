/* The trace of a product: memory for the events of its last run, on the device and on the host. */
#ifndef SYMM_MATMUL_PRODUCT_TRACE_H
#define SYMM_MATMUL_PRODUCT_TRACE_H

#include "matmul/kernels/trace.h"
#include "runtime/group/kernel.h"

struct symm_trace_room; /* on the device */

struct symm_product_trace {
    struct symm_trace_room *room; /* NULL: untraced */
    symm_matmul_event *events;    /* those read last; or NULL */
};

/*
 * Loads the traced kernels and takes room for events, without any. *view is the view of a group
 * and gets the trace, for the product's kernels. Local; the primary context is current. Errors:
 * ERROR_MEMORY, ERROR_DRIVER
 */
symm_status symm__trace_open(struct symm_context *ctx, symm_view *view,
                             struct symm_product_trace *out);
/* Gives the room back to the context; the product's runs are done. Never waits. */
void symm__trace_close(struct symm_product_trace *trace);

/* Enqueues the removal of all events, before a run in which SMs send this many chunks. */
symm_status symm__trace_clear(const struct symm_product_trace *trace, CUstream stream,
                              uint32_t sends);

/* See symm_matmul_trace(). The primary context is current. */
symm_status symm__trace_read(struct symm_product_trace *trace, const symm_matmul_event **events,
                             size_t *nevents, size_t *ndropped);

/* The kernel of products with this view: the traced one if the view has a trace. */
static inline symm_kernel_id symm__trace_kernel(symm_kernel_id kernel, const symm_view *view)
{
    return SYMM_TRACE_OF(*view) ? kernel + SYMM_KERNELS_TRACED : kernel;
}

#endif
