/* The tensor memory accelerator: copies of boxes of a tensor into shared memory. */
#ifndef SYMM_EMULATOR_TENSOR_COPY_H
#define SYMM_EMULATOR_TENSOR_COPY_H

#include "hopper.h"
#include "tensor_map.h"

/* A copy that was issued. */
struct emu_tensor_copy {
    struct emu_tensor_map map;
    int32_t at[EMU_TENSOR_DIMS];
    char *shared; /* of the block that issued it, as the barrier */
    uint64_t *mbarrier;
    uint32_t blocks; /* a bit for each destination */
    uint64_t fresh;  /* in weakly ordered memory: it reads nothing older */
};

/*
 * Checks what the emulator has of tensor maps, and what instructions ask of their operands. A
 * broken rule ends the kernel.
 */
void emu__tensor_check(const struct block *b, const void *shared, const void *map, uint32_t ndim);

/* The address of a pack of 16 bytes that would have this one without the swizzle. */
uint32_t emu__tensor_swizzle(uint32_t address, uint32_t span);

/* In weakly ordered memory: does one of the copies that were issued. False: there is none. */
bool emu__tensor_work(struct block *b);

/* As in symm_emulated_hopper_ops. */
void emu__tensor_load(void *shared, const void *map, uint32_t ndim, const int32_t *at,
                      uint64_t *bar, uint32_t blocks);

#endif
