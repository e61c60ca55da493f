/* Injected faults, as SYMM_EMULATED_FAULT describes them. */
#ifndef SYMM_EMULATOR_FAULT_H
#define SYMM_EMULATOR_FAULT_H

#include <stdbool.h>
#include <stdint.h>
#include "abi/cuda_driver.h"

enum emu_fault_action { EMU_FAULT_NONE, EMU_FAULT_ERROR, EMU_FAULT_HANG, EMU_FAULT_KILL };

struct emu_fault {
    enum emu_fault_action action;
    CUresult error;
};

/* Replaces the faults by those of spec (NULL: none) and counts calls anew. False: malformed. */
bool emu__faults_set(const char *spec);
/* Counts this call of the rank and returns the fault to apply to it. */
struct emu_fault emu__fault_next(const char *call, int rank);
/* Returns the number of driver calls of the rank since the faults were set. */
uint64_t emu__fault_calls(int rank);
/* Returns the last call to which a fault was applied since they were set. NULL: none. */
const char *emu__fault_last(void);

#endif
