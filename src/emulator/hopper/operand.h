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

/* Lines of an operand: rows of A, or columns of B. Multiples of eight. */
struct emu_lines {
    uint32_t first, count;
};

/* Whether a descriptor obeys the rules. False: `rule` gets the broken one. */
bool emu__descriptor_valid(uint64_t descriptor, char *rule);
/* Reads these rows of A, and B. False: `rule` gets the broken rule. */
bool emu__operands_read(const struct block *b, const struct symm_emulated_wgmma *how,
                        struct emu_lines rows, struct emu_operands *out, char *rule);
/* Adds these rows of a b to the first columns of d (product.c). */
void emu__operands_multiply(const struct emu_operands *x, struct emu_lines rows, uint32_t columns,
                            float d[EMU_WGMMA_ROWS][EMU_WGMMA_COLUMNS]);

#endif
