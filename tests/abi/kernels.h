/*
 * One kernel that uses the device header of version 1, built against that and against today's:
 * abi_1 and abi_now are the images.
 */
#ifndef TEST_ABI_KERNELS_H
#define TEST_ABI_KERNELS_H

#include <symm/types.h>

enum { ABI_CHANNELS = 3 }; /* of a block */

typedef struct abi_args {
    symm_view view;
    symm_signal_pad *pad;
    float *summed, *given, *spread; /* symmetric, four elements a thread */
    symm_bf16 *halves;              /* symmetric, eight elements a thread */
    int32_t *wrong;                 /* one a block */
    int32_t rounds, reserved;
} abi_args;

#endif
