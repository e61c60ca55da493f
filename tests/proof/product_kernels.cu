/* Data of matrix products: small integers that every rank can compute for every other. */
#include <symm/device.cuh>
#include "product_kernels.h"
#include "protocol_kernels.h"
#include "values.cuh"

/* From -3 to 4. */
SYMM_DEV int32_t factor(uint32_t x)
{
    return (int32_t)(x % 8) - 3;
}

/* Nobody else looks at a rank's B, so it need not be mixed well. */
SYMM_DEV int32_t factor_of_b(const product_data_args &a, uint32_t salt, uint32_t series,
                             uint32_t at)
{
    return factor((salt + a.turn + series + at * 5) >> 1);
}

SYMM_DEV int32_t factor_of_a(const product_data_args &a, uint32_t salt, uint32_t b, uint32_t i,
                             uint32_t j)
{
    return factor(mix(salt + (a.turn << 24) + (b << 22) + ((i + a.first_row) << 8) + j));
}

SYMM_DEV int32_t element_of(const product_data_args &a, uint32_t salt, uint32_t b, uint32_t i,
                            uint32_t j)
{
    int32_t sum = 0;
    if (a.matrix == PRODUCT_A)
        return factor_of_a(a, salt, b, i, j);
    if (a.matrix == PRODUCT_B)
        return factor_of_b(a, salt, a.series, b + i * 3 + j);
    for (uint32_t k = 0; k < (uint32_t)a.k; k++)
        for (uint32_t t = 0; t < a.terms; t++)
            sum += factor_of_a(a, salt, b, i, k) *
                   factor_of_b(a, salt, a.series + t * a.apart, b + k * 3 + j);
    return sum;
}

template <typename T> SYMM_DEV void do_product_deed(const product_data_args &a)
{
    const uint32_t salt = symm_dev_load_one(a.salt), columns = (uint32_t)a.columns,
                   of_batch = (uint32_t)a.rows * columns;
    uint32_t wrong = 0, looked = 0;
    for (uint32_t e = threadIdx.x; e < (uint32_t)a.l * of_batch; e += blockDim.x) {
        const uint32_t b = e / of_batch, i = e % of_batch / columns, j = e % columns;
        T *const x = reinterpret_cast<T *>(a.x) + b * a.batch + i * a.row + j * a.column;
        if (a.deed == PROOF_SPOIL) {
            symm_dev_store_one(x, of_float<T>(-100));
            continue;
        }
        const float want = (float)element_of(a, salt, b, i, j);
        if (a.deed == PROOF_FILL) {
            symm_dev_store_one(x, of_float<T>(want));
            continue;
        }
        wrong += to_float(symm_dev_load_one(x)) != want;
        looked++;
    }
    if (!a.ends || !symm_dev_aborted(a.view))
        add_counts(a.result, wrong, looked);
}

SYMM_KERNEL(proof_product_data, product_data_args, a, 64)
{
    switch (a.dtype) {
    case SYMM_FLOAT32:
        return do_product_deed<float>(a);
    case SYMM_FLOAT16:
        return do_product_deed<symm_f16>(a);
    default:
        return do_product_deed<symm_bf16>(a);
    }
}
