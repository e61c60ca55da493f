/* Words that a block stores into shared memory of its cluster, counted by mbarriers there. */
#ifndef SYMM_EMULATOR_WORD_STORE_H
#define SYMM_EMULATOR_WORD_STORE_H

#include "hopper.h"

struct emu_word_store {
    uint32_t *shared; /* of the block that stores, as the barrier */
    uint64_t *mbarrier;
    uint32_t word, block;
};

/* In weakly ordered memory: does one of the stores. False: there is none. */
bool emu__word_store_work(struct block *b);
/* All threads have ended: does all stores. */
void emu__word_store_end(struct block *b);

/* As in symm_emulated_hopper_ops. */
void emu__word_store(uint32_t *shared, uint32_t word, uint64_t *bar, uint32_t block);

#endif
