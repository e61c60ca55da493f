/*
 * An image of kernels for builds without CMake; docs/custom-kernels.md has the command lines.
 *
 *     SYMM_IMAGE   its name, which the program declares: extern const symm_image NAME;
 *     SYMM_SOURCE  the file of kernels, in quotes; one that includes several files may be it
 *     SYMM_FATBIN  their GPU code by nvcc -fatbin, in quotes; undefined: the emulated driver only
 */
#include SYMM_SOURCE
#include <symm/detail/image.h>

SYMM_EMULATED_MODULE

/* The names are macros, which must be replaced before they are pasted. */
#define DEFINE(name) SYMM_DEFINE_IMAGE(name)
#define DEFINE_WITH(name, fatbin) SYMM_DEFINE_IMAGE_WITH(name, fatbin)

extern "C" {
#ifdef SYMM_FATBIN
DEFINE_WITH(SYMM_IMAGE, SYMM_FATBIN)
#else
DEFINE(SYMM_IMAGE)
#endif
}
