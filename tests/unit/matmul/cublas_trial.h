/*
 * Products by cuBLASLt, for which fake_cublaslt.c stands in. It computes at once, after waiting for
 * the stream. Ranks are threads with the emulated driver, disguised as the CUDA driver.
 */
#ifndef TEST_CUBLAS_TRIAL_H
#define TEST_CUBLAS_TRIAL_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include "fake_cublaslt.h"
#include "matmul.h"
#include "matmul/cublas/cublas.h"
#include "matmul/product.h"
#include "runtime/base/deadline.h"
#include "runtime/group/kernel.h"
#include "test.h"

enum { LIMIT_S = 60, A_BY_COLUMNS = 1, B_BY_COLUMNS = 2, D_BY_COLUMNS = 4, ORDERS = 8 };

/* ---------------------------------------------------------------------------------- the library */

static struct fake_cublaslt *fake;

static inline void use_library(const char *name)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", test_lib(), name);
    setenv("SYMM_CUBLASLT_LIBRARY", path, 1);
}

/* ----------------------------------------------------------------------------------- the driver */

/* Of this thread's context. */
static _Thread_local const struct symm_driver *emulated;
static _Thread_local struct symm_driver disguised;
static _Thread_local int nallocs, nfrees, nrefused;
static _Thread_local size_t allocated_nbytes;

static inline void wait_for(void *stream)
{
    emulated->cuStreamSynchronize(stream);
}

static inline CUresult count_alloc(CUdeviceptr *out, size_t nbytes)
{
    if (nrefused > 0) {
        nrefused--;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    nallocs++;
    allocated_nbytes += nbytes;
    return emulated->cuMemAlloc(out, nbytes);
}

static inline CUresult count_free(CUdeviceptr ptr)
{
    nfrees++;
    return emulated->cuMemFree(ptr);
}

static inline CUresult never_ready(CUevent event)
{
    (void)event;
    return CUDA_ERROR_NOT_READY;
}

static inline CUresult refuse_event(CUevent *out, unsigned flags)
{
    (void)out;
    (void)flags;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static inline CUresult refuse_alloc(CUdeviceptr *out, size_t nbytes)
{
    (void)out;
    (void)nbytes;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static inline void disguise(symm_context *ctx, bool memory)
{
    emulated = ctx->drv;
    symm__kernels_load(ctx, ctx->kernels, SYMM_IMAGES_PRODUCTS); /* as long as it is itself */
    disguised = *ctx->drv;
    disguised.name = "cuda";
    disguised.cuMemAlloc = memory ? count_alloc : refuse_alloc;
    disguised.cuMemFree = count_free;
    ctx->drv = &disguised;
}

static inline void end_context(symm_context *ctx)
{
    if (ctx && emulated)
        ctx->drv = emulated;
    symm_context_destroy(ctx);
}

static inline void open_fake(void)
{
    setenv("SYMM_DRIVER", "emulated", 1);
    setenv("SYMM_MATMUL_TRIALS", "0", 1); /* where they are counted: products, allocations */
    setenv("SYMM_MATMUL_WGMMA", "0", 1);  /* so that trials have no rival */
    use_library("libfake_cublaslt.so");
    void *library = dlopen(getenv("SYMM_CUBLASLT_LIBRARY"), RTLD_NOW);
    ck_assert_msg(library, "%s", dlerror());
    fake = dlsym(library, "fake_cublaslt");
    ck_assert_ptr_nonnull(fake);
    fake->before = wait_for;
}

/* ---------------------------------------------------------------------------------- one product */

static int64_t works_us; /* that the last run and its check have taken */

struct trial {
    struct matmul_case c;
    int by_columns;                             /* column-major operands, as bits */
    int shifted;                                /* operands that are not aligned, as bits */
    int undisguised;                            /* number of last ranks without cuBLASLt */
    bool no_memory;                             /* for the workspace */
    int refused;                                /* first allocations that fail */
    bool stuck;                                 /* events never happen */
    bool no_events;                             /* during create */
    int kept;                                   /* allocations left after create; 0: any */
    enum { BY_ANY, BY_SYMM, BY_CUBLASLT } runs; /* who must compute runs of one rank */
    enum { K_ANY, K_IN_ORDER, K_SHARED } k;     /* whether blocks may share the k of a tile */
    bool packs;                                 /* the plan has packs, and several parts of k */
    symm_strategy wants; /* the strategy that the product must have; 0: any */
    size_t nbytes;       /* of device memory that it must allocate; 0: any */
};

/* Makes it column-major, with the same elements. */
static inline void transpose(struct matmul_operand *x)
{
    const int last = x->t.ndim - 1;

    x->t.strides[last - 1] = 1;
    x->t.strides[last] = x->t.shape[last - 1];
}

static inline void arrange(const struct trial *t, struct matmul_job *job)
{
    if (t->by_columns & A_BY_COLUMNS)
        transpose(&job->o.a);
    if (t->shifted & A_BY_COLUMNS)
        job->o.a.at += 2;
    for (int i = 0; i < t->c.nb; i++) {
        if (t->by_columns & B_BY_COLUMNS)
            transpose(&job->o.b[i]);
        if (t->by_columns & D_BY_COLUMNS)
            transpose(&job->o.d[i]);
        if (t->by_columns & D_BY_COLUMNS && t->c.has_c)
            transpose(&job->o.c[i]);
        job->o.b[i].at += t->shifted & B_BY_COLUMNS ? 2 : 0;
        job->o.d[i].at += t->shifted & D_BY_COLUMNS ? 4 : 0;
    }
}

static inline void multiply(struct rank *self, void *arg)
{
    const struct trial *t = arg;
    struct matmul_job job = {.nbytes = {0}};
    symm_context *ctx = NULL;
    symm_stream stream = NULL;
    int products = 0;

    RANK_TRY(self, rank_join(self, &ctx));
    RANK_TRY(self, symm_stream_create(ctx, &stream));
    RANK_TRY(self, matmul_job_open(self, ctx, symm_context_world(ctx), &t->c, &job));
    if (self->rank < self->nranks - t->undisguised)
        disguise(ctx, !t->no_memory);
    nrefused = t->refused;
    if (t->stuck)
        disguised.cuEventQuery = never_ready;
    if (t->no_events)
        disguised.cuEventCreate = refuse_event;
    arrange(t, &job);
    RANK_TRY(self, matmul_job_create(self, &job));
    CHECK_RANK(self, t->kept == 0 || nallocs - nfrees == t->kept);
    if (t->stuck)
        disguised.cuEventQuery = emulated->cuEventQuery;
    if (t->no_events)
        disguised.cuEventCreate = emulated->cuEventCreate;
    CHECK_RANK(self, !t->wants || symm_matmul_strategy(job.m) == t->wants);
    CHECK_RANK(self, t->nbytes == 0 || allocated_nbytes == t->nbytes);
    if (t->packs)
        CHECK_RANK(self, job.m->plan.sums == SYMM_SUMS_PACKS && job.m->plan.split.k_parts > 1);
    if (t->k != K_ANY && self->rank < self->nranks - t->undisguised)
        CHECK_RANK(self, symm__may_share_k(&job.m->problem) == (t->k == K_SHARED));
    products = fake->products;
    for (uint64_t round = 1; round < 3; round++) {
        const int64_t begin_us = symm__now_us();
        RANK_TRY(self, matmul_job_works(self, &job, round, stream));
        if (self->rank == 0)
            works_us = symm__now_us() - begin_us;
    }
    CHECK_RANK(self, t->runs == BY_ANY || (t->runs == BY_SYMM) == (fake->products == products));
out:
    matmul_job_close(&job);
    symm_stream_destroy(stream);
    end_context(ctx);
}

/* products: computed by the stand-in in each of two rounds, by all ranks. */
static inline void try_it(int nranks, struct trial t, int products)
{
    fake->products = 0;
    ranks_run_ok(nranks, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
    ck_assert_msg(fake->products == 2 * products, "%d products, not %d: %s", fake->products,
                  2 * products, matmul_text(&t.c));
    ck_assert_int_eq(fake->objects, 0);
}

static inline struct matmul_case simple(int32_t m, int32_t k, int32_t n)
{
    return (struct matmul_case){.kind = SYMM_MATMUL,
                                .in = SYMM_BFLOAT16,
                                .out = SYMM_FLOAT32,
                                .addend = SYMM_FLOAT32,
                                .m = m,
                                .k = k,
                                .l = 1,
                                .nb = 1,
                                .n = {n, n, n, n},
                                .contiguous = true};
}

static inline struct matmul_case gathered(int32_t m, int32_t k, int32_t n, symm_strategy strategy)
{
    struct matmul_case c = simple(m, k, n);

    c.kind = SYMM_ALL_GATHER_MATMUL;
    c.strategy = strategy;
    return c;
}

#endif
