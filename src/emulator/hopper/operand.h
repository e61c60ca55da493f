/* Operands of wgmma in shared memory, as their descriptors say. */
#ifndef SYMM_EMULATOR_OPERAND_H
#define SYMM_EMULATOR_OPERAND_H

#include "hopper.h"

#define EMU_WGMMA_ROWS 64u
#define EMU_WGMMA_DEPTH 16u
#define EMU_WGMMA_COLUMNS 256u /* at most */

/* 16-bit elements as fp32: lines of A are its rows. */
struct emu_operands {
    float a[EMU_WGMMA_ROWS][EMU_WGMMA_DEPTH];
    float b[EMU_WGMMA_DEPTH][EMU_WGMMA_COLUMNS];
};

/* Whether a descriptor obeys the rules. False: `rule` gets the broken one. */
bool emu__descriptor_valid(uint64_t descriptor, char *rule);
/* Reads both operands. False: `rule` gets the broken rule. */
bool emu__operands_read(const struct block *b, const struct symm_emulated_wgmma *how,
                        struct emu_operands *out, char *rule);
/* Adds a b to the first columns of d (product.c). */
void emu__operands_multiply(const struct emu_operands *x, uint32_t columns,
                            float d[EMU_WGMMA_ROWS][EMU_WGMMA_COLUMNS]);

#endif
