/*
 * symm/stream.h - streams, events, plain memory and graphs for C programs without cudart, on either
 * driver. Programs with cudart may use its functions instead: the handles are the same.
 *
 * All functions are Local. Errors: ERROR_DRIVER with the driver's error if a driver call fails,
 * ERROR_ARGUMENT for a NULL that is not allowed, ERROR_MEMORY without host or device memory,
 * ERROR_STATE in a child of fork() and if a capture forbids the call. The caller owns each object
 * that a function makes. The destroy functions accept NULL.
 *
 * Destroy streams, events and graphs before their context. Otherwise they stay until the device's
 * primary context ends: with the last context of symm on that device, or later if cudart or other
 * code uses it, too. Afterwards a handle is invalid. If the process has no context of symm any
 * more, the destroy functions do nothing, and all other functions return ERROR_STATE.
 */
#ifndef SYMM_STREAM_H
#define SYMM_STREAM_H

#include <symm/symm.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Creates a stream that does not synchronize with the legacy stream, with the least priority. Calls
 * of a group on it take less host time than on streams of other code. In turn, only
 * symm_stream_destroy() may destroy it, and only symm_graph_begin() should capture it: while other
 * code captures the stream of a group's last call, calls of that group on other streams return
 * ERROR_STATE.
 */
SYMM_API symm_status symm_stream_create(symm_context *ctx, symm_stream *out);
SYMM_API void symm_stream_destroy(symm_stream stream);

/*
 * The same with a priority. Kernels of a stream with a lower number get free SMs first; running
 * kernels keep theirs. So a kernel that other ranks wait for belongs on a stream of the greatest
 * priority. The driver takes the nearest priority that it has.
 */
SYMM_API symm_status symm_stream_create_with_priority(symm_context *ctx, int priority,
                                                      symm_stream *out);
/* The priorities of the driver: 0 for the least, a negative number for the greatest. */
SYMM_API symm_status symm_stream_priorities(symm_context *ctx, int *least, int *greatest);

/*
 * Blocks the host until the work of the stream is done. Does not tell whether results of a group
 * are right: symm_synchronize() does. ERROR_STATE: the stream is being captured; the capture
 * continues.
 */
SYMM_API symm_status symm_stream_synchronize(symm_stream stream);

/*
 * Events mark a place in the work of a stream: symm_event_record() enqueues the mark, once or
 * again. Functions that use an event mean its last record before the call. An event without a
 * record counts as happened.
 */
SYMM_API symm_status symm_event_create(symm_context *ctx, symm_event *out);
SYMM_API void symm_event_destroy(symm_event event);
SYMM_API symm_status symm_event_record(symm_event event, symm_stream stream);
/*
 * Work enqueued on the stream from now on begins after the event. Stream-ordered; may be captured.
 * If the record was captured, the stream joins that capture, and must be joined to its first stream
 * in the same way before the capture ends.
 */
SYMM_API symm_status symm_stream_wait(symm_stream stream, symm_event event);
/* *out: 1 if the event has happened, else 0. Never blocks. ERROR_STATE: its record was captured. */
SYMM_API symm_status symm_event_query(symm_event event, int *out);
/* Blocks the host until the event has happened. ERROR_STATE: its record was captured. */
SYMM_API symm_status symm_event_synchronize(symm_event event);
/* Microseconds between two recorded events. ERROR_STATE: not both have happened yet. */
SYMM_API symm_status symm_event_elapsed_us(symm_event from, symm_event to, float *out);

/*
 * Plain device memory, aligned to 256 bytes, not symmetric.
 *
 * Errors: ERROR_ARGUMENT  nbytes is 0
 *         ERROR_MEMORY    the device has no nbytes left
 */
SYMM_API symm_status symm_device_alloc(symm_context *ctx, size_t nbytes, void **out);
/*
 * Frees memory of symm_device_alloc(). Ignores NULL, and memory that this context did not allocate
 * or has freed.
 */
SYMM_API void symm_device_free(symm_context *ctx, void *ptr);

/*
 * Pinned host memory, which copies read and write without blocking the host, and kernels at the
 * same address over PCIe. Contents are undefined. Freed with the context at the latest. The device
 * must be done with memory that is freed.
 *
 * Errors: as symm_device_alloc()
 */
SYMM_API symm_status symm_host_alloc(symm_context *ctx, size_t nbytes, void **out);
/* As symm_device_free(), for memory of symm_host_alloc(). */
SYMM_API void symm_host_free(symm_context *ctx, void *ptr);

/*
 * Copies nbytes between host and device memory, in any direction. Stream-ordered; with pageable
 * host memory it may block. dst and src must stay valid until the copy is done on the stream, and
 * must not overlap.
 */
SYMM_API symm_status symm_copy(void *dst, const void *src, size_t nbytes, symm_stream stream);
/* Sets nbytes bytes of device memory to `byte`. Stream-ordered. */
SYMM_API symm_status symm_fill(void *dst, int byte, size_t nbytes, symm_stream stream);

/*
 * Records all work enqueued on the stream between begin and end into a graph, which may be launched
 * any number of times. All ranks must launch it equally often. Memory that the graph uses must
 * outlive it. A thread may record several streams at once, and end them in any order. Kernels keep
 * the priority of the stream that they were recorded from.
 *
 * While a thread records, the driver forbids that thread symm_device_alloc(), symm_host_alloc(),
 * their free functions, symm_event_query(), symm_kernel_load() and symm_kernel_unload(). It forbids
 * all threads to query an event that was recorded in the capture. A forbidden call returns
 * ERROR_STATE and makes the capture invalid, so make such calls before the capture. A free function
 * then leaves the memory to the context, which frees it at its end. symm_stream_synchronize(),
 * symm_synchronize() and the Collective calls return ERROR_STATE, too, but the capture continues.
 *
 * Errors: ERROR_STATE  begin: the stream is already being captured, by symm or by other code; that
 *                      capture continues. end: it is not being captured, or the capture is invalid;
 *                      then there is no graph, and the stream can be used again. end: another
 *                      thread has begun the capture, which continues
 */
SYMM_API symm_status symm_graph_begin(symm_stream stream);
SYMM_API symm_status symm_graph_end(symm_stream stream, symm_graph *out);
SYMM_API symm_status symm_graph_launch(symm_graph graph, symm_stream stream);
SYMM_API void symm_graph_destroy(symm_graph graph);

#ifdef __cplusplus
}
#endif

#endif
