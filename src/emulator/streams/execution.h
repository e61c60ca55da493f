/*
 * Streams and what runs on them. Each device has an execution: its streams, each with a thread that
 * takes the stream's work in order, and its block threads (grid.c). One lock an execution; capture
 * has a lock of its own, which is taken first.
 *
 * What is enqueued is a work: immutable, counted references, since a graph runs it many times.
 */
#ifndef SYMM_EXECUTION_H
#define SYMM_EXECUTION_H

#include "emulator/state/call.h"

struct emu_capture;

/* ---- Handles (handle.c): a handle is valid from its creation to its destruction ---- */

enum emu_handle_kind {
    EMU_HANDLE_STREAM,
    EMU_HANDLE_EVENT,
    EMU_HANDLE_MODULE,
    EMU_HANDLE_FUNCTION,
    EMU_HANDLE_GRAPH,
    EMU_HANDLE_GRAPH_EXEC
};

/* False: no memory. */
bool emu__handle_add(enum emu_handle_kind kind, const void *handle);
/* False: it is no such handle. */
bool emu__handle_remove(enum emu_handle_kind kind, const void *handle);
bool emu__handle_valid(enum emu_handle_kind kind, const void *handle);

/* ---- Work ---- */

struct emu_work {
    atomic_int references;
    /* On the stream's worker. A failure is the device's: emu__device_fail. */
    void (*run)(struct emu_work *work, struct CUstream_st *stream);
    void (*destroy)(struct emu_work *work);
    bool (*uses)(const struct emu_work *work, const struct CUmod_st *module); /* NULL: no */
    bool always; /* runs after a device failure too, because others wait for it */
};

void emu__work_retain(struct emu_work *work);
void emu__work_release(struct emu_work *work);

/* ---- Executions and streams (execution.c, stream.c) ---- */

struct emu_item {
    struct emu_item *next;
    struct emu_work *work;
    uint64_t ticket;
};

/*
 * Whether what this thread runs is of a graph without priorities of its own: its kernels then have
 * that of the stream in which it was launched.
 */
extern _Thread_local bool emu__stream_priorities;

/* Of streams: what such a device has, the greatest being the least number. */
enum { EMU_PRIORITY_LEAST = 0, EMU_PRIORITY_GREATEST = -5 };

struct CUstream_st {
    struct emu_execution *execution;
    unsigned flags;
    int priority; /* that of the kernels launched in it */
    _Atomic(struct emu_capture *)
        capture; /* that it takes part in; changed under the capture lock */
    unsigned capture_slot;
    /* Under the execution's lock. */
    struct CUstream_st *next;
    unsigned references; /* the handle, the worker, and works that wait for it */
    bool destroyed, has_worker;
    struct emu_item *current, *first, **last;
    uint64_t oldest; /* the ticket of the first work that is not done; UINT64_MAX: all is done */
    uint64_t newest; /* the last ticket given out */
    pthread_cond_t work_came;
};

struct emu_block_thread;
struct emu_grid;

/* Places for blocks of kernels that may have more than a warp, and of those that never have. */
enum emu_slot_kind { EMU_LARGE, EMU_SMALL, EMU_SLOT_KINDS };

struct emu_execution {
    struct emu_device *device;
    pthread_mutex_t lock;
    unsigned references; /* the device, each stream, each thread */
    bool closing;
    uint64_t tickets;
    pthread_cond_t work_done; /* whenever a stream's oldest changes */
    struct CUstream_st *streams, *legacy;
    /* grid.c: grids in the order of their start, and the places for blocks that are free. */
    struct emu_grid *grids;
    unsigned free_slots[EMU_SLOT_KINDS], coming;
    uint64_t launches, seeds; /* launches since emu__seeds was this */
    struct emu_block_thread *parked;
};

/* With one reference, that of its handle. NULL: no memory. */
struct CUstream_st *emu__stream_create(struct emu_execution *execution, unsigned flags);
void emu__stream_link_locked(struct CUstream_st *stream);
/* Drops a reference; the last one takes the stream off the execution's list. */
void emu__stream_release_locked(struct CUstream_st *stream);
/* The handle goes. */
void emu__stream_end_locked(struct CUstream_st *stream);
/* Whether something up to the ticket is still to be done, by what a wait for this stream covers. */
bool emu__stream_busy_locked(const struct CUstream_st *stream, uint64_t ticket);

/* The device's execution, made at first use. NULL: no memory. */
struct emu_execution *emu__execution(struct emu_device *device);
void emu__execution_retain_locked(struct emu_execution *execution);
/* Unlocks, and frees it if this was the last reference. */
void emu__execution_release_unlock(struct emu_execution *execution);

/*
 * What a stream argument means: a valid handle, or the current context's legacy stream. Fails with
 * CUDA_ERROR_INVALID_HANDLE, or as enqueueing on another context's stream does if `enqueue`.
 */
CUresult emu__stream_get(CUstream handle, bool enqueue, struct CUstream_st **out);

/* Takes over the work: puts it into the stream's queue, or into the capture the stream is in. */
CUresult emu__stream_enqueue(struct CUstream_st *stream, struct emu_work *work);
/* Past captures: straight into the queue. */
CUresult emu__stream_push(struct CUstream_st *stream, struct emu_work *work);
/* Waits for what is in the stream now and, for the legacy stream, in the blocking ones. */
void emu__stream_wait(struct CUstream_st *stream);
/* Waits until the execution has nothing to do. */
void emu__execution_wait(struct emu_execution *execution);
/* At most so long; false: it still has. */
bool emu__execution_wait_ms(struct emu_execution *execution, int ms);

/* Whether a work that has not ended runs a kernel of the module. */
bool emu__execution_uses(struct emu_execution *execution, const struct CUmod_st *module);

/* The error that calls of this device return. */
static inline CUresult emu__sticky(const struct emu_execution *execution)
{
    return atomic_load(&execution->device->sticky);
}

/* ---- Marks: what was enqueued before a point of a stream (event.c) ---- */

struct emu_mark {
    atomic_int references;
    pthread_mutex_t lock;
    pthread_cond_t reached_cond;
    bool reached;
    int64_t ns;
};

struct emu_mark *emu__mark_create(void);
struct emu_mark *emu__mark_retain(struct emu_mark *mark);
void emu__mark_release(struct emu_mark *mark); /* NULL is allowed */
void emu__mark_reach(struct emu_mark *mark);
bool emu__mark_reached(struct emu_mark *mark);
/* Waits; gives up when the device of `execution` fails. */
void emu__mark_wait(struct emu_mark *mark, struct emu_execution *execution);

/* ---- Captures and graphs (capture.c, graph.c) ---- */

/*
 * A work of a graph, and what comes before it of each branch: a number of works, and one more for
 * the beginning of the branch; 0: not even that.
 */
struct emu_node {
    struct emu_work *work;
    unsigned branch;
    uint64_t *seen;
    unsigned nseen;
};

/*
 * The works of a graph in the order in which they were recorded, in branches, which run side by
 * side. Not changed once it is shared.
 */
struct emu_nodes {
    atomic_int references;
    size_t count, capacity;
    struct emu_node *nodes;
    unsigned nbranches;
};

struct emu_nodes *emu__nodes_create(void);
bool emu__nodes_add(struct emu_nodes *nodes, struct emu_work *work, unsigned branch,
                    const uint64_t *seen, unsigned nseen);
void emu__nodes_release(struct emu_nodes *nodes);
/* A graph of these nodes, of which it takes over the reference. NULL: no memory. */
CUgraph emu__graph_create(struct emu_nodes *nodes);

/* Where an event recorded in a capture stands. */
struct emu_capture_point {
    struct emu_capture *capture; /* NULL: not recorded in one */
    uint64_t *seen;
    unsigned nseen;
};

void emu__capture_point_clear(struct emu_capture_point *point);

bool emu__capturing(struct CUstream_st *stream);
/* A work or an event of a capturing stream. */
CUresult emu__capture_add(struct CUstream_st *stream, struct emu_work *work);
CUresult emu__capture_record(struct CUstream_st *stream, struct emu_capture_point *point);
/* A stream waits for an event that was recorded in a capture: joins it, or the two are joined in
 * it. */
CUresult emu__capture_wait(struct CUstream_st *stream, const struct emu_capture_point *point);
/* A capturing stream waits for an event recorded outside. */
CUresult emu__capture_isolation(struct CUstream_st *stream);
/* Asking for the state of a capturing stream or event, or waiting for it, ends its capture. */
CUresult emu__capture_refuse(struct emu_capture *capture, CUresult error, const char *what);
CUresult emu__capture_refuse_stream(struct CUstream_st *stream, const char *what);
/* The legacy stream may not be used while a blocking stream of its device captures. */
CUresult emu__capture_implicit(struct emu_execution *execution, bool invalidate);
/* Whether any stream of the execution captures; ends those captures. */
CUresult emu__capture_refuse_device(struct emu_execution *execution, const char *what);
/* The stream handle is destroyed. */
void emu__capture_forget(struct CUstream_st *stream);
/* All streams of the execution are: its context ends. */
void emu__capture_close(const struct emu_execution *execution);

#endif
