/* Tests of products in a world: a product that works before the test, and after it. */
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
    struct rank *self; /* of a MATMUL_TEST */
    bool ended;        /* set by a MATMUL_TEST that ends the world */
};

/* A product with every operand. */
extern const struct matmul_case matmul_works;

symm_status matmul_bench_open(struct rank *self, struct matmul_bench *b,
                              const struct matmul_case *c);
/* The same in b->ctx. */
symm_status matmul_bench_open_in(struct rank *self, struct matmul_bench *b,
                                 const struct matmul_case *c);
void matmul_bench_close(struct matmul_bench *b);
/* The group is alive, and its product, created if necessary, is right. */
symm_status matmul_bench_works(struct rank *self, struct matmul_bench *b);
/* Replaces the product by one of this case, which works. */
symm_status matmul_bench_change(struct rank *self, struct matmul_bench *b,
                                const struct matmul_case *c);

/* A group of all ranks beside the world, and memory of a product. */
struct matmul_group {
    symm_group *g;
    struct matmul_job job;
};
symm_status matmul_group_open(struct rank *self, struct matmul_bench *b,
                              const struct matmul_case *c, struct matmul_group *out);
symm_status matmul_group_close(struct matmul_group *group);

/* Opens a bench with matmul_works; closes one after a last look that it works. */
symm_status matmul_bench_begin(struct rank *self, struct matmul_bench *b);
void matmul_bench_end(struct matmul_bench *b);

/* A RANKS_TEST whose function has `self`, `arg` and the bench `b`, which works before and after. */
#define MATMUL_TEST(group, name, ...)                                                              \
    RANKS_TEST_WITH(group, name, struct matmul_bench, b, matmul_bench_begin, matmul_bench_end,     \
                    __VA_ARGS__)

#endif
