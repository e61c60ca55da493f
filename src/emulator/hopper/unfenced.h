/*
 * Rows in shared memory that stmatrix has stored, until their thread's fence.proxy.async: the copy
 * unit may not read them before.
 */
#ifndef SYMM_EMULATOR_UNFENCED_H
#define SYMM_EMULATOR_UNFENCED_H

#include "hopper.h"

/* The last rows of a thread. */
struct emu_unfenced {
    const char *rows[16];
    unsigned n; /* since the last fence; only the last 16 are kept */
};

void emu__unfenced_clear(struct emu_hopper *h);
void emu__unfenced_free(struct emu_hopper *h);
/* The running thread has fenced. */
void emu__unfenced_end(struct block *b);
/* A box is about to be read. A row without a fence in it ends the kernel. */
void emu__unfenced_check(struct block *b, const void *shared, size_t nbytes);

/* As in symm_emulated_hopper_ops. */
void emu__stmatrix(const void *row);

#endif
