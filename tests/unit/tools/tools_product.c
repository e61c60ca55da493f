/*
 * The variants that combine cuBLAS with the communication of symm or NCCL, which no test of
 * symm-bench runs: it leaves them out without a GPU. On the emulated driver fake_cublaslt.c
 * multiplies, and the stand-in for NCCL communicates.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/stream.h>
#include "../matmul/fake_cublaslt.h"
#include "operations/product.h"
#include "oracle/products.h"
#include "ranks.h"
#include "test.h"

enum { RANKS = 2, SEED = 11 };

/* A rank's product, and its memory. */
struct trial {
    symm_context *ctx;
    symm_group *world;
    symm_stream stream;
    struct cublas *cublas;
    struct nccl *nccl;
    struct products p;
    struct product_call call;
    char *d; /* on the host */
};

static void wait_for(void *stream)
{
    symm_stream_synchronize(stream);
}

static struct fake_cublaslt *fake;

static void use_fakes(void)
{
    char path[512];

    snprintf(path, sizeof path, "%s/standin/libnccl.so.2", test_lib());
    setenv("SYMM_NCCL_LIBRARY", path, 1);
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    setenv("SYMM_DRIVER", "emulated", 1);
    snprintf(path, sizeof path, "%s/libfake_cublaslt.so", test_lib());
    setenv("SYMM_CUBLASLT_LIBRARY", path, 1);
    fake = dlsym(dlopen(path, RTLD_NOW), "fake_cublaslt");
    ck_assert_ptr_nonnull(fake);
    fake->before = wait_for;
}

static symm_status open_trial(struct rank *self, struct trial *t)
{
    char why[512];
    symm_status st = rank_note(self, rank_join(self, &t->ctx));

    if (st != SYMM_OK)
        return st;
    t->world = symm_context_world(t->ctx);
    t->cublas = cublas_open(t->ctx, why, &st);
    if (t->cublas)
        t->nccl = nccl_open(t->world, why, &st);
    if (t->nccl)
        return rank_note(self, symm_stream_create(t->ctx, &t->stream));
    rank_fail(self, RANK_HERE_, "%s", why);
    return SYMM_ERROR_DRIVER;
}

static void close_trial(struct trial *t)
{
    product_release(&t->call);
    nccl_close(t->nccl, true);
    cublas_close(t->cublas);
    if (t->stream)
        symm_stream_destroy(t->stream);
    products_destroy(&t->p);
    free(t->d);
    symm_context_destroy(t->ctx);
}

static const struct product_variant *find(symm_matmul_kind kind, enum product_kind wanted)
{
    const struct product_variant *v = product_variants(kind);

    while (v->kind != wanted)
        v++;
    return v;
}

/* The kinds by turns; one matrix or two; symm or NCCL. */
static bool make(struct trial *t, const struct rank *self, int number)
{
    static const symm_matmul_kind kinds[] = {SYMM_ALL_GATHER_MATMUL, SYMM_MATMUL_REDUCE_SCATTER,
                                             SYMM_MATMUL_ALL_REDUCE, SYMM_MATMUL_ALL_SCATTER};

    t->p = (struct products){.kind = kinds[number % 4],
                             .nranks = self->nranks,
                             .rank = self->rank,
                             .element = element_by_dtype(SYMM_BFLOAT16),
                             .m = 6,
                             .n = 10,
                             .k = 9,
                             .l = 1 + number / 4 % 2,
                             .alpha = 1.5,
                             .beta = kind_sums(kinds[number % 4]) ? 0 : 0.5};
    t->p.eps = products_eps((int64_t)t->p.k * self->nranks);
    t->call = (struct product_call){
        .group = t->world,
        .nccl = t->nccl,
        .cublas = t->cublas,
        .rank = t->p.rank,
        .nranks = t->p.nranks,
        .variant = find(t->p.kind, number < 8 ? PRODUCT_CUBLAS_SYMM : PRODUCT_CUBLAS_NCCL),
        .kind = t->p.kind,
        .shape = {.m = t->p.m,
                  .n = t->p.n,
                  .k = t->p.k,
                  .l = t->p.l,
                  .dtype = SYMM_BFLOAT16,
                  .alpha = (float)t->p.alpha,
                  .beta = (float)t->p.beta},
        .partial = SYMM_BFLOAT16,
        .stream = t->stream};
    if (!products_create(&t->p))
        return false;
    t->d = calloc(products_d_count(&t->p), 2);
    products_fill(&t->p, SEED);
    return t->d && products_refer(&t->p, SEED, SEED);
}

/* Symmetric memory goes with the context. Device memory of the emulated driver is the host's. */
static symm_status allocate(struct trial *t)
{
    struct product_buffers *on = &t->call.buffers;
    const size_t part = product_part_count(t->p.kind, &t->call.shape, t->p.nranks),
                 all = product_gathered_count(t->p.kind, &t->call.shape, t->p.nranks);
    symm_status st = symm_alloc(t->world, part * 2, &on->part);

    if (st == SYMM_OK)
        st = symm_alloc(t->world, all * 2, &on->gathered);
    if (st == SYMM_OK)
        st = symm_alloc(t->world, products_d_count(&t->p) * 2, &on->d);
    on->a = t->p.a;
    on->b = t->p.b;
    on->c = t->p.c;
    return st;
}

/* This rank's rows of each matrix A. */
static symm_status offer_rows(const struct trial *t)
{
    const struct products *p = &t->p;
    const size_t row = (size_t)p->k * 2, nbytes = (size_t)share_of(p->m, p->nranks, p->rank) * row;
    symm_status st = SYMM_OK;

    for (size_t l = 0; l < (size_t)p->l && st == SYMM_OK; l++)
        st = symm_copy((char *)t->call.buffers.part + l * nbytes,
                       p->a +
                           (l * (size_t)p->m + (size_t)share_begin(p->m, p->nranks, p->rank)) * row,
                       nbytes, t->stream);
    return st;
}

/* Puts the ranks' columns side by side. */
static void join_columns(struct trial *t)
{
    const struct products *p = &t->p;
    const size_t rows = (size_t)p->l * (size_t)p->m,
                 width = (size_t)(p->n / p->nranks) * p->element->nbytes;
    const char *from = t->call.buffers.gathered;

    for (size_t r = 0; r < (size_t)p->nranks; r++)
        for (size_t row = 0; row < rows; row++, from += width)
            memcpy(t->d + (row * (size_t)p->nranks + r) * width, from, width);
}

TEST_GROUP(product, 120, .uncounted = true, .setup = use_fakes);

static void multiplies_and_communicates(struct rank *self, void *arg, struct trial *t)
{
    struct products_verdict verdict = {.wrong = 1};

    CHECK_RANK(self, make(t, self, *(const int *)arg));
    CHECK_RANK(self, !product_unavailable(t->p.kind, t->call.variant, &t->call.shape,
                                          t->call.partial, self->nranks));
    RANK_TRY(self, allocate(t));
    if (t->p.kind == SYMM_ALL_GATHER_MATMUL)
        RANK_TRY(self, offer_rows(t));
    RANK_TRY(self, product_prepare(&t->call));
    RANK_TRY(self, product_enqueue(&t->call));
    RANK_TRY(self, symm_copy(t->d, t->call.buffers.d, products_d_count(&t->p) * 2, t->stream));
    RANK_TRY(self, symm_synchronize(t->world, t->stream));
    if (product_is_apart(&t->call))
        join_columns(t);
    products_check(&t->p, t->d, 1, &verdict);
out:
    self->report->wrong = (int64_t)verdict.wrong;
}

static void rank_of_both(struct rank *self, void *arg)
{
    struct trial t = {0};

    if (open_trial(self, &t) == SYMM_OK)
        multiplies_and_communicates(self, arg, &t);
    close_trial(&t);
}

TEST_LOOP(product, cublas_with_a_communication_is_right, 0, 16)
{
    int number = _i;

    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, rank_of_both, &number, 60);
}

TEST(product, shapes_that_peers_cannot_share_are_left_out)
{
    const struct cublas_shape even = {.m = 6, .n = 6, .k = 1, .l = 1, .dtype = SYMM_BFLOAT16};
    struct cublas_shape odd = even, with_c = even, by_columns = even;
    static const symm_matmul_kind kinds[] = {SYMM_MATMUL_REDUCE_SCATTER, SYMM_MATMUL_ALL_REDUCE,
                                             SYMM_MATMUL_ALL_SCATTER};

    odd.m = odd.n = 7;
    with_c.beta = 1;
    by_columns.d_by_columns = true;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct product_variant *v = find(kinds[i], PRODUCT_CUBLAS_NCCL);
        const bool sums = kind_sums(kinds[i]);

        ck_assert_ptr_null(product_unavailable(kinds[i], v, &even, SYMM_BFLOAT16, 2));
        ck_assert_int_eq(!product_unavailable(kinds[i], v, &odd, SYMM_BFLOAT16, 2),
                         kinds[i] == SYMM_MATMUL_ALL_REDUCE);
        ck_assert_int_eq(!product_unavailable(kinds[i], v, &with_c, SYMM_BFLOAT16, 2), !sums);
        ck_assert_int_eq(!product_unavailable(kinds[i], v, &even, SYMM_FLOAT32, 2), !sums);
        ck_assert_int_eq(!product_unavailable(kinds[i], v, &by_columns, SYMM_BFLOAT16, 2),
                         kinds[i] != SYMM_MATMUL_REDUCE_SCATTER);
    }
}
