/* Reductions whose ranks multiply their elements by numbers of their own first. */
#include <stdlib.h>
#include <string.h>
#include <symm/collectives.h>
#include "exercise.h"
#include "reference.h"
#include "test.h"
#include "world.h"

TEST_GROUP(scale, 150);

static const symm_dtype dtypes[] = {SYMM_FLOAT32, SYMM_FLOAT16, SYMM_BFLOAT16, SYMM_FLOAT64};
enum { NDTYPES = sizeof dtypes / sizeof dtypes[0], MOST = 9000 };

struct run {
    symm_dtype dtype;
    symm_redop op;
    size_t count;
    bool scatters, in_place, on_device;
    uint64_t round;
};

/* A number of this rank: now and then 0, or negative. */
static double factor_of(const struct run *c, int rank)
{
    static const double some[] = {0, -1, 1, 0.5, -0.37, 3.25, 1.0 / 3, 100};
    const uint64_t random = reference_random(900 + c->round, (uint64_t)rank);
    char element[8];

    reference_set(element, 0, c->dtype, some[random % 8] * (random & 256 ? 1.0 : 0.75));
    return reference_get(element, 0, c->dtype);
}

/* The sum of the products, each rounded to dtype, in fp32 or in double, in rank order. */
static double expected(const struct run *c, void *const *all, size_t i, int nranks)
{
    double wide = 0;
    float sum = 0;

    for (int r = 0; r < nranks; r++) {
        const double x = reference_get(all[r], i, c->dtype), factor = factor_of(c, r);
        char product[8];
        if (c->dtype == SYMM_FLOAT64) {
            wide = r ? wide + x * factor : x * factor;
            continue;
        }
        reference_set(product, 0, c->dtype, (double)((float)x * (float)factor));
        const float y = (float)reference_get(product, 0, c->dtype);
        sum = r ? sum + y : y;
    }
    const double whole = c->dtype == SYMM_FLOAT64 ? wide : (double)sum;
    if (c->op != SYMM_AVG)
        return whole;
    return c->dtype == SYMM_FLOAT64 ? whole / nranks : (double)((float)whole / (float)nranks);
}

static int64_t count_wrong(const struct run *c, int rank, int nranks, const void *out, size_t total)
{
    const size_t size = symm_dtype_size(c->dtype),
                 first = c->scatters ? (size_t)rank * c->count : 0;
    void *all[8];
    int64_t wrong = 0;

    for (int r = 0; r < nranks; r++) {
        all[r] = malloc(total * size);
        reference_fill(all[r], total, c->dtype, c->round, r);
    }
    for (size_t i = 0; i < c->count; i++) {
        char want[8];
        reference_set(want, 0, c->dtype, expected(c, all, first + i, nranks));
        wrong += memcmp(want, (const char *)out + i * size, size) != 0 &&
                 reference_get(want, 0, c->dtype) != reference_get(out, i, c->dtype);
    }
    for (int r = 0; r < nranks; r++)
        free(all[r]);
    return wrong;
}

static symm_status try(struct rank *self, symm_group *g, const struct run *c, char *in, char *out,
                       char *cell, symm_stream s)
{
    const size_t size = symm_dtype_size(c->dtype),
                 total = c->scatters ? c->count * (size_t)self->nranks : c->count;
    char *host = malloc(total * size), element[8];
    symm_options options = {.scale = element};
    symm_status st;

    reference_set(element, 0, c->dtype, factor_of(c, self->rank));
    if (c->on_device) {
        options.scale = cell;
        options.flags = SYMM_SCALE_ON_DEVICE;
    }
    if (c->in_place)
        out = c->scatters ? in + (size_t)self->rank * c->count * size : in;
    reference_fill(host, total, c->dtype, c->round, self->rank);
    st = symm_copy(in, host, total * size, s);
    if (st == SYMM_OK)
        st = c->scatters ? symm_reduce_scatter(g, in, out, c->count, c->dtype, c->op, &options, s)
                         : symm_all_reduce(g, in, out, c->count, c->dtype, c->op, &options, s);
    memset(element, 0x7f, sizeof element); /* it was read at once */
    if (st == SYMM_OK)
        st = symm_copy(host, out, c->count * size, s);
    if (st == SYMM_OK)
        st = symm_synchronize(g, s);
    if (st == SYMM_OK)
        self->report->wrong += count_wrong(c, self->rank, self->nranks, host, total);
    free(host);
    return st;
}

/* Every world size and type, sums and averages, in and out of place, numbers here and there. */
WORLD_TEST(scale, sums_are_right, _i + 1, .loop = {0, 8})
{
    char *in = NULL, *out = NULL, *cell = NULL, element[8];
    const size_t room = (size_t)MOST * 8 * 8;
    RANK_TRY(self, symm_alloc(world, room, (void **)&in));
    RANK_TRY(self, symm_device_alloc(ctx, room, (void **)&out));
    RANK_TRY(self, symm_device_alloc(ctx, 8, (void **)&cell));
    for (uint64_t round = 0; round < 16; round++) {
        const uint64_t random = reference_random(31, round);
        const struct run c = {.dtype = dtypes[random % NDTYPES],
                              .op = random & 64 ? SYMM_AVG : SYMM_SUM,
                              .count = 1 + (random >> 20) % (round % 4 ? 300 : MOST),
                              .scatters = random & 128,
                              .in_place = random & 256,
                              .on_device = (random >> self->rank) & 1024,
                              .round = round};
        reference_set(element, 0, c.dtype, factor_of(&c, self->rank));
        RANK_TRY(self, symm_copy(cell, element, sizeof element, s));
        RANK_TRY(self, try(self, world, &c, in, out, cell, s));
    }
    RANK_TRY(self, exercise_group(self, ctx, world, 3)); /* and the next call is not scaled */
out:
    symm_device_free(ctx, out);
    symm_device_free(ctx, cell);
}

/* A replay reads the number from the device again. */
WORLD_TEST(scale, a_graph_reads_the_number_at_each_replay, 2)
{
    enum { COUNT = 1000 };
    float *x = NULL, *y = NULL, *cell = NULL, host[COUNT];
    symm_graph graph = NULL;
    symm_options options = {.flags = SYMM_SCALE_ON_DEVICE};
    RANK_TRY(self, symm_device_alloc(ctx, sizeof host, (void **)&x));
    RANK_TRY(self, symm_device_alloc(ctx, sizeof host, (void **)&y));
    RANK_TRY(self, symm_device_alloc(ctx, sizeof *cell, (void **)&cell));
    options.scale = cell;
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)i;
    RANK_TRY(self, symm_copy(x, host, sizeof host, s));
    RANK_TRY(self, symm_graph_begin(s));
    RANK_TRY(self, symm_all_reduce(world, x, y, COUNT, SYMM_FLOAT32, SYMM_SUM, &options, s));
    RANK_TRY(self, symm_graph_end(s, &graph));
    for (int round = 1; round < 5; round++) {
        const float factor = (float)(round * (self->rank + 1));
        RANK_TRY(self, symm_copy(cell, &factor, sizeof factor, s));
        RANK_TRY(self, symm_graph_launch(graph, s));
        RANK_TRY(self, symm_copy(host, y, sizeof host, s));
        RANK_TRY(self, symm_synchronize(world, s));
        for (int i = 0; i < COUNT; i++)
            self->report->wrong += host[i] != (float)(i * round * 3);
    }
out:
    symm_graph_destroy(graph);
    symm_device_free(ctx, x);
    symm_device_free(ctx, y);
    symm_device_free(ctx, cell);
}

WORLD_TEST(scale, what_cannot_be_scaled_is_refused, 2)
{
    float *x = NULL, number = 2;
    symm_options o = {.scale = &number};
    RANK_TRY(self, symm_alloc(world, 4096, (void **)&x));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "int32 is no floating type",
                     symm_all_reduce(world, x, x, 8, SYMM_INT32, SYMM_SUM, &o, s));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "only reductions",
                     symm_all_gather(world, x + 8 * self->rank, x, 8, SYMM_FLOAT32, &o, s));
    o.algo = SYMM_ALGO_TWO_SHOT;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "two_shot cannot scale",
                     symm_all_reduce(world, x, x, 8, SYMM_FLOAT32, SYMM_SUM, &o, s));
    o = (symm_options){.scale = (char *)x + 2, .flags = SYMM_SCALE_ON_DEVICE};
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "not aligned",
                     symm_all_reduce(world, x, x, 8, SYMM_FLOAT32, SYMM_SUM, &o, s));
    o.scale = NULL;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "options->scale is NULL",
                     symm_all_reduce(world, x, x, 8, SYMM_FLOAT32, SYMM_SUM, &o, s));
    o.scale = &number;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "options->scale",
                     symm_all_reduce(world, x, x, 8, SYMM_FLOAT32, SYMM_SUM, &o, s));
    RANK_TRY(self, exercise_group(self, ctx, world, 4));
out:;
}

/* With and without a number are different calls. */
WORLD_TEST(scale, a_rank_without_a_number_is_a_mismatch, 2, .env = {{"SYMM_CHECK", "1"}})
{
    float *x = NULL, number = 2;
    const symm_options o = {.scale = self->rank ? &number : NULL};
    RANK_TRY(self, symm_alloc(world, 4096, (void **)&x));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "scaled",
                     symm_all_reduce(world, x, x, 8, SYMM_FLOAT32, SYMM_SUM, &o, s));
out:;
}
