/*
 * The driver: a table of functions with the exact signatures of the CUDA driver, filled from
 * libcuda.so.1 or libsymm_emulated.so. Callers do not depend on which of the two it is.
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
#undef SYMM_DRIVER_FIELD_
};

/*
 * Opens the process's driver. name: "cuda", "emulated", or NULL for SYMM_DRIVER. Calls are counted;
 * each needs a close. The library stays loaded. Errors: ERROR_ARGUMENT (unknown name), ERROR_DRIVER
 * (no libcuda: the text names SYMM_DRIVER=emulated; or the error of cuInit), ERROR_UNSUPPORTED (an
 * entry is missing: named), ERROR_STATE (the process uses the other driver)
 */
symm_status symm__driver_open(const char *name, const struct symm_driver **out);
void symm__driver_close(const struct symm_driver *drv);

/* The open driver of this process, for calls that get a stream but no context; NULL: none. */
const struct symm_driver *symm__driver_current(void);

/* Whether this process was forked from one with an open driver. The driver does not work here. */
bool symm__driver_forked(void);

/* An entry by its library name, such as "cuMemAlloc_v2"; NULL: none. */
void *symm__driver_symbol(const struct symm_driver *drv, const char *name);

/*
 * The part of an image for cuModuleLoadData: the fat binary or the emulated module; NULL: not in
 * this build.
 */
const void *symm__driver_image(const struct symm_driver *drv, const struct symm_image *image);

/*
 * Returns why multicast must not be used in this process, or NULL. Considers the switches of symm,
 * NCCL, PyTorch and NVSHMEM, and the driver; no other code reads them. If multicast is off, its
 * entries in the table are NULL.
 */
const char *symm__driver_multicast_off(const struct symm_driver *drv);

/*
 * Records "call: NAME (number)". Returns ERROR_DRIVER; ERROR_MEMORY if memory is out; ERROR_STATE
 * for errors of captures.
 */
symm_status symm__driver_fail(const struct symm_driver *drv, CUresult result, const char *call);

/*
 * Copies rows of `width` bytes on the device, or to a peer. pitch: from one row to the next.
 * Stream-ordered. Errors: as symm__driver_fail().
 */
symm_status symm__driver_copy_rows(const struct symm_driver *drv, CUdeviceptr to, uint64_t to_pitch,
                                   CUdeviceptr from, uint64_t from_pitch, uint64_t width,
                                   uint64_t rows, CUstream stream);

/* For clean-up, which continues after failures: *st keeps the first failure with its text. */
void symm__driver_note(const struct symm_driver *drv, CUresult result, const char *call,
                       symm_status *st);

/* Calls the driver. On failure sets `st` and goes to `out`. */
#define TRY_CU(drv, fn, ...)                                                                       \
    do {                                                                                           \
        CUresult cu_ = (drv)->fn(__VA_ARGS__);                                                     \
        if (cu_ != CUDA_SUCCESS) {                                                                 \
            st = symm__driver_fail((drv), cu_, #fn);                                               \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)

/*
 * Calls the driver to release an object. Retries once on failure, because an unreleased object
 * stays until the process ends. `first` keeps the first failure.
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
