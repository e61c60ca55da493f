/* How a share goes through the staging area: every byte once, in chunks that fit a half of it. */
#include <stdlib.h>
#include "collectives/copy_engine.h"
#include "reference.h"
#include "test.h"

enum { MIB = 1 << 20 };

static void assert_fits(uint64_t nbytes, int nranks, uint64_t staging)
{
    const struct symm_copy_chunks c = symm__copy_chunks(nbytes, nranks, staging);

    ck_assert_uint_eq(c.room % 16, 0);
    ck_assert_uint_le(c.room * (uint64_t)(nranks - 1), staging / 2);
    ck_assert_uint_le(c.nbytes + 15, c.room);
    ck_assert_uint_le(c.nbytes, 8 * MIB);
    ck_assert_uint_eq(c.nbytes % 16, 0);
    ck_assert_uint_ge(c.n * c.nbytes, nbytes);
    if (nbytes)
        ck_assert_uint_lt((c.n - 1) * c.nbytes, nbytes); /* the last one is not empty */
    else
        ck_assert_uint_eq(c.n, 0);
}

START_TEST(every_share_fits)
{
    for (uint64_t i = 0; i < 200000; i++) {
        const uint64_t u = reference_random(1, i), v = reference_random(2, i);
        const int nranks = 2 + (int)(u % 71);
        const uint64_t least = 128 * (uint64_t)nranks, bits = v >> 58;
        uint64_t staging = (v & ((1u << 27) - 1)) >> (u >> 32) % 20;
        if (staging < least)
            staging = least;
        assert_fits(reference_random(3, i) >> (bits < 24 ? 24 : bits), nranks, staging);
    }
}
END_TEST

static void assert_chunks(uint64_t nbytes, int nranks, uint64_t staging, uint64_t n)
{
    assert_fits(nbytes, nranks, staging);
    ck_assert_uint_eq(symm__copy_chunks(nbytes, nranks, staging).n, n);
}

START_TEST(chunks_are_large_and_a_few)
{
    assert_chunks(1, 2, 64 * MIB, 1);
    assert_chunks(MIB, 4, 64 * MIB, 1);
    assert_chunks(2 * MIB, 4, 64 * MIB, 2);
    assert_chunks(4 * MIB, 4, 64 * MIB, 4);
    assert_chunks(16 * MIB, 4, 64 * MIB, 4);
    assert_chunks(64 * MIB, 4, 64 * MIB, 8);
    assert_chunks(64 * MIB, 2, 64 * MIB, 8);
    assert_chunks(4 * MIB, 8, 1 * MIB, 57); /* the staging area decides */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("copy_engine");
    TCase *tc = test_case(suite, "chunks", 30);
    tcase_add_test(tc, every_share_fits);
    tcase_add_test(tc, chunks_are_large_and_a_few);
    return test_main(suite);
}
