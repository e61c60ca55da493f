/* A user's kernels and their arguments; a test that includes this has them as test_kernels. */
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

/* Forbidden actions of a kernel. */
enum test_misuse {
    TEST_MISUSE_NONE,
    TEST_MISUSE_SIGNAL, /* on `channel`, to `rank` */
    TEST_MISUSE_WAIT,
    TEST_MISUSE_BARRIER,
    TEST_MISUSE_GRID_SYNC,
    TEST_MISUSE_EPOCH,
    TEST_MISUSE_PEER, /* reads the copy of `data` of `rank` */
    TEST_MISUSE_ABORTED,
    TEST_MISUSE_ARRIVE,
    TEST_MISUSE_WAIT_ALL,
    TEST_MISUSE_HAS_MULTICAST,
    TEST_MISUSE_MULTICAST,
    TEST_MISUSE_SUM,
    TEST_MISUSE_STORE_ALL,
    TEST_MISUSE_LOAD, /* of `data` */
    TEST_MISUSE_LOAD_ONE,
    TEST_MISUSE_STORE,
    TEST_MISUSE_STORE_ONE,
    TEST_MISUSE_ADD,
    TEST_MISUSE_COPY,
    TEST_MISUSE_BULK,       /* by shared memory from 64 times `channel` bytes on */
    TEST_MISUSE_DIVIDE,     /* by the number of ranks */
    TEST_MISUSE_BULK_GLOBAL /* by `good`, which is always wrong */
};

/* Two views: the one that symm_launch() finds, and another one. */
typedef struct test_misuse_args {
    symm_signal_pad *pad;
    uint32_t *data, *good; /* good: 16 bytes that may be accessed */
    symm_view view, other;
    int32_t misuse, channel, rank;
    int32_t offender; /* the rank that does it; the other ranks act correctly */
} test_misuse_args;

typedef struct test_named_args {
    uint64_t number;
    symm_view group;
} test_named_args;

/* The kernels of a chain (chain.h). */
typedef struct test_chain_args {
    symm_view view;
    uint32_t *data;
    uint32_t *state; /* turns that have ended, wrong words, words looked at */
    uint64_t words;  /* of data */
    uint64_t count;  /* of the call */
    uint32_t gathers, scatters, set, spin, last;
    uint32_t floats; /* elements are float32, not int32 */
    int32_t root;    /* whose data all ranks get; -1: none */
    uint32_t reserved;
} test_chain_args;

typedef struct test_deliver_args {
    symm_view view;
    const uint16_t *from;
    uint16_t *to;
    uint64_t words; /* of 16 bits */
    uint32_t spin, reserved;
} test_deliver_args;

#endif
