/* A user's kernels for the tests, and their arguments. A test that includes this gets them as
 * test_kernels. */
#ifndef TEST_KERNELS_H
#define TEST_KERNELS_H

#include <symm/symm.h>

extern const symm_image test_kernels;

typedef struct test_signal_args {
    symm_view view;
    symm_signal_pad *pad;
    int32_t *cell;
    int32_t channel, peer;
    uint32_t signals, waits;
} test_signal_args;

typedef struct test_ring_args {
    symm_view view;
    symm_signal_pad *pad;
    float *cells;   /* four a thread */
    int32_t *wrong; /* one a block */
    int32_t rounds, planted;
} test_ring_args;

typedef struct test_hand_over_args {
    symm_view view;
    float *cells; /* four a thread */
    uint32_t *flag;
    int32_t *wrong;
    uint32_t round, planted;
} test_hand_over_args;

#endif
