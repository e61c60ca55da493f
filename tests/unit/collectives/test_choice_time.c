/* The time of a call by the model of AUTO. */
#include <string.h>
#include "collectives/choice.h"
#include "collectives/plan.h"
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

static struct symm_collective_call call_of(symm_algo algo, uint64_t count)
{
    return (struct symm_collective_call){.operation = SYMM_OPERATION_ALL_REDUCE,
                                         .algo = algo,
                                         .flags = SYMM_DETERMINISTIC,
                                         .dtype = SYMM_BFLOAT16,
                                         .op = SYMM_SUM,
                                         .count = count};
}

/* The time with the rows of a table. */
static uint64_t with_rows(const char *rows, uint64_t count)
{
    const struct symm_collective_call call = call_of(SYMM_ALGO_AUTO, count);
    struct symm_limits m = h200;
    struct symm_tuning *t = NULL;
    uint64_t ns;

    ck_assert_int_eq(symm__tuning_parse("rows", "", rows, strlen(rows), &t), SYMM_OK);
    m.tuning = t;
    ns = symm__choice_ns(&m, &call);
    symm__tuning_destroy(t);
    return ns;
}

TEST_GROUP(choice_time, 20);

/* By cost.h, with the chunks of its plan and the staging area of `out`. */
static uint64_t cost_of(const struct symm_collective_call *call)
{
    const struct symm_algorithm *algorithm = symm__choose(&h200, call);
    const struct symm_plan plan = symm__plan(&h200, call, algorithm);
    const uint64_t nbytes = call->count * 2;
    uint64_t ns = symm__cost_ns(&algorithm->cost, 4, nbytes, 132);

    ns += (symm__plan_chunks(&plan) - 1) * algorithm->cost.chunk_ns;
    if (algorithm->staged.bytes_per_us)
        ns += algorithm->staged.ns +
              symm__transfer_ns(3 * (nbytes / 4 + 1), algorithm->staged.bytes_per_us);
    return ns;
}

TEST_LOOP(choice_time, is_that_of_the_algorithm_that_auto_takes, 0, 24)
{
    const struct symm_collective_call call = call_of(SYMM_ALGO_AUTO, UINT64_C(8) << _i);
    const uint64_t least = symm__choice_ns(&h200, &call);

    ck_assert_uint_eq(least, cost_of(&call));
    for (int a = SYMM_ALGO_LOW_LATENCY; a <= SYMM_ALGO_LAMPORT; a++) {
        const struct symm_collective_call named = call_of((symm_algo)a, call.count);
        const struct symm_algorithm *algorithm = symm__choose(&h200, &named);
        if (algorithm->cost.bytes_per_us && !symm__needs_symmetric(algorithm))
            ck_assert_uint_ge(symm__choice_ns(&h200, &named), least);
    }
}

TEST(choice_time, is_that_of_the_algorithm_of_the_table)
{
    const struct symm_collective_call named = call_of(SYMM_ALGO_LOW_LATENCY, 1 << 20);

    ck_assert_uint_eq(with_rows("symm-tuning 1\nall-reduce 4 any any 0 low_latency\n", 1 << 20),
                      symm__choice_ns(&h200, &named));
}

/* one_shot has no cost. */
TEST(choice_time, is_the_least_if_the_table_has_an_algorithm_of_unknown_time)
{
    const struct symm_collective_call call = call_of(SYMM_ALGO_AUTO, 1 << 20);

    ck_assert_uint_eq(with_rows("symm-tuning 1\nall-reduce 4 any any 0 one_shot\n", 1 << 20),
                      symm__choice_ns(&h200, &call));
}

/* The switch has no cost either. */
TEST(choice_time, is_the_least_without_the_switch_if_auto_takes_it)
{
    const struct symm_collective_call call = call_of(SYMM_ALGO_AUTO, 1 << 20);
    struct symm_collective_call any = call;

    any.flags = 0;
    ck_assert_int_eq(symm__choose(&h200, &any)->algo, SYMM_ALGO_MULTIMEM);
    ck_assert_uint_eq(symm__choice_ns(&h200, &any), symm__choice_ns(&h200, &call));
}
