/* Modules and their functions. */
#ifndef SYMM_EMULATOR_MODULE_H
#define SYMM_EMULATOR_MODULE_H

#include <stdatomic.h>
#include <symm/detail/emulated.h>
#include "abi/cuda_driver.h"

struct emu_device;

struct CUfunc_st {
    struct CUmod_st *module;
    const struct symm_emulated_kernel *kernel;
    _Atomic uint32_t shared_nbytes; /* limit of a block's dynamic shared memory */
    atomic_bool loaded;             /* else the first launch loads it, when the device is idle */
};

struct CUmod_st {
    atomic_int references; /* the handle, launches */
    atomic_bool unloaded;
    struct emu_device *device;
    const struct symm_emulated_module *image;
    size_t nfunctions;
    struct CUfunc_st functions[];
};

void emu__module_release(struct CUmod_st *module);
/* Returns the most threads of a block of this kernel. */
int emu__function_max_threads(const struct CUfunc_st *function);

#endif
