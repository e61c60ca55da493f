/* The offset allocator against a map of bytes, and what first fit promises. */
#include <stdlib.h>
#include <string.h>
#include "runtime/memory/offset_allocator.h"
#include "reference.h"
#include "test.h"

static struct symm_offset_allocator *a;

/* Begins again with an allocator of nbytes. */
static void open_offsets(uint64_t nbytes)
{
    symm__offsets_destroy(a);
    ck_assert_int_eq(symm__offsets_create(nbytes, &a), SYMM_OK);
}

static void close_offsets(void)
{
    symm__offsets_destroy(a);
    a = NULL;
}

TEST_GROUP(offsets, 60, .teardown = close_offsets);

TEST(offsets, first_fit_takes_the_lowest_gap)
{
    uint64_t off[4];
    open_offsets(4096);
    for (int i = 0; i < 4; i++) {
        ck_assert(symm__offsets_alloc(a, 1024, 1024, &off[i]));
        ck_assert_uint_eq(off[i], (uint64_t)i * 1024);
    }
    ck_assert(!symm__offsets_alloc(a, 1, 1, &off[0]));
    ck_assert(symm__offsets_free(a, 2048));
    ck_assert(symm__offsets_free(a, 0));
    ck_assert_uint_eq(symm__offsets_largest_gap(a), 1024);
    uint64_t got;
    ck_assert(symm__offsets_alloc(a, 512, 256, &got));
    ck_assert_uint_eq(got, 0);
}

TEST(offsets, freed_neighbours_become_one_gap)
{
    uint64_t off;
    open_offsets(3 * 1024);
    for (int i = 0; i < 3; i++)
        ck_assert(symm__offsets_alloc(a, 1024, 1024, &off));
    ck_assert(symm__offsets_free(a, 0));
    ck_assert(symm__offsets_free(a, 2048));
    ck_assert(symm__offsets_free(a, 1024));
    ck_assert(symm__offsets_empty(a));
    ck_assert(symm__offsets_alloc(a, 3 * 1024, 1024, &off));
    ck_assert_uint_eq(off, 0);
}

TEST(offsets, only_the_start_of_a_block_can_be_freed)
{
    uint64_t off;
    open_offsets(8192);
    ck_assert(symm__offsets_alloc(a, 4096, 4096, &off));
    ck_assert(!symm__offsets_free(a, 1));
    ck_assert(!symm__offsets_free(a, 4096));
    ck_assert(!symm__offsets_free(a, UINT64_MAX));
    ck_assert(symm__offsets_free(a, off));
    ck_assert(!symm__offsets_free(a, off));
}

TEST(offsets, sizes_at_the_limits_are_refused_or_fit)
{
    uint64_t off;
    open_offsets(UINT64_C(1) << 47);
    ck_assert(!symm__offsets_alloc(a, 0, 1, &off));
    ck_assert(!symm__offsets_alloc(a, UINT64_MAX, 1024, &off));
    ck_assert(!symm__offsets_alloc(a, (UINT64_C(1) << 47) + 1, 1024, &off));
    ck_assert(symm__offsets_alloc(a, 1, 1, &off));
    ck_assert(!symm__offsets_alloc(a, UINT64_C(1) << 47, 1, &off));
    ck_assert(symm__offsets_alloc(a, UINT64_C(1) << 46, UINT64_C(1) << 46, &off));
    ck_assert_uint_eq(off, UINT64_C(1) << 46);
    open_offsets(0);
    ck_assert(!symm__offsets_alloc(a, 1, 1, &off));
    symm__offsets_destroy(NULL);
}

/* The model: whose every unit of the range is, 0 for nobody's. */
enum { UNITS = 512, BLOCKS = 96 };

struct model {
    int owner[UNITS];
    uint64_t off[BLOCKS], nbytes[BLOCKS];
    bool live[BLOCKS];
};

/* Where first fit must put it; -1: nowhere. */
static int expected_place(const struct model *m, int units, int alignment)
{
    for (int at = 0; at + units <= UNITS; at += alignment) {
        int n = 0;
        while (n < units && !m->owner[at + n])
            n++;
        if (n == units)
            return at;
    }
    return -1;
}

static uint64_t largest_gap(const struct model *m)
{
    uint64_t largest = 0, here = 0;
    for (int i = 0; i < UNITS; i++) {
        here = m->owner[i] ? 0 : here + 1;
        largest = here > largest ? here : largest;
    }
    return largest;
}

static void fill(struct model *m, int block, int value)
{
    for (uint64_t i = 0; i < m->nbytes[block]; i++)
        m->owner[m->off[block] + i] = value;
    m->live[block] = value != 0;
}

TEST_LOOP(offsets, random_use_agrees_with_the_model, 1, 4)
{
    struct model m = {.owner = {0}};
    uint64_t used = 0;
    open_offsets(UNITS);
    for (uint64_t round = 0; round < 200000; round++) {
        uint64_t random = reference_random((uint64_t)_i, round);
        int b = (int)(random % BLOCKS);
        if (m.live[b]) {
            ck_assert(symm__offsets_free(a, m.off[b]));
            used -= m.nbytes[b];
            fill(&m, b, 0);
            continue;
        }
        int units = 1 + (int)((random >> 16) % (1u << (random >> 32) % 7));
        int alignment = 1 << (random >> 40) % 5;
        int place = expected_place(&m, units, alignment);
        bool got = symm__offsets_alloc(a, (uint64_t)units, (uint64_t)alignment, &m.off[b]);
        ck_assert_int_eq(got, place >= 0);
        if (!got)
            continue;
        ck_assert_uint_eq(m.off[b], (uint64_t)place);
        m.nbytes[b] = (uint64_t)units;
        used += m.nbytes[b];
        fill(&m, b, b + 1);
        ck_assert_uint_eq(symm__offsets_used(a), used);
        if (round % 64 == 0)
            ck_assert_uint_eq(symm__offsets_largest_gap(a), largest_gap(&m));
    }
    for (int b = 0; b < BLOCKS; b++)
        if (m.live[b])
            ck_assert(symm__offsets_free(a, m.off[b]));
    ck_assert(symm__offsets_empty(a));
    ck_assert_uint_eq(symm__offsets_largest_gap(a), UNITS);
}
