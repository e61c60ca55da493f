/* A rank with a product that works. */
#include "matmul_bench.h"

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
    return matmul_bench_open_in(self, b, c);
out:
    return self->report->status;
}

symm_status matmul_bench_open_in(struct rank *self, struct matmul_bench *b,
                                 const struct matmul_case *c)
{
    b->world = symm_context_world(b->ctx);
    RANK_TRY(self, symm_stream_create(b->ctx, &b->stream));
    if (matmul_job_open(self, b->ctx, b->world, c, &b->job) != SYMM_OK)
        return SYMM_ERROR_STATE;
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
    if ((!b->job.m && matmul_job_create(self, &b->job) != SYMM_OK) ||
        matmul_job_send(self, &b->job, ++b->round, b->stream) != SYMM_OK ||
        matmul_job_run(self, &b->job, b->stream) != SYMM_OK ||
        matmul_job_fetch(self, &b->job, NULL, b->stream) != SYMM_OK ||
        matmul_job_look(self, &b->job) != SYMM_OK)
        goto out;
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}
