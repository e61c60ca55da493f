/*
 * Products with checks of all memory around them: fresh random data of any layout at any address,
 * outputs and the bytes around them filled with a pattern first, and a reference in double.
 */
#ifndef TEST_MATMUL_H
#define TEST_MATMUL_H

#include <stdbool.h>
#include <symm/matmul.h>
#include <symm/stream.h>
#include "ranks.h"

enum { MATMUL_B = SYMM_MATMUL_MAX_B };

/* Where operands lie: in memory of one's own, or in symmetric memory. */
enum { MATMUL_PLAIN, MATMUL_SYMMETRIC, MATMUL_REGIONS };

/* Which rows of A have the same values, so that a stride of 0 will do. */
enum matmul_same { MATMUL_ALL_DIFFER, MATMUL_SAME_ROWS, MATMUL_SAME_BATCHES };

/* Where the addresses are given. */
enum matmul_data { MATMUL_IN_DESC, MATMUL_IN_ARGS, MATMUL_IN_BOTH, MATMUL_DATA };

/* A product, the same on all ranks except for the layouts that each draws from `layout`. */
struct matmul_case {
    symm_matmul_kind kind;
    symm_strategy strategy;
    symm_activation activation;
    symm_schedule schedule;
    symm_dtype in, out, addend; /* of a and b; of d; of c and bias */
    int32_t m, k, l, nb, n[MATMUL_B];
    bool n_differs; /* between ranks: n is the most */
    bool has_c, in_place, has_bias, gathered;
    const float *alpha, *beta; /* as in symm_matmul_args */
    enum matmul_same same;
    enum matmul_data data;
    bool whole;         /* small whole numbers: each order of summation is exact */
    bool contiguous;    /* rows that lie one after the other, aligned */
    bool joined;        /* the b are columns of one larger matrix, and so are the d */
    bool foreign;       /* nothing is in symmetric memory */
    bool symmetric;     /* everything is */
    bool same_bits;     /* SYMM_MATMUL_SAME_BITS */
    bool any_order;     /* SYMM_MATMUL_ANY_ORDER */
    bool constant_b;    /* SYMM_MATMUL_CONSTANT_B */
    bool traced;        /* SYMM_MATMUL_TRACE */
    bool k_differs;     /* between ranks, where it may: k is the most */
    symm_dtype partial; /* as in symm_matmul_desc */
    uint64_t layout;    /* of it each rank draws strides and places */
};

struct matmul_operand {
    symm_tensor t; /* without data */
    int region;
    size_t at; /* of the first element, in bytes */
};

struct matmul_operands {
    struct matmul_operand a, b[MATMUL_B], c[MATMUL_B], d[MATMUL_B], bias[MATMUL_B], gathered;
    size_t nbytes[MATMUL_REGIONS];
};

/* The number-th case: first some that have been chosen, then random ones. */
struct matmul_case matmul_draw(uint64_t number, int nranks);
/* The same of the kinds whose results are collected. */
struct matmul_case matmul_draw_collected(uint64_t number, int nranks);
/* The factors of its runs. */
float matmul_alpha(const struct matmul_case *c);
float matmul_beta(const struct matmul_case *c);
/* Text of a failed case. Valid until the next call. */
const char *matmul_text(const struct matmul_case *c);

/* Whether its results are collected after the product; whether they are sums over ranks. */
bool matmul_collects(const struct matmul_case *c);
bool matmul_reduces(const struct matmul_case *c);
/* The first of m rows, or n columns, of a rank that has a share of them. */
int32_t matmul_first(int32_t m, int rank, int nranks);
void matmul_lay_out(const struct matmul_case *c, int rank, int nranks, struct matmul_operands *out);

/* One rank's part of a product, with its memory. */
struct matmul_job {
    struct matmul_case c;
    struct matmul_operands o;
    symm_context *ctx;
    symm_group *group;
    symm_matmul *m;
    char *device[MATMUL_REGIONS], *sent[MATMUL_REGIONS], *got[MATMUL_REGIONS];
    size_t nbytes[MATMUL_REGIONS]; /* the most of any rank */
    uint64_t round;                /* of the data that were sent */
};

/* Makes the memory, not the product. Failures of these are in the report. */
symm_status matmul_job_open(struct rank *self, symm_context *ctx, symm_group *group,
                            const struct matmul_case *c, struct matmul_job *job);
void matmul_job_close(struct matmul_job *job);
symm_status matmul_job_create(struct rank *self, struct matmul_job *job);
/* Fresh data, and a pattern in everything else. Stream-ordered. */
symm_status matmul_job_send(struct rank *self, struct matmul_job *job, uint64_t round,
                            symm_stream stream);
symm_status matmul_job_run(struct rank *self, struct matmul_job *job, symm_stream stream);
/* Waits, and fetches the present contents, or copies of them at `from`. */
symm_status matmul_job_fetch(struct rank *self, struct matmul_job *job, char *const *from,
                             symm_stream stream);
/* The result is right and nothing else has changed. Counts jobs in value[0] of the report. */
symm_status matmul_job_look(struct rank *self, const struct matmul_job *job);
/* Sends, runs, fetches and looks. */
symm_status matmul_job_works(struct rank *self, struct matmul_job *job, uint64_t round,
                             symm_stream stream);

symm_matmul_desc matmul_job_desc(const struct matmul_job *job);
symm_matmul_args matmul_job_args(const struct matmul_job *job);

/* Fills the operands; counts wrong elements and bytes. */
void matmul_fill(const struct matmul_job *job, int rank, int nranks, char *const *image);
int64_t matmul_wrong(const struct matmul_job *job, int nranks);

#endif
