/*
 * A grid of numbers, split in rows over the ranks. Each rank keeps its rows between two more: the
 * halo, which the neighbours fill in with copies of their own rows at the border, or the edge of
 * the whole grid.
 */
#ifndef STENCIL_H
#define STENCIL_H

#include <symm/types.h>

typedef struct stencil_args {
    symm_view view;
    symm_signal_pad *pad;     /* a channel for each block */
    const float *in;          /* [1 + rows + 1, pitch], symmetric; rows differ from rank to rank */
    float *out;               /* the same of the next step */
    int32_t rows, rows_above; /* mine, the rank above's */
    int32_t columns, pitch;   /* the pitch is a multiple of 4: 16 bytes */
} stencil_args;

#endif
