#include "suite.h"

#include <math.h>
#include <string.h>
#include "oracle/sums.h"

enum { FEW = 1024, MOST = 16384, KV_COLUMNS = 2 * 8 * 128 /* eight heads of keys and values */ };

/* A new number at each call. */
static uint64_t draw(uint64_t *state)
{
    return *state = sums_mix(*state + UINT64_C(0x9e3779b97f4a7c15));
}

static int pick(uint64_t *state, const int *from, int n)
{
    return from[draw(state) % (uint64_t)n];
}

/* Columns of all ranks. */
static int draw_columns(uint64_t *state, int hidden)
{
    const int projections[] = {3 * hidden, hidden + KV_COLUMNS, 4 * hidden,
                               2 * (hidden * 8 / 3 / 256 * 256), 2 * (hidden * 7 / 2)};

    return pick(state, projections, sizeof projections / sizeof projections[0]);
}

static int draw_rows(uint64_t *state, bool few)
{
    const uint64_t random = draw(state);

    if (!few)
        return FEW + (int)(random % (MOST - FEW + 1));
    const int m = (int)exp(log(FEW) * (double)(random >> 11) * 0x1p-53);
    return m < FEW ? m : FEW - 1;
}

static void draw_shape(uint64_t seed, int index, struct suite_shape *out)
{
    static const int hidden[] = {2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 12288},
                     ranks[] = {2, 4, 8};
    uint64_t state = sums_seed(seed, (uint64_t)index);

    out->k = pick(&state, hidden, sizeof hidden / sizeof hidden[0]);
    out->n = draw_columns(&state, out->k) / pick(&state, ranks, sizeof ranks / sizeof ranks[0]);
    out->m = draw_rows(&state, index % 2 == 0);
}

bool suite_shape_at(const char *suite, uint64_t seed, int count, int index, struct suite_shape *out)
{
    static const struct suite_shape llama[] = {
        {4096, 1792, 4096},  {8192, 1792, 4096},  {16384, 1792, 4096},
        {4096, 3584, 8192},  {8192, 3584, 8192},  {16384, 3584, 8192},
        {4096, 6656, 16384}, {8192, 6656, 16384}, {16384, 6656, 16384}};
    const bool random = strcmp(suite, "random") == 0;

    if (index >= (random ? count : (int)(sizeof llama / sizeof llama[0])))
        return false;
    if (random)
        draw_shape(seed, index, out);
    else
        *out = llama[index];
    return true;
}
