/* The arithmetic of wgmma. Optimised in every build, since products spend their time here. */
#include "operand.h"

#include <string.h>

enum { AT_ONCE = 8 };

/* Sums of eight columns, in order of k, as in the portable product: the bits are the same. */
static void add_products(float *restrict sums, const float *restrict a, const float *restrict b)
{
    float sum[AT_ONCE];
    memcpy(sum, sums, sizeof sum);
    for (uint32_t k = 0; k < EMU_WGMMA_DEPTH; k++)
        for (uint32_t i = 0; i < AT_ONCE; i++)
            sum[i] += a[k] * b[k * EMU_WGMMA_COLUMNS + i];
    memcpy(sums, sum, sizeof sum);
}

void emu__operands_multiply(const struct emu_operands *x, struct emu_lines rows, uint32_t columns,
                            float d[EMU_WGMMA_ROWS][EMU_WGMMA_COLUMNS])
{
    for (uint32_t i = rows.first; i < rows.first + rows.count; i++)
        for (uint32_t j = 0; j < columns; j += AT_ONCE)
            add_products(&d[i][j], x->a[i], &x->b[0][j]);
}
