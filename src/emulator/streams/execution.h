/*
 * The execution of a device: its streams, each with a thread that takes the stream's work in order,
 * and the device's SMs. One lock for each execution.
 *
 * Each enqueued operation is a work. It is immutable and reference counted, since a graph runs it
 * many times.
 */
#ifndef SYMM_EMULATOR_EXECUTION_H
#define SYMM_EMULATOR_EXECUTION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "abi/cuda_driver.h"
#include "emulator/blocks/grid.h"
#include "emulator/state/devices.h"

struct emu_work {
    atomic_int references;
    /* Runs on the stream's thread. A failure is the device's: emu__device_fail. */
    void (*run)(struct emu_work *work, struct CUstream_st *stream);
    void (*destroy)(struct emu_work *work);
    bool (*uses)(const struct emu_work *work, const struct CUmod_st *module); /* NULL: no */
    bool always; /* runs after a device failure too, because others wait for it */
    bool early;  /* a kernel that may begin before the one in front of it has ended */
};

void emu__work_retain(struct emu_work *work);
void emu__work_release(struct emu_work *work);

struct emu_item {
    struct emu_item *next;
    struct emu_work *work;
    uint64_t ticket;
};

struct emu_capture;

struct CUstream_st {
    struct emu_execution *execution;
    unsigned flags;
    int priority;                          /* of the kernels launched in it */
    _Atomic(struct emu_capture *) capture; /* that it is in; changed under the capture lock */
    unsigned capture_slot;
    /* Under the execution's lock. */
    struct CUstream_st *next;
    unsigned references; /* the handle, the thread, and works that wait for it */
    bool destroyed, has_thread;
    struct emu_item *current, *first, **last; /* current: what runs, with what began early behind */
    uint64_t oldest; /* the ticket of the first work that is not done; UINT64_MAX: all are done */
    uint64_t newest; /* the last ticket */
    pthread_cond_t work_came;
};

struct emu_execution {
    struct emu_device *device;
    struct emu_sms *sms;
    pthread_mutex_t lock;
    unsigned references; /* the device, each stream, each thread */
    uint64_t tickets;
    pthread_cond_t work_done; /* signalled when a stream's oldest changes */
    struct CUstream_st *streams, *legacy;
};

/* Makes a stream with one reference, that of its handle. NULL: no memory. */
struct CUstream_st *emu__stream_create(struct emu_execution *execution, unsigned flags);
void emu__stream_link_locked(struct CUstream_st *stream);
/* Drops a reference. The last one removes the stream from the execution's list. */
void emu__stream_release_locked(struct CUstream_st *stream);
/* Drops the handle's reference; the thread ends after its work. */
void emu__stream_end_locked(struct CUstream_st *stream);
/* Whether a wait for this stream still waits for work up to the ticket. */
bool emu__stream_busy_locked(const struct CUstream_st *stream, uint64_t ticket);
/* Waits for the work that is in the stream now; for the legacy stream, in the blocking ones too. */
void emu__stream_wait(struct CUstream_st *stream);

/* The device's execution, made at first use. NULL: no memory. */
struct emu_execution *emu__execution(struct emu_device *device);
/* Takes the execution from its device. NULL: it has none. */
struct emu_execution *emu__execution_detach(struct emu_device *device);
void emu__execution_retain_locked(struct emu_execution *execution);
/* Unlocks, and frees it if this was the last reference. */
void emu__execution_release_unlock(struct emu_execution *execution);
/* Waits until the execution has nothing to do. */
void emu__execution_wait(struct emu_execution *execution);
/* The same for at most `ms`. False: it still has work. */
bool emu__execution_wait_ms(struct emu_execution *execution, int ms);
/* Whether a work that has not ended runs a kernel of the module. */
bool emu__execution_uses(struct emu_execution *execution, const struct CUmod_st *module);
/* The hook streams_drain. */
void emu__streams_drain(struct emu_device *device);

/* The error that calls of this device return. */
static inline CUresult emu__sticky(const struct emu_execution *execution)
{
    return atomic_load(&execution->device->sticky);
}

#endif
