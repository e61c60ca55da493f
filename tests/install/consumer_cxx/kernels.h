// The argument of both kernels.
#ifndef KERNELS_H
#define KERNELS_H

#include <symm/types.h>

struct add_args {
    float *x;
    float by;
};

#endif
