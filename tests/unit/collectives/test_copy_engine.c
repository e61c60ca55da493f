/* A share goes through the staging area whole, in as few chunks as pay; two fit at a time. */
#include <stdlib.h>
#include "collectives/copy_engine.h"
#include "reference.h"
#include "test.h"

enum { MIB = 1 << 20 };

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a < b ? b : a;
}

static uint64_t last_of(const struct symm_copy_chunks *c, uint64_t nbytes)
{
    return nbytes - (c->n - 1) * c->nbytes;
}

static struct symm_copy_chunks assert_fits(const struct symm_copy_share *share, uint64_t staging)
{
    const struct symm_copy_chunks c = symm__copy_chunks(share, staging);

    ck_assert_uint_eq(c.stride % 16, 0);
    ck_assert_uint_le(c.stride * (uint64_t)(share->nranks - 1), staging);
    ck_assert_uint_eq(c.nbytes % 16, 0);
    ck_assert_uint_ge(c.n, 1);
    ck_assert_uint_ge(c.n * c.nbytes, share->nbytes);
    ck_assert_uint_lt((c.n - 1) * c.nbytes, share->nbytes); /* the last one is not empty */
    /* Two slots. If there are two chunks, the second slot has the last one alone. */
    if (c.n <= 2)
        ck_assert_uint_le(share->nbytes, c.stride);
    else
        ck_assert_uint_le(2 * c.nbytes, c.stride);
    return c;
}

TEST_GROUP(chunks, 30);

TEST(chunks, every_share_fits)
{
    for (uint64_t i = 0; i < 200000; i++) {
        const uint64_t u = reference_random(1, i), v = reference_random(2, i), bits = v >> 58;
        const struct symm_copy_share share = {
            .nbytes = larger(1, reference_random(3, i) >> (bits < 24 ? 24 : bits)),
            .nranks = 2 + (int)(u % 71),
            .gathered = u >> 60 & 1,
        };
        const uint64_t least = 128 * (uint64_t)share.nranks;
        assert_fits(&share, larger(least, (v & ((1u << 28) - 1)) >> (u >> 32) % 20));
    }
}

static struct symm_copy_chunks chunks_of(uint64_t nbytes, int nranks, bool gathered,
                                         uint64_t staging)
{
    return assert_fits(
        &(struct symm_copy_share){.nbytes = nbytes, .nranks = nranks, .gathered = gathered},
        staging);
}

TEST(chunks, results_are_gathered_in_two_chunks_or_as_many_as_must_be)
{
    static const struct {
        uint64_t nbytes;
        int nranks;
        uint64_t staging, n;
    } cases[] = {
        {1, 2, 256 * MIB, 1},
        {16, 4, 256 * MIB, 1},
        {MIB, 4, 256 * MIB, 1},
        {4 * MIB, 4, 256 * MIB, 1},
        {8 * MIB, 4, 256 * MIB, 2},
        /* The next two are measured, docs/notes/collectives.md. */
        {16 * MIB, 4, 256 * MIB, 2},
        {64 * MIB, 4, 256 * MIB, 2},
        {128 * MIB, 2, 256 * MIB, 2},
        {32 * MIB, 8, 256 * MIB, 2},
        {4 * MIB, 8, 256 * MIB, 1},
        {256 * MIB, 4, 256 * MIB, 7},
        {UINT64_C(1) << 40, 2, 256 * MIB, 8192},
        {4 * MIB, 8, 1 * MIB, 57}, /* the staging area decides */
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct symm_copy_chunks c =
            chunks_of(cases[i].nbytes, cases[i].nranks, true, cases[i].staging);
        ck_assert_msg(c.n == cases[i].n, "case %zu: %llu chunks", i, (unsigned long long)c.n);
        ck_assert_uint_lt(c.nbytes - last_of(&c, cases[i].nbytes), 64 * c.n); /* all alike */
    }
    ck_assert_uint_eq(chunks_of(64 * MIB, 4, true, 256 * MIB).nbytes, 32 * MIB);
}

/* No copy hides the last reduction. */
TEST(chunks, a_sum_that_stays_has_a_short_last_chunk)
{
    static const struct {
        uint64_t nbytes;
        int nranks;
        uint64_t staging, n;
    } cases[] = {
        {1, 2, 256 * MIB, 1},         {MIB, 4, 256 * MIB, 1},       {4 * MIB, 2, 256 * MIB, 1},
        {20 * MIB, 2, 256 * MIB, 2},  {6 * MIB, 4, 256 * MIB, 1},   {10 * MIB, 4, 256 * MIB, 2},
        {64 * MIB, 4, 256 * MIB, 2},  {128 * MIB, 2, 256 * MIB, 2}, {32 * MIB, 8, 256 * MIB, 2},
        {256 * MIB, 4, 256 * MIB, 7}, {4 * MIB, 8, 1 * MIB, 57},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct symm_copy_chunks c =
            chunks_of(cases[i].nbytes, cases[i].nranks, false, cases[i].staging);
        ck_assert_msg(c.n == cases[i].n, "case %zu: %llu chunks", i, (unsigned long long)c.n);
        if (c.n > 1)
            ck_assert_uint_le(last_of(&c, cases[i].nbytes), c.nbytes / 4);
    }
    ck_assert_uint_ge(last_of(&(struct symm_copy_chunks){.n = 2, .nbytes = 53687104}, 64 * MIB),
                      12 * MIB);
    ck_assert_uint_eq(chunks_of(64 * MIB, 4, false, 256 * MIB).nbytes, 53687104);
}

/* Longer shares never have fewer chunks; those that fit the area have two at most. */
TEST(chunks, more_bytes_are_not_fewer_chunks)
{
    for (int nranks = 2; nranks <= 16; nranks++)
        for (int gathered = 0; gathered < 2; gathered++) {
            const uint64_t room = 64 * MIB / (uint64_t)(nranks - 1) / 16 * 16;
            uint64_t n = 1;
            for (uint64_t nbytes = 1; nbytes < 1024 * (uint64_t)MIB; nbytes += nbytes / 3 + 1) {
                const struct symm_copy_chunks c = chunks_of(nbytes, nranks, gathered, 64 * MIB);
                ck_assert_uint_ge(c.n, n);
                ck_assert(c.n <= 2 || nbytes > room);
                n = c.n;
            }
        }
}
