/*
 * Fibers: the CUDA threads of one block, each with a stack of its own, taking turns on one thread
 * of the operating system. That thread resumes a fiber, and the fiber suspends itself; fibers never
 * move to another thread. The sanitizers are told of every switch.
 */
#ifndef SYMM_FIBER_H
#define SYMM_FIBER_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__SANITIZE_THREAD__)
#define EMU_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define EMU_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define EMU_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMU_ASAN 1
#endif
#endif

/*
 * A switch of fibers does not order their memory accesses for ThreadSanitizer: only what orders
 * them on a GPU does, announced with EMU_RELEASE and EMU_ACQUIRE. What a block keeps about its own
 * threads is touched from all its fibers, so the functions that do so are left out of the race
 * check.
 */
#define EMU_UNCHECKED __attribute__((no_sanitize("thread")))

/* Calls between these two remember things for the thread, whichever of its fibers runs. */
#ifdef EMU_TSAN
#include <sanitizer/tsan_interface.h>
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
#define EMU_UNCHECKED_BEGIN()                                                                      \
    (AnnotateIgnoreReadsBegin(__FILE__, __LINE__), AnnotateIgnoreWritesBegin(__FILE__, __LINE__))
#define EMU_UNCHECKED_END()                                                                        \
    (AnnotateIgnoreWritesEnd(__FILE__, __LINE__), AnnotateIgnoreReadsEnd(__FILE__, __LINE__))
#define EMU_RELEASE(object) __tsan_release(object)
#define EMU_ACQUIRE(object) __tsan_acquire(object)
#else
#define EMU_UNCHECKED_BEGIN() ((void)0)
#define EMU_UNCHECKED_END() ((void)0)
#define EMU_RELEASE(object) ((void)(object))
#define EMU_ACQUIRE(object) ((void)(object))
#endif

struct emu_fiber {
    void *sp; /* while it is suspended */
    char *stack;
    size_t stack_nbytes;
    size_t skew; /* of the first frame, so that the stacks of a block differ in their cache lines */
    void (*run)(void *arg);
    void *arg;
    void *fake_stack; /* AddressSanitizer's */
    void *tsan;       /* ThreadSanitizer's */
};

/* Gets a stack. run(arg), which must never return, begins at the first resume. */
bool emu__fiber_create(struct emu_fiber *fiber, unsigned index, void (*run)(void *), void *arg);
void emu__fiber_destroy(struct emu_fiber *fiber);

/* From outside of fibers: runs the fiber until it suspends itself. */
void emu__fiber_resume(struct emu_fiber *fiber);
/* From the fiber itself: back to the resume. Returns at the next one. */
void emu__fiber_suspend(struct emu_fiber *fiber);

/* Forgets what the suspended fiber was doing: the next resume begins run(arg) anew. */
void emu__fiber_restart(struct emu_fiber *fiber);

/* The highest usable address of the fiber's stack, for code that must run there after a fault. */
void *emu__fiber_top(const struct emu_fiber *fiber);

/* Whether a fault at this address means that the fiber has used up its stack. */
bool emu__fiber_overflowed(const struct emu_fiber *fiber, const void *address);

#endif
