/*
 * What the files of the emulated driver share. The emulator is a CUDA driver and nothing else: it
 * knows src/driver_abi.h and include/symm/detail/emulated.h, and nothing of the runtime above it.
 *
 * Physical memory and multicast objects are memfds, so nothing is left behind by a killed process
 * and two jobs never meet. Kernels run on threads of the operating system (grid.c and its
 * neighbours); the memory half answers what an address is (address services below).
 *
 * Names: an entry of the driver is emu_cuXxx, a function shared between files is emu__xxx.
 */
#ifndef SYMM_EMULATOR_H
#define SYMM_EMULATOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>
#include <symm/detail/emulated.h>
#include "abi/cuda_driver.h"

#define EMU_DRIVER_VERSION 13000
#define EMU_MAX_DEVICES 128

/* Every entry of the driver: CUresult emu_cuInit(unsigned int flags); and so on. */
#define EMU_DECLARE_(fn, version, need, params) CUresult emu_##fn params;
CU_FUNCTIONS(EMU_DECLARE_)
#undef EMU_DECLARE_

/*
 * ---- The frame of a call: trace, injected faults, checks (call.c) ----
 *
 *     CUresult emu_cuMemFree(CUdeviceptr ptr)
 *     {
 *         EMU_BEGIN_CONTEXT("ptr=%#llx", ptr);
 *         CUresult result = CUDA_SUCCESS;
 *         ...
 *         return EMU_END(result);
 *     }
 *
 * An entry calls no other entry, or its trace and counts would show calls that nobody made.
 */
struct emu_call {
    const char *name; /* "cuMemFree" */
    CUresult result;  /* of a call that emu__begin ended already */
    char args[256];   /* formatted only if there is a trace */
};

enum emu_need {
    EMU_NEED_NOTHING, /* may be called before cuInit */
    EMU_NEED_INIT,
    EMU_NEED_CONTEXT, /* a live current context */
    EMU_NEED_HEALTHY  /* and no sticky error on its device */
};

#define EMU_BEGIN_(need, ...)                                                                      \
    struct emu_call call_;                                                                         \
    if (!emu__begin(&call_, (need), &__func__[4], __VA_ARGS__))                                    \
    return call_.result

#define EMU_BEGIN(...) EMU_BEGIN_(EMU_NEED_INIT, __VA_ARGS__)
/* For calls that release things: they work after a sticky error too (and then return it). */
#define EMU_BEGIN_CONTEXT(...) EMU_BEGIN_(EMU_NEED_CONTEXT, __VA_ARGS__)
#define EMU_BEGIN_HEALTHY(...) EMU_BEGIN_(EMU_NEED_HEALTHY, __VA_ARGS__)
#define EMU_END(result) emu__end(&call_, (result))
/* After EMU_BEGIN: a pointer that the call cannot do without. */
#define EMU_NOT_NULL(pointer)                                                                      \
    if (!(pointer))                                                                                \
    return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "%s is NULL", #pointer))

bool emu__begin(struct emu_call *call, enum emu_need need, const char *name, const char *format,
                ...) __attribute__((format(printf, 4, 5)));
CUresult emu__end(struct emu_call *call, CUresult result);

/*
 * The call broke a rule of the driver: one line on stderr that names rank, call and rule, which the
 * entry symm_emulated_last_rule gives to tests. Returns `result`. Not for what can happen to a
 * correct program (out of memory, not ready, an unknown pointer in cuPointerGetAttribute). With
 * CUDA_SUCCESS for a mistake that the driver lets pass, or answers by waiting: see EMU_PATIENCE_MS.
 */
CUresult emu__rule(CUresult result, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same outside of a call: `call` is the kernel or the asynchronous operation that runs. */
CUresult emu__rule_at(int rank, const char *call, CUresult result, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/*
 * A call that waits for something that may never come, which the real driver does without a word,
 * says so after this long, and goes on waiting.
 */
#define EMU_PATIENCE_MS 1000

/* The rank for reports: the current device's ordinal, else SYMM_RANK, else -1 (shown as ?). */
int emu__rank(void);

/* ---- The machine (machine.c): the settings, read once by cuInit; time and chance ---- */

enum emu_leaks {
    EMU_LEAKS_REPORT, /* one line with the counts */
    EMU_LEAKS_LIST,   /* and one for each thing */
    EMU_LEAKS_FAIL,   /* and the process fails */
    EMU_LEAKS_OFF
};

struct emu_machine {
    int ndevices;
    uint64_t memory_nbytes; /* of each device */
    bool multicast;
    bool pageable; /* devices can access all of the host's memory */
    size_t granularity;
    int sms, max_block_threads;
    int places; /* for blocks of more than a warp, on each multiprocessor */
    _Atomic uint64_t seed;
    bool weak; /* memory is weakly ordered */
    enum symm_emulated_order order;
    enum emu_leaks leaks;
    const char *trace_prefix; /* NULL: no trace */
};

extern struct emu_machine emu__machine;

/* Another seed: blocks that start afterwards use it, and launches are counted anew. */
void emu__set_seed(uint64_t seed);
/* How often that has happened. */
extern _Atomic uint64_t emu__seeds;

/* The monotonic clock: now, a time on it, and a condition whose timed waits go by it. */
int64_t emu__now_ns(void);
struct timespec emu__in_ms(int ms);
void emu__cond_init(pthread_cond_t *cond);

/* A number that is the same in every run with the same seed. `what` tells its users apart. */
uint64_t emu__random(uint64_t seed, uint64_t what);

/* ---- Devices and primary contexts (device.c) ---- */

struct CUctx_st {
    struct emu_device *device;
    int retained; /* under emu__lock; 0: destroyed */
};

struct emu_device {
    int ordinal;
    struct CUctx_st primary;
    _Atomic(CUresult) sticky; /* what every later call with this context returns; cleared with it */
    uint64_t used_nbytes;     /* under emu__lock */
    void *streams;            /* the stream half's state; created and freed by it */
};

/* NULL: there is no such device. */
struct emu_device *emu__device(int ordinal);

/* The device that runs on this thread: set on the threads that execute work for a device. */
extern _Thread_local struct emu_device *emu__running;

/* emu__running, else the device of the thread's current context, else NULL. */
struct emu_device *emu__device_current(void);
/* Makes the first error stick. */
void emu__device_fail(struct emu_device *device, CUresult error);

/*
 * The one lock of the tables (devices, handles, mappings, allocations). Never held while something
 * waits or while kernel code runs. The stream half has locks of its own; it may take this one while
 * it holds its own, never the other way round.
 */
extern pthread_mutex_t emu__lock;

/* ---- What the process holds (leaks.c): for symm_emulated_objects and the leak report ---- */

enum emu_count {
    EMU_HANDLES,
    EMU_MAPPINGS,
    EMU_RESERVATIONS,
    EMU_BINDS,
    EMU_FDS,
    EMU_ALLOCATIONS,
    EMU_HOST_ALLOCATIONS,
    EMU_STREAMS,
    EMU_EVENTS,
    EMU_GRAPHS,
    EMU_GRAPH_EXECS,
    EMU_MODULES,
    EMU_CONTEXTS,
    EMU_COUNTS
};

void emu__count(enum emu_count what, int by);

/* ---- Address services (address.c, replica.c) for copies, kernels and the fault handler ---- */

enum emu_access { EMU_READ = 1, EMU_WRITE = 2 };

enum emu_address_kind {
    EMU_ADDRESS_FOREIGN,   /* not the driver's: the program's own (pageable) memory, or nothing */
    EMU_ADDRESS_UNMAPPED,  /* reserved, nothing mapped there; or beyond an allocation's end */
    EMU_ADDRESS_MAPPED,    /* physical memory mapped with cuMemMap */
    EMU_ADDRESS_MULTICAST, /* a multicast object mapped with cuMemMap */
    EMU_ADDRESS_DEVICE,    /* cuMemAlloc */
    EMU_ADDRESS_HOST       /* cuMemHostAlloc */
};

struct emu_address {
    enum emu_address_kind kind;
    int device;        /* whose memory it is; -1: not known */
    int access;        /* of the device asked for: EMU_READ | EMU_WRITE */
    CUdeviceptr start; /* of the mapping or allocation */
    size_t nbytes;
    char *home; /* where this process keeps the byte asked about; NULL for MULTICAST, UNMAPPED */
    size_t run; /* how many bytes from there on the answer holds for */
};

/* What ptr is for `device` (NULL: no access is worked out). FOREIGN answers with home = ptr. */
void emu__address(const struct emu_device *device, const void *ptr, struct emu_address *out);

/*
 * Whether `device` may access all of [ptr, ptr + nbytes). Foreign memory may be accessed (as copies
 * from pageable memory may). False: `why` gets the rule that is broken.
 */
bool emu__accessible(const struct emu_device *device, const void *ptr, size_t nbytes, int access,
                     char *why, size_t why_nbytes);

/*
 * Why an access of `device` to ptr faulted, as text for a report ("plain access to a multicast
 * address", "device 2 has no access", "nothing is mapped there"). Takes emu__lock: call it for
 * faults of kernel code only, from the handler or after the jump out of it.
 */
void emu__describe(const struct emu_device *device, const void *ptr, char *text,
                   size_t text_nbytes);

/*
 * The replicas behind a multicast address, for emu__device_current(), in the machine's order; at
 * most EMU_MAX_DEVICES. -1: `why` gets the rule that is broken, and begins with "misaligned" if it
 * is that; the caller ends the kernel.
 */
int emu__replicas(const void *multicast, size_t nbytes, void *out[], char *why, size_t why_nbytes);

/*
 * What an access of the running device goes by: addresses around ptr, where this process keeps them
 * and what the device may do there (nothing where no memory of the driver is). Each thread
 * remembers the last ones; the answer is good until its next question.
 */
struct emu_span {
    uintptr_t start;
    size_t nbytes;
    char *home; /* of start */
    int access;
};

const struct emu_span *emu__span(const void *ptr);

/* ---- What the memory half asks of the stream half (stream.c) ---- */

/* Waits until all work of the device that was enqueued so far is done. Without emu__lock. */
void emu__streams_drain(struct emu_device *device);
/* The last reference to the primary context has gone: drains, stops the device's threads. */
void emu__streams_close(struct emu_device *device);
/*
 * A call that may not happen during a capture (cuMemAlloc, cuMemFree and the like), by this
 * thread's capture mode. CUDA_SUCCESS, or CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED with the rule
 * reported and the capture invalidated.
 */
CUresult emu__capture_forbids(void);

#endif
