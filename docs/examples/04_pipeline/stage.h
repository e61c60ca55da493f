/* The argument of the kernel: one struct, the same for C, which fills it in, and for the kernel. */
#ifndef STAGE_H
#define STAGE_H

#include <stdint.h>

typedef struct stage_args {
    const float *in;
    float *out;
    int32_t count;
} stage_args;

#endif
