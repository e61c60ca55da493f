/* The choice of auto: by a row of the tuning table if its algorithm runs, else by the model. */
#include <string.h>
#include "collectives/choice.h"
#include "model/span.h"
#include "runtime/group/tuning.h"
#include "test.h"

static const struct symm_limits h200 = {.nranks = 4,
                                        .nsms = 132,
                                        .max_threads = 1024,
                                        .compute_major = 9,
                                        .areas = {.packet_blocks = SYMM_BLOCKS_MAX,
                                                  .block_packets = 4096,
                                                  .block_slots = 4096,
                                                  .staging_nbytes = 64 << 20}};

static const enum symm_operation operations[] = {
    SYMM_OPERATION_ALL_REDUCE, SYMM_OPERATION_REDUCE_SCATTER, SYMM_OPERATION_ALL_GATHER,
    SYMM_OPERATION_BROADCAST};

static struct symm_tuning *table(const char *rows)
{
    struct symm_tuning *t = NULL;
    const symm_status st = symm__tuning_parse("rows", "", rows, strlen(rows), &t);

    ck_assert_msg(st == SYMM_OK, "%s", symm__failure_text());
    return t;
}

static struct symm_collective_call call_of(enum symm_operation operation, symm_dtype dtype,
                                           uint32_t flags, uint64_t count)
{
    return (struct symm_collective_call){.operation = operation,
                                         .algo = SYMM_ALGO_AUTO,
                                         .flags = flags,
                                         .dtype = dtype,
                                         .op = SYMM_SUM,
                                         .count = count};
}

static symm_algo choose(const struct symm_limits *m, enum symm_operation operation,
                        symm_dtype dtype, uint32_t flags, uint64_t count)
{
    const struct symm_collective_call call = call_of(operation, dtype, flags, count);

    return symm__choose(m, &call)->algo;
}

/* The choice without the table. */
static symm_algo model(const struct symm_limits *m, enum symm_operation operation, symm_dtype dtype,
                       uint32_t flags, uint64_t count)
{
    struct symm_limits without = *m;

    without.tuning = NULL;
    return choose(&without, operation, dtype, flags, count);
}

TEST_GROUP(table, 20);

/* ---- The table ---- */

TEST(table, a_named_algorithm_is_taken)
{
    struct symm_tuning *t = table("symm-tuning 1\nall-reduce 4 any any 0 two_shot\n");
    struct symm_limits m = h200;
    struct symm_collective_call call =
        call_of(SYMM_OPERATION_ALL_REDUCE, SYMM_BFLOAT16, 0, 1 << 10);

    m.tuning = t;
    for (int a = SYMM_ALGO_LOW_LATENCY; a <= SYMM_ALGO_LAMPORT; a++) {
        call.algo = (symm_algo)a;
        ck_assert_int_eq(symm__choose(&m, &call)->algo, a);
    }
    symm__tuning_destroy(t);
}

TEST(table, bytes_are_those_of_the_larger_buffer)
{
    struct symm_tuning *t = table("symm-tuning 1\n"
                                  "all-reduce 4 float32 any 4096 one_shot\n"
                                  "reduce-scatter 4 float32 any 4096 one_shot\n"
                                  "all-gather 4 float32 any 4096 one_shot\n"
                                  "broadcast 4 float32 any 4096 one_shot\n");
    struct symm_limits m = h200;

    m.tuning = t;
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        const uint64_t count = symm__operation_has_shares(operations[i]) ? 256 : 1024;
        ck_assert_int_eq(choose(&m, operations[i], SYMM_FLOAT32, 0, count), SYMM_ALGO_ONE_SHOT);
        ck_assert_int_eq(choose(&m, operations[i], SYMM_FLOAT32, 0, count - 1),
                         SYMM_ALGO_LOW_LATENCY); /* by the model */
        ck_assert_int_eq(choose(&m, operations[i], SYMM_FLOAT16, 0, 2 * count),
                         SYMM_ALGO_LOW_LATENCY);
    }
    symm__tuning_destroy(t);
}

TEST(table, rows_that_say_more_of_the_call_come_first)
{
    struct symm_tuning *t = table("symm-tuning 1\n"
                                  "all-reduce 4 any any 0 low_latency_two_shot\n"
                                  "all-reduce 4 int32 any 0 two_shot\n"
                                  "all-reduce 4 any symmetric 64 one_shot\n"
                                  "all-reduce 4 int32 symmetric 128 low_latency\n");
    struct symm_limits m = h200;
    static const struct {
        symm_dtype dtype;
        uint32_t flags;
        uint64_t count; /* of 4 bytes */
        symm_algo algo;
    } calls[] = {
        {SYMM_FLOAT32, 0, 1 << 20, SYMM_ALGO_LOW_LATENCY_TWO_SHOT},
        {SYMM_INT32, 0, 1 << 20, SYMM_ALGO_TWO_SHOT},
        {SYMM_FLOAT32, SYMM_SYMMETRIC, 15, SYMM_ALGO_LOW_LATENCY_TWO_SHOT},
        {SYMM_FLOAT32, SYMM_SYMMETRIC, 16, SYMM_ALGO_ONE_SHOT},
        {SYMM_INT32, SYMM_SYMMETRIC, 15, SYMM_ALGO_TWO_SHOT},
        {SYMM_INT32, SYMM_SYMMETRIC, 31, SYMM_ALGO_ONE_SHOT},
        {SYMM_INT32, SYMM_SYMMETRIC, 32, SYMM_ALGO_LOW_LATENCY},
        {SYMM_INT32, SYMM_SYMMETRIC | SYMM_DETERMINISTIC, 32, SYMM_ALGO_LOW_LATENCY},
    };

    m.tuning = t;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        ck_assert_int_eq(
            choose(&m, SYMM_OPERATION_ALL_REDUCE, calls[i].dtype, calls[i].flags, calls[i].count),
            calls[i].algo);
    symm__tuning_destroy(t);
}

TEST(table, a_row_that_may_not_be_taken_is_as_if_it_were_not_there)
{
    struct symm_tuning *t = table("symm-tuning 1\n"
                                  "all-reduce 4 bfloat16 symmetric 0 multimem\n"
                                  "all-reduce 4 bfloat16 any 0 one_shot\n"
                                  "all-reduce 4 float32 any 0 multimem\n"
                                  "all-gather 4 any any 0 multimem\n"
                                  "reduce-scatter 4 any any 0 two_shot\n");
    struct symm_limits m = h200, off = h200;
    struct symm_collective_call smallest =
        call_of(SYMM_OPERATION_ALL_REDUCE, SYMM_FLOAT32, 0, 1 << 20);
    const enum symm_operation reduce = SYMM_OPERATION_ALL_REDUCE,
                              gather = SYMM_OPERATION_ALL_GATHER;

    m.tuning = off.tuning = t;
    off.multicast_off = "off";
    ck_assert_int_eq(choose(&m, reduce, SYMM_BFLOAT16, SYMM_SYMMETRIC, 1), SYMM_ALGO_MULTIMEM);
    ck_assert_int_eq(choose(&off, reduce, SYMM_BFLOAT16, SYMM_SYMMETRIC, 1), SYMM_ALGO_ONE_SHOT);
    ck_assert_int_eq(
        choose(&m, reduce, SYMM_BFLOAT16, SYMM_SYMMETRIC | SYMM_DETERMINISTIC, 1 << 20),
        SYMM_ALGO_ONE_SHOT);
    ck_assert_int_eq(choose(&m, reduce, SYMM_FLOAT32, SYMM_DETERMINISTIC, 1 << 20),
                     model(&off, reduce, SYMM_FLOAT32, 0, 1 << 20));
    /* An all-gather has the same bits with every algorithm. */
    ck_assert_int_eq(choose(&m, gather, SYMM_FLOAT8_E4M3, SYMM_DETERMINISTIC, 1),
                     SYMM_ALGO_MULTIMEM);
    ck_assert_int_eq(choose(&off, gather, SYMM_UINT8, 0, 1), SYMM_ALGO_LOW_LATENCY);
    smallest.op = SYMM_MIN; /* which the switch does not compute of float32 */
    ck_assert_int_eq(symm__choose(&m, &smallest)->algo,
                     model(&off, reduce, SYMM_FLOAT32, 0, 1 << 20));
    ck_assert_int_eq(choose(&m, SYMM_OPERATION_REDUCE_SCATTER, SYMM_FLOAT32, 0, 1),
                     SYMM_ALGO_LOW_LATENCY);
    symm__tuning_destroy(t);
}

/* 2 H100 GPUs, plain memory: low_latency 11.6 us, one_shot 18.8; in symmetric memory 11.6, 11.4. */
TEST(table, without_the_promise_the_way_through_staging_counts)
{
    struct symm_limits m = h200;

    m.nranks = 2;
    for (uint64_t part = 1 << 21; part <= 1 << 23; part *= 2) {
        ck_assert_int_eq(choose(&m, SYMM_OPERATION_ALL_GATHER, SYMM_UINT8, 0, part),
                         SYMM_ALGO_LOW_LATENCY);
        ck_assert_int_eq(choose(&m, SYMM_OPERATION_ALL_GATHER, SYMM_UINT8, SYMM_SYMMETRIC, part),
                         SYMM_ALGO_ONE_SHOT);
    }
    ck_assert_int_eq(choose(&m, SYMM_OPERATION_ALL_GATHER, SYMM_UINT8, 0, 1 << 28),
                     SYMM_ALGO_ONE_SHOT);
}

/* From packets by stores to copies; by the switch, where four ranks have one. */
TEST(table, a_broadcast_goes_by_the_bytes_that_its_root_sends)
{
    const enum symm_operation broadcast = SYMM_OPERATION_BROADCAST;
    struct symm_limits m = h200;

    ck_assert_int_eq(choose(&m, broadcast, SYMM_UINT8, 0, (256 << 10) - 1), SYMM_ALGO_LOW_LATENCY);
    ck_assert_int_eq(choose(&m, broadcast, SYMM_UINT8, SYMM_DETERMINISTIC, 256 << 10),
                     SYMM_ALGO_MULTIMEM);
    m.multicast_off = "off";
    for (m.nranks = 2; m.nranks <= 8; m.nranks++) {
        ck_assert_int_eq(choose(&m, broadcast, SYMM_UINT8, 0, 1), SYMM_ALGO_LOW_LATENCY);
        ck_assert_int_eq(choose(&m, broadcast, SYMM_UINT8, SYMM_SYMMETRIC, 8 << 20),
                         SYMM_ALGO_ONE_SHOT);
        ck_assert_int_eq(choose(&m, broadcast, SYMM_UINT8, 0, 1 << 30), SYMM_ALGO_ONE_SHOT);
        ck_assert_int_eq(choose(&m, broadcast, SYMM_UINT8, SYMM_SYMMETRIC, 1 << 30),
                         SYMM_ALGO_COPY_ENGINE);
    }
}

/* Rows for libsymm_nccl.so are none for AUTO. */
TEST(table, a_row_forward_is_as_if_it_were_not_there)
{
    struct symm_tuning *t = table("symm-tuning 1\n"
                                  "all-reduce 4 bfloat16 any 0 forward\n"
                                  "all-reduce 4 any any 0 one_shot\n"
                                  "all-gather 4 any any 0 forward\n");
    struct symm_limits m = h200;

    m.tuning = t;
    ck_assert_int_eq(choose(&m, SYMM_OPERATION_ALL_REDUCE, SYMM_BFLOAT16, 0, 1),
                     SYMM_ALGO_ONE_SHOT);
    ck_assert_int_eq(choose(&m, SYMM_OPERATION_ALL_GATHER, SYMM_UINT8, 0, 1 << 24),
                     model(&m, SYMM_OPERATION_ALL_GATHER, SYMM_UINT8, 0, 1 << 24));
    symm__tuning_destroy(t);
}

/* 2 H100 GPUs, 64 blocks: low_latency 6.6 us, low_latency_two_shot 10.4. */
TEST(table, few_blocks_send_their_packets_in_several_passes)
{
    struct symm_limits m = h200;
    struct symm_collective_call call = call_of(SYMM_OPERATION_ALL_REDUCE, SYMM_INT32, 0, 1 << 17);

    m.nranks = 2;
    ck_assert_int_eq(symm__choose(&m, &call)->algo, SYMM_ALGO_LOW_LATENCY_TWO_SHOT);
    call.max_blocks = 64;
    ck_assert_int_eq(symm__choose(&m, &call)->algo, SYMM_ALGO_LOW_LATENCY);
}

TEST(table, copy_engine_needs_the_promise)
{
    struct symm_tuning *t = table("symm-tuning 1\n"
                                  "all-reduce 4 any symmetric 4096 copy_engine\n"
                                  "all-gather 4 any symmetric 4096 copy_engine\n"
                                  "broadcast 4 any symmetric 4096 copy_engine\n"
                                  "reduce-scatter 4 any any 4096 copy_engine\n");
    struct symm_limits m = h200;

    m.tuning = t;
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        const uint64_t count = symm__operation_has_shares(operations[i]) ? 256 : 1024;
        ck_assert_int_eq(choose(&m, operations[i], SYMM_INT32, SYMM_SYMMETRIC, count),
                         SYMM_ALGO_COPY_ENGINE);
        ck_assert_int_eq(
            choose(&m, operations[i], SYMM_INT32, SYMM_SYMMETRIC | SYMM_DETERMINISTIC, count),
            SYMM_ALGO_COPY_ENGINE);
        ck_assert_int_ne(choose(&m, operations[i], SYMM_INT32, SYMM_SYMMETRIC, count - 1),
                         SYMM_ALGO_COPY_ENGINE);
        /* A reduce-scatter by copies writes to no other rank's memory. */
        ck_assert((choose(&m, operations[i], SYMM_INT32, 0, count) == SYMM_ALGO_COPY_ENGINE) ==
                  (operations[i] == SYMM_OPERATION_REDUCE_SCATTER));
    }
    symm__tuning_destroy(t);
}

TEST(table, other_worlds_go_by_the_model)
{
    struct symm_tuning *t = table("symm-tuning 1\nall-reduce 4 any any 0 one_shot\n");
    struct symm_limits m = h200;

    m.tuning = t;
    for (m.nranks = 2; m.nranks <= SYMM_MAX_RANKS; m.nranks++)
        for (uint64_t count = 1; count < UINT64_C(1) << 36; count *= 8)
            for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
                const bool has = m.nranks == 4 && operations[i] == SYMM_OPERATION_ALL_REDUCE;
                ck_assert_int_eq(choose(&m, operations[i], SYMM_BFLOAT16, 0, count),
                                 has ? SYMM_ALGO_ONE_SHOT
                                     : model(&m, operations[i], SYMM_BFLOAT16, 0, count));
            }
    symm__tuning_destroy(t);
}

TEST_GROUP(model, 60);

/* ---- The model ---- */

TEST(model, the_model_takes_algorithms_that_run)
{
    struct symm_limits m = h200;

    for (m.nranks = 2; m.nranks <= SYMM_MAX_RANKS; m.nranks++)
        for (int what = 0; what < 16; what++)
            for (uint64_t count = 1; count < UINT64_C(1) << 40; count = count * 3 + 1)
                for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
                    const uint32_t flags = what & (SYMM_DETERMINISTIC | SYMM_SYMMETRIC);
                    m.multicast_off = what & 4 ? "off" : NULL;
                    m.compute_major = what & 8 ? 8 : 9;
                    const symm_algo algo = choose(&m, operations[i], SYMM_FLOAT16, flags, count);
                    ck_assert(algo != SYMM_ALGO_AUTO && algo != SYMM_ALGO_MULTIMEM_ONE_SHOT);
                    ck_assert(algo != SYMM_ALGO_COPY_ENGINE || flags & SYMM_SYMMETRIC ||
                              operations[i] == SYMM_OPERATION_REDUCE_SCATTER);
                    ck_assert(!symm__operation_reduces(operations[i]) ||
                              algo != SYMM_ALGO_MULTIMEM || !(flags & SYMM_DETERMINISTIC));
                    ck_assert_ptr_null(
                        symm__collective_reason(&m, operations[i], algo, SYMM_FLOAT16, SYMM_SUM));
                }
}

static symm_algo choose_by_bytes(int nranks, enum symm_operation operation, symm_dtype dtype,
                                 uint32_t flags, uint64_t nbytes)
{
    const uint64_t parts = operation == SYMM_OPERATION_ALL_REDUCE ? 1 : (uint64_t)nranks;
    struct symm_limits m = h200;

    m.nranks = nranks;
    m.multicast_off = "off";
    return choose(&m, operation, dtype, flags, nbytes / parts / symm_dtype_size(dtype));
}

/*
 * Microseconds by packets, by packets of shares, by packs that are their own flag, and by stores,
 * of 256 KiB and of each double of that; 0: no algorithm, or not measured. First on H200 GPUs, then
 * on 2 H100 GPUs.
 */
enum { BY_PACKETS, BY_PACKETS_OF_SHARES, BY_LAMPORT, BY_STORES, NWAYS, NSIZES = 7 };
static const struct {
    int nranks;
    enum symm_operation operation;
    double us[NWAYS][NSIZES];
} middles[] = {
    {2,
     SYMM_OPERATION_ALL_REDUCE,
     {{4.038, 5.92, 8.256, 13.6, 22.8, 41.07, 76.12},
      {4.32, 5.291, 8.966, 13.3, 22.32, 36.1, 69.29},
      {0},
      {7.269, 7.893, 9.398, 12.49, 19.04, 30.27, 51.21}}},
    {2,
     SYMM_OPERATION_REDUCE_SCATTER,
     {{3.112, 4.131, 5.896, 8.323, 13.08, 22.44, 40.22},
      {0},
      {0},
      {7.579, 8.226, 9.107, 10.91, 14.12, 20.79, 33.72}}},
    {2,
     SYMM_OPERATION_ALL_GATHER,
     {{2.89, 4.088, 5.09, 7.88, 12.02, 20.74, 36.13},
      {0},
      {0},
      {5.933, 6.312, 6.976, 8.422, 11.4, 17.61, 29.21}}},
    {4,
     SYMM_OPERATION_ALL_REDUCE,
     {{6.509, 10.9, 17.05, 30.28, 53.98, 105.3, 203.8},
      {5.31, 6.406, 10.76, 18.26, 31.4, 56.12, 106},
      {0},
      {8.072, 9.296, 11.45, 16.29, 26.16, 44.25, 77.98}}},
    {4,
     SYMM_OPERATION_REDUCE_SCATTER,
     {{3.606, 4.48, 6.645, 11.19, 17.27, 30.64, 54.26},
      {0},
      {0},
      {8.227, 9.146, 10.36, 12.72, 18.06, 28.2, 47.14}}},
    {4,
     SYMM_OPERATION_ALL_GATHER,
     {{3.43, 4.277, 6.475, 10.67, 16.77, 30.35, 53.58},
      {0},
      {0},
      {6.374, 6.91, 8.008, 10.48, 15.05, 24.08, 42.51}}},
    {2,
     SYMM_OPERATION_ALL_REDUCE,
     {{4.01, 5.75, 7.99, 12.44, 21.22, 37.95, 70.46},
      {4.51, 5.43, 8.28},
      {5.47, 5.83, 6.79, 9.26, 15.53, 27.58, 51.68},
      {9.69, 9.93, 10.31, 13.6, 20.57, 31.51, 52.2}}},
    {2,
     SYMM_OPERATION_REDUCE_SCATTER,
     {{3.07, 4.06, 5.72, 8.04, 12.41, 21.23, 37.08},
      {0},
      {4.61, 5.08, 5.76, 6.94, 10.46, 16.49, 29.3},
      {8.66, 8.97, 10.11, 12.09, 15.69, 22.38, 36.06}}},
};

static int way_of(symm_algo algo)
{
    return algo == SYMM_ALGO_LOW_LATENCY            ? BY_PACKETS
           : algo == SYMM_ALGO_LOW_LATENCY_TWO_SHOT ? BY_PACKETS_OF_SHARES
           : algo == SYMM_ALGO_LAMPORT              ? BY_LAMPORT
                                                    : BY_STORES;
}

TEST_LOOP(model, the_choice_is_hardly_slower_than_the_best, 0, NSIZES)
{
    const int kib = 256 << _i;

    for (size_t i = 0; i < sizeof middles / sizeof middles[0]; i++) {
        const symm_algo algo = choose_by_bytes(middles[i].nranks, middles[i].operation,
                                               SYMM_BFLOAT16, SYMM_SYMMETRIC, (uint64_t)kib << 10);
        const double took = middles[i].us[way_of(algo)][_i];
        ck_assert_int_ne(algo, SYMM_ALGO_COPY_ENGINE);
        for (int w = 0; w < NWAYS; w++) {
            const double us = middles[i].us[w][_i];
            ck_assert_msg(us == 0 || took <= 1.05 * us, "%d ranks, %s, %d KiB: %.2f us, not %.2f",
                          middles[i].nranks, symm__operation_name(middles[i].operation), kib, took,
                          us);
        }
    }
}

/* Microseconds by stores and by copy engines on H200 GPUs, at two sizes. */
static const struct {
    int nranks;
    enum symm_operation operation;
    symm_algo by_stores; /* of integers */
    double mib[2], stores_us[2], copies_us[2];
} readings[] = {
    {2, SYMM_OPERATION_ALL_REDUCE, SYMM_ALGO_TWO_SHOT, {64, 512}, {189.6, 1476}, {197.9, 1396}},
    {2, SYMM_OPERATION_ALL_GATHER, SYMM_ALGO_ONE_SHOT, {64, 512}, {99.1, 740.0}, {109.5, 711.2}},
    {4, SYMM_OPERATION_ALL_REDUCE, SYMM_ALGO_TWO_SHOT, {64, 256}, {295.5, 1162}, {324.3, 1120}},
    {4, SYMM_OPERATION_REDUCE_SCATTER, SYMM_ALGO_ONE_SHOT, {64, 256}, {171.6, 607.0}, {193.6, 594}},
    {4, SYMM_OPERATION_ALL_GATHER, SYMM_ALGO_ONE_SHOT, {64, 256}, {147.4, 570.0}, {161.0, 551.0}},
};
enum { NREADINGS = sizeof readings / sizeof readings[0] };

TEST(model, copies_win_from_where_the_measured_lines_cross)
{
    for (int i = 0; i < NREADINGS; i++) {
        const double behind = readings[i].copies_us[0] - readings[i].stores_us[0],
                     ahead = readings[i].stores_us[1] - readings[i].copies_us[1],
                     far = readings[i].mib[1] - readings[i].mib[0],
                     crossing = (readings[i].mib[0] + far * behind / (behind + ahead)) * (1 << 20);
        for (uint64_t nbytes = 32 << 20; nbytes <= UINT64_C(1) << 32; nbytes += 1 << 20) {
            const symm_algo algo = choose_by_bytes(readings[i].nranks, readings[i].operation,
                                                   SYMM_INT32, SYMM_SYMMETRIC, nbytes);
            if ((double)nbytes < 0.93 * crossing)
                ck_assert_int_eq(algo, readings[i].by_stores);
            else if ((double)nbytes > 1.07 * crossing)
                ck_assert_int_eq(algo, SYMM_ALGO_COPY_ENGINE);
        }
    }
}

TEST(model, a_pair_never_reduces_and_scatters_by_copies)
{
    for (uint64_t nbytes = 16 << 20; nbytes <= UINT64_C(1) << 32; nbytes += 1 << 20) {
        ck_assert_int_eq(
            choose_by_bytes(2, SYMM_OPERATION_REDUCE_SCATTER, SYMM_INT32, SYMM_SYMMETRIC, nbytes),
            SYMM_ALGO_ONE_SHOT);
        ck_assert_int_eq(choose_by_bytes(2, SYMM_OPERATION_REDUCE_SCATTER, SYMM_BFLOAT16,
                                         SYMM_SYMMETRIC, nbytes),
                         SYMM_ALGO_LAMPORT);
    }
}

TEST(model, only_a_reduce_scatter_by_copies_goes_without_the_promise)
{
    const uint64_t nbytes = 256 << 20;

    ck_assert_int_eq(choose_by_bytes(4, SYMM_OPERATION_ALL_REDUCE, SYMM_INT32, 0, nbytes),
                     SYMM_ALGO_TWO_SHOT);
    ck_assert_int_eq(choose_by_bytes(4, SYMM_OPERATION_ALL_GATHER, SYMM_INT32, 0, nbytes),
                     SYMM_ALGO_ONE_SHOT);
    ck_assert_int_eq(choose_by_bytes(4, SYMM_OPERATION_REDUCE_SCATTER, SYMM_INT32, 0, nbytes),
                     SYMM_ALGO_COPY_ENGINE);
}

/*
 * 2 H100 GPUs, 64 MiB: in symmetric memory lamport 193 us, two_shot 190; in plain memory 193, 238.
 */
TEST(model, lamport_needs_no_symmetric_memory)
{
    for (uint64_t nbytes = 64 << 20; nbytes <= UINT64_C(1) << 32; nbytes *= 2) {
        ck_assert_int_eq(choose_by_bytes(2, SYMM_OPERATION_ALL_REDUCE, SYMM_BFLOAT16, 0, nbytes),
                         SYMM_ALGO_LAMPORT);
        ck_assert_int_ne(
            choose_by_bytes(2, SYMM_OPERATION_ALL_REDUCE, SYMM_BFLOAT16, SYMM_SYMMETRIC, nbytes),
            SYMM_ALGO_LAMPORT);
    }
}

/* In the areas of 2 MiB an epoch has four packs of each rank. */
TEST(model, lamport_needs_slots)
{
    struct symm_limits m = h200;

    m.nranks = 2;
    m.areas = symm__areas_first(256 << 20, 2);
    ck_assert_int_eq(choose(&m, SYMM_OPERATION_ALL_REDUCE, SYMM_BFLOAT16, SYMM_SYMMETRIC, 1 << 20),
                     SYMM_ALGO_TWO_SHOT);
}

/* ---- Forms of calls between domains ---- */

static symm_algo form(const struct symm_tuning *t, enum symm_operation operation, symm_dtype dtype,
                      uint64_t count, uint32_t ndomains, uint32_t width)
{
    const struct symm_collective_call call = call_of(operation, dtype, 0, count);

    return symm__choose_form(t, &call, ndomains, width);
}

TEST_GROUP(forms, 20);

TEST(forms, the_table_comes_before_the_model)
{
    struct symm_tuning *t = table("symm-tuning 1\n"
                                  "all-reduce 2x4 any any 0 hierarchical\n"
                                  "all-reduce 2x4 float32 any 64 flat\n"
                                  "all-gather 2x4 any any 1024 hierarchical\n"
                                  "broadcast 2x4 any any 0 hierarchical\n");
    const struct symm_tuning *none = NULL;

    ck_assert_int_eq(form(t, SYMM_OPERATION_ALL_REDUCE, SYMM_FLOAT32, 15, 2, 4),
                     SYMM_ALGO_HIERARCHICAL);
    ck_assert_int_eq(form(t, SYMM_OPERATION_ALL_REDUCE, SYMM_FLOAT32, 16, 2, 4), SYMM_ALGO_FLAT);
    ck_assert_int_eq(form(t, SYMM_OPERATION_ALL_REDUCE, SYMM_INT32, 16, 2, 4),
                     SYMM_ALGO_HIERARCHICAL);
    /* bytes are those of the larger buffer: 8 shares */
    ck_assert_int_eq(form(t, SYMM_OPERATION_ALL_GATHER, SYMM_FLOAT32, 31, 2, 4), SYMM_ALGO_FLAT);
    ck_assert_int_eq(form(t, SYMM_OPERATION_ALL_GATHER, SYMM_FLOAT32, 32, 2, 4),
                     SYMM_ALGO_HIERARCHICAL);
    ck_assert_int_eq(form(t, SYMM_OPERATION_BROADCAST, SYMM_UINT8, 1, 2, 4),
                     SYMM_ALGO_HIERARCHICAL);
    ck_assert_int_eq(form(t, SYMM_OPERATION_ALL_REDUCE, SYMM_FLOAT32, 15, 4, 2), SYMM_ALGO_FLAT);
    ck_assert_int_eq(form(none, SYMM_OPERATION_ALL_REDUCE, SYMM_FLOAT32, 15, 2, 4), SYMM_ALGO_FLAT);
    symm__tuning_destroy(t);
}

TEST(forms, the_model_knows_three_operations)
{
    static const struct {
        enum symm_operation operation;
        enum symm_model_operation model;
        uint64_t shares;
    } known[] = {{SYMM_OPERATION_ALL_REDUCE, SYMM_MODEL_ALL_REDUCE, 1},
                 {SYMM_OPERATION_ALL_GATHER, SYMM_MODEL_ALL_GATHER, 128},
                 {SYMM_OPERATION_REDUCE_SCATTER, SYMM_MODEL_REDUCE_SCATTER, 128}};
    int pays = 0;

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        for (uint64_t nbytes = 1 << 10; nbytes <= 1 << 30; nbytes *= 2) {
            const struct symm_span_model m = {known[i].model, nbytes, 16, 8};
            const bool hierarchical = symm__hierarchical_pays(&m);
            pays += hierarchical;
            ck_assert_int_eq(
                form(NULL, known[i].operation, SYMM_FLOAT32, nbytes / 4 / known[i].shares, 16, 8),
                hierarchical ? SYMM_ALGO_HIERARCHICAL : SYMM_ALGO_FLAT);
        }
    ck_assert_int_gt(pays, 0);
    ck_assert_int_eq(form(NULL, SYMM_OPERATION_BROADCAST, SYMM_FLOAT32, 1 << 16, 16, 8),
                     SYMM_ALGO_FLAT);
}
