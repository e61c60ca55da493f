/*
 * An image: one set of kernels, compiled for GPUs and for the emulated driver. symm_add_kernels()
 * and symm/image.cc define it, symm_kernel_load() reads it. Internal; may change with every
 * version.
 */
#ifndef SYMM_DETAIL_IMAGE_H
#define SYMM_DETAIL_IMAGE_H

#include <symm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SYMM_IMAGE_ABI 1u

struct symm_emulated_module;

struct symm_image {
    uint32_t abi, reserved;
    const void *fatbin;                          /* NULL: built without nvcc */
    const struct symm_emulated_module *emulated; /* NULL: built for GPUs only */
};

/*
 * Defines the image `name` of a module of the emulated driver in the same program, with the GPU
 * code in a file or without any. All symbols are hidden: each program has its own.
 */
#define SYMM_DETAIL_HIDDEN __attribute__((visibility("hidden")))
#define SYMM_DETAIL_IMAGE(name, gpu_code)                                                          \
    extern SYMM_DETAIL_HIDDEN const struct symm_emulated_module symm_emulated_##name;              \
    extern SYMM_DETAIL_HIDDEN const struct symm_image name;                                        \
    const struct symm_image name = {SYMM_IMAGE_ABI, 0, gpu_code, &symm_emulated_##name};
#define SYMM_DEFINE_IMAGE(name) SYMM_DETAIL_IMAGE(name, 0)
#define SYMM_DEFINE_IMAGE_WITH(name, fatbin)                                                       \
    __asm__(".section .rodata\n.balign 64\n.globl symm_fatbin_" #name                              \
            "\n.hidden symm_fatbin_" #name "\nsymm_fatbin_" #name ":\n.incbin \"" fatbin           \
            "\"\n.byte 0\n.text\n");                                                               \
    extern SYMM_DETAIL_HIDDEN const char symm_fatbin_##name[];                                     \
    SYMM_DETAIL_IMAGE(name, symm_fatbin_##name)

#ifdef __cplusplus
}
#endif

#endif
