/*
 * Stores of boxes in shared memory to tensors, and their additions, in groups of the thread that
 * issues them. A store first reads its box, then writes the tensor, element by element.
 */
#ifndef SYMM_EMULATOR_TENSOR_STORE_H
#define SYMM_EMULATOR_TENSOR_STORE_H

#include "hopper.h"
#include "tensor_map.h"

struct emu_tensor_store {
    struct emu_tensor_map map;
    int32_t at[EMU_TENSOR_DIMS];
    const char *shared;
    bool adds; /* to what the tensor has */
    char *box; /* as it was read; NULL: not read yet */
    unsigned thread;
    uint64_t group; /* of the thread's groups */
};

/* In weakly ordered memory: does a part of one of the stores. False: there is none. */
bool emu__tensor_store_work(struct block *b);
/* All threads have ended. A fault if a box was not read. */
void emu__tensor_store_end(struct block *b);
void emu__tensor_store_free(struct emu_hopper *h);

/* As in symm_emulated_hopper_ops. */
void emu__tensor_store(const void *map, uint32_t ndim, const int32_t *at, const void *shared);
void emu__tensor_add(const void *map, uint32_t ndim, const int32_t *at, const void *shared);
void emu__bulk_commit(void);
void emu__bulk_wait(uint32_t pending, uint32_t read);

#endif
