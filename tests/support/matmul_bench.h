/* What tests of products that fail begin and end with. */
#ifndef TEST_MATMUL_BENCH_H
#define TEST_MATMUL_BENCH_H

#include "matmul.h"

/* A rank's world with a product that works. */
struct matmul_bench {
    symm_context *ctx;
    symm_group *world;
    symm_stream stream;
    struct matmul_job job;
    uint64_t round;
};

/* A product of everything there is. */
extern const struct matmul_case matmul_works;

symm_status matmul_bench_open(struct rank *self, struct matmul_bench *b,
                              const struct matmul_case *c);
/* The same in b->ctx. */
symm_status matmul_bench_open_in(struct rank *self, struct matmul_bench *b,
                                 const struct matmul_case *c);
void matmul_bench_close(struct matmul_bench *b);
/* What every case ends with: the group is alive, and a product of it right. */
symm_status matmul_bench_works(struct rank *self, struct matmul_bench *b);

#endif
