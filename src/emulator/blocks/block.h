/*
 * A running block: its passes (block.c), the operations of its threads and where they wait for each
 * other (block_ops.c), and their faults (block_fault.c).
 */
#ifndef SYMM_EMULATOR_BLOCK_H
#define SYMM_EMULATOR_BLOCK_H

#include "abi/cuda_driver.h"
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
    struct cuda_thread *threads;

    /* The pass visits ready[] from `at` in steps of `step`; next[] is the next pass. */
    unsigned *ready, *next;
    unsigned nready, nnext, left, at, step;
    bool progress;
    unsigned idle_passes;
    uint64_t random;

    /* __syncthreads_or. Two results, since threads may read one while others wait again. */
    unsigned *waiting;
    unsigned nwaiting, round;
    int any, result[2];

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

    struct emu_weak *weak; /* NULL: memory has the host's order */
};

/* The block of this thread, kept from one block to the next. NULL: none has run yet. */
extern _Thread_local struct block *emu__this_block;

/* ---- block_ops.c ---- */

/* The thread has ended. It counts as arrived wherever the others wait for it. */
void emu__block_thread_left(struct block *b, struct cuda_thread *t);
/* Suspends the running thread until the next pass. */
void emu__block_give_way(struct block *b);

/* ---- block_fault.c ---- */

/* Reports the broken rule, with the running thread, and fails the device. */
void emu__block_fault(struct block *b, CUresult error, const char *rule);
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
