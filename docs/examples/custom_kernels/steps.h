/* The argument of the kernels: one struct, the same for C, which fills it in, and for them. */
#ifndef STEPS_H
#define STEPS_H

#include <symm/types.h>

typedef struct step_args {
    symm_view view;       /* what a kernel needs to know of the group */
    symm_signal_pad *pad; /* two channels for each block */
    float *x, *inbox;     /* symmetric */
    float *y;             /* of this rank alone */
    int32_t count;        /* elements of each, a multiple of 4 */
} step_args;

#endif
