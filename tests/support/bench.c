/* A world with buffers, and whether it works at its end. */
#include "bench.h"

#include "exercise.h"

symm_status bench_open(struct rank *self, struct bench *b)
{
    b->self = self;
    RANK_TRY(self, rank_join(self, &b->ctx));
    b->world = symm_context_world(b->ctx);
    RANK_TRY(self, symm_stream_create(b->ctx, &b->s));
    RANK_TRY(self, symm_alloc(b->world, BENCH_NBYTES, (void **)&b->x));
    RANK_TRY(self, symm_signal_pad_alloc(b->world, BENCH_CHANNELS, &b->pad));
    RANK_TRY(self, symm_device_alloc(b->ctx, BENCH_NBYTES, &b->plain));
    RANK_TRY(self, symm_device_alloc(b->ctx, BENCH_NBYTES, &b->result));
    RANK_TRY(self, symm_fill(b->plain, 0, BENCH_NBYTES, b->s));
    RANK_TRY(self, symm_fill(b->result, 0, BENCH_NBYTES, b->s));
out:
    return self->report->status;
}

static void look_whether_it_works(struct rank *self, const struct bench *b)
{
    RANK_TRY(self, symm_check(b->world));
    RANK_TRY(self, symm_exchange(b->world, NULL, 0, NULL));
    RANK_TRY(self,
             exercise_all_reduce(self, b->ctx, b->world, SYMM_ALGO_TWO_SHOT, SYMM_FLOAT32, 500, 1));
out:;
}

void bench_close(struct bench *b)
{
    if (b->result && !b->ended && !b->self->report->failed[0])
        look_whether_it_works(b->self, b);
    symm_stream_destroy(b->s);
    if (b->ctx) {
        symm_device_free(b->ctx, b->plain);
        symm_device_free(b->ctx, b->result);
    }
    symm_context_destroy(b->ctx);
}
