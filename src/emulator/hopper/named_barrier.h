/* bar.sync: barriers of some threads of a block, by number. */
#ifndef SYMM_EMULATOR_NAMED_BARRIER_H
#define SYMM_EMULATOR_NAMED_BARRIER_H

#include "hopper.h"

/* Forgets the barriers of the block before. */
void emu__named_barriers_clear(struct emu_hopper *h);

/* As in symm_emulated_hopper_ops. */
void emu__bar_sync(uint32_t number, uint32_t nthreads);

#endif
