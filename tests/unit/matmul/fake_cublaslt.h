/* What a test may know of the library that stands in for cuBLASLt, and tell it. */
#ifndef TEST_FAKE_CUBLASLT_H
#define TEST_FAKE_CUBLASLT_H

#include <symm/types.h>

enum {
    FAKE_CUBLASLT_NBYTES = 1 << 20, /* a workspace */
    FAKE_CUBLASLT_ALGORITHMS = 6    /* of a product; number 1 is not usable */
};

struct fake_cublaslt {
    int objects;                  /* that have not been destroyed */
    int products;                 /* that have been made */
    void (*before)(void *stream); /* of each product; NULL: nothing */
    unsigned fails;               /* algorithms, one bit each, that do not run */
    unsigned halves;   /* algorithms that add the halves of k in fp32; the others round once */
    unsigned in_order; /* algorithms that add and scale in fp32, as symm's emulated kernels */
    unsigned us[FAKE_CUBLASLT_ALGORITHMS]; /* that a product takes longer */
    int algorithm;                         /* of the last product */
};

/* In the library, which is opened: dlsym(). */
SYMM_API extern struct fake_cublaslt fake_cublaslt;

#endif
