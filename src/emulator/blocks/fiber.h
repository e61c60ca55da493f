/*
 * Fibers run the CUDA threads of one block alternately on one thread of the operating system. Each
 * fiber has its own stack. The thread resumes a fiber, and the fiber suspends itself; a fiber never
 * moves to another thread. Each switch is announced to the sanitizers.
 */
#ifndef SYMM_FIBER_H
#define SYMM_FIBER_H

#include <stdbool.h>
#include <stddef.h>

struct emu_fiber {
    void *sp; /* while it is suspended */
    char *stack;
    size_t stack_nbytes;
    size_t skew; /* of the first frame: spreads the stacks of a block over cache lines */
    void (*run)(void *arg);
    void *arg;
    void *fake_stack; /* AddressSanitizer's */
    void *tsan;       /* ThreadSanitizer's */
};

/* Takes a spare stack, or a new one. run(arg) begins at the first resume and must never return. */
bool emu__fiber_create(struct emu_fiber *fiber, unsigned index, void (*run)(void *), void *arg);
/* Leaves the stack to other fibers of the process. */
void emu__fiber_destroy(struct emu_fiber *fiber);

/* Called outside of fibers: runs the fiber until it suspends itself. */
void emu__fiber_resume(struct emu_fiber *fiber);
/* Called by the fiber itself: returns from the resume. Returns at the next resume. */
void emu__fiber_suspend(struct emu_fiber *fiber);

/* Discards the state of a suspended fiber: the next resume begins run(arg) again. */
void emu__fiber_restart(struct emu_fiber *fiber);

/* Returns the highest usable address of the stack, for code that runs there after a fault. */
void *emu__fiber_top(const struct emu_fiber *fiber);

/* Whether a fault at this address means that the stack is exhausted. */
bool emu__fiber_overflowed(const struct emu_fiber *fiber, const void *address);

#endif
