/*
 * A block while it runs, for the files that run it: its passes (block.c), what its threads ask for
 * and where they wait for each other (block_ops.c), and their faults (block_fault.c).
 */
#ifndef SYMM_EMULATOR_BLOCK_H
#define SYMM_EMULATOR_BLOCK_H

#include "fiber.h"
#include "grid.h"

/* A stack that runs one CUDA thread after another. */
struct carrier {
    struct emu_fiber fiber;
    struct cuda_thread *thread; /* NULL: idle */
};

struct cuda_thread {
    struct symm_emulated_thread self;
    struct carrier *carrier; /* NULL: not begun yet, or ended */
    unsigned index;
    /* What it brought to the warp exchange in which it waits. */
    uint32_t mask; /* 0: it waits in none */
    size_t nbytes;
    const void *mine;
    void *all;
};

struct block {
    struct emu_grid *grid;
    struct symm_emulated_dim index;
    unsigned nthreads, ended;
    struct cuda_thread *threads;

    /* The pass: ready[] is visited from `at` in steps of `step`; next[] is the pass after it. */
    unsigned *ready, *next;
    unsigned nready, nnext, left, at, step;
    bool progress;
    unsigned idle_passes;
    uint64_t random;

    /* __syncthreads_or; two results, since threads may still read one while others wait again. */
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
};

/* The block that runs on this thread, kept from one block to the next. NULL: none has run yet. */
extern _Thread_local struct block *emu__this_block;

/* ---- block_ops.c ---- */

/* An ended thread counts as arrived wherever the others wait for it. */
void emu__block_thread_left(struct block *b, struct cuda_thread *t);

/* ---- block_fault.c ---- */

/* Reports the broken rule, with the thread that runs, and fails the device. */
void emu__block_fault(struct block *b, CUresult error, const char *rule);
/* Ends the thread that runs, for good; the pass sees that the device has failed. */
__attribute__((noreturn)) void emu__block_leave(struct block *b);
/* Reports the fault that made the fiber leave. Runs outside of fibers. */
void emu__block_report_fault(struct block *b);

#endif
