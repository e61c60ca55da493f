/*
 * A block while it runs, for the files that run it: its passes (block.c), what its threads ask for
 * and where they wait for each other (block_ops.c), and their faults (block_fault.c).
 */
#ifndef SYMM_EMULATOR_BLOCK_H
#define SYMM_EMULATOR_BLOCK_H

#include "emulator/blocks/fiber.h"
#include "emulator/blocks/grid.h"

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

struct emu_weak;

/* Spans that the block accessed last, by address: most accesses find theirs here. */
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

    uint64_t near_layout; /* emu__layout for which near[] holds; 0: for none */
    struct near_span near[1 << NEAR_BITS];

    struct emu_weak *weak; /* NULL: memory is as strong as this machine's */
};

/* The block that runs on this thread, kept from one block to the next. NULL: none has run yet. */
extern _Thread_local struct block *emu__this_block;

/* ---- block_ops.c ---- */

/* An ended thread counts as arrived wherever the others wait for it. */
void emu__block_thread_left(struct block *b, struct cuda_thread *t);
/* The running thread goes on in the next pass. */
void emu__block_give_way(struct block *b);

/* ---- block_fault.c ---- */

/* Reports the broken rule, with the thread that runs, and fails the device. */
void emu__block_fault(struct block *b, CUresult error, const char *rule);
/* Ends the thread that runs, for good; the pass sees that the device has failed. */
__attribute__((noreturn)) void emu__block_leave(struct block *b);
/*
 * The running thread accesses memory in which the driver has nothing for its device: reports that
 * and ends the thread, or returns ptr where it is the host's and the machine's devices access that.
 */
void *emu__block_reach(const void *ptr);
/* Reports the fault that made the fiber leave. Runs outside of fibers. */
void emu__block_report_fault(struct block *b);

/* ---- weak.c: weakly ordered memory, only with block.weak ---- */

/* Before the first thread. False: no memory. */
bool emu__weak_begin(struct block *b, uint64_t seed);
void emu__weak_free(struct emu_weak *w); /* NULL is allowed */
/* Chance before whatever a thread asks for: stores become real, it gives way, or it is late. */
void emu__weak_pause(struct block *b);
/* A poll found nothing. */
void emu__weak_idle(struct block *b);
/* All threads are at the barrier; these lanes of the warp that begins at thread `first` are at an
 * exchange. */
void emu__weak_block_met(struct block *b);
void emu__weak_warp_met(struct block *b, unsigned first, uint32_t came);
/* On its own stack still. The last one makes everything real. */
void emu__weak_thread_left(struct block *b, const struct cuda_thread *t);

/* As in symm_emulated_ops. */
void emu__weak_read(const void *p, size_t nbytes, void *out, uint32_t how);
void emu__weak_write(void *p, size_t nbytes, const void *value, uint32_t how);
void emu__weak_update(void *p, size_t nbytes, const void *operand,
                      void (*apply)(void *at, const void *operand), uint32_t how);
void emu__weak_fence(uint32_t fences);
void emu__weak_settle(void *p, size_t nbytes);

#endif
