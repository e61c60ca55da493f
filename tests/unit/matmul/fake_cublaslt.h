/* What a test may know of the library that stands in for cuBLASLt, and tell it. */
#ifndef TEST_FAKE_CUBLASLT_H
#define TEST_FAKE_CUBLASLT_H

#include <symm/types.h>

enum {
    FAKE_CUBLASLT_NBYTES = 1 << 20, /* a workspace */
    FAKE_CUBLASLT_ALGORITHMS = 6,   /* proposed for a product; number 1 is not usable */
    FAKE_CUBLASLT_CONFIGURED = FAKE_CUBLASLT_ALGORITHMS /* all that symm has configured */
};

/* How an algorithm is configured, in cuBLASLt's numbers. */
struct fake_cublaslt_configuration {
    int tile, k_parts, reduction, custom, cluster;
};

struct fake_cublaslt {
    int objects;                  /* that have not been destroyed */
    int products;                 /* that have been made */
    void (*before)(void *stream); /* of each product; NULL: nothing */
    void (*described)(void);      /* behind the description of each product; NULL: nothing */
    unsigned fails;               /* algorithms, one bit each, that do not run */
    unsigned halves;   /* algorithms that add the halves of k in fp32; the others round once */
    unsigned in_order; /* algorithms that add and scale in fp32, as symm's emulated kernels */
    unsigned us[FAKE_CUBLASLT_CONFIGURED + 1]; /* that a product takes longer */
    int k_parts[FAKE_CUBLASLT_ALGORITHMS];     /* of proposals; 0: one part */
    int custom;    /* the least custom option that configurations may have; 0: none may be had */
    int algorithm; /* of the last product */
    struct fake_cublaslt_configuration configuration;
};

/* In the library, which is opened: dlsym(). */
SYMM_API extern struct fake_cublaslt fake_cublaslt;

#endif
