/* Each round: new data, a run or its replay, a look at the result. */
#include "matmul_rounds.h"

#include <time.h>

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

/* Fresh data, runs or replays, and a look at the result of the last one. */
static symm_status run_round(struct rank *self, struct matmul_job *job,
                             const struct matmul_rounds *test, symm_graph graph, int round,
                             symm_stream stream)
{
    RANK_TRY(self, matmul_job_send(self, job, test->first + (uint64_t)round, stream));
    if (test->c.constant_b)
        RANK_TRY(self, symm_synchronize(job->group, stream));
    RANK_TRY(self, symm_exchange(job->group, NULL, 0, NULL));
    if (test->late_rank == self->rank)
        sleep_ms(round % 2 ? 120 : 5);
    for (int i = 0; i < (test->burst ? test->burst : 1); i++)
        if (graph)
            RANK_TRY(self, symm_graph_launch(graph, stream));
        else
            RANK_TRY(self, matmul_job_run(self, job, stream));
    RANK_TRY(self, matmul_job_fetch(self, job, NULL, stream));
    return matmul_job_look(self, job);
out:
    return SYMM_ERROR_STATE;
}

static symm_status run_rounds(struct rank *self, struct matmul_job *job,
                              const struct matmul_rounds *test, symm_stream stream)
{
    symm_graph graph = NULL;
    symm_status st = SYMM_OK;

    for (int round = 0; round < test->rounds && st == SYMM_OK; round++) {
        if (test->replayed && round == 1) {
            RANK_TRY(self, symm_graph_begin(stream));
            st = matmul_job_run(self, job, stream);
            RANK_TRY(self, symm_graph_end(stream, &graph));
        }
        if (st == SYMM_OK)
            st = run_round(self, job, test, graph, round, stream);
    }
out:
    symm_graph_destroy(graph);
    return self->report->failed[0] ? SYMM_ERROR_STATE : st;
}

void matmul_run_rounds(struct rank *self, void *rounds)
{
    const struct matmul_rounds *test = rounds;
    struct matmul_job job = {.m = NULL};
    symm_context *ctx = NULL;
    symm_stream stream = NULL;
    symm_usage before, after;

    RANK_TRY(self, rank_join(self, &ctx));
    RANK_TRY(self, symm_stream_create(ctx, &stream));
    RANK_TRY(self, symm_memory_usage(ctx, &before));
    RANK_TRY(self, matmul_job_open(self, ctx, symm_context_world(ctx), &test->c, &job));
    RANK_TRY(self, matmul_job_create(self, &job));
    RANK_TRY(self, run_rounds(self, &job, test, stream));
    matmul_job_close(&job);
    job = (struct matmul_job){.m = NULL};
    RANK_TRY(self, symm_exchange(symm_context_world(ctx), NULL, 0, NULL));
    RANK_TRY(self, symm_memory_usage(ctx, &after));
    CHECK_RANK(self, after.requested == before.requested && after.internal == before.internal);
out:
    matmul_job_close(&job);
    symm_stream_destroy(stream);
    symm_context_destroy(ctx);
}
