/* The trace of a product in device memory: for C and for kernels. */
#ifndef SYMM_MATMUL_KERNEL_TRACE_H
#define SYMM_MATMUL_KERNEL_TRACE_H

#include <symm/matmul.h>

enum { SYMM_TRACE_CAPACITY = 1 << 16 /* events of a run */ };

/*
 * The events of a run follow it. The first ones are of the chunks that SMs send, in the order of
 * all chunks to all ranks, since two blocks record such an event together. All others are appended.
 */
typedef struct symm_trace {
    uint32_t count; /* of events, also of those that find no room */
    uint32_t reserved[15];
} symm_trace;

/* Kernels find their trace by the first reserved word of their view: its address; 0: untraced. */
#define SYMM_TRACE_OF(view) ((view).reserved[0])

#endif
