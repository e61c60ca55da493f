/*
 * Stands in for cuBLASLt: the functions that the tools call, by what its documentation says of
 * them. Matrices are columns after columns; d = alpha a b + beta c at once, on the host, whatever
 * the stream. What nobody should ask for is an error.
 */
#include <stdint.h>
#include <stdlib.h>
#include <symm/types.h>
#include "element.h"

enum { SUCCESS = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15, ASKED = 1 << 20, MARK = 0x5ca1ab1e };

struct layout {
    int type;
    uint64_t rows, columns;
    int64_t ld, stride;
    int32_t batches;
};

struct operation {
    int compute, scale;
};

struct preference {
    uint64_t workspace;
    uint32_t reductions;
};

struct heuristic {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

SYMM_API size_t cublasLtGetVersion(void);
SYMM_API int cublasLtCreate(void **out);
SYMM_API int cublasLtDestroy(void *handle);
SYMM_API int cublasLtMatmulDescCreate(struct operation **out, int compute, int scale);
SYMM_API int cublasLtMatmulDescDestroy(struct operation *o);
SYMM_API int cublasLtMatrixLayoutCreate(struct layout **out, int type, uint64_t rows,
                                        uint64_t columns, int64_t ld);
SYMM_API int cublasLtMatrixLayoutDestroy(struct layout *l);
SYMM_API int cublasLtMatrixLayoutSetAttribute(struct layout *l, int attribute, const void *value,
                                              size_t nbytes);
SYMM_API int cublasLtMatmulPreferenceCreate(struct preference **out);
SYMM_API int cublasLtMatmulPreferenceDestroy(struct preference *p);
SYMM_API int cublasLtMatmulPreferenceSetAttribute(struct preference *p, int attribute,
                                                  const void *value, size_t nbytes);
SYMM_API int cublasLtMatmulAlgoGetHeuristic(void *handle, const struct operation *o,
                                            const struct layout *a, const struct layout *b,
                                            const struct layout *c, const struct layout *d,
                                            const struct preference *p, int wanted,
                                            struct heuristic *out, int *found);
SYMM_API int cublasLtMatmul(void *handle, const struct operation *o, const void *alpha,
                            const void *a, const struct layout *la, const void *b,
                            const struct layout *lb, const void *beta, const void *c,
                            const struct layout *lc, void *d, const struct layout *ld,
                            const uint64_t *algorithm, void *workspace, size_t nbytes,
                            void *stream);

size_t cublasLtGetVersion(void)
{
    return 130102;
}

int cublasLtCreate(void **out)
{
    *out = malloc(1);
    return *out ? SUCCESS : INVALID_VALUE;
}

int cublasLtDestroy(void *handle)
{
    free(handle);
    return SUCCESS;
}

int cublasLtMatmulDescCreate(struct operation **out, int compute, int scale)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return INVALID_VALUE;
    **out = (struct operation){compute, scale};
    return SUCCESS;
}

int cublasLtMatmulDescDestroy(struct operation *o)
{
    free(o);
    return SUCCESS;
}

int cublasLtMatrixLayoutCreate(struct layout **out, int type, uint64_t rows, uint64_t columns,
                               int64_t ld)
{
    if (ld < (int64_t)rows)
        return INVALID_VALUE;
    *out = calloc(1, sizeof **out);
    if (!*out)
        return INVALID_VALUE;
    **out = (struct layout){type, rows, columns, ld, 0, 1};
    return SUCCESS;
}

int cublasLtMatrixLayoutDestroy(struct layout *l)
{
    free(l);
    return SUCCESS;
}

int cublasLtMatrixLayoutSetAttribute(struct layout *l, int attribute, const void *value,
                                     size_t nbytes)
{
    if (attribute == 5 && nbytes == sizeof(int32_t))
        l->batches = *(const int32_t *)value;
    else if (attribute == 6 && nbytes == sizeof(int64_t))
        l->stride = *(const int64_t *)value;
    else
        return INVALID_VALUE;
    return SUCCESS;
}

int cublasLtMatmulPreferenceCreate(struct preference **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? SUCCESS : INVALID_VALUE;
}

int cublasLtMatmulPreferenceDestroy(struct preference *p)
{
    free(p);
    return SUCCESS;
}

int cublasLtMatmulPreferenceSetAttribute(struct preference *p, int attribute, const void *value,
                                         size_t nbytes)
{
    if (attribute == 1 && nbytes == sizeof(uint64_t))
        p->workspace = *(const uint64_t *)value;
    else if (attribute == 3 && nbytes == sizeof(uint32_t))
        p->reductions = *(const uint32_t *)value;
    else
        return INVALID_VALUE;
    return SUCCESS;
}

static bool fits(const struct operation *o, const struct layout *a, const struct layout *b,
                 const struct layout *c, const struct layout *d)
{
    return o->compute == 68 && o->scale == 0 && (a->type == 2 || a->type == 14) &&
           b->type == a->type && c->type == a->type && d->type == a->type &&
           a->columns == b->rows && d->rows == a->rows && d->columns == b->columns &&
           c->rows == d->rows && c->columns == d->columns && a->batches == d->batches &&
           b->batches == d->batches && c->batches == d->batches;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, const struct operation *o, const struct layout *a,
                                   const struct layout *b, const struct layout *c,
                                   const struct layout *d, const struct preference *p, int wanted,
                                   struct heuristic *out, int *found)
{
    if (!handle || wanted < 1 || !fits(o, a, b, c, d))
        return NOT_SUPPORTED;
    /* Nothing for a matrix of one element: it has to be noticed. */
    *found = d->rows * d->columns > 1 && p->workspace >= ASKED;
    *out = (struct heuristic){.algorithm = {MARK}, .workspace = ASKED};
    return SUCCESS;
}

static double widened(const struct element *e, const void *of, int64_t at)
{
    union element_number x;

    element_widen(e, (const char *)of + (size_t)at * e->nbytes, &x, 1);
    return x.real;
}

int cublasLtMatmul(void *handle, const struct operation *o, const void *alpha, const void *a,
                   const struct layout *la, const void *b, const struct layout *lb,
                   const void *beta, const void *c, const struct layout *lc, void *d,
                   const struct layout *ld, const uint64_t *algorithm, void *workspace,
                   size_t nbytes, void *stream)
{
    const struct element *e = element_find(la->type == 2 ? "fp16" : "bf16");
    const int64_t rows = (int64_t)ld->rows, columns = (int64_t)ld->columns;

    (void)stream;
    if (!handle || !fits(o, la, lb, lc, ld) || algorithm[0] != MARK || !workspace || nbytes < ASKED)
        return INVALID_VALUE;
    for (int64_t i = 0; i < ld->batches * rows * columns; i++) {
        const int64_t row = i % rows, column = i / rows % columns, batch = i / rows / columns,
                      at = batch * ld->stride + column * ld->ld + row;
        double sum = 0;

        for (int64_t j = 0; j < (int64_t)la->columns; j++)
            sum += widened(e, a, batch * la->stride + j * la->ld + row) *
                   widened(e, b, batch * lb->stride + column * lb->ld + j);
        sum *= (double)*(const float *)alpha;
        if (*(const float *)beta != 0)
            sum += (double)*(const float *)beta *
                   widened(e, c, batch * lc->stride + column * lc->ld + row);
        element_narrow(e, &(union element_number){.real = sum}, (char *)d + (size_t)at * e->nbytes,
                       1);
    }
    return SUCCESS;
}
