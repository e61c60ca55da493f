/* Descriptions of tensors. */
#include <stdint.h>
#include <string.h>
#include <symm/symm.h>
#include "test.h"

TEST_GROUP(tensor, 10);

static char memory[64];

TEST(tensor, without_strides_it_is_contiguous)
{
    const int64_t shape[] = {2, 3, 5};
    symm_tensor t;

    ck_assert_int_eq(symm_tensor_of(memory, SYMM_FLOAT32, 3, shape, NULL, &t), SYMM_OK);
    ck_assert(t.data == memory && t.dtype == SYMM_FLOAT32 && t.ndim == 3);
    ck_assert(t.shape[0] == 2 && t.shape[1] == 3 && t.shape[2] == 5);
    ck_assert(t.strides[0] == 15 && t.strides[1] == 5 && t.strides[2] == 1);
    ck_assert(t.shape[3] == 0 && t.strides[4] == 0);
}

TEST(tensor, strides_are_those_given)
{
    const int64_t shape[] = {4, 3}, strides[] = {-1, 0};
    symm_tensor t;

    ck_assert_int_eq(symm_tensor_of(NULL, SYMM_UINT8, 2, shape, strides, &t), SYMM_OK);
    ck_assert(!t.data && t.shape[0] == 4 && t.strides[0] == -1 && t.strides[1] == 0);
}

static const struct {
    symm_dtype dtype;
    int ndim;
    int64_t shape[2], strides[2];
    const char *text;
} wrong[] = {
    {SYMM_INT32, 0, {1, 1}, {1, 1}, "symm_tensor_of: ndim is 0; it may be 1 to 5"},
    {SYMM_INT32, 6, {1, 1}, {1, 1}, "ndim is 6"},
    {(symm_dtype)0, 1, {1, 1}, {1, 1}, "dtype is 0"},
    {SYMM_INT32, 2, {1, 0}, {1, 1}, "shape[1] is 0"},
    {SYMM_INT32, 2, {-1, 2}, {1, 1}, "shape[0] is -1"},
    {SYMM_INT64, 2, {INT64_MAX, 2}, {1, 1}, "shape[0] is 9223372036854775807"},
    {SYMM_INT64, 2, {2, 2}, {INT64_MAX, 1}, "shape[0] is 2: the tensor is too large"},
    {SYMM_UINT8, 2, {2, 2}, {INT64_MAX, INT64_MIN}, "shape[0] is 2: the tensor is too large"},
    {SYMM_UINT8, 2, {2, 2}, {INT64_MAX / 2, INT64_MIN}, "shape[1] is 2: the tensor is too large"},
};

TEST_LOOP(tensor, wrong_ones_are_named, 0, sizeof wrong / sizeof wrong[0])
{
    symm_tensor t = {.ndim = 77};

    ck_assert_int_eq(symm_tensor_of(memory, wrong[_i].dtype, wrong[_i].ndim, wrong[_i].shape,
                                    wrong[_i].strides, &t),
                     SYMM_ERROR_ARGUMENT);
    ck_assert_msg(strstr(symm_error_text(), wrong[_i].text), "%s", symm_error_text());
    ck_assert_int_eq(t.ndim, 77);
}

TEST(tensor, null_is_named)
{
    const int64_t shape[] = {1};
    symm_tensor t;

    ck_assert_int_eq(symm_tensor_of(memory, SYMM_INT32, 1, NULL, NULL, &t), SYMM_ERROR_ARGUMENT);
    ck_assert_str_eq(symm_error_text(), "symm_tensor_of: shape is NULL");
    ck_assert_int_eq(symm_tensor_of(memory, SYMM_INT32, 1, shape, NULL, NULL), SYMM_ERROR_ARGUMENT);
    ck_assert_str_eq(symm_error_text(), "symm_tensor_of: out is NULL");
}
