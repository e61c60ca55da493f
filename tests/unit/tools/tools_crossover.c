/* By which measurements symm-bench tune makes rows. */
#include <stdlib.h>
#include "bench/measure/crossover.h"
#include "test.h"

enum { MAX_ROWS = 64, NVARIANTS = 3 };

struct row {
    uint64_t from;
    int variant;
};

/* The rows for these times of up to three variants at 1K, 2K, 4K and so on. */
static int rows_of(const double *times, int nsizes, int nvariants, struct row *rows)
{
    struct crossover w = {0};
    uint64_t from;
    int n = 0;

    for (int i = 0; i < nsizes; i++)
        if (crossover_take(&w, UINT64_C(1024) << i, times + i * NVARIANTS, nvariants, &from))
            rows[n++] = (struct row){from, w.variant};
    return n;
}

static void assert_rows(const struct row *rows, int n, const struct row *want, int nwanted)
{
    ck_assert_int_eq(n, nwanted);
    for (int i = 0; i < n; i++) {
        ck_assert_uint_eq(rows[i].from, want[i].from);
        ck_assert_int_eq(rows[i].variant, want[i].variant);
    }
}

#define ROWS(times, nvariants, ...)                                                                \
    do {                                                                                           \
        const struct row want[] = {__VA_ARGS__};                                                   \
        struct row rows[MAX_ROWS];                                                                 \
        const int n = rows_of(times[0], (int)(sizeof times / sizeof times[0]), nvariants, rows);   \
        assert_rows(rows, n, want, (int)(sizeof want / sizeof want[0]));                           \
    } while (0)

TEST_GROUP(rows, 20);

TEST(rows, the_first_row_is_for_everything_below)
{
    static const double times[][NVARIANTS] = {{3, 2, 4}, {3, 2, 4}};

    ROWS(times, 3, {0, 1});
    ROWS(times, 1, {0, 0});
}

TEST(rows, rows_begin_where_times_cross)
{
    /* From 1K to 2K the first goes from 1 to 3 and the second from 2 to 2: they meet half way. */
    static const double times[][NVARIANTS] = {{1, 2, 9}, {3, 2, 9}, {5, 4, 9}, {9, 8, 5}};

    ROWS(times, 3, {0, 0}, {1536, 1}, {4096 + 4096 * 5 / 8, 2});
    ROWS(times, 2, {0, 0}, {1536, 1});
}

TEST(rows, a_little_faster_is_not_enough)
{
    static const double times[][NVARIANTS] = {
        {100, 101, 200}, {100, 98.5, 200}, {100, 98.1, 200}, {100, 97.9, 200}, {97, 97.9, 200}};

    ROWS(times, 3, {0, 0}, {4096, 1});
}

/* Whoever was ahead by less than a row is worth has crossed before: the row begins at the last
 * size, and not at an earlier one. */
TEST(rows, rows_ascend_whatever_was_measured)
{
    srand(1);
    for (int round = 0; round < 2000; round++) {
        double times[40][NVARIANTS];
        struct row rows[MAX_ROWS];

        for (int i = 0; i < 40; i++)
            for (int v = 0; v < NVARIANTS; v++)
                times[i][v] = (rand() % 1000 + 1) * (rand() % 8 ? 1 : 1e6);
        const int n = rows_of(times[0], 40, NVARIANTS, rows);
        ck_assert_int_ge(n, 1);
        ck_assert_uint_eq(rows[0].from, 0);
        for (int i = 1; i < n; i++) {
            ck_assert_uint_gt(rows[i].from, rows[i - 1].from);
            ck_assert_int_ne(rows[i].variant, rows[i - 1].variant);
        }
    }
}
