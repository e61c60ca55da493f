/* The part of cuBLASLt that a benchmark needs, declared here so that no header of it is needed. */
#include "cublas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/stream.h>
#include "peer.h"

/* Its numbers. */
enum {
    COMPUTE_32F = 68,
    TYPE_32F = 0,
    TYPE_16F = 2,
    TYPE_16BF = 14,
    LAYOUT_BATCH_COUNT = 5,
    LAYOUT_STRIDED_BATCH_OFFSET = 6,
    PREFERENCE_MAX_WORKSPACE_BYTES = 1,
    PREFERENCE_REDUCTION_SCHEME_MASK = 3,
    REDUCTION_COMPUTE_TYPE = 2
};

static const uint64_t workspace_nbytes = (uint64_t)64 << 20;

typedef struct cublaslt_handle *cublaslt_handle;
typedef struct cublaslt_operation *cublaslt_operation;
typedef struct cublaslt_layout *cublaslt_layout;
typedef struct cublaslt_preference *cublaslt_preference;

typedef struct cublaslt_algorithm {
    uint64_t data[8];
} cublaslt_algorithm;

typedef struct cublaslt_heuristic {
    cublaslt_algorithm algorithm;
    size_t workspace_nbytes;
    int state;
    float waves;
    int reserved[4];
} cublaslt_heuristic;

struct cublas {
    void *library;
    symm_context *ctx;
    cublaslt_handle handle;
    void *workspace;
    char version[32], error[128];
    size_t (*get_version)(void);
    int (*create)(cublaslt_handle *);
    int (*destroy)(cublaslt_handle);
    int (*operation_create)(cublaslt_operation *, int compute, int scale);
    int (*operation_destroy)(cublaslt_operation);
    int (*layout_create)(cublaslt_layout *, int type, uint64_t rows, uint64_t columns, int64_t ld);
    int (*layout_destroy)(cublaslt_layout);
    int (*layout_set)(cublaslt_layout, int attribute, const void *value, size_t nbytes);
    int (*preference_create)(cublaslt_preference *);
    int (*preference_destroy)(cublaslt_preference);
    int (*preference_set)(cublaslt_preference, int attribute, const void *value, size_t nbytes);
    int (*heuristic)(cublaslt_handle, cublaslt_operation, cublaslt_layout a, cublaslt_layout b,
                     cublaslt_layout c, cublaslt_layout d, cublaslt_preference, int wanted,
                     cublaslt_heuristic *out, int *found);
    int (*matmul)(cublaslt_handle, cublaslt_operation, const void *alpha, const void *a,
                  cublaslt_layout, const void *b, cublaslt_layout, const void *beta, const void *c,
                  cublaslt_layout, void *d, cublaslt_layout, const cublaslt_algorithm *,
                  void *workspace, size_t nbytes, symm_stream);
};

struct cublas_product {
    struct cublas *c;
    float alpha, beta;
    cublaslt_operation operation;
    cublaslt_layout a, b, d; /* c lies as d does */
    cublaslt_heuristic chosen;
};

static bool look_up(struct cublas *c, char why[512])
{
    const struct peer_function functions[] = {
        {"cublasLtGetVersion", &c->get_version, false},
        {"cublasLtCreate", &c->create, false},
        {"cublasLtDestroy", &c->destroy, false},
        {"cublasLtMatmulDescCreate", &c->operation_create, false},
        {"cublasLtMatmulDescDestroy", &c->operation_destroy, false},
        {"cublasLtMatrixLayoutCreate", &c->layout_create, false},
        {"cublasLtMatrixLayoutDestroy", &c->layout_destroy, false},
        {"cublasLtMatrixLayoutSetAttribute", &c->layout_set, false},
        {"cublasLtMatmulPreferenceCreate", &c->preference_create, false},
        {"cublasLtMatmulPreferenceDestroy", &c->preference_destroy, false},
        {"cublasLtMatmulPreferenceSetAttribute", &c->preference_set, false},
        {"cublasLtMatmulAlgoGetHeuristic", &c->heuristic, false},
        {"cublasLtMatmul", &c->matmul, false},
    };

    return peer_look_up(c->library, functions, (int)(sizeof functions / sizeof functions[0]), why);
}

static bool open_library(struct cublas *c, char why[512])
{
    const char *path = getenv("SYMM_CUBLASLT_LIBRARY");
    const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

    if (path && *path)
        c->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; !(path && *path) && !c->library && i < sizeof names / sizeof names[0]; i++)
        c->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!c->library)
        snprintf(why, 512, "%s", dlerror());
    return c->library != NULL;
}

static void load(struct cublas *c, char why[512])
{
    int error;

    if (!open_library(c, why) || !look_up(c, why))
        return;
    const size_t version = c->get_version();
    snprintf(c->version, sizeof c->version, "%zu.%zu.%zu", version / 10000, version / 100 % 100,
             version % 100);
    if (symm_device_alloc(c->ctx, (size_t)workspace_nbytes, &c->workspace) != SYMM_OK)
        snprintf(why, 512, "no memory for its workspace");
    else if ((error = c->create(&c->handle)) != 0)
        snprintf(why, 512, "cublasLtCreate: error %d", error);
}

struct cublas *cublas_open(symm_context *ctx, char why[512], symm_status *st)
{
    struct cublas *c = calloc(1, sizeof *c);

    memset(why, 0, 512);
    if (c) {
        c->ctx = ctx;
        load(c, why);
    } else {
        snprintf(why, 512, "out of memory");
    }
    *st = peer_agree(symm_context_world(ctx), why);
    if (*st == SYMM_OK && !why[0])
        return c;
    cublas_close(c);
    return NULL;
}

void cublas_close(struct cublas *c)
{
    if (!c)
        return;
    if (c->handle)
        c->destroy(c->handle);
    if (c->workspace)
        symm_device_free(c->ctx, c->workspace);
    /* What it has registered to be done at the end is code of the library, so that stays open. */
    free(c);
}

const char *cublas_version(const struct cublas *c)
{
    return c->version;
}

const char *cublas_error(const struct cublas *c)
{
    return c && c->error[0] ? c->error : NULL;
}

/* ------------------------------------------------------------------------------------ a product */

/* Whether a call went well; else it is kept for cublas_error(). */
static bool ok(struct cublas *c, const char *call, int error)
{
    if (error)
        snprintf(c->error, sizeof c->error, "%s: error %d", call, error);
    return !error;
}

/* l matrices of columns that lie one after the other, which is what it takes for granted. */
static bool make_layout(struct cublas *c, const struct cublas_shape *s, int rows, int columns,
                        cublaslt_layout *out)
{
    const int32_t batches = s->l;
    const int64_t stride = (int64_t)rows * columns;

    return ok(c, "cublasLtMatrixLayoutCreate",
              c->layout_create(out, s->dtype == SYMM_BFLOAT16 ? TYPE_16BF : TYPE_16F,
                               (uint64_t)rows, (uint64_t)columns, rows)) &&
           ok(c, "cublasLtMatrixLayoutSetAttribute",
              c->layout_set(*out, LAYOUT_BATCH_COUNT, &batches, sizeof batches)) &&
           ok(c, "cublasLtMatrixLayoutSetAttribute",
              c->layout_set(*out, LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
}

/* The first of the algorithms that its heuristic names. Split sums are added in fp32 too. */
static bool choose(struct cublas_product *p)
{
    struct cublas *c = p->c;
    const uint32_t reductions = REDUCTION_COMPUTE_TYPE;
    cublaslt_preference preference = NULL;
    int found = 0;
    bool done = ok(c, "cublasLtMatmulPreferenceCreate", c->preference_create(&preference)) &&
                ok(c, "cublasLtMatmulPreferenceSetAttribute",
                   c->preference_set(preference, PREFERENCE_MAX_WORKSPACE_BYTES, &workspace_nbytes,
                                     sizeof workspace_nbytes)) &&
                ok(c, "cublasLtMatmulPreferenceSetAttribute",
                   c->preference_set(preference, PREFERENCE_REDUCTION_SCHEME_MASK, &reductions,
                                     sizeof reductions)) &&
                ok(c, "cublasLtMatmulAlgoGetHeuristic",
                   c->heuristic(c->handle, p->operation, p->a, p->b, p->d, p->d, preference, 1,
                                &p->chosen, &found));

    if (preference)
        c->preference_destroy(preference);
    if (done && found == 0)
        snprintf(c->error, sizeof c->error, "cublasLtMatmulAlgoGetHeuristic: no algorithm");
    return done && found > 0;
}

/*
 * Rows after rows are the columns of the transposed matrix, and d' = b' a': what is b to the caller
 * is the first operand there.
 */
struct cublas_product *cublas_product_create(struct cublas *c, const struct cublas_shape *shape)
{
    struct cublas_product *p = calloc(1, sizeof *p);

    if (!p) {
        snprintf(c->error, sizeof c->error, "out of memory");
        return NULL;
    }
    p->c = c;
    p->alpha = shape->alpha;
    p->beta = shape->beta;
    if (ok(c, "cublasLtMatmulDescCreate",
           c->operation_create(&p->operation, COMPUTE_32F, TYPE_32F)) &&
        make_layout(c, shape, shape->n, shape->k, &p->a) &&
        make_layout(c, shape, shape->k, shape->m, &p->b) &&
        make_layout(c, shape, shape->n, shape->m, &p->d) && choose(p))
        return p;
    cublas_product_destroy(p);
    return NULL;
}

void cublas_product_destroy(struct cublas_product *p)
{
    if (!p)
        return;
    if (p->a)
        p->c->layout_destroy(p->a);
    if (p->b)
        p->c->layout_destroy(p->b);
    if (p->d)
        p->c->layout_destroy(p->d);
    if (p->operation)
        p->c->operation_destroy(p->operation);
    free(p);
}

symm_status cublas_product_run(struct cublas_product *p, const void *a, const void *b,
                               const void *c, void *d, symm_stream stream)
{
    struct cublas *lt = p->c;
    const int error =
        lt->matmul(lt->handle, p->operation, &p->alpha, b, p->a, a, p->b, &p->beta, c ? c : d, p->d,
                   d, p->d, &p->chosen.algorithm, lt->workspace, (size_t)workspace_nbytes, stream);

    return ok(lt, "cublasLtMatmul", error) ? SYMM_OK : SYMM_ERROR_DRIVER;
}
