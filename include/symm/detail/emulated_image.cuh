/* Kernels and their image, as the emulated driver loads it. */
#ifndef SYMM_DETAIL_EMULATED_IMAGE_CUH
#define SYMM_DETAIL_EMULATED_IMAGE_CUH

#include <symm/detail/emulated.h>
#include <symm/types.h>

#define SYMM_DEV static inline
/*
 * A member that is not static. Always inline: the linker would merge the copies of a member in
 * several images, and each image has a driver of its own.
 */
#define SYMM_DEV_IN_CLASS inline __attribute__((always_inline))

/* Every image is one translation unit, compiled with SYMM_IMAGE defined as its name. */
static const symm_emulated_ops *symm_emulated_driver; /* set when the driver loads the image */
static const symm_emulated_hopper_ops *symm_emulated_hopper; /* the same */

/* Other __shared__ variables of this image have the same distance to it in all threads. */
static thread_local char symm_emulated_shared;
static inline void *symm_emulated_static_shared(void)
{
    return &symm_emulated_shared;
}

#define SYMM_DETAIL_TEXT_(x) #x
#define SYMM_DETAIL_TEXT(x) SYMM_DETAIL_TEXT_(x)
#define SYMM_DETAIL_PASTE_(a, b) a##b
#define SYMM_DETAIL_PASTE(a, b) SYMM_DETAIL_PASTE_(a, b)
#define SYMM_DETAIL_FIRST SYMM_DETAIL_PASTE(__start_symm_kernels_, SYMM_IMAGE)
#define SYMM_DETAIL_LAST SYMM_DETAIL_PASTE(__stop_symm_kernels_, SYMM_IMAGE)

namespace symm_detail
{

/* Returns the offset of an argument struct's member `view`, plus 1. 0: it has none. */
template <typename T, symm_view T::*VIEW = &T::view> constexpr uint32_t view_at(int)
{
    return (uint32_t) __builtin_offsetof(T, view) + 1;
}
template <typename T> constexpr uint32_t view_at(...)
{
    return 0;
}
template <> constexpr uint32_t view_at<symm_view>(...)
{
    return 1;
}

} /* namespace symm_detail */

#define SYMM_DETAIL_KERNEL(name, args_type, a, max_threads, registers, min_blocks)                 \
    static void name##_body(const args_type &a);                                                   \
    static void name##_run(const void *args)                                                       \
    {                                                                                              \
        name##_body(*static_cast<const args_type *>(args));                                        \
    }                                                                                              \
    static const symm_emulated_kernel name##_kernel = {                                            \
        #name,     name##_run, sizeof(args_type), max_threads, symm_detail::view_at<args_type>(0), \
        registers, min_blocks};                                                                    \
    __attribute__((used,                                                                           \
                   section("symm_kernels_" SYMM_DETAIL_TEXT(                                       \
                       SYMM_IMAGE)))) static const symm_emulated_kernel *const name##_listed =     \
        &name##_kernel;                                                                            \
    static void name##_body(const args_type &a)

#define SYMM_KERNEL(name, args_type, a, max_threads)                                               \
    SYMM_DETAIL_KERNEL(name, args_type, a, max_threads, 0, 1)
#define SYMM_KERNEL_BOUNDS(name, args_type, a, max_threads, min_blocks)                            \
    SYMM_DETAIL_KERNEL(name, args_type, a, max_threads, 0, min_blocks)
#define SYMM_KERNEL_REGISTERS(name, args_type, a, max_threads, registers)                          \
    SYMM_DETAIL_KERNEL(name, args_type, a, max_threads, registers, 1)

/* Comes last in the translation unit: the image for cuModuleLoadData. The linker defines where the
 * list begins and ends. */
#define SYMM_EMULATED_MODULE                                                                       \
    extern "C" {                                                                                   \
    extern const symm_emulated_kernel *const SYMM_DETAIL_FIRST[]                                   \
        __attribute__((visibility("hidden")));                                                     \
    extern const symm_emulated_kernel *const SYMM_DETAIL_LAST[]                                    \
        __attribute__((visibility("hidden")));                                                     \
    extern const symm_emulated_module SYMM_DETAIL_PASTE(symm_emulated_, SYMM_IMAGE)                \
        __attribute__((visibility("hidden")));                                                     \
    const symm_emulated_module SYMM_DETAIL_PASTE(symm_emulated_, SYMM_IMAGE) = {                   \
        SYMM_EMULATED_MAGIC,   SYMM_EMULATED_ABI,          sizeof(symm_emulated_kernel),           \
        SYMM_DETAIL_FIRST,     SYMM_DETAIL_LAST,           &symm_emulated_driver,                  \
        &symm_emulated_hopper, symm_emulated_static_shared};                                       \
    }

#endif
