/* Schedules of other libraries, as products of symm. */
#include "schedule.h"

#include <stdio.h>
#include <string.h>
#include <symm/names.h>
#include "oracle/extents.h"

static const struct schedule schedules[] = {
    {"cutlass:AllGather1D_TilingCD_RotatingA", SYMM_ALL_GATHER_MATMUL, false,
     SYMM_STRATEGY_PIPELINED},
    {"cutlass:AllGather1D_TilingCD_RotatingB", SYMM_ALL_GATHER_MATMUL, true,
     SYMM_STRATEGY_PIPELINED},
    {"cutlass:ReduceScatter1D_TilingA_RotatingC", SYMM_MATMUL_REDUCE_SCATTER, false,
     SYMM_STRATEGY_PIPELINED},
    {"cutlass:ReduceScatter1D_TilingB_RotatingC", SYMM_MATMUL_REDUCE_SCATTER, true,
     SYMM_STRATEGY_PIPELINED},
};

const struct schedule *schedule_at(size_t index)
{
    return index < sizeof schedules / sizeof schedules[0] ? &schedules[index] : NULL;
}

const struct schedule *schedule_find(const char *name, symm_matmul_kind kind)
{
    const size_t length = strlen(name);
    const struct schedule *s;

    for (size_t i = 0; (s = schedule_at(i)); i++) {
        const bool is_named =
            strncmp(s->name, name, length) == 0 && (s->name[length] == ':' || !s->name[length]);

        if (is_named && s->kind == kind)
            return s;
    }
    return NULL;
}

static bool divides(char name, int extent, int nranks, char why[SCHEDULE_WHY])
{
    if (extent % nranks == 0)
        return true;
    snprintf(why, SCHEDULE_WHY, "%c %d is no multiple of the number of ranks, %d", name, extent,
             nranks);
    return false;
}

bool schedule_divide(const struct schedule *s, int nranks, struct cublas_shape *shape,
                     char why[SCHEDULE_WHY])
{
    const bool gathers = s->kind == SYMM_ALL_GATHER_MATMUL, flipped = s->transposed;
    const int rows = flipped ? shape->n : shape->m, columns = flipped ? shape->m : shape->n;

    if (!divides(flipped ? 'n' : 'm', rows, nranks, why) ||
        !(gathers ? divides(flipped ? 'm' : 'n', columns, nranks, why)
                  : divides('k', shape->k, nranks, why)))
        return false;
    shape->m = rows;
    shape->n = gathers ? columns / nranks : columns;
    shape->k = gathers ? shape->k : shape->k / nranks;
    shape->b_by_columns = true;
    shape->d_by_columns = !flipped;
    return true;
}

/* As symm/matmul.h describes it: rows rounded up to 16 bytes, or to 8 elements. */
static uint64_t workspace_of(const struct schedule *s, const struct cublas_shape *shape,
                             symm_dtype partial)
{
    const bool gathers = s->kind == SYMM_ALL_GATHER_MATMUL;
    const uint64_t row = (uint64_t)(gathers ? shape->k : shape->n);

    return (uint64_t)shape->l * (uint64_t)shape->m * ((row + 7) / 8 * 8) *
           symm_dtype_size(gathers ? shape->dtype : partial);
}

struct schedule_memory schedule_memory(const struct schedule *s, int nranks,
                                       const struct cublas_shape *shape, symm_dtype partial)
{
    const bool gathers = s->kind == SYMM_ALL_GATHER_MATMUL;
    const uint64_t part = (uint64_t)(shape->m / nranks), rows = (uint64_t)shape->m,
                   n = (uint64_t)shape->n, k = (uint64_t)shape->k,
                   each = (uint64_t)shape->l * symm_dtype_size(shape->dtype),
                   first = (gathers ? part : rows) * k * each, second = k * n * each;

    return (struct schedule_memory){.a = s->transposed ? second : first,
                                    .b = s->transposed ? first : second,
                                    .d = (gathers ? rows : part) * n * each,
                                    .workspace = nranks > 1 ? workspace_of(s, shape, partial) : 0};
}
