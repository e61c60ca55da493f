/*
 * The driver: one table of functions with the CUDA driver's exact signatures, filled from
 * libcuda.so.1 or from libsymm_emulated.so. Nothing above this file knows which of the two it is.
 */
#ifndef SYMM_DRIVER_H
#define SYMM_DRIVER_H

#include <stdbool.h>
#include "abi/cuda_driver.h"
#include "runtime/base/status.h"

struct symm_image;

struct symm_driver {
    const char *name; /* "cuda", "emulated" */
    int version;      /* cuDriverGetVersion: 13000 */
#define SYMM_DRIVER_FIELD_(fn, version_, need, params) CUresult(*fn) params;
    CU_FUNCTIONS(SYMM_DRIVER_FIELD_)
    CU_FUNCTIONS_TENSOR(SYMM_DRIVER_FIELD_)
#undef SYMM_DRIVER_FIELD_
};

/*
 * The process's driver. name: "cuda", "emulated", or NULL for the setting. A process has one
 * driver: opening the other is ERROR_STATE. Opened as often as closed; the library stays loaded.
 * Errors: ERROR_ARGUMENT (unknown name), ERROR_DRIVER (no libcuda: the text names
 * SYMM_DRIVER=emulated; or cuInit's error), ERROR_UNSUPPORTED (an entry is missing: named),
 * ERROR_STATE
 */
symm_status symm__driver_open(const char *name, const struct symm_driver **out);
void symm__driver_close(const struct symm_driver *drv);

/* The driver that this process has open, for calls that get a stream but no context; NULL: none. */
const struct symm_driver *symm__driver_current(void);

/*
 * Whether this is a child of fork() of a process that had a driver open: nothing of it works here.
 */
bool symm__driver_forked(void);

/* Any entry by its library name ("cuMemAlloc_v2"); NULL: there is none. */
void *symm__driver_symbol(const struct symm_driver *drv, const char *name);

/*
 * What cuModuleLoadData must get of this image: the fat binary or the emulated module; NULL: not in
 * this build.
 */
const void *symm__driver_image(const struct symm_driver *drv, const struct symm_image *image);

/*
 * Whether multicast may be used in this process, by the switches of symm and of its neighbours: the
 * one place that asks. Returns NULL or the reason. When it is off the entry points are NULL in the
 * table.
 */
const char *symm__driver_multicast_off(const struct symm_driver *drv);

/*
 * ERROR_DRIVER (ERROR_MEMORY for out of memory, ERROR_STATE for captures) with "call: NAME
 * (number)".
 */
symm_status symm__driver_fail(const struct symm_driver *drv, CUresult result, const char *call);

/* For clean-up, which goes on whatever fails: *st keeps the first failure, with its text. */
void symm__driver_note(const struct symm_driver *drv, CUresult result, const char *call,
                       symm_status *st);

/* st = the status of a driver call; goes to `out` when it failed. */
#define TRY_CU(drv, fn, ...)                                                                       \
    do {                                                                                           \
        CUresult cu_ = (drv)->fn(__VA_ARGS__);                                                     \
        if (cu_ != CUDA_SUCCESS) {                                                                 \
            st = symm__driver_fail((drv), cu_, #fn);                                               \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)

/*
 * A driver call that gives something back. What it leaves behind would stay until the process ends,
 * so it is tried a second time; the first failure stays in `first`, a status.
 */
#define RELEASE_CU(drv, first, fn, ...)                                                            \
    do {                                                                                           \
        CUresult cu_ = (drv)->fn(__VA_ARGS__);                                                     \
        if (cu_ != CUDA_SUCCESS) {                                                                 \
            if ((first) == SYMM_OK)                                                                \
                (first) = symm__driver_fail((drv), cu_, #fn);                                      \
            (drv)->fn(__VA_ARGS__);                                                                \
        }                                                                                          \
    } while (0)

#endif
