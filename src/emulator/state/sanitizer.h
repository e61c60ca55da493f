/* Which sanitizer the emulator is built with, and what it tells ThreadSanitizer. */
#ifndef SYMM_EMULATOR_SANITIZER_H
#define SYMM_EMULATOR_SANITIZER_H

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
 * A switch of fibers does not order their memory accesses for ThreadSanitizer. Only the operations
 * that order them on a GPU do, announced with EMU_RELEASE and EMU_ACQUIRE. All fibers of a block
 * touch the block's own state, so the functions that do so are excluded from the race check.
 */
#define EMU_UNCHECKED __attribute__((no_sanitize("thread")))

/* Exclude the calls between these two, which cache data for the thread that runs the fibers. */
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

#endif
