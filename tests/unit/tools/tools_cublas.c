/* cuBLASLt as a peer: what is asked of it is the product that was meant. fake_cublaslt.c answers.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/stream.h>
#include "../matmul/fake_cublaslt.h"
#include "operations/cublas.h"
#include "oracle/products.h"
#include "test.h"

static symm_context *ctx;

static void open_context(void)
{
    setenv("SYMM_DRIVER", "emulated", 1);
    ck_assert_int_eq(symm_context_create(NULL, &ctx), SYMM_OK);
}

static void close_context(void)
{
    symm_context_destroy(ctx);
}

static void use_library(const char *name)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", test_lib(), name);
    setenv("SYMM_CUBLASLT_LIBRARY", path, 1);
}

static struct cublas *open_fake(void)
{
    char why[512];
    symm_status st;

    use_library("libfake_cublaslt.so");
    struct cublas *c = cublas_open(ctx, why, &st);
    ck_assert_int_eq(st, SYMM_OK);
    ck_assert_msg(c, "%s", why);
    return c;
}

static void multiply(struct cublas *c, const struct products *p)
{
    const struct cublas_shape shape = {.m = p->m,
                                       .n = p->n,
                                       .k = p->k,
                                       .l = p->l,
                                       .b_by_columns = p->b_by_columns,
                                       .d_by_columns = p->d_by_columns,
                                       .dtype = p->element->dtype,
                                       .alpha = (float)p->alpha,
                                       .beta = (float)p->beta};
    struct cublas_product *product = cublas_product_create(c, &shape);
    struct products_verdict verdict;
    char *d = malloc(products_d_count(p) * p->element->nbytes);

    ck_assert_msg(product, "%s", cublas_error(c));
    ck_assert_ptr_nonnull(d);
    memset(d, 0xff, products_d_count(p) * p->element->nbytes);
    ck_assert_int_eq(cublas_product_run(product, p->a, p->b, p->c, d, NULL), SYMM_OK);
    products_check(p, d, 1, &verdict);
    ck_assert_uint_eq(verdict.wrong, 0);
    cublas_product_destroy(product);
    free(d);
}

TEST_GROUP(cublas, 60, .uncounted = true, .setup = open_context, .teardown = close_context);

/* b and d by rows or by columns. */
TEST_LOOP(cublas, each_layout_is_multiplied, 0, 4)
{
    static const int shapes[][4] = {{8, 8, 8, 1}, {5, 7, 3, 1},  {1, 9, 4, 1},
                                    {9, 1, 4, 2}, {6, 10, 1, 3}, {16, 4, 33, 2}};
    struct cublas *c = open_fake();

    ck_assert_str_eq(cublas_version(c), "13.1.2");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct products p = {.element = element_by_dtype(i % 2 ? SYMM_FLOAT16 : SYMM_BFLOAT16),
                             .m = shapes[i][0],
                             .n = shapes[i][1],
                             .k = shapes[i][2],
                             .l = shapes[i][3],
                             .b_by_columns = _i % 2,
                             .d_by_columns = _i / 2,
                             .alpha = 1.5,
                             .beta = i < 3 ? 0 : -0.25,
                             .eps = products_eps(shapes[i][2])};

        ck_assert(products_create(&p));
        products_fill(&p, i);
        ck_assert(products_refer(&p, i, i));
        multiply(c, &p);
        products_destroy(&p);
    }
    ck_assert_ptr_null(cublas_error(c));
    cublas_close(c);
}

static struct fake_cublaslt *library(void)
{
    void *opened = dlopen(getenv("SYMM_CUBLASLT_LIBRARY"), RTLD_NOW);
    struct fake_cublaslt *fake = dlsym(opened, "fake_cublaslt");

    dlclose(opened); /* it stays open: symm never closes it */
    return fake;
}

/* Number 1 is not usable, the first one is slow, and one that seems fast does not run. */
TEST(cublas, the_fastest_algorithm_is_taken)
{
    const struct cublas_shape shape = {
        .m = 4, .n = 6, .k = 8, .l = 1, .dtype = SYMM_BFLOAT16, .alpha = 1};
    static const unsigned us[] = {10000, 0, 8000, 0, 500, 12000};
    struct cublas *c = open_fake();
    struct fake_cublaslt *fake = library();
    struct cublas_product *product = cublas_product_create(c, &shape);
    char a[4 * 8 * 2] = {0}, b[8 * 6 * 2] = {0}, d[4 * 6 * 2];
    symm_stream stream;

    ck_assert_int_eq(symm_stream_create(ctx, &stream), SYMM_OK);
    memcpy(fake->us, us, sizeof us);
    ck_assert_int_eq(cublas_product_run(product, a, b, NULL, d, stream), SYMM_OK);
    ck_assert_int_eq(fake->algorithm, 0); /* the library's first one, as long as none is measured */
    fake->fails = 1u << 3;
    ck_assert_int_eq(cublas_product_tune(product, a, b, NULL, d, stream), SYMM_OK);
    ck_assert_int_eq(cublas_product_run(product, a, b, NULL, d, stream), SYMM_OK);
    ck_assert_int_eq(fake->algorithm, 4);
    ck_assert_ptr_null(cublas_error(c));
    fake->fails = ~0u;
    ck_assert_int_eq(cublas_product_tune(product, a, b, NULL, d, stream), SYMM_ERROR_DRIVER);
    ck_assert_ptr_nonnull(cublas_error(c));
    cublas_product_destroy(product);
    cublas_close(c);
    symm_stream_destroy(stream);
    ck_assert_int_eq(fake->objects, 0);
}

TEST(cublas, errors_have_names)
{
    const struct cublas_shape one = {.m = 1, .n = 1, .k = 1, .l = 1, .dtype = SYMM_BFLOAT16};
    char why[512];
    symm_status st;

    struct cublas *c = open_fake();
    ck_assert_ptr_null(cublas_product_create(c, &one));
    ck_assert_str_eq(cublas_error(c), "cublasLtMatmulAlgoGetHeuristic: no algorithm");
    cublas_close(c);

    use_library("libnothing.so");
    ck_assert_ptr_null(cublas_open(ctx, why, &st));
    ck_assert_int_eq(st, SYMM_OK);
    ck_assert_ptr_nonnull(strstr(why, "libnothing.so"));
    use_library("libtools_wrong.so");
    ck_assert_ptr_null(cublas_open(ctx, why, &st));
    ck_assert_int_eq(st, SYMM_OK);
    ck_assert_str_eq(why, "the library has no cublasLtGetVersion");
}
