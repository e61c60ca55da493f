/* cuBLASLt in each context. */
#include "library.h"

#include <pthread.h>
#include <stdlib.h>
#include "runtime/base/log.h"
#include "runtime/base/settings.h"

/* Guards the contexts' state; opening takes long, and happens once. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void close_library(struct symm_attachment *attachment)
{
    struct symm_cublas *c = (struct symm_cublas *)attachment;

    while (c->spare) {
        struct symm_cublas_memory *next = c->spare->next;
        c->ctx->drv->cuMemFree(c->spare->at);
        free(c->spare);
        c->spare = next;
    }
    while (c->picks) {
        struct symm_cublas_pick *next = c->picks->next;
        free(c->picks);
        c->picks = next;
    }
    symm__cublaslt_close(&c->lt);
    free(c);
}

static struct symm_cublas *open_library(struct symm_context *ctx)
{
    struct symm_cublas *c = calloc(1, sizeof *c);
    char why[CUBLASLT_WHY];

    if (!c)
        return NULL;
    c->attachment.release = close_library;
    c->ctx = ctx;
    if (symm__cublaslt_open(symm__setting(SYMM_SETTING_CUBLASLT_LIBRARY), &c->lt, why))
        symm__log(&ctx->log, SYMM_LOG_INFO, "cuBLASLt %s computes products", c->lt.version);
    else
        symm__log(&ctx->log, SYMM_LOG_INFO, "products do not use cuBLASLt: %s", why);
    symm__group_attach(ctx->domain, &c->attachment);
    return c;
}

struct symm_cublas *symm__cublas_library(struct symm_context *ctx)
{
    struct symm_cublas *c;

    pthread_mutex_lock(&lock);
    c = (struct symm_cublas *)symm__group_attachment(ctx->domain, close_library);
    if (!c)
        c = open_library(ctx);
    pthread_mutex_unlock(&lock);
    return c && c->lt.handle ? c : NULL;
}

/* -------------------------------------------------------------------------------------- memory */

static struct symm_cublas_memory *take_spare(struct symm_cublas *c, uint64_t nbytes)
{
    struct symm_cublas_memory *memory = NULL;

    pthread_mutex_lock(&lock);
    for (struct symm_cublas_memory **at = &c->spare; *at; at = &(*at)->next)
        if ((*at)->nbytes >= nbytes) {
            memory = *at;
            *at = memory->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    return memory;
}

void symm__cublas_give(struct symm_cublas *c, struct symm_cublas_memory *memory)
{
    pthread_mutex_lock(&lock);
    memory->next = c->spare;
    c->spare = memory;
    pthread_mutex_unlock(&lock);
}

/* It has no bytes to take. */
void symm__cublas_keep(struct symm_cublas *c, CUdeviceptr at)
{
    struct symm_cublas_memory *memory = calloc(1, sizeof *memory);

    if (!memory)
        return;
    memory->at = at;
    symm__cublas_give(c, memory);
}

struct symm_cublas_memory *symm__cublas_take(struct symm_cublas *c, uint64_t nbytes)
{
    struct symm_cublas_memory *memory = take_spare(c, nbytes);

    if (memory)
        return memory;
    memory = calloc(1, sizeof *memory);
    if (!memory || c->ctx->drv->cuMemAlloc(&memory->at, nbytes) != CUDA_SUCCESS) {
        free(memory);
        return NULL;
    }
    memory->nbytes = nbytes;
    return memory;
}

/* --------------------------------------------------------------------------------------- picks */

static bool same_matrix(const struct cublaslt_matrix *x, const struct cublaslt_matrix *y)
{
    return x->type == y->type && x->transposed == y->transposed && x->rows == y->rows &&
           x->columns == y->columns && x->ld == y->ld && x->batch == y->batch;
}

static bool same_pick(const struct symm_cublas_pick *x, const struct symm_cublas_pick *y)
{
    return x->any_order == y->any_order && x->has_c == y->has_c && x->is_short == y->is_short &&
           x->rival == y->rival && x->one_matrix == y->one_matrix &&
           x->shape.batches == y->shape.batches && same_matrix(&x->shape.a, &y->shape.a) &&
           same_matrix(&x->shape.b, &y->shape.b) && same_matrix(&x->shape.d, &y->shape.d);
}

bool symm__cublas_recall(struct symm_cublas *c, struct symm_cublas_pick *pick)
{
    const struct symm_cublas_pick *known;

    pthread_mutex_lock(&lock);
    known = c->picks;
    while (known && !same_pick(known, pick))
        known = known->next;
    if (known)
        *pick = *known;
    pthread_mutex_unlock(&lock);
    return known;
}

void symm__cublas_remember(struct symm_cublas *c, const struct symm_cublas_pick *pick)
{
    struct symm_cublas_pick *known = malloc(sizeof *known);

    if (!known)
        return;
    *known = *pick;
    pthread_mutex_lock(&lock);
    known->next = c->picks;
    c->picks = known;
    pthread_mutex_unlock(&lock);
}
