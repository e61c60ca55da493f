/* Modules and their functions, as module.c keeps them and launch.c uses them. */
#ifndef SYMM_MODULE_H
#define SYMM_MODULE_H

#include "emulator/streams/execution.h"

struct CUfunc_st {
    struct CUmod_st *module;
    const struct symm_emulated_kernel *kernel;
    _Atomic uint32_t shared_nbytes; /* dynamic shared memory that a block may have */
    atomic_bool loaded; /* else the first launch loads it, and waits for the device to do so */
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
CUresult emu__function_check(CUfunction function);
/* The most threads a block of this kernel may have on this machine. */
int emu__function_max_threads(const struct CUfunc_st *function);

#endif
