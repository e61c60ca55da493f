/* Handles of physical memory and of multicast objects: the numbers that the program gets. */
#ifndef SYMM_EMULATOR_MEM_HANDLE_H
#define SYMM_EMULATOR_MEM_HANDLE_H

#include "object.h"

/* All of this is guarded by emu__lock. */
struct emu_mem_handle {
    struct emu_mem_handle *next;
    CUmemGenericAllocationHandle value;
    struct emu_object *object;
    bool creator; /* of a multicast object, which importers need alive */
};

/* Makes a handle, which is one user of its object. NULL: out of host memory. */
struct emu_mem_handle *emu__mem_handle_new(struct emu_object *object);
/* NULL after the report of the broken rule. */
struct emu_mem_handle *emu__mem_handle_find(CUmemGenericAllocationHandle value, const char *what);

/* Lists the handles that are left at exit. */
void emu__mem_handle_report(void);
/* Lists the exported descriptors that the program has not closed. Returns their number. */
int emu__descriptor_report(void);

#endif
