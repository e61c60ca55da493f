/* The sizes of a group's areas, and the calls that are as fast in the first ones. */
#include "runtime/group/areas.h"
#include "collectives/planned.h"
#include "runtime/group/context.h"
#include "test.h"

TEST_GROUP(areas, 10);

enum { MIB = 1 << 20, FAST_NBYTES = 64 << 10 };

static const uint64_t h200 = 256 * MIB; /* of staging */

TEST(areas, a_group_of_up_to_eight_ranks_begins_with_2_mib)
{
    for (int nranks = 1; nranks <= 8; nranks++) {
        const struct symm_areas_size first = symm__areas_first(h200, nranks),
                                     full = symm__areas_full(h200, nranks);

        ck_assert_uint_le(symm__areas_nbytes(&first, nranks), 2 * MIB);
        ck_assert_uint_ge(first.staging_nbytes, 256 << 10);
        ck_assert_uint_ge(symm__areas_nbytes(&full, nranks), 288 * MIB);
    }
}

TEST(areas, many_ranks_have_packets_too)
{
    const struct symm_areas_size first = symm__areas_first(h200, SYMM_MAX_RANKS);

    ck_assert_uint_ge(first.block_packets, 8 * SYMM_MAX_RANKS);
    ck_assert_uint_ge(first.staging_nbytes, 128 * SYMM_MAX_RANKS);
}

TEST(areas, small_full_areas_are_the_first_ones)
{
    for (uint64_t staging = 1024; staging <= MIB; staging *= 4) {
        const struct symm_areas_size first = symm__areas_first(staging, 4),
                                     full = symm__areas_full(staging, 4);

        ck_assert_uint_eq(first.packet_blocks, SYMM_BLOCKS_MAX);
        ck_assert_uint_eq(first.block_packets, full.block_packets);
        ck_assert_uint_eq(first.staging_nbytes, full.staging_nbytes);
    }
}

/* A call of this many bytes in the larger buffer, on the first areas. */
static struct symm_planned plan(int nranks, int nsms, enum symm_operation operation,
                                symm_dtype dtype, uint64_t nbytes)
{
    const struct symm_limits limits = {.nranks = nranks,
                                       .nsms = nsms,
                                       .max_threads = 1024,
                                       .compute_major = 9,
                                       .multicast_off = "off",
                                       .areas = symm__areas_first(h200, nranks)};
    const struct symm_areas_size full = symm__areas_full(h200, nranks);
    const uint64_t ranks = operation == SYMM_OPERATION_ALL_REDUCE ? 1 : (uint64_t)nranks;
    struct symm_planned planned;

    symm__planned_make(
        &limits, &full,
        &(struct symm_collective_call){.operation = operation,
                                       .dtype = dtype,
                                       .op = SYMM_SUM,
                                       .count = nbytes / symm_dtype_size(dtype) / ranks},
        &planned);
    return planned;
}

static const symm_dtype dtypes[] = {SYMM_FLOAT32, SYMM_BFLOAT16, SYMM_FLOAT64};

/*
 * They have the plan of the full areas, so they are as fast. A packet of 8-byte elements is half
 * empty.
 */
TEST(areas, calls_of_64_kib_want_no_others)
{
    static const int nsms[] = {48, 78, 108, 132, 144};

    for (int nranks = 2; nranks <= 8; nranks++)
        for (int s = 0; s < 5; s++)
            for (int o = SYMM_OPERATION_ALL_REDUCE; o <= SYMM_OPERATION_ALL_GATHER; o++)
                for (int d = 0; d < 3; d++)
                    for (uint64_t nbytes = 64; nbytes <= (d == 2 ? FAST_NBYTES / 2 : FAST_NBYTES);
                         nbytes += 1 + nbytes / 9) {
                        const struct symm_planned p =
                            plan(nranks, nsms[s], (enum symm_operation)o, dtypes[d], nbytes);
                        ck_assert_msg(!p.slower, "%d ranks, %d SMs, operation %d, %d, %llu bytes",
                                      nranks, nsms[s], o, d, (unsigned long long)nbytes);
                    }
}

TEST(areas, large_calls_want_the_full_ones)
{
    for (int nranks = 2; nranks <= 8; nranks++)
        for (int o = SYMM_OPERATION_ALL_REDUCE; o <= SYMM_OPERATION_ALL_GATHER; o++)
            ck_assert(plan(nranks, 132, (enum symm_operation)o, SYMM_FLOAT32, 16 * MIB).slower);
}
