/* The call in a packet's flag: which calls it tells apart, and the texts. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/group/packet_call.h"
#include "collectives/kernels/args.h"
#include "test.h"

enum { WORDS = 1 << SYMM_PACKET_CALL_BITS };

static const struct symm_packet_call kinds[] = {
    {.operation = SYMM_OPERATION_ALL_REDUCE, .algo = SYMM_ALGO_LOW_LATENCY},
    {.operation = SYMM_OPERATION_ALL_REDUCE, .algo = SYMM_ALGO_LOW_LATENCY_TWO_SHOT},
    {.operation = SYMM_OPERATION_REDUCE_SCATTER, .algo = SYMM_ALGO_LOW_LATENCY},
    {.operation = SYMM_OPERATION_ALL_GATHER, .algo = SYMM_ALGO_LOW_LATENCY},
    {.operation = SYMM_OPERATION_ALL_REDUCE_RMS_NORM, .algo = SYMM_ALGO_LOW_LATENCY},
    {.operation = SYMM_OPERATION_ALL_REDUCE_RMS_NORM, .algo = SYMM_ALGO_LOW_LATENCY_TWO_SHOT},
    {.operation = SYMM_OPERATION_BROADCAST, .algo = SYMM_ALGO_LOW_LATENCY},
};
enum { NKINDS = sizeof kinds / sizeof kinds[0] };

/* Calls f with every operation, algorithm, dtype and reduction that goes by packets. */
static void for_every_call(uint64_t count, uint32_t blocks,
                           void (*f)(const struct symm_packet_call *call, void *arg), void *arg)
{
    for (int k = 0; k < NKINDS; k++) {
        const bool moves = kinds[k].operation == SYMM_OPERATION_ALL_GATHER ||
                           kinds[k].operation == SYMM_OPERATION_BROADCAST,
                   norm = kinds[k].operation == SYMM_OPERATION_ALL_REDUCE_RMS_NORM;
        const int dtypes = moves  ? SYMM_FLOAT8_E5M2
                           : norm ? 2
                                  : SYMM_INT64,
                  ops = moves || norm ? 1 : 4;
        for (int i = 0; i < dtypes * ops; i++) {
            struct symm_packet_call c = kinds[k];
            c.dtype = (symm_dtype)((norm ? SYMM_FLOAT16 : SYMM_FLOAT32) + i / ops);
            c.op = (symm_redop)(i % ops);
            c.count = count;
            c.blocks = blocks;
            f(&c, arg);
        }
    }
}

static void take_word(const struct symm_packet_call *call, void *arg)
{
    bool *taken = arg;
    const uint32_t word = symm__packet_call(call);

    ck_assert_msg(word > 0 && word < WORDS, "%#x", word);
    ck_assert_msg(!taken[word], "%#x twice", word);
    taken[word] = true;
}

TEST_GROUP(packet_call, 20);

/* All sizes beside each other: no call of one kind has a word of another kind. */
TEST(packet_call, every_kind_of_call_has_words_of_its_own)
{
    bool *taken = calloc(WORDS, sizeof *taken);

    for (uint64_t count = 0; count < 509; count++)
        for_every_call(count, 1, take_word, taken);
    free(taken);
}

static uint32_t word_of_size(uint64_t count, uint32_t blocks)
{
    struct symm_packet_call c = kinds[0];

    c.dtype = SYMM_FLOAT32;
    c.count = count;
    c.blocks = blocks;
    return symm__packet_call(&c);
}

TEST(packet_call, counts_look_alike_509_apart_and_grids_never)
{
    static const uint64_t counts[] = {1, 7, 4096, 1000000007, UINT64_MAX / 2};

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        for (uint32_t more = 1; more < 2 * 509; more++)
            ck_assert_int_eq(word_of_size(counts[i], 8) == word_of_size(counts[i] + more, 8),
                             more == 509);
        for (uint32_t blocks = 2; blocks < 509; blocks++)
            ck_assert_uint_ne(word_of_size(counts[i], 1), word_of_size(counts[i], blocks));
    }
}

TEST(packet_call, roots_and_grids_never_look_alike)
{
    struct symm_packet_call a = kinds[6], b;

    a.dtype = SYMM_UINT8;
    a.count = 1000;
    a.blocks = 8;
    b = a;
    for (b.root = 1; b.root < SYMM_MAX_RANKS; b.root++)
        ck_assert_uint_ne(symm__packet_call(&a), symm__packet_call(&b));
    b.root = 0;
    for (b.blocks = 1; b.blocks < 509; b.blocks++)
        ck_assert_int_eq(symm__packet_call(&a) == symm__packet_call(&b), b.blocks == 8);
}

TEST(packet_call, flags_differ_in_the_call_only_if_the_epoch_is_the_same)
{
    ck_assert(symm__packet_calls_differ(0x00070200, 0x00070201));
    ck_assert(!symm__packet_calls_differ(0x00070200, 0x00070200));
    ck_assert(!symm__packet_calls_differ(0x00070200, 0x00080201));
    ck_assert(!symm__packet_calls_differ(0x00070200, 0));
    ck_assert(!symm__packet_calls_differ(0x00000200, 0)); /* an empty slot, in the first epoch */
}

static void expect_texts(uint32_t a, uint32_t b, const char *a_text, const char *b_text)
{
    char text[128], other[128];

    symm__packet_call_texts(a, b, text, other, sizeof text);
    ck_assert_str_eq(text, a_text);
    ck_assert_str_eq(other, b_text);
}

TEST(packet_call, texts_name_both_calls)
{
    struct symm_packet_call sum = kinds[1], max = kinds[2], gather = kinds[3], norm = kinds[4];

    sum.dtype = SYMM_BFLOAT16;
    max.dtype = SYMM_INT64;
    max.op = SYMM_MAX;
    gather.dtype = SYMM_FLOAT8_E5M2;
    norm.dtype = SYMM_BFLOAT16;
    expect_texts(0x50000 | symm__packet_call(&sum), 0x50000 | symm__packet_call(&max),
                 "all_reduce(low_latency_two_shot, bfloat16, sum)",
                 "reduce_scatter(low_latency, int64, max)");
    expect_texts(word_of_size(600, 1), word_of_size(601, 1),
                 "all_reduce(low_latency, float32, sum, count and grid 191 modulo 509)",
                 "all_reduce(low_latency, float32, sum, count and grid 192 modulo 509)");
    norm.count = 600;
    norm.blocks = 1;
    const uint32_t other = symm__packet_call(&norm);
    norm.algo = SYMM_ALGO_LOW_LATENCY_TWO_SHOT;
    expect_texts(symm__packet_call(&norm), other,
                 "all_reduce_rms_norm(low_latency_two_shot, bfloat16)",
                 "all_reduce_rms_norm(low_latency, bfloat16)");
    expect_texts(other, other + 1,
                 "all_reduce_rms_norm(low_latency, bfloat16, count and grid 191 modulo 509)",
                 "all_reduce_rms_norm(low_latency, bfloat16, count and grid 192 modulo 509)");
    struct symm_packet_call sent = kinds[6], root;
    sent.dtype = SYMM_UINT8;
    sent.count = 600;
    sent.blocks = 1;
    root = sent;
    root.root = 1;
    expect_texts(symm__packet_call(&sent), symm__packet_call(&root),
                 "broadcast(low_latency, uint8, count, grid and root 191 modulo 509)",
                 "broadcast(low_latency, uint8, count, grid and root 402 modulo 509)");
    expect_texts(symm__packet_call(&gather), symm__packet_call(&sent),
                 "all_gather(low_latency, float8_e5m2)", "broadcast(low_latency, uint8)");
    expect_texts(symm__packet_call(&gather), 0xffff, "all_gather(low_latency, float8_e5m2)",
                 "an unknown call, 0xffff");
    expect_texts(symm__packet_call(&gather), 0, "all_gather(low_latency, float8_e5m2)",
                 "an unknown call, 0");
}
