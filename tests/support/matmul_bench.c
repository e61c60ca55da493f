/* Worlds with a product that works. */
#include "matmul_bench.h"

#include "exercise.h"

static const float one = 1;

const struct matmul_case matmul_works = {.kind = SYMM_ALL_GATHER_MATMUL,
                                         .in = SYMM_BFLOAT16,
                                         .out = SYMM_FLOAT32,
                                         .addend = SYMM_FLOAT32,
                                         .m = 20,
                                         .k = 24,
                                         .l = 2,
                                         .nb = 2,
                                         .n = {5, 6},
                                         .has_c = true,
                                         .has_bias = true,
                                         .gathered = true,
                                         .alpha = &one,
                                         .beta = &one,
                                         .whole = true,
                                         .contiguous = true,
                                         .layout = 1};

symm_status matmul_bench_open(struct rank *self, struct matmul_bench *b,
                              const struct matmul_case *c)
{
    RANK_TRY(self, rank_join(self, &b->ctx));
    RANK_TRY(self, matmul_bench_open_in(self, b, c));
out:
    return self->report->status;
}

symm_status matmul_bench_open_in(struct rank *self, struct matmul_bench *b,
                                 const struct matmul_case *c)
{
    b->world = symm_context_world(b->ctx);
    RANK_TRY(self, symm_stream_create(b->ctx, &b->stream));
    RANK_TRY(self, matmul_job_open(self, b->ctx, b->world, c, &b->job));
out:
    return self->report->status;
}

void matmul_bench_close(struct matmul_bench *b)
{
    matmul_job_close(&b->job);
    symm_stream_destroy(b->stream);
    symm_context_destroy(b->ctx);
}

symm_status matmul_bench_works(struct rank *self, struct matmul_bench *b)
{
    RANK_TRY(self, symm_check(b->world));
    if (!b->job.m)
        RANK_TRY(self, matmul_job_create(self, &b->job));
    RANK_TRY(self, matmul_job_works(self, &b->job, ++b->round, b->stream));
out:
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

symm_status matmul_bench_change(struct rank *self, struct matmul_bench *b,
                                const struct matmul_case *c)
{
    matmul_job_close(&b->job);
    RANK_TRY(self, matmul_job_open(self, b->ctx, b->world, c, &b->job));
    RANK_TRY(self, matmul_bench_works(self, b));
out:
    return self->report->status;
}

symm_status matmul_group_open(struct rank *self, struct matmul_bench *b,
                              const struct matmul_case *c, struct matmul_group *out)
{
    RANK_TRY(self, group_of_all(b->world, &out->g));
    RANK_TRY(self, matmul_job_open(self, b->ctx, out->g, c, &out->job));
out:
    return self->report->status;
}

symm_status matmul_group_close(struct matmul_group *group)
{
    matmul_job_close(&group->job);
    const symm_status st = symm_group_destroy(group->g);
    group->g = NULL;
    return st;
}

symm_status matmul_bench_begin(struct rank *self, struct matmul_bench *b)
{
    b->self = self;
    RANK_TRY(self, matmul_bench_open(self, b, &matmul_works));
    RANK_TRY(self, matmul_bench_works(self, b));
out:
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

void matmul_bench_end(struct matmul_bench *b)
{
    if (!b->self->report->failed[0] && !b->ended)
        matmul_bench_works(b->self, b);
    matmul_bench_close(b);
}
