/*
 * The address services for copies, kernels and the fault handler: what lies at an address, and
 * whether a device may access it. They take emu__lock.
 */
#ifndef SYMM_EMULATOR_ADDRESS_H
#define SYMM_EMULATOR_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "abi/cuda_driver.h"

struct emu_device;

enum emu_access { EMU_READ = 1, EMU_WRITE = 2 };

enum emu_address_kind {
    EMU_ADDRESS_FOREIGN,   /* not the driver's: the program's own (pageable) memory, or none */
    EMU_ADDRESS_UNMAPPED,  /* reserved, with nothing mapped; or beyond an allocation's end */
    EMU_ADDRESS_MAPPED,    /* physical memory mapped with cuMemMap */
    EMU_ADDRESS_MULTICAST, /* a multicast object mapped with cuMemMap */
    EMU_ADDRESS_DEVICE,    /* cuMemAlloc */
    EMU_ADDRESS_HOST       /* cuMemHostAlloc */
};

struct emu_address {
    enum emu_address_kind kind;
    int device;        /* that owns the memory; -1: not known */
    int access;        /* of the device's kernels: EMU_READ | EMU_WRITE */
    CUdeviceptr start; /* of the mapping or allocation */
    size_t nbytes;
    char *home; /* the byte's address in this process; NULL for MULTICAST and UNMAPPED */
    size_t run; /* the answer holds for this many bytes from there on */
};

/* Looks up ptr. `device` may be NULL: then access stays 0. FOREIGN memory has home = ptr. */
void emu__address(const struct emu_device *device, const void *ptr, struct emu_address *out);

/*
 * Whether a copy or fill of `device` may access all of [ptr, ptr + nbytes). It may access foreign
 * memory, and memory that cuMemAlloc took from another device, which kernels may not. False: `why`
 * gets the broken rule.
 */
bool emu__accessible(const struct emu_device *device, const void *ptr, size_t nbytes, int access,
                     char *why, size_t why_nbytes);

/*
 * Describes why an access of `device` to ptr faulted ("plain access to a multicast address",
 * "device 2 has no access", "nothing is mapped there"). Call it for faults of kernel code only,
 * from the handler or after the jump out of it.
 */
void emu__describe(const struct emu_device *device, const void *ptr, char *text,
                   size_t text_nbytes);

/*
 * Finds the replicas behind a multicast address, for emu__device_current(), in the emulated
 * machine's order; at most EMU_MAX_DEVICES. Returns their number. -1: `why` gets the broken rule,
 * which begins with "misaligned" for a misaligned address; the caller ends the kernel.
 */
int emu__replicas(const void *multicast, size_t nbytes, void *out[], char *why, size_t why_nbytes);

/*
 * The addresses around ptr to which the same answer applies: their place in this process and the
 * running device's access (0 where the driver has no memory).
 */
struct emu_span {
    uintptr_t start;
    size_t nbytes;
    char *home; /* of start */
    int access;
};

/* Caches the last spans for each thread. The result is valid until the thread's next call. */
const struct emu_span *emu__span(const void *ptr);

#endif
