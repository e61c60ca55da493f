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

/* The kernels of a chain (chain.h). */
typedef struct test_chain_args {
    symm_view view;
    uint32_t *data;
    uint32_t *state; /* turns that have ended, wrong words, words looked at */
    uint64_t words;  /* of data */
    uint64_t count;  /* of the call */
    uint32_t gathers, scatters, set, spin, last;
    uint32_t reserved;
} test_chain_args;

#endif
