/*
 * A running block: its passes (block.c), the operations of its threads and where they wait for each
 * other (block_ops.c), their dynamic shared memory (shared.c), and their faults (block_fault.c).
 */
#ifndef SYMM_EMULATOR_BLOCK_H
#define SYMM_EMULATOR_BLOCK_H

#include "abi/cuda_driver.h"
#include "cluster.h"
#include "fiber.h"
#include "grid.h"
#include "weak.h"

/* A stack that runs one CUDA thread after another. */
struct carrier {
    struct emu_fiber fiber;
    struct cuda_thread *thread; /* NULL: idle */
};

struct cuda_thread {
    struct symm_emulated_thread self;
    struct carrier *carrier; /* NULL: not begun yet, or ended */
    unsigned index;
    /* Its contribution to the warp exchange in which it waits. */
    uint32_t mask; /* 0: it waits in no exchange */
    size_t nbytes;
    const void *mine;
    void *all;
    /* Its wait for an event. met() tells, under the cluster's lock, whether it has happened. */
    bool (*met)(const struct block *b, const struct cuda_thread *t);
    void (*describe)(const struct block *b, const struct cuda_thread *t, char *text, size_t nbytes);
    const void *object; /* of the wait, and what of it: their meaning is that of met */
    uint64_t value;
    /* Between barrier.cluster.arrive and .wait. */
    bool arrived;
    uint64_t phase;
};

/*
 * The asynchronous units of an SM, and what a block keeps for them: of the room hopper. They are
 * made by the first operation of a block's thread, and kept for its next blocks.
 */
struct emu_units {
    void (*begin)(struct block *b); /* a block begins */
    bool (*work)(struct block *b);  /* does some outstanding work. False: there was none */
    void (*end)(struct block *b);   /* all threads have ended */
    void (*free)(struct emu_units *units);
};

/* Dynamic shared memory. It begins at a multiple of 1 KiB, and inaccessible pages are around it. */
struct emu_shared {
    char *base, *at; /* the mapping; the block's memory. NULL: none yet */
    size_t nbytes;   /* of the last block that had some */
};

/* The spans of the block's last accesses, by address. Most accesses find theirs here. */
struct near_span {
    uintptr_t start;
    size_t nbytes;
    char *home;
};
enum { NEAR_SHIFT = 16, NEAR_BITS = 6 };

struct block {
    struct emu_grid *grid;
    struct symm_emulated_dim index;
    unsigned nthreads, ended;
    bool released; /* see emu__grid_release() */
    bool met;      /* a thread has passed the barrier of the cluster */
    struct cuda_thread *threads;

    struct emu_cluster *cluster, *alone; /* alone: for blocks of grids without clusters */
    unsigned rank;                       /* in the cluster */
    uint64_t events;                     /* of the cluster, that parked threads have seen */

    /* The pass visits ready[] from `at` in steps of `step`; next[] is the next pass. */
    unsigned *ready, *next;
    unsigned nready, nnext, left, at, step;
    bool progress;
    unsigned idle_passes;
    int64_t delay_ns; /* from the end of its last sleep until it ran */
    uint64_t random;

    /* __syncthreads_or. Two results, since threads may read one while others wait again. */
    unsigned *waiting;
    unsigned nwaiting, round;
    int any, result[2];

    /* Threads that wait for something else: emu__block_await(). */
    unsigned *parked, nparked;

    struct cuda_thread *running; /* NULL: no fiber runs */
    struct carrier **carriers, **idle;
    unsigned ncarriers, nidle, capacity;

    int fault_signal; /* of the fiber that ran; 0: none */
    bool fault_misaligned;
    const void *fault_address;

    char sync_begin, sync_end, sync_round[2]; /* for EMU_RELEASE and EMU_ACQUIRE */
    void *signal_stack;

    uint64_t near_layout; /* emu__layout for which near[] is valid; 0: none */
    struct near_span near[1 << NEAR_BITS];

    struct emu_weak *weak;   /* NULL: memory has the host's order */
    struct emu_units *units; /* NULL: not used yet */
    struct emu_shared shared;
    char *static_shared; /* a place among this thread's __shared__ variables; NULL: not known */
};

/* The block of this thread, kept from one block to the next. NULL: none has run yet. */
extern _Thread_local struct block *emu__this_block;

/* ---- block_ops.c ---- */

/* The thread has ended. It counts as arrived wherever the others wait for it. */
void emu__block_thread_left(struct block *b, struct cuda_thread *t);
/* Suspends the running thread until the next pass. */
void emu__block_give_way(struct block *b);

/*
 * Suspends the running thread until met() is true, which is asked after each event of the cluster.
 * describe() names the awaited event, if none can come any more.
 */
void emu__block_await(struct block *b,
                      bool (*met)(const struct block *b, const struct cuda_thread *t),
                      void (*describe)(const struct block *b, const struct cuda_thread *t,
                                       char *text, size_t nbytes));

/* ---- block.c ---- */

/* The block allows the next grid of the stream to begin, if it has not done so. */
void emu__block_release(struct block *b);

/* ---- shared.c ---- */

/* Returns the block's dynamic shared memory; at first it has garbage. NULL: no memory. */
char *emu__shared_get(struct block *b);
void emu__shared_free(struct emu_shared *shared);
/* Whether the address is in a guard page beside it. */
bool emu__shared_guards(const struct emu_shared *shared, const void *address);
/*
 * Returns where the bytes at p lie in the block of that rank of the cluster, if they lie in shared
 * memory of b. NULL: `rule` gets the broken rule. With the cluster's lock.
 */
char *emu__shared_map(const struct block *b, const void *p, size_t nbytes, unsigned rank,
                      char *rule, size_t rule_nbytes);

/* ---- block_fault.c ---- */

/* Reports the broken rule, with the running thread, and fails the device. */
void emu__block_fault(struct block *b, CUresult error, const char *rule);
/* Reports the broken rule, and ends the running thread. */
__attribute__((noreturn, format(printf, 2, 3))) void emu__block_break(CUresult error,
                                                                      const char *format, ...);
/* Ends the running thread. The pass sees that the device has failed. */
__attribute__((noreturn)) void emu__block_leave(struct block *b);
/*
 * The running thread accesses memory that the driver does not give its device. Returns ptr if it is
 * host memory and the emulated devices can access that; else reports a fault and ends the thread.
 */
void *emu__block_reach(const void *ptr);
/* Reports the fault that made the fiber leave. Runs outside of fibers. */
void emu__block_report_fault(struct block *b);

#endif
