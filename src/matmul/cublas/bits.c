/* Operands whose sums cancel, and the comparison of results. */
#include "bits.h"

#include <stdlib.h>
#include <string.h>
#include "runtime/base/numbers.h"

enum {
    LINES = 29,         /* different rows of a, and columns of b. No tile has a multiple of it */
    EXPONENTS = 8,      /* of their elements */
    SAMPLED_LINES = 32, /* every 32nd column of d is compared: a part of every tile */
    BYTE_OF_D = 0x38    /* in all bytes of c: 2^-15 to 2^-1 */
};

/* Of results that have c: what rounding leaves is of c's order then. */
static const float ALPHA = 4505.6f, BETA = 0.75f;

/* ------------------------------------------------------------------------------------- operands */

/* The elements along k of a or b: the second half has the products of the first, negated. */
struct pattern {
    int type;
    uint64_t k, lines;
    bool along; /* k goes along the columns in memory, else across */
    bool negated;
    uint64_t seed;
};

static uint16_t element(const struct pattern *p, uint64_t at, uint64_t line)
{
    const bool second = at >= p->k / 2;
    const uint64_t pair = second ? p->k - 1 - at : at;
    const uint32_t random = (uint32_t)symm__mix(symm__mix(p->seed, pair), line),
                   sign = (random & 1) ^ (second && p->negated);
    const int bits = p->type == CUBLASLT_TYPE_16F ? 10 : 7; /* of the mantissa */
    const uint32_t bias = p->type == CUBLASLT_TYPE_16F ? 15 : 127;

    if (2 * at + 1 == p->k)
        return 0; /* has no pair */
    return (uint16_t)(sign << 15 | (bias - random / 2 % EXPONENTS) << bits |
                      (random >> 8 & ((1u << bits) - 1)));
}

/* The block with the different lines, without gaps. */
static uint16_t *make_block(const struct pattern *p)
{
    uint16_t *block = malloc(p->k * p->lines * sizeof *block);

    if (!block)
        return NULL;
    for (uint64_t at = 0; at < p->k; at++)
        for (uint64_t line = 0; line < p->lines; line++)
            block[p->along ? line * p->k + at : at * p->lines + line] = element(p, at, line);
    return block;
}

/* Fills the matrix with copies of the block, each time twice as many. */
static symm_status spread(const struct symm_cublas_trial *t, const struct pattern *p,
                          CUdeviceptr block, const struct cublaslt_matrix *x, CUdeviceptr to)
{
    const uint64_t size = sizeof(uint16_t), all = p->along ? x->columns : x->rows,
                   pitch = (uint64_t)x->ld * size;
    uint64_t done = 0, lines = p->lines;
    symm_status st = SYMM_OK;

    while (done < all) {
        const CUdeviceptr at = to + done * (p->along ? pitch : size);
        const uint64_t block_pitch = (p->along ? p->k : p->lines) * size;
        TRY(symm__driver_copy_rows(t->drv, at, pitch, done ? to : block, done ? pitch : block_pitch,
                                   (p->along ? p->k : lines) * size, p->along ? lines : p->k,
                                   t->stream));
        done += lines;
        lines = symm__min(done, all - done);
    }
out:
    return st;
}

/* The copy of the block would wait for the stream without a limit. */
static symm_status fill(struct symm_cublas_trial *t, const struct cublaslt_shape *s,
                        const struct cublaslt_matrix *x, const void *to, bool is_a,
                        CUdeviceptr workspace)
{
    struct pattern p = {
        .type = x->type, .along = x->transposed == is_a, .negated = is_a, .seed = is_a ? 1 : 2};
    uint16_t *block = NULL;
    symm_status st;

    p.k = p.along ? x->rows : x->columns;
    p.lines = symm__min(p.along ? x->columns : x->rows, LINES);
    if (p.k * p.lines * sizeof *block > s->workspace_nbytes)
        return symm__fail(SYMM_ERROR_MEMORY, "k is too large for trials of cuBLASLt");
    TRY(symm__cublas_trial_await(t));
    block = make_block(&p);
    if (!block)
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    TRY_CU(t->drv, cuMemcpyAsync, workspace, (CUdeviceptr)(uintptr_t)block,
           p.k * p.lines * sizeof *block, t->stream);
    TRY(spread(t, &p, workspace, x, (CUdeviceptr)(uintptr_t)to));
out:
    free(block);
    return st;
}

symm_status symm__cublas_fill(struct symm_cublas_trial *t, const struct cublaslt_shape *s,
                              const struct cublaslt_operands *on)
{
    const CUdeviceptr workspace = (CUdeviceptr)(uintptr_t)on->workspace;
    symm_status st;

    TRY(fill(t, s, &s->a, on->a, true, workspace));
    st = fill(t, s, &s->b, on->b, false, workspace);
out:
    return st;
}

/* ------------------------------------------------------------------------------------- results */

/* The part of d that is compared. */
struct sample {
    uint64_t line_nbytes, lines;
};

static struct sample sample_of(const struct cublaslt_shape *s)
{
    const uint64_t size = s->d.type == CUBLASLT_TYPE_32F ? sizeof(float) : sizeof(uint16_t),
                   line = s->d.rows * size;

    return (struct sample){
        line, symm__min(symm__ceil_div(s->d.columns, SAMPLED_LINES), s->workspace_nbytes / line)};
}

/* The candidates whose results are compared. */
struct comparison {
    struct symm_cublas_trial *t;
    const struct cublaslt_shape *shape;
    const struct symm_cublas_tried *tried;
    struct cublaslt_operands on;
    const cublaslt_heuristic *algorithms;
    int n;
};

/* Multiplies once, and fetches the sample. */
static symm_status try_once(const struct comparison *c, int candidate, char *out, bool *ran)
{
    struct symm_cublas_trial *t = c->t;
    const struct cublaslt_matrix *d = &c->shape->d;
    const struct sample sample = sample_of(c->shape);
    const uint64_t pitch = (uint64_t)d->ld * (sample.line_nbytes / d->rows);
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)c->on.d,
                      workspace = (CUdeviceptr)(uintptr_t)c->on.workspace;
    symm_status st = SYMM_OK;

    TRY_CU(t->drv, cuMemsetD8Async, at, BYTE_OF_D, pitch * d->columns, t->stream);
    *ran = symm__cublas_trial_enqueue(t, c->tried, &c->on, c->algorithms, c->n, candidate);
    if (!*ran)
        goto out;
    TRY(symm__driver_copy_rows(t->drv, workspace, sample.line_nbytes, at, pitch * SAMPLED_LINES,
                               sample.line_nbytes, sample.lines, t->stream));
    TRY(symm__cublas_trial_await(t));
    TRY_CU(t->drv, cuMemcpyAsync, (CUdeviceptr)(uintptr_t)out, workspace,
           sample.line_nbytes * sample.lines, t->stream);
    st = symm__cublas_trial_await(t);
out:
    return st;
}

symm_status symm__cublas_keep_same(struct symm_cublas_trial *t, const struct symm_cublas_pick *pick,
                                   const struct symm_cublas_tried *tried,
                                   const struct cublaslt_operands *on,
                                   cublaslt_heuristic *algorithms, int *n, bool *rival)
{
    const struct sample sample = sample_of(&pick->shape);
    const uint64_t nbytes = sample.line_nbytes * sample.lines;
    struct comparison c = {t, &pick->shape, tried, *on, algorithms, *n};
    char *first = malloc(nbytes), *other = malloc(nbytes);
    int kept = 0;
    symm_status st = SYMM_OK;

    c.on.alpha = ALPHA;
    c.on.beta = pick->has_c ? BETA : 0;
    if (nbytes == 0)
        st = symm__fail(SYMM_ERROR_MEMORY, "d is too large for trials of cuBLASLt");
    else if (!first || !other)
        st = symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    for (int i = 0; i < c.n + *rival && st == SYMM_OK; i++) {
        bool same = false;
        st = try_once(&c, i, kept ? other : first, &same);
        same = st == SYMM_OK && same && (kept == 0 || memcmp(first, other, nbytes) == 0);
        if (i == c.n)
            *rival = same && kept > 0;
        else if (same)
            algorithms[kept++] = algorithms[i];
    }
    if (st == SYMM_OK)
        *n = kept;
    free(first);
    free(other);
    return st;
}
