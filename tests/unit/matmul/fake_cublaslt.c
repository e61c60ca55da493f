/*
 * Stands in for cuBLASLt: the functions that symm calls, by what its documentation says of them.
 * Matrices are columns after columns; d = alpha a b + beta c at once, on the host, after what
 * fake_cublaslt_before does for the stream. What nobody should ask for is an error.
 *
 * FAKE_CUBLASLT_FAILS=NAME lets the calls of that name fail.
 */
#include "fake_cublaslt.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "oracle/element.h"

enum { SUCCESS = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
enum { ASKED = FAKE_CUBLASLT_NBYTES, MARK = 0x5ca1ab1e };
enum { TYPE_32F = 0, TYPE_16F = 2, TYPE_16BF = 14, COMPUTE_32F = 68 };
enum { ALIGNMENT_DEFAULT = 256 };

struct layout {
    int type;
    uint64_t rows, columns;
    int64_t ld, stride;
    int32_t batches;
};

struct operation {
    int compute, scale;
    int32_t transposed[2]; /* a, b */
};

struct preference {
    uint64_t workspace;
    uint32_t reductions, alignment[4];
};

struct heuristic {
    uint64_t algorithm[8]; /* MARK, the alignment that it wants, its number, its configuration */
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

/* Places of an algorithm. */
enum { NUMBER = 2, TILE, K_PARTS, REDUCTION, CUSTOM, CLUSTER };

SYMM_API size_t cublasLtGetVersion(void);
SYMM_API int cublasLtCreate(void **out);
SYMM_API int cublasLtDestroy(void *handle);
SYMM_API int cublasLtMatmulDescCreate(struct operation **out, int compute, int scale);
SYMM_API int cublasLtMatmulDescDestroy(struct operation *o);
SYMM_API int cublasLtMatmulDescSetAttribute(struct operation *o, int attribute, const void *value,
                                            size_t nbytes);
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
SYMM_API int cublasLtMatmulAlgoConfigGetAttribute(const uint64_t *algorithm, int attribute,
                                                  void *value, size_t nbytes, size_t *written);
SYMM_API int cublasLtMatmulAlgoConfigSetAttribute(uint64_t *algorithm, int attribute,
                                                  const void *value, size_t nbytes);
SYMM_API int cublasLtMatmulAlgoCheck(void *handle, const struct operation *o,
                                     const struct layout *a, const struct layout *b,
                                     const struct layout *c, const struct layout *d,
                                     const uint64_t *algorithm, struct heuristic *out);
SYMM_API int cublasLtMatmul(void *handle, const struct operation *o, const void *alpha,
                            const void *a, const struct layout *la, const void *b,
                            const struct layout *lb, const void *beta, const void *c,
                            const struct layout *lc, void *d, const struct layout *ld,
                            const uint64_t *algorithm, void *workspace, size_t nbytes,
                            void *stream);

struct fake_cublaslt fake_cublaslt;

static int fails(const char *call)
{
    const char *wanted = getenv("FAKE_CUBLASLT_FAILS");

    return wanted && strcmp(wanted, call) == 0;
}

/* ------------------------------------------------------------------------------------- objects */

/* Ranks may be threads. */
static int make(const char *call, size_t nbytes, void *out)
{
    void *object = fails(call) ? NULL : calloc(1, nbytes);

    if (!object)
        return INVALID_VALUE;
    __atomic_fetch_add(&fake_cublaslt.objects, 1, __ATOMIC_RELAXED);
    memcpy(out, &object, sizeof object);
    return SUCCESS;
}

static int unmake(void *object)
{
    if (!object)
        return INVALID_VALUE;
    __atomic_fetch_sub(&fake_cublaslt.objects, 1, __ATOMIC_RELAXED);
    free(object);
    return SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return 130102;
}

int cublasLtCreate(void **out)
{
    return make(__func__, 1, out);
}

int cublasLtDestroy(void *handle)
{
    return unmake(handle);
}

int cublasLtMatmulDescCreate(struct operation **out, int compute, int scale)
{
    const int error = make(__func__, sizeof **out, out);

    if (!error)
        **out = (struct operation){.compute = compute, .scale = scale};
    if (fake_cublaslt.described)
        fake_cublaslt.described();
    return error;
}

int cublasLtMatmulDescDestroy(struct operation *o)
{
    return unmake(o);
}

int cublasLtMatmulDescSetAttribute(struct operation *o, int attribute, const void *value,
                                   size_t nbytes)
{
    if (fails(__func__) || (attribute != 3 && attribute != 4) || nbytes != sizeof(int32_t))
        return INVALID_VALUE;
    o->transposed[attribute - 3] = *(const int32_t *)value;
    return SUCCESS;
}

int cublasLtMatrixLayoutCreate(struct layout **out, int type, uint64_t rows, uint64_t columns,
                               int64_t ld)
{
    const int error = ld < (int64_t)rows ? INVALID_VALUE : make(__func__, sizeof **out, out);

    if (!error)
        **out = (struct layout){type, rows, columns, ld, 0, 1};
    return error;
}

int cublasLtMatrixLayoutDestroy(struct layout *l)
{
    return unmake(l);
}

int cublasLtMatrixLayoutSetAttribute(struct layout *l, int attribute, const void *value,
                                     size_t nbytes)
{
    if (fails(__func__))
        return INVALID_VALUE;
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
    const int error = make(__func__, sizeof **out, out);

    for (int i = 0; !error && i < 4; i++)
        (*out)->alignment[i] = ALIGNMENT_DEFAULT;
    return error;
}

int cublasLtMatmulPreferenceDestroy(struct preference *p)
{
    return unmake(p);
}

int cublasLtMatmulPreferenceSetAttribute(struct preference *p, int attribute, const void *value,
                                         size_t nbytes)
{
    if (fails(__func__))
        return INVALID_VALUE;
    if (attribute == 1 && nbytes == sizeof(uint64_t))
        p->workspace = *(const uint64_t *)value;
    else if (attribute == 3 && nbytes == sizeof(uint32_t))
        p->reductions = *(const uint32_t *)value;
    else if (attribute >= 5 && attribute < 9 && nbytes == sizeof(uint32_t))
        p->alignment[attribute - 5] = *(const uint32_t *)value;
    else
        return INVALID_VALUE;
    return SUCCESS;
}

/* ------------------------------------------------------------------------------------- products */

static uint64_t rows_of(const struct layout *x, int transposed)
{
    return transposed ? x->columns : x->rows;
}

static uint64_t columns_of(const struct layout *x, int transposed)
{
    return transposed ? x->rows : x->columns;
}

static bool fits(const struct operation *o, const struct layout *a, const struct layout *b,
                 const struct layout *c, const struct layout *d)
{
    const int at = o->transposed[0], bt = o->transposed[1];

    return o->compute == COMPUTE_32F && o->scale == TYPE_32F &&
           (a->type == TYPE_16F || a->type == TYPE_16BF) && b->type == a->type &&
           c->type == d->type && (d->type == a->type || d->type == TYPE_32F) &&
           columns_of(a, at) == rows_of(b, bt) && d->rows == rows_of(a, at) &&
           d->columns == columns_of(b, bt) && c->rows == d->rows && c->columns == d->columns &&
           a->batches == d->batches && b->batches == d->batches && c->batches == d->batches;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, const struct operation *o, const struct layout *a,
                                   const struct layout *b, const struct layout *c,
                                   const struct layout *d, const struct preference *p, int wanted,
                                   struct heuristic *out, int *found)
{
    const uint32_t alignment = p->alignment[0];

    if (fails(__func__) || !handle || wanted < 1 || !fits(o, a, b, c, d))
        return NOT_SUPPORTED;
    for (int i = 1; i < 4; i++)
        if (p->alignment[i] != alignment)
            return NOT_SUPPORTED;
    /* Sums in the type of d are rounded more than once. Nothing for a matrix of one element: it has
     * to be noticed. */
    *found = d->rows * d->columns > 1 && p->workspace >= ASKED && p->reductions == 2;
    for (int i = 0; *found && i < wanted && i < FAKE_CUBLASLT_ALGORITHMS; i++) {
        out[i] = (struct heuristic){
            .algorithm = {MARK, alignment, (uint64_t)i}, .workspace = ASKED, .state = i == 1};
        out[i].algorithm[K_PARTS] =
            (uint64_t)(fake_cublaslt.k_parts[i] ? fake_cublaslt.k_parts[i] : 1);
        *found = i + 1;
    }
    return SUCCESS;
}

/* Where an algorithm has an attribute, and its size there; 0: there is none. */
static size_t attribute_at(int attribute, size_t *at)
{
    static const struct {
        int attribute;
        size_t at, nbytes;
    } all[] = {{1, TILE, sizeof(uint32_t)},
               {2, K_PARTS, sizeof(int32_t)},
               {3, REDUCTION, sizeof(uint32_t)},
               {5, CUSTOM, sizeof(uint32_t)},
               {8, CLUSTER, sizeof(uint16_t)}};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].attribute == attribute) {
            *at = all[i].at;
            return all[i].nbytes;
        }
    return 0;
}

int cublasLtMatmulAlgoConfigGetAttribute(const uint64_t *algorithm, int attribute, void *value,
                                         size_t nbytes, size_t *written)
{
    size_t at = 0;

    if (fails(__func__) || algorithm[0] != MARK || nbytes == 0 ||
        attribute_at(attribute, &at) != nbytes)
        return INVALID_VALUE;
    memcpy(value, &algorithm[at], nbytes);
    *written = nbytes;
    return SUCCESS;
}

int cublasLtMatmulAlgoConfigSetAttribute(uint64_t *algorithm, int attribute, const void *value,
                                         size_t nbytes)
{
    size_t at = 0;

    if (fails(__func__) || algorithm[0] != MARK || attribute_at(attribute, &at) != nbytes)
        return INVALID_VALUE;
    algorithm[NUMBER] = FAKE_CUBLASLT_CONFIGURED;
    algorithm[at] = 0;
    memcpy(&algorithm[at], value, nbytes);
    return SUCCESS;
}

/* Parts are added in fp32, and neighbours across have an option of their own. */
int cublasLtMatmulAlgoCheck(void *handle, const struct operation *o, const struct layout *a,
                            const struct layout *b, const struct layout *c, const struct layout *d,
                            const uint64_t *algorithm, struct heuristic *out)
{
    const uint64_t custom = algorithm[CUSTOM], cluster = algorithm[CLUSTER];

    if (fails(__func__) || !handle || !fits(o, a, b, c, d) || algorithm[0] != MARK ||
        fake_cublaslt.custom == 0 || custom < (uint64_t)fake_cublaslt.custom || custom % 2 == 0 ||
        algorithm[TILE] == 0 || (cluster != 3 && cluster != 4 && cluster != 5) ||
        (custom / 2 % 2 == 1) != (cluster == 5) || algorithm[K_PARTS] < 1 ||
        algorithm[REDUCTION] != (algorithm[K_PARTS] > 1 ? 2 : 0))
        return NOT_SUPPORTED;
    *out = (struct heuristic){.workspace = ASKED};
    return SUCCESS;
}

static const struct element *element_of(const struct layout *x)
{
    return element_by_dtype(x->type == TYPE_16F    ? SYMM_FLOAT16
                            : x->type == TYPE_16BF ? SYMM_BFLOAT16
                                                   : SYMM_FLOAT32);
}

static int64_t at(const struct layout *x, int transposed, int64_t batch, int64_t row,
                  int64_t column)
{
    return batch * x->stride + (transposed ? row * x->ld + column : column * x->ld + row);
}

static double widened(const struct layout *x, const void *of, int64_t index)
{
    const struct element *e = element_of(x);
    union element_number number;

    element_widen(e, (const char *)of + (size_t)index * e->nbytes, &number, 1);
    return number.real;
}

static bool aligned(const void *address, uint64_t alignment)
{
    return (uintptr_t)address % alignment == 0;
}

/* Of the last product of all ranks. */
static void note(const uint64_t *algorithm)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&lock);
    fake_cublaslt.configuration = (struct fake_cublaslt_configuration){
        (int)algorithm[TILE], (int)algorithm[K_PARTS], (int)algorithm[REDUCTION],
        (int)algorithm[CUSTOM], (int)algorithm[CLUSTER]};
    fake_cublaslt.algorithm = (int)algorithm[NUMBER];
    pthread_mutex_unlock(&lock);
}

/* k in as many parts as the algorithm has. */
static uint64_t parts_of(const uint64_t *algorithm)
{
    return fake_cublaslt.halves & 1u << algorithm[NUMBER] ? 2 : algorithm[K_PARTS];
}

int cublasLtMatmul(void *handle, const struct operation *o, const void *alpha, const void *a,
                   const struct layout *la, const void *b, const struct layout *lb,
                   const void *beta, const void *c, const struct layout *lc, void *d,
                   const struct layout *ld, const uint64_t *algorithm, void *workspace,
                   size_t nbytes, void *stream)
{
    const struct element *e = element_of(ld);
    const int64_t rows = (int64_t)ld->rows, columns = (int64_t)ld->columns,
                  k = (int64_t)columns_of(la, o->transposed[0]);
    /* Some tests have no more of their memory. */
    const uint64_t alignment = algorithm[1] < 16 ? algorithm[1] : 16;

    if (fails(__func__) || !handle || !fits(o, la, lb, lc, ld) || algorithm[0] != MARK ||
        !workspace || nbytes < ASKED || !aligned(a, alignment) || !aligned(b, alignment) ||
        !aligned(c, alignment) || !aligned(d, alignment))
        return INVALID_VALUE;
    if (fake_cublaslt.before)
        fake_cublaslt.before(stream);
    if (fake_cublaslt.fails & 1u << algorithm[NUMBER])
        return NOT_SUPPORTED;
    usleep(fake_cublaslt.us[algorithm[NUMBER]]);
    note(algorithm);
    __atomic_fetch_add(&fake_cublaslt.products, 1, __ATOMIC_RELAXED);
    memset(workspace, 0xa5, ASKED);
    for (int64_t i = 0; i < ld->batches * rows * columns; i++) {
        const int64_t row = i % rows, column = i / rows % columns, batch = i / rows / columns;
        float part = 0, of_parts = 0, in_order = 0;
        double sum = 0;

        for (int64_t j = 0; j < k; j++) {
            const double x = widened(la, a, at(la, o->transposed[0], batch, row, j)) *
                             widened(lb, b, at(lb, o->transposed[1], batch, j, column));
            sum += x;
            part += (float)x;
            if ((uint64_t)(j + 1) * parts_of(algorithm) % (uint64_t)k <
                parts_of(algorithm)) { /* the last one of a part */
                of_parts += part;
                part = 0;
            }
            in_order += (float)x;
        }
        if (parts_of(algorithm) > 1)
            sum = (double)of_parts;
        sum *= (double)*(const float *)alpha;
        if (fake_cublaslt.in_order & 1u << algorithm[NUMBER])
            sum = (double)(in_order * *(const float *)alpha);
        if (*(const float *)beta != 0)
            sum += (double)*(const float *)beta * widened(lc, c, at(lc, 0, batch, row, column));
        element_narrow(e, &(union element_number){.real = sum},
                       (char *)d + (size_t)at(ld, 0, batch, row, column) * e->nbytes, 1);
    }
    return SUCCESS;
}
