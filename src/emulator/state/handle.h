/* The handles that are valid: a handle is so from its creation to its destruction. */
#ifndef SYMM_EMULATOR_HANDLE_H
#define SYMM_EMULATOR_HANDLE_H

#include <stdbool.h>
#include "abi/cuda_driver.h"

enum emu_handle_kind {
    EMU_HANDLE_STREAM,
    EMU_HANDLE_EVENT,
    EMU_HANDLE_MODULE,
    EMU_HANDLE_FUNCTION,
    EMU_HANDLE_GRAPH,
    EMU_HANDLE_GRAPH_EXEC
};

/* False: no memory. */
bool emu__handle_add(enum emu_handle_kind kind, const void *handle);
/* CUDA_ERROR_INVALID_HANDLE after the report of the rule: there is no such handle. */
CUresult emu__handle_remove(enum emu_handle_kind kind, const void *handle);
CUresult emu__handle_check(enum emu_handle_kind kind, const void *handle);

#endif
