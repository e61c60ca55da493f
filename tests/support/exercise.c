/* Sums over groups, checked. */
#include "exercise.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "reference.h"

int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

int64_t now_ms(void)
{
    return now_us() / 1000;
}

void pause_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

void exercise_dawdle(const struct rank *self, uint64_t round)
{
    const uint64_t u = reference_random(7000 + (uint64_t)self->rank, round);

    if (u % 4 == 0)
        pause_ms((int)(u >> 8) % 4);
}

int exercise_bound(symm_algo algo)
{
    return algo == SYMM_ALGO_AUTO || algo == SYMM_ALGO_MULTIMEM ||
                   algo == SYMM_ALGO_MULTIMEM_ONE_SHOT
               ? REFERENCE_SWITCH
               : REFERENCE_EXACT;
}

symm_status group_of_all(symm_group *parent, symm_group **out)
{
    int ranks[RANKS_MAX];

    for (int r = 0; r < symm_nranks(parent); r++)
        ranks[r] = r;
    return symm_group_create(parent, symm_nranks(parent), ranks, out);
}

#define TRY(call)                                                                                  \
    do {                                                                                           \
        st = rank_note(self, (call));                                                              \
        if (st != SYMM_OK)                                                                         \
            goto out;                                                                              \
    } while (0)

symm_status exercise_all_reduce(struct rank *self, symm_context *ctx, symm_group *group,
                                symm_algo algo, symm_dtype dtype, size_t count, uint64_t round)
{
    const size_t nbytes = count * symm_dtype_size(dtype);
    const symm_options options = {.algo = algo};
    symm_status st;
    symm_stream stream = NULL;
    void *x = NULL, *host = malloc(nbytes);

    if (!host)
        return SYMM_ERROR_MEMORY;
    reference_fill(host, count, dtype, round, symm_rank(group));
    TRY(symm_alloc(group, nbytes, &x));
    TRY(symm_stream_create(ctx, &stream));
    TRY(symm_copy(x, host, nbytes, stream));
    TRY(symm_all_reduce(group, x, x, count, dtype, SYMM_SUM, &options, stream));
    TRY(symm_copy(host, x, nbytes, stream));
    TRY(symm_synchronize(group, stream));
    self->report->wrong += reference_wrong(host, 0, count, dtype, round, symm_nranks(group),
                                           (enum reference_bound)exercise_bound(algo));
out:
    if (stream)
        symm_stream_destroy(stream);
    symm_free(group, x);
    free(host);
    return st;
}

symm_status exercise_group(struct rank *self, symm_context *ctx, symm_group *group, uint64_t round)
{
    static const symm_algo algos[] = {
        SYMM_ALGO_AUTO,     SYMM_ALGO_LOW_LATENCY,      SYMM_ALGO_LOW_LATENCY_TWO_SHOT,
        SYMM_ALGO_LAMPORT,  SYMM_ALGO_ONE_SHOT,         SYMM_ALGO_TWO_SHOT,
        SYMM_ALGO_MULTIMEM, SYMM_ALGO_MULTIMEM_ONE_SHOT};
    static const symm_dtype dtypes[] = {SYMM_FLOAT32, SYMM_BFLOAT16, SYMM_FLOAT16};
    symm_status st = SYMM_OK;
    for (size_t a = 0; a < sizeof algos / sizeof algos[0]; a++) {
        const symm_dtype dtype = dtypes[(round + a) % 3];
        if (symm_all_reduce_unavailable(group, algos[a], dtype, SYMM_SUM))
            continue;
        TRY(exercise_all_reduce(self, ctx, group, algos[a], dtype,
                                1 + reference_random(round, a) % 5000, round + a));
    }
out:
    return st;
}

void exercise_world(struct rank *self, void *arg)
{
    symm_context *ctx = NULL;
    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *world = symm_context_world(ctx);
    CHECK_RANK(self, symm_rank(world) == self->rank && symm_nranks(world) == self->nranks);
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    RANK_TRY(self, exercise_group(self, ctx, world, arg ? *(uint64_t *)arg : 0));
    RANK_TRY(self, symm_context_destroy(ctx));
    return;
out:
    symm_context_destroy(ctx);
}

size_t exercise_free_memory(symm_context *ctx)
{
    int (*info)(size_t *, size_t *) = NULL;
    size_t available = 0, total = 0;
    *(void **)&info = symm_context_driver_symbol(ctx, "cuMemGetInfo_v2");
    return info && info(&available, &total) == 0 ? available : 0;
}

bool exercise_is_idle(symm_context *ctx, symm_stream s)
{
    int (*query)(symm_stream);
    *(void **)&query = symm_context_driver_symbol(ctx, "cuStreamQuery");
    return query && query(s) == 0;
}
