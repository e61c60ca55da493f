/* Which data the Hopper kernel of the products is given. */
#include "matmul/sm90/host.h"
#include "matmul/plan/lines.h"
#include "test.h"

enum { M = 256, K = 192, N = 320 };

/* Never read. */
static char *const base = (char *)(uintptr_t)4096;

static struct symm_problem problem(void)
{
    struct symm_problem p = {.dtype = SYMM_BFLOAT16,
                             .m = M,
                             .k = K,
                             .l = 1,
                             .nb = 2,
                             .n = {N, N},
                             .nranks = 1,
                             .alpha = 1};

    p.b[0].matrix = (symm_matrix){.data = base, .row = N, .column = 1};
    p.b[1].matrix = (symm_matrix){.data = base, .row = 1, .column = K};
    return p;
}

static symm_shards own(void)
{
    return (symm_shards){.own = {.data = base, .row = K, .column = 1}};
}

TEST_GROUP(data, 30);

TEST(data, rows_and_columns)
{
    struct symm_problem p = problem();
    symm_shards a = own();

    ck_assert(symm__wgmma_suits(&p, &a));
    a.own.row = 0; /* the same row for all: there is no such stride */
    ck_assert(!symm__wgmma_suits(&p, &a));
    a.own.row = K + 8;
    ck_assert(symm__wgmma_suits(&p, &a));
    a.own.row = K + 4;
    ck_assert(!symm__wgmma_suits(&p, &a));
    p.m = 1; /* the stride of a single row is not used */
    ck_assert(symm__wgmma_suits(&p, &a));
    a.own.column = 2;
    ck_assert(!symm__wgmma_suits(&p, &a));
    a.own.data = NULL;
    p.nranks = 2; /* this rank has no rows: nothing of it is read */
    p.rank = 1;
    ck_assert(symm__wgmma_suits(&p, &a));
}

/* Neither a nor b is read then, and it has no sums of no terms. */
TEST(data, no_alpha)
{
    struct symm_problem p = problem();
    const symm_shards a = own();

    p.alpha = -2;
    ck_assert(symm__wgmma_suits(&p, &a));
    p.alpha = 0;
    ck_assert(!symm__wgmma_suits(&p, &a));
}

TEST(data, each_b)
{
    const symm_shards a = own();

    for (int i = 0; i < 2; i++) {
        struct symm_problem p = problem();
        symm_matrix *b = &p.b[i].matrix;
        int64_t *pitch = i ? &b->column : &b->row, *step = i ? &b->row : &b->column;
        b->data = base + 8;
        ck_assert(!symm__wgmma_suits(&p, &a));
        b->data = base + 16;
        ck_assert(symm__wgmma_suits(&p, &a));
        *pitch += 1;
        ck_assert(!symm__wgmma_suits(&p, &a));
        *pitch += 7;
        ck_assert(symm__wgmma_suits(&p, &a));
        *step = 2;
        ck_assert(!symm__wgmma_suits(&p, &a));
    }
}

TEST(data, batches)
{
    struct symm_problem p = problem();
    symm_shards a = own();

    p.l = 3;
    ck_assert(symm__wgmma_suits(&p, &a)); /* the same for all batches */
    p.b[1].matrix.batch = (int64_t)K * N;
    a.own.batch = (int64_t)M * K;
    ck_assert(symm__wgmma_suits(&p, &a));
    p.b[1].matrix.batch += 2;
    ck_assert(!symm__wgmma_suits(&p, &a));
    p.l = 1;
    ck_assert(symm__wgmma_suits(&p, &a));
}

TEST(data, as_the_copy_unit_sees_it)
{
    const symm_matrix x = {.data = base, .row = 400, .column = 3, .batch = 80000};
    const struct symm_lines rows = symm__lines_of(&x, true, 7, 5, 2),
                            columns = symm__lines_of(&x, false, 7, 5, 1);

    ck_assert_int_eq(rows.along, 5);
    ck_assert_int_eq(rows.lines, 7);
    ck_assert_int_eq(rows.pitch, 400);
    ck_assert_int_eq(rows.batches, 2);
    ck_assert_int_eq(rows.batch, 80000);
    ck_assert_int_eq(columns.along, 7);
    ck_assert_int_eq(columns.lines, 5);
    ck_assert_int_eq(columns.pitch, 3);
    ck_assert_int_eq(columns.batches, 1);
    ck_assert_int_eq(columns.batch, 0);
}
