/* The argument of the kernel: one struct, the same for C, which fills it in, and for the kernel. */
#ifndef FUSED_H
#define FUSED_H

#include <symm/types.h>

/* What a block can hold in registers: packs a thread, and threads. */
enum { NORM_PACKS = 4, NORM_THREADS = 512, NORM_HIDDEN_MAX = 8 * NORM_PACKS * NORM_THREADS };

typedef struct norm_args {
    symm_view view;
    symm_signal_pad *pad;             /* a channel for each block */
    const symm_bf16 *x, *bias, *gain; /* x, y: [rows, hidden], symmetric */
    symm_bf16 *y;
    int32_t rows, hidden; /* hidden: a multiple of 8 */
    float eps;
} norm_args;

#endif
