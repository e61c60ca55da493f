/*
 * What a block does in shared memory of other blocks of its cluster, and what comes there later:
 * words that mbarriers count (st.async), and arrivals at mbarriers.
 */
#ifndef SYMM_EMULATOR_REMOTE_H
#define SYMM_EMULATOR_REMOTE_H

#include "hopper.h"

struct emu_remote {
    uint32_t *shared;   /* of this block, as the barrier; NULL: an arrival */
    uint64_t *mbarrier; /* of the same block as the word */
    uint32_t word, block;
};

/* In weakly ordered memory: does one of them. False: there is none. */
bool emu__remote_work(struct block *b);
/* All threads have ended: does all of them. */
void emu__remote_end(struct block *b);

/* Arrives at another block's mbarrier. The place is of this block. */
void emu__remote_arrive(uint64_t *bar, uint32_t block);

/* As in symm_emulated_hopper_ops. */
void emu__remote_store(uint32_t *shared, uint32_t word, uint64_t *bar, uint32_t block);

#endif
