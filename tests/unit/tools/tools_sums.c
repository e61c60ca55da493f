/* The check that symm-bench and symm-info rely on: it finds what is wrong, and nothing else. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "oracle/parallel.h"
#include "oracle/sums.h"
#include "test.h"

/*
 * Many: enough for three threads. Each case is a type that is reduced, NFLOATS floating ones first,
 * and an op. Then there are NMOVED types that are only moved.
 */
enum { FEW = 20003, MANY = 200003, RANKS = 4, NFLOATS = 4, NTYPES = 6, NMOVED = 3 };
enum { FLOAT_CASES = NFLOATS * NREDOPS, CASES = NTYPES * NREDOPS };

static char sum[MANY * 8], one[MANY * 8];
static union element_number total[MANY], x[MANY];
static size_t count = FEW;

static const struct element *type(int i)
{
    return element_at((size_t)(i / NREDOPS));
}

static symm_redop op(int i)
{
    return (symm_redop)(i % NREDOPS);
}

/* There are averages of floating types only. */
static bool exists(int i)
{
    return !(type(i)->integer && op(i) == SYMM_AVG);
}

static double rounded(const struct element *e, double value)
{
    return e->dtype == SYMM_FLOAT64 ? value : (double)(float)value;
}

/* In fp32, or in a type of 64 bits. */
static void fold(const struct element *e, symm_redop o, union element_number *a,
                 const union element_number *b)
{
    const bool smaller = e->integer ? b->whole < a->whole : b->real < a->real;

    if (o == SYMM_MIN || o == SYMM_MAX)
        *a = smaller == (o == SYMM_MIN) ? *b : *a;
    else if (e->integer)
        a->whole = (int64_t)((uint64_t)a->whole + (uint64_t)b->whole);
    else
        a->real = rounded(e, a->real + b->real);
}

/* What ranks first, first + step, ... would give, reduced in that order. */
static void reduce(const struct element *e, symm_redop o, int nranks, uint64_t seed, int first,
                   int step)
{
    for (int i = 0, r = first; i < nranks; i++, r += step) {
        sums_fill(e, one, count, seed, r);
        element_widen(e, one, i == 0 ? total : x, count);
        for (size_t k = 0; i > 0 && k < count; k++)
            fold(e, o, &total[k], &x[k]);
    }
    for (size_t k = 0; o == SYMM_AVG && k < count; k++)
        total[k].real = rounded(e, total[k].real / nranks);
    element_narrow(e, total, sum, count);
}

static struct sums_verdict check(int i, uint64_t seed, enum sums_rule rule)
{
    struct sums_verdict verdict;

    sums_check(type(i), sum, count,
               &(struct sums_asked){.seed = seed, .op = op(i), .nranks = RANKS, .rule = rule},
               &verdict);
    return verdict;
}

static size_t wrong_of(const struct element *e, const char *at, size_t n,
                       const struct sums_asked *asked)
{
    struct sums_verdict verdict;

    sums_check(e, at, n, asked, &verdict);
    return verdict.wrong;
}

static double widened(const struct element *e, uint16_t bits)
{
    union element_number number;

    element_widen(e, &bits, &number, 1);
    return number.real;
}

TEST_GROUP(sums, 60);

/* By the definition of the formats. */
TEST_LOOP(sums, every_half_is_its_fraction_times_its_power_of_two, 0, 2)
{
    const struct element *e = type(_i * NREDOPS);
    const int bits = e->fraction_bits, bias = 1 - e->min_exponent;

    for (uint32_t h = 0; h < 65536; h++) {
        const int exponent = (int)(h & 0x7fff) >> bits, fraction = (int)h & ((1 << bits) - 1);
        const double whole = fraction + (exponent ? 1 << bits : 0), sign = h & 0x8000 ? -1 : 1;
        const double want = sign * ldexp(whole, (exponent ? exponent : 1) - bias - bits),
                     got = widened(e, (uint16_t)h);

        if (exponent == 2 * bias + 1)
            ck_assert(fraction ? isnan(got) : got == sign * (double)INFINITY);
        else
            ck_assert(got == want && !signbit(got) == !signbit(want));
    }
}

/* No neighbour is nearer, and of two that are as near the even one is taken. */
TEST_LOOP(sums, floats_become_the_nearest_half, 0, 2)
{
    const struct element *e = type(_i * NREDOPS);
    uint64_t state = 1;

    for (int i = 0; i < 200000; i++) {
        uint16_t got;

        state = sums_seed(state, 1);
        /* Of half of them the lower bits are 0: ties. */
        const int32_t digits = state & 1 ? (int32_t)state : (int32_t)(state & ~UINT64_C(0xfffff));
        const double value = (double)ldexpf((float)digits, (int)(state >> 40) % 64 - 60);
        const union element_number number = {.real = value};

        element_narrow(e, &number, &got, 1);
        const double off = fabs(widened(e, got) - value);
        ck_assert(!signbit(value) == !(got & 0x8000));
        if (isinf(widened(e, got))) { /* past the middle of the largest number and the next one */
            const double largest = fabs(widened(e, (uint16_t)(got - 1)));
            ck_assert(fabs(value) >= largest + element_ulp(e, largest) / 2);
            continue;
        }
        for (int step = -1; step <= 1; step += 2) {
            const uint16_t next = (uint16_t)(got + step);
            const double further = fabs(widened(e, next) - value);

            if ((next ^ got) & 0x8000) /* past 0 */
                continue;
            ck_assert(off < further || (off == further && got % 2 == 0));
        }
    }
}

/* A NaN stays one, min and max leave it out, and another sign of zero is for the switch alone. */
static void special(const struct element *e, uint64_t seed, int rank, size_t first, size_t n,
                    void *out)
{
    static const double values[][3] = {
        {NAN, 1, 2}, {3, NAN, 1}, {0.0, -0.0, 0.0}, {INFINITY, 1, 5}};

    (void)seed;
    for (size_t i = 0; i < n; i++) {
        const union element_number number = {.real = values[(first + i) % 4][rank]};

        element_narrow(e, &number, (char *)out + i * e->nbytes, 1);
    }
}

TEST_LOOP(sums, numbers_that_are_none_follow_their_rules, 0, NFLOATS)
{
    static const struct {
        symm_redop op;
        double right[4], switched[4]; /* also right by the switch */
    } cases[] = {{SYMM_SUM, {NAN, NAN, 0.0, INFINITY}, {NAN, NAN, -0.0, INFINITY}},
                 {SYMM_MIN, {1, 1, 0.0, 1}, {1, 1, -0.0, 1}},
                 {SYMM_MAX, {2, 3, 0.0, INFINITY}, {2, 3, -0.0, INFINITY}}};
    const struct element *e = type(_i * NREDOPS);

    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct sums_asked asked = {.source = special, .op = cases[c].op, .nranks = 3};

        for (int k = 0; k < 4; k++)
            total[k].real = -cases[c].right[k]; /* of a NaN only the sign */
        element_narrow(e, total, sum, 4);
        ck_assert_uint_eq(wrong_of(e, sum, 4, &asked), cases[c].op == SYMM_SUM ? 2 : 4);
        for (int switched = 0; switched < 2; switched++) {
            for (int k = 0; k < 4; k++)
                total[k].real = switched ? cases[c].switched[k] : cases[c].right[k];
            element_narrow(e, total, sum, 4);
            for (int rule = SUMS_EXACT; rule <= SUMS_SWITCH; rule++) {
                asked.rule = (enum sums_rule)rule;
                ck_assert_uint_eq(wrong_of(e, sum, 4, &asked), switched && rule == SUMS_EXACT);
            }
        }
    }
}

TEST(sums, integers_wrap_and_print)
{
    const union element_number large = {.whole = INT64_C(0x180000001)};
    char text[ELEMENT_TEXT];
    int32_t low;
    int64_t all;

    element_narrow(element_by_dtype(SYMM_INT32), &large, &low, 1);
    ck_assert_int_eq(low, INT32_MIN + 1);
    element_print(element_by_dtype(SYMM_INT32), &low, text);
    ck_assert_str_eq(text, "-2147483647");
    element_narrow(element_by_dtype(SYMM_INT64), &large, &all, 1);
    ck_assert(all == large.whole);
    element_print(element_by_dtype(SYMM_INT64), &all, text);
    ck_assert_str_eq(text, "6442450945");
    element_print(element_by_dtype(SYMM_FLOAT64), &(double){0.1}, text);
    ck_assert_str_eq(text, "0.10000000000000001");
    ck_assert_ptr_null(element_at(NTYPES + NMOVED));
    ck_assert(element_at(NTYPES)->moved_only && !element_at(NTYPES - 1)->moved_only);
    ck_assert(element_at(NFLOATS)->integer && !element_at(NFLOATS - 1)->integer);
}

TEST_LOOP(sums, right_results_are_right_by_every_rule, 0, CASES)
{
    if (!exists(_i))
        return;
    reduce(type(_i), op(_i), RANKS, 42, 0, 1);
    ck_assert_uint_eq(check(_i, 42, SUMS_EXACT).wrong, 0);
    ck_assert_uint_eq(check(_i, 42, SUMS_SWITCH).wrong, 0);
    ck_assert_uint_eq(check(_i, 42, SUMS_TYPE).wrong, 0);
}

TEST_LOOP(sums, another_order_is_only_right_for_the_switch, 0, CASES)
{
    const struct element *e = type(_i);

    if (!exists(_i))
        return;
    reduce(e, op(_i), RANKS, 42, RANKS - 1, -1);
    if (op(_i) <= SYMM_AVG && !e->integer && e->nbytes >= 4)
        ck_assert_uint_gt(check(_i, 42, SUMS_EXACT).wrong, count / 10);
    if (op(_i) > SYMM_AVG || e->integer)
        ck_assert_uint_eq(check(_i, 42, SUMS_EXACT).wrong, 0);
    ck_assert_uint_eq(check(_i, 42, SUMS_SWITCH).wrong, 0);
}

TEST_LOOP(sums, other_data_are_wrong, 0, CASES)
{
    const struct element *e = type(_i);

    if (!exists(_i))
        return;
    reduce(e, op(_i), RANKS, 43, 0, 1);
    ck_assert_uint_gt(check(_i, 42, SUMS_SWITCH).wrong, count * 9 / 10);
    memset(sum, 0xff, sizeof sum);
    ck_assert_uint_eq(check(_i, 42, SUMS_EXACT).wrong, count);
    ck_assert_uint_eq(check(_i, 42, SUMS_SWITCH).wrong, count);
    ck_assert_uint_eq(check(_i, 42, SUMS_TYPE).wrong, count);
}

TEST_LOOP(sums, another_op_is_wrong, 0, CASES)
{
    for (int o = 0; o < NREDOPS; o++) {
        const int asked = _i / NREDOPS * NREDOPS + o;

        if (!exists(_i) || !exists(asked) || asked == _i)
            continue;
        reduce(type(_i), op(_i), RANKS, 44, 0, 1);
        ck_assert_uint_gt(check(asked, 44, SUMS_EXACT).wrong, count * 8 / 10);
        ck_assert_uint_gt(check(asked, 44, SUMS_SWITCH).wrong, count * 8 / 10);
    }
}

/* One bit in one element, in the part of each thread: the first one is named. */
TEST_LOOP(sums, one_wrong_bit_is_found, 0, CASES)
{
    const struct element *e = type(_i);

    if (!exists(_i))
        return;
    count = MANY;
    parallel_threads(3);
    reduce(e, op(_i), RANKS, 7, 0, 1);
    for (size_t at = 5; at < MANY; at += MANY / 4) {
        sum[at * e->nbytes] ^= 1;
        struct sums_verdict verdict = check(_i, 7, SUMS_EXACT);

        ck_assert_uint_eq(verdict.wrong, 1);
        ck_assert_uint_eq(verdict.first, at);
        ck_assert_str_ne(verdict.got, verdict.expected);
        sum[at * e->nbytes] ^= 1;
    }
    sum[5 * e->nbytes] ^= 1;
    sum[(MANY - 1) * e->nbytes] ^= 1;
    ck_assert_uint_eq(check(_i, 7, SUMS_EXACT).wrong, 2);
    ck_assert_uint_eq(check(_i, 7, SUMS_EXACT).first, 5);
}

TEST_LOOP(sums, the_bound_of_the_switch_is_tight, 0, FLOAT_CASES)
{
    const struct element *e = type(_i);

    ck_assert(element_ulp(e, 1.5) == ldexp(1, -e->fraction_bits));
    ck_assert(element_ulp(e, 0) == ldexp(1, e->min_exponent - e->fraction_bits));
    reduce(e, op(_i), RANKS, 9, 0, 1);
    for (size_t k = 0; k < count; k++)
        total[k].real += 4 * element_ulp(e, total[k].real) + ldexp(1, e->nbytes == 8 ? -47 : -18);
    element_narrow(e, total, sum, count);
    ck_assert_uint_eq(check(_i, 9, SUMS_SWITCH).wrong, count);
}

TEST(sums, data_differ_between_ranks_and_elements)
{
    const struct element *e = element_by_dtype(SYMM_FLOAT32);
    float *a = (float *)(void *)one, *b = (float *)(void *)sum;
    size_t same = 0, small = 0;

    sums_fill(e, a, count, 1, 0);
    sums_fill(e, b, count, 1, 1);
    for (size_t k = 0; k < count; k++) {
        same += a[k] == b[k];
        small += fabsf(a[k]) < 0.25f;
        ck_assert(fabsf(a[k]) <= 1);
    }
    ck_assert_uint_lt(same, 10);
    ck_assert_uint_gt(small, count / 3);
}

/* Types of a byte: every bit is data, and every byte that is not what was sent is found. */
TEST_LOOP(sums, bytes_are_moved_as_they_are, NTYPES, NTYPES + NMOVED)
{
    const struct element *e = element_at((size_t)_i);
    size_t seen[256] = {0};
    struct sums_asked asked = {.seed = 5, .rank = 2, .nranks = 1, .rule = SUMS_EXACT};
    struct sums_verdict verdict;

    ck_assert_uint_eq(e->nbytes, 1);
    sums_fill(e, one, count, 5, 2);
    for (size_t k = 0; k < count; k++)
        seen[(unsigned char)one[k]]++;
    for (int byte = 0; byte < 256; byte++)
        ck_assert_uint_gt(seen[byte], 0);
    ck_assert_uint_eq(wrong_of(e, one, count, &asked), 0);
    one[count - 1] ^= 1;
    sums_check(e, one, count, &asked, &verdict);
    ck_assert_uint_eq(verdict.wrong, 1);
    ck_assert_uint_eq(verdict.first, count - 1);
    ck_assert_str_ne(verdict.got, verdict.expected);
}

/* What a rank gets of a sum, and what it has from another rank. */
TEST_LOOP(sums, parts_and_single_ranks_are_found_where_they_are, 0, NTYPES)
{
    const struct element *e = element_at((size_t)_i);
    const size_t first = 1234;
    struct sums_asked asked = {.seed = 5, .nranks = RANKS, .first = first, .rule = SUMS_EXACT};

    reduce(e, SYMM_SUM, RANKS, 5, 0, 1);
    ck_assert_uint_eq(wrong_of(e, sum + first * e->nbytes, count - first, &asked), 0);
    asked.first = first + 1;
    ck_assert_uint_gt(wrong_of(e, sum + first * e->nbytes, count - first, &asked), count / 2);
    sums_fill(e, one, count, 5, 2);
    asked = (struct sums_asked){.seed = 5, .rank = 2, .nranks = 1, .rule = SUMS_EXACT};
    ck_assert_uint_eq(wrong_of(e, one, count, &asked), 0);
    asked.rank = 1;
    ck_assert_uint_gt(wrong_of(e, one, count, &asked), count / 2);
}

/* A link of a chain multiplies a sum by the ranks; rounding is allowed for, more is wrong. */
TEST_LOOP(sums, chains_grow_and_nothing_else, 0, CASES)
{
    const struct element *e = type(_i);
    const bool grows = op(_i) == SYMM_SUM;
    struct sums_asked asked = {
        .seed = 6, .op = op(_i), .nranks = RANKS, .rule = SUMS_EXACT, .links = 4};

    if (!exists(_i))
        return;
    reduce(e, op(_i), RANKS, 6, 0, 1);
    element_widen(e, sum, total, count);
    for (size_t k = 0; k < count && grows; k++) {
        if (e->integer)
            total[k].whole = (int64_t)((uint64_t)total[k].whole * 64);
        else
            total[k].real *= 64;
    }
    element_narrow(e, total, sum, count);
    ck_assert_uint_eq(wrong_of(e, sum, count, &asked), 0);
    asked.links = 3;
    ck_assert_uint_ge(wrong_of(e, sum, count, &asked), grows ? count * 9 / 10 : 0);
    asked.links = 4;
    for (size_t k = 0; k < count; k++) {
        if (e->integer)
            total[k].whole++;
        else
            total[k].real += (grows ? 64 : 1) * (total[k].real < 0 ? -1.0 : 1.0);
    }
    element_narrow(e, total, sum, count);
    ck_assert_uint_eq(wrong_of(e, sum, count, &asked), count);
}

/* A call of a chain: nranks equal elements, reduced in fp32 or fp64, and rounded to the type. */
static void link_once(const struct element *e, symm_redop o, int nranks)
{
    element_widen(e, sum, x, count);
    memcpy(total, x, count * sizeof *x);
    for (size_t k = 0; k < count; k++) {
        for (int r = 1; r < nranks; r++)
            fold(e, o, &total[k], &x[k]);
        if (o == SYMM_AVG)
            total[k].real = rounded(e, total[k].real / nranks);
    }
    element_narrow(e, total, sum, count);
}

/* Sums grow: in fp16 a chain of eight ranks is soon infinite. */
static int longest_chain(const struct element *e, symm_redop o, int nranks)
{
    int links = 1;

    while (links < 20 &&
           (o == SYMM_AVG || e->dtype != SYMM_FLOAT16 || pow(nranks, links + 1) < 32768))
        links++;
    return links;
}

/*
 * One rounding to the type a link is right. Zeros, and a sum that lacks a rank, are not, unless the
 * rule has a rounding for each rank.
 */
static void check_chains(const struct element *e, symm_redop o, int nranks)
{
    struct sums_asked asked = {.seed = 11, .op = o, .nranks = nranks};

    for (int missing = 0; missing < 2; missing++) {
        reduce(e, o, nranks - missing, 11, 0, 1);
        for (asked.links = 2; asked.links <= longest_chain(e, o, nranks); asked.links++) {
            link_once(e, o, nranks);
            for (int rule = SUMS_EXACT; rule <= SUMS_TYPE; rule++) {
                asked.rule = (enum sums_rule)rule;
                const size_t wrong = wrong_of(e, sum, count, &asked);

                if (!missing)
                    ck_assert_uint_eq(wrong, 0);
                else if (rule != SUMS_TYPE)
                    ck_assert_uint_gt(wrong, count / 2);
            }
        }
    }
    memset(sum, 0, count * e->nbytes);
    asked.links--;
    for (int rule = SUMS_EXACT; rule < SUMS_TYPE; rule++) {
        asked.rule = (enum sums_rule)rule;
        ck_assert_uint_gt(wrong_of(e, sum, count, &asked), count * 9 / 10);
    }
}

TEST_LOOP(sums, chains_are_as_exact_as_their_links, 2, 9)
{
    count = FEW / 10;
    for (size_t i = 0; i < NFLOATS; i++) {
        check_chains(element_at(i), SYMM_SUM, _i);
        check_chains(element_at(i), SYMM_AVG, _i);
    }
}

/* A call of a chain whose last result only rank `mine` has as input. */
static void link_alone(const struct element *e, symm_redop o, uint64_t seed, int nranks, int mine)
{
    for (int r = 0; r < nranks; r++) {
        memcpy(one, sum, count * e->nbytes);
        if (r != mine)
            sums_fill(e, one, count, seed, r);
        element_widen(e, one, r == 0 ? total : x, count);
        for (size_t k = 0; r > 0 && k < count; k++)
            fold(e, o, &total[k], &x[k]);
    }
    for (size_t k = 0; o == SYMM_AVG && k < count; k++)
        total[k].real = rounded(e, total[k].real / nranks);
    element_narrow(e, total, sum, count);
}

static void check_alone(const struct element *e, symm_redop o, int nranks)
{
    struct sums_asked asked = {
        .seed = 12, .op = o, .nranks = nranks, .alone = true, .mine = nranks - 1};

    sums_fill(e, sum, count, 12, asked.mine);
    for (asked.links = 1; asked.links <= 20; asked.links++) {
        link_alone(e, o, 12, nranks, asked.mine);
        for (int rule = SUMS_EXACT; rule <= SUMS_TYPE; rule++) {
            asked.rule = (enum sums_rule)rule;
            ck_assert_uint_eq(wrong_of(e, sum, count, &asked), 0);
        }
    }
    asked.links = 20;
    asked.rule = SUMS_EXACT;
    asked.op = o == SYMM_SUM ? SYMM_AVG : SYMM_SUM;
    ck_assert_uint_gt(wrong_of(e, sum, count, &asked), count / 2);
}

TEST_LOOP(sums, chains_of_one_rank_are_as_exact_as_their_links, 2, 9)
{
    count = FEW / 10;
    for (size_t i = 0; i < NFLOATS; i++) {
        check_alone(element_at(i), SYMM_SUM, _i);
        check_alone(element_at(i), SYMM_AVG, _i);
    }
}

/*
 * A reduce-scatter in place: only this rank has the last result as input, so that each call adds
 * the elements of the others once more.
 */
TEST_LOOP(sums, a_chain_of_one_rank_adds_the_others_each_time, 0, CASES)
{
    enum { MINE = 2, LINKS = 5 };
    const struct element *e = type(_i);
    struct sums_asked asked = {.seed = 8,
                               .op = op(_i),
                               .nranks = RANKS,
                               .rule = SUMS_EXACT,
                               .links = LINKS,
                               .alone = true,
                               .mine = MINE};

    if (!exists(_i))
        return;
    sums_fill(e, sum, count, 8, MINE);
    for (int link = 0; link < LINKS; link++)
        link_alone(e, op(_i), 8, RANKS, MINE);
    ck_assert_uint_eq(wrong_of(e, sum, count, &asked), 0);
    asked.mine = MINE - 1;
    ck_assert_uint_ge(wrong_of(e, sum, count, &asked), op(_i) <= SYMM_AVG ? count / 2 : 0);
    asked.mine = MINE;
    asked.links = 1;
    ck_assert_uint_ge(wrong_of(e, sum, count, &asked), op(_i) <= SYMM_AVG ? count / 2 : 0);
}

/* Threads leave stacks in the C library's store; the cases count what they leave. */
void test_setup(void)
{
    parallel_threads(3);
    sums_fill(element_by_dtype(SYMM_FLOAT32), one, MANY, 1, 0);
    parallel_threads(1);
}
