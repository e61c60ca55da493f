/*
 * What cuInit puts together: the settings, the injected faults and the state of the call frame.
 */
#ifndef SYMM_EMULATOR_MACHINE_H
#define SYMM_EMULATOR_MACHINE_H

#include "emulator/state/call.h"

/* Reads the settings; false after a line on stderr that names the wrong one. */
bool emu__machine_read(void);

/* ---- fault.c ---- */

enum emu_fault_action { EMU_FAULT_NONE, EMU_FAULT_ERROR, EMU_FAULT_HANG, EMU_FAULT_KILL };

struct emu_fault {
    enum emu_fault_action action;
    CUresult error;
};

/* Replaces the faults by those of spec (NULL: none) and starts counting anew. False: malformed. */
bool emu__faults_set(const char *spec);
/* Counts this call of rank and says what is to happen to it. */
struct emu_fault emu__fault_next(const char *call, int rank);
/* How many driver calls rank has made since the faults were set. */
uint64_t emu__fault_calls(int rank);
/* The call that a fault has happened to last since they were set; NULL: none. */
const char *emu__fault_last(void);

/* ---- call.c ---- */

enum emu_state { EMU_STATE_NEW, EMU_STATE_READY, EMU_STATE_FORKED };

enum emu_state emu__state(void);
/* From now on the driver is initialised, for this process only. */
void emu__state_ready(void);
const char *emu__last_rule(void);

/* ---- device.c ---- */

/* The calling thread's current context, NULL if none. */
CUcontext emu__context_current(void);
bool emu__context_live(CUcontext ctx);

/* ---- entry.c ---- */

bool emu__entry_exists(const char *name);

/* ---- leaks.c ---- */

int emu__counts(struct symm_emulated_objects *out);

#endif
