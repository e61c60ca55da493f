/* The library's conversions of 16-bit floats, against the bit-level ones of the tests. */
#include <symm/detail/convert.h>
#include <math.h>
#include "reference.h"
#include "test.h"

static void assert_same(float x, uint16_t got, uint16_t want, const char *type)
{
    if (isnan(x))
        ck_assert_msg(got == 0x7fff, "NaN becomes %s 0x%04x", type, got);
    else
        ck_assert_msg(got == want, "%a becomes %s 0x%04x, not 0x%04x", (double)x, type, got, want);
}

static void check(uint32_t bits)
{
    const float x = symm_detail_float(bits);
    assert_same(x, symm_detail_to_f16(x), reference_half(x, SYMM_FLOAT16), "fp16");
    assert_same(x, symm_detail_to_bf16(x), reference_half(x, SYMM_BFLOAT16), "bf16");
}

static float float_of(uint32_t half)
{
    return (float)reference_get(&half, 0, SYMM_FLOAT16);
}

TEST_GROUP(convert, 60);

TEST(convert, every_half_becomes_the_float_it_is)
{
    for (uint32_t h = 0; h < 65536; h++) {
        const float f16 = symm_detail_from_f16((uint16_t)h), want = float_of(h);
        const float bf16 = symm_detail_from_bf16((uint16_t)h);
        ck_assert_msg(isnan(want) ? isnan(f16) : symm_detail_bits(f16) == symm_detail_bits(want),
                      "fp16 0x%04x", h);
        ck_assert_msg(symm_detail_bits(bf16) == h << 16, "bf16 0x%04x", h);
    }
}

/* Halves themselves, what lies half-way between two of them, and the nearest on either side of
 * that. */
TEST(convert, ties_go_to_even_and_their_neighbours_do_not)
{
    for (uint32_t h = 0; h < 65535; h++) {
        const float low = float_of(h), high = float_of(h + 1);
        if (!isnan(low) && isfinite(high))
            for (int d = -2; d <= 2; d++)
                check(symm_detail_bits((low + high) / 2) + (uint32_t)d);
        for (uint32_t d = 0; d < 5; d++)
            check((h << 16 | 0x8000) + d - 2);
    }
    for (int d = -3; d <= 3;
         d++) { /* the step to infinity, the smallest subnormal, the smallest normal number */
        check(symm_detail_bits(65520.0f) + (uint32_t)d);
        check(symm_detail_bits(0x1p-25f) + (uint32_t)d);
        check(symm_detail_bits(0x1p-14f) + (uint32_t)d);
        check(0x7f800000u + (uint32_t)d);
        check(0xff800000u + (uint32_t)d);
    }
}

TEST(convert, random_floats_round_once)
{
    for (uint64_t i = 0; i < 2000000; i++)
        check((uint32_t)reference_random(1, i));
}
