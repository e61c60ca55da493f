/*
 * Schedules of other libraries. Each rank gets the parts of the operands that CUTLASS gives it, and
 * symm's product must leave the part of D that CUTLASS leaves there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/stream.h>
#include "operations/product.h"
#include "operations/schedule.h"
#include "oracle/element.h"
#include "oracle/sums.h"
#include "ranks.h"
#include "test.h"

enum { M = 24, N = 40, K = 32, MOST_RANKS = 4 };

/* Which extent of the matrices the ranks share. */
static const struct sharing {
    const char *name;
    symm_matmul_kind kind;
    bool a_rows, a_columns, b_rows, b_columns, d_rows, d_columns;
} sharings[] = {
    {"AllGather1D_TilingCD_RotatingA", SYMM_ALL_GATHER_MATMUL, .a_rows = true, .b_columns = true,
     .d_columns = true},
    {"AllGather1D_TilingCD_RotatingB", SYMM_ALL_GATHER_MATMUL, .a_rows = true, .b_columns = true,
     .d_rows = true},
    {"ReduceScatter1D_TilingA_RotatingC", SYMM_MATMUL_REDUCE_SCATTER, .a_columns = true,
     .b_rows = true, .d_rows = true},
    {"ReduceScatter1D_TilingB_RotatingC", SYMM_MATMUL_REDUCE_SCATTER, .a_columns = true,
     .b_rows = true, .d_columns = true},
};

enum { NSCHEDULES = sizeof sharings / sizeof sharings[0] };

static const struct schedule *find(int number)
{
    char name[64];

    snprintf(name, sizeof name, "cutlass:%s", sharings[number].name);
    return schedule_find(name, sharings[number].kind);
}

/* A rank's part of a matrix. */
struct part {
    int row, rows, column, columns;
};

static struct part part_of(int rows, int columns, bool by_row, bool by_column,
                           const struct rank *self)
{
    struct part p = {.rows = rows, .columns = columns};

    if (by_row) {
        p.rows /= self->nranks;
        p.row = self->rank * p.rows;
    }
    if (by_column) {
        p.columns /= self->nranks;
        p.column = self->rank * p.columns;
    }
    return p;
}

/* From -2 to 2, so that all sums are exact. */
static int number_at(char matrix, int row, int column)
{
    return (int)(sums_seed((uint64_t)matrix, (uint64_t)(row * 1000 + column)) % 5) - 2;
}

static int product_at(int row, int column)
{
    int sum = 0;

    for (int j = 0; j < K; j++)
        sum += number_at('a', row, j) * number_at('b', j, column);
    return sum;
}

static const struct element *f16(void)
{
    return element_by_dtype(SYMM_FLOAT16);
}

/* A by rows, B by columns. Device memory of the emulated driver is the host's. */
static void fill(uint16_t *out, const struct part *p, char matrix)
{
    for (int i = 0; i < p->rows * p->columns; i++) {
        const bool by_rows = matrix == 'a';
        const int row = by_rows ? i / p->columns : i % p->rows,
                  column = by_rows ? i % p->columns : i / p->rows;
        union element_number x;

        x.real = number_at(matrix, p->row + row, p->column + column);
        element_narrow(f16(), &x, out + i, 1);
    }
}

/* D by columns. */
static int count_wrong(const uint16_t *d, const struct part *p)
{
    int wrong = 0;

    for (int i = 0; i < p->rows * p->columns; i++) {
        union element_number x;

        element_widen(f16(), d + i, &x, 1);
        wrong += x.real != product_at(p->row + i % p->rows, p->column + i / p->rows);
    }
    return wrong;
}

static void use_emulator(void)
{
    setenv("SYMM_DRIVER", "emulated", 1);
}

TEST_GROUP(schedule, 120, .uncounted = true, .setup = use_emulator);

/* ---------------------------------------------------------------------------------- the product */

struct trial {
    symm_context *ctx;
    symm_stream stream;
    struct part a, b, d;
    uint16_t *on_a, *on_b, *on_d;
};

static symm_status make(struct rank *self, const struct sharing *s, struct trial *t)
{
    symm_status st = rank_note(self, rank_join(self, &t->ctx));

    t->a = part_of(M, K, s->a_rows, s->a_columns, self);
    t->b = part_of(K, N, s->b_rows, s->b_columns, self);
    t->d = part_of(M, N, s->d_rows, s->d_columns, self);
    if (st == SYMM_OK)
        st = symm_stream_create(t->ctx, &t->stream);
    if (st == SYMM_OK)
        st = symm_device_alloc(t->ctx, (size_t)M * K * 2, (void **)&t->on_a);
    if (st == SYMM_OK)
        st = symm_device_alloc(t->ctx, (size_t)K * N * 2, (void **)&t->on_b);
    if (st == SYMM_OK)
        st = symm_device_alloc(t->ctx, (size_t)M * N * 2, (void **)&t->on_d);
    return st;
}

static void destroy(struct trial *t)
{
    void *const device[] = {t->on_a, t->on_b, t->on_d};

    for (int i = 0; i < 3; i++)
        if (device[i])
            symm_device_free(t->ctx, device[i]);
    if (t->stream)
        symm_stream_destroy(t->stream);
    symm_context_destroy(t->ctx);
}

/* Runs one variant; counts the wrong elements. */
static void run(struct rank *self, const struct schedule *s, struct trial *t,
                const struct product_variant *variant)
{
    symm_group *world = symm_context_world(t->ctx);
    struct product_call call = {.group = world,
                                .rank = self->rank,
                                .nranks = self->nranks,
                                .variant = variant,
                                .kind = s->kind,
                                .stream = t->stream};
    char why[SCHEDULE_WHY];

    call.shape =
        (struct cublas_shape){.m = M, .n = N, .k = K, .l = 1, .dtype = SYMM_FLOAT16, .alpha = 1};
    call.partial = SYMM_FLOAT16;
    CHECK_RANK(self, schedule_divide(s, self->nranks, &call.shape, why));
    call.buffers.a = call.buffers.part = s->transposed ? t->on_b : t->on_a;
    call.buffers.b = s->transposed ? t->on_a : t->on_b;
    call.buffers.d = t->on_d;
    fill(t->on_a, &t->a, 'a');
    fill(t->on_b, &t->b, 'b');
    memset(t->on_d, 0xff, (size_t)M * N * 2);
    RANK_TRY(self, product_prepare(&call));
    RANK_TRY(self, product_enqueue(&call));
    RANK_TRY(self, symm_synchronize(world, t->stream));
    self->report->wrong += count_wrong(t->on_d, &t->d);
out:
    product_release(&call);
}

static void rank_of_schedule(struct rank *self, void *arg)
{
    const int number = *(const int *)arg;
    struct trial t = {0};

    if (rank_note(self, make(self, &sharings[number], &t)) == SYMM_OK)
        for (const struct product_variant *v = product_variants(sharings[number].kind); v->name;
             v++)
            if (v->kind == PRODUCT_TOGETHER)
                run(self, find(number), &t, v);
    destroy(&t);
}

TEST_LOOP(schedule, ranks_get_the_parts_that_cutlass_gives_them, 0, 3 * NSCHEDULES)
{
    static const int ranks[] = {1, 2, MOST_RANKS};
    int number = _i / 3;

    ck_assert_ptr_nonnull(find(number));
    ranks_run_ok(ranks[_i % 3], RANKS_AS_PROCESSES, rank_of_schedule, &number, 60);
}

/* ------------------------------------------------------------------------------------ the table */

TEST(schedule, each_is_found_by_its_name_and_kind)
{
    size_t n = 0;

    while (schedule_at(n))
        n++;
    ck_assert_uint_eq(n, NSCHEDULES);
    for (int i = 0; i < NSCHEDULES; i++) {
        ck_assert_ptr_eq(find(i), schedule_at((size_t)i));
        ck_assert_ptr_null(schedule_find(find(i)->name, SYMM_MATMUL_ALL_REDUCE));
    }
    ck_assert_ptr_eq(schedule_find("cutlass", SYMM_ALL_GATHER_MATMUL), find(0));
    ck_assert_ptr_eq(schedule_find("cutlass", SYMM_MATMUL_REDUCE_SCATTER), find(2));
    ck_assert_ptr_null(schedule_find("cutlass", SYMM_MATMUL_ALL_SCATTER));
    ck_assert_ptr_null(schedule_find("cutlas", SYMM_ALL_GATHER_MATMUL));
    ck_assert_ptr_null(schedule_find("cutlass:AllGather1D", SYMM_ALL_GATHER_MATMUL));
}

TEST(schedule, only_the_shared_extents_must_divide)
{
    static const char *const refused[NSCHEDULES] = {"mn", "mn", "mk", "nk"};
    char why[SCHEDULE_WHY];

    for (int i = 0; i < NSCHEDULES; i++) {
        for (const char *extent = "mnk"; *extent; extent++) {
            struct cublas_shape shape = {
                .m = M + (*extent == 'm'), .n = N + (*extent == 'n'), .k = K + (*extent == 'k')};
            const bool divides = schedule_divide(find(i), 2, &shape, why);

            ck_assert_int_eq(divides, !strchr(refused[i], *extent));
            if (!divides)
                ck_assert_int_eq(why[0], *extent);
        }
    }
}

/* Of the example's default shape, on two ranks. */
TEST(schedule, a_rank_has_its_parts_and_a_workspace)
{
    static const uint64_t a = UINT64_C(268435456), b = UINT64_C(1744830464), d = b,
                          workspace[NSCHEDULES] = {2 * a, 2 * b, 2 * d, 2 * d};
    char why[SCHEDULE_WHY];

    for (int i = 0; i < NSCHEDULES; i++) {
        struct cublas_shape shape = {
            .m = SCHEDULE_M, .n = SCHEDULE_N, .k = SCHEDULE_K, .l = 1, .dtype = SYMM_FLOAT16};

        ck_assert(schedule_divide(find(i), 2, &shape, why));
        const struct schedule_memory has = schedule_memory(find(i), 2, &shape, SYMM_FLOAT16);
        ck_assert_uint_eq(has.a, a);
        ck_assert_uint_eq(has.b, b);
        ck_assert_uint_eq(has.d, d);
        ck_assert_uint_eq(has.workspace, workspace[i]);
        ck_assert_uint_eq(schedule_memory(find(i), 1, &shape, SYMM_FLOAT16).workspace, 0);
        ck_assert_uint_eq(schedule_memory(find(i), 2, &shape, SYMM_FLOAT32).workspace,
                          workspace[i] * (i < 2 ? 1 : 2));
    }
}
