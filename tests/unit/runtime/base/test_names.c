/* The public names and the version. */
#include <stdio.h>
#include <string.h>
#include <symm/names.h>
#include "test.h"

TEST_GROUP(names, 10);

TEST(names, version_is_that_of_the_headers)
{
    ck_assert_int_eq(symm_version(), SYMM_VERSION);
    ck_assert_int_eq(SYMM_VERSION,
                     SYMM_VERSION_MAJOR * 10000 + SYMM_VERSION_MINOR * 100 + SYMM_VERSION_PATCH);
}

/* Each value of an enum has its name, which gives the value back; the next value has none. */
#define CHECK_NAME(noun, value, text)                                                              \
    do {                                                                                           \
        symm_##noun got = (symm_##noun)77;                                                         \
        ck_assert_str_eq(symm_##noun##_name((symm_##noun)(value)), text);                          \
        ck_assert_int_eq(symm_##noun##_parse(text, &got), SYMM_OK);                                \
        ck_assert_int_eq(got, value);                                                              \
    } while (0)

TEST(names, every_name_gives_its_value_back)
{
    static const char *const dtypes[] = {"float32", "float16", "bfloat16",    "float64",    "int32",
                                         "int64",   "uint8",   "float8_e4m3", "float8_e5m2"},
                             *const redops[] = {"sum", "avg", "min", "max"},
                             *const algos[] = {"auto",        "low_latency",
                                               "one_shot",    "two_shot",
                                               "multimem",    "multimem_one_shot",
                                               "copy_engine", "low_latency_two_shot"},
                             *const strategies[] = {"auto", "fused", "pipelined", "unfused"};

    for (int i = 0; i < 9; i++)
        CHECK_NAME(dtype, SYMM_FLOAT32 + i, dtypes[i]);
    for (int i = 0; i < 4; i++)
        CHECK_NAME(redop, SYMM_SUM + i, redops[i]);
    for (int i = 0; i < 8; i++)
        CHECK_NAME(algo, SYMM_ALGO_AUTO + i, algos[i]);
    for (int i = 0; i < 4; i++)
        CHECK_NAME(strategy, SYMM_STRATEGY_AUTO + i, strategies[i]);
}

TEST(names, values_outside_of_the_enums_have_none)
{
    for (int i = -1; i < 12; i += 12) {
        ck_assert_ptr_null(symm_dtype_name((symm_dtype)i));
        ck_assert_ptr_null(symm_redop_name((symm_redop)i));
        ck_assert_ptr_null(symm_algo_name((symm_algo)i));
        ck_assert_ptr_null(symm_strategy_name((symm_strategy)i));
        ck_assert_uint_eq(symm_dtype_size((symm_dtype)i), 0);
    }
    ck_assert_ptr_null(symm_dtype_name((symm_dtype)0));
}

static const struct {
    const char *name;
    symm_dtype dtype;
    size_t nbytes;
} short_names[] = {
    {"fp32", SYMM_FLOAT32, 4}, {"fp16", SYMM_FLOAT16, 2},     {"bf16", SYMM_BFLOAT16, 2},
    {"fp64", SYMM_FLOAT64, 8}, {"i32", SYMM_INT32, 4},        {"i64", SYMM_INT64, 8},
    {"u8", SYMM_UINT8, 1},     {"e4m3", SYMM_FLOAT8_E4M3, 1}, {"e5m2", SYMM_FLOAT8_E5M2, 1}};

TEST_LOOP(names, short_names_and_sizes_of_element_types, 0,
          sizeof short_names / sizeof short_names[0])
{
    symm_dtype got = (symm_dtype)0;

    ck_assert_int_eq(symm_dtype_parse(short_names[_i].name, &got), SYMM_OK);
    ck_assert_int_eq(got, short_names[_i].dtype);
    ck_assert_uint_eq(symm_dtype_size(got), short_names[_i].nbytes);
}

#define REFUSED(call, text)                                                                        \
    do {                                                                                           \
        ck_assert_int_eq(call, SYMM_ERROR_ARGUMENT);                                               \
        ck_assert_ptr_nonnull(strstr(symm_error_text(), text));                                    \
    } while (0)

TEST(names, other_texts_are_refused_and_the_names_listed)
{
    symm_redop op = SYMM_MAX;
    symm_dtype dtype = SYMM_INT64;
    symm_algo algo = SYMM_ALGO_TWO_SHOT;
    symm_strategy strategy = SYMM_STRATEGY_FUSED;

    REFUSED(symm_redop_parse("SUM", &op),
            "symm_redop_parse: \"SUM\" is not one of sum, avg, min, max");
    REFUSED(symm_dtype_parse("", &dtype), "symm_dtype_parse: \"\" is not one of float32, float16");
    REFUSED(symm_algo_parse("one_shot ", &algo), "symm_algo_parse: \"one_shot \" is not one of");
    REFUSED(symm_strategy_parse("fuse", &strategy), "auto, fused, pipelined, unfused");
    REFUSED(symm_redop_parse(NULL, &op), "symm_redop_parse: text is NULL");
    REFUSED(symm_dtype_parse("bf16", NULL), "symm_dtype_parse: out is NULL");
    ck_assert(op == SYMM_MAX && dtype == SYMM_INT64 && algo == SYMM_ALGO_TWO_SHOT &&
              strategy == SYMM_STRATEGY_FUSED);
}
