/*
 * The table of address ranges and the reservations in which they lie. Everything here is guarded by
 * emu__lock unless it says otherwise.
 */
#ifndef SYMM_EMULATOR_RANGE_H
#define SYMM_EMULATOR_RANGE_H

#include "emulator/state/machine.h"
#include "address.h"
#include "object.h"

struct emu_range {
    enum emu_address_kind kind;
    uintptr_t start;
    size_t nbytes;
    int device;
    struct emu_object *object;             /* MAPPED, MULTICAST */
    unsigned char access[EMU_MAX_DEVICES]; /* enum emu_access, by device */
    void *base;                            /* DEVICE, HOST: with the guard pages */
    size_t base_nbytes;
};

struct emu_reservation {
    struct emu_reservation *next;
    uintptr_t start;
    size_t nbytes;
};

/* Returns the reservation that contains all of [start, start + nbytes). NULL: there is none. */
struct emu_reservation *emu__reservation_find(uintptr_t start, size_t nbytes);

/* The ranges, sorted by address. An index is valid until the table changes. */
size_t emu__range_count(void);
struct emu_range *emu__range_at(size_t index);
/* The first range that ends beyond the address. */
size_t emu__range_after(uintptr_t address);
/* The range that contains the address. */
struct emu_range *emu__range_find(uintptr_t address);
/* Takes the range over. False: out of host memory. */
bool emu__range_add(struct emu_range *range);
void emu__range_remove(struct emu_range *range);

/*
 * Changes whenever a range or a bind of this process does, or a replica goes. A thread may cache
 * data of the table as long as this number stays the same. May be read without the lock.
 */
extern _Atomic uint64_t emu__layout;

/* Lists the ranges and reservations that are left at exit. */
void emu__range_report(void);

#endif
