/* On two streams, in another order on every second rank. */
#include "matmul_pair.h"

#include "exercise.h"

struct bench {
    symm_context *ctx;
    symm_group *groups[2];
    symm_stream streams[2];
    struct matmul_job jobs[2];
    symm_graph graphs[2];
};

static symm_status open_groups(struct rank *self, struct bench *b)
{
    int ranks[RANKS_MAX];

    RANK_TRY(self, rank_join(self, &b->ctx));
    b->groups[0] = symm_context_world(b->ctx);
    for (int r = 0; r < self->nranks; r++)
        ranks[r] = self->nranks - 1 - r;
    RANK_TRY(self, symm_group_create(b->groups[0], self->nranks, ranks, &b->groups[1]));
    for (int g = 0; g < 2; g++)
        RANK_TRY(self, symm_stream_create(b->ctx, &b->streams[g]));
out:
    return self->report->status;
}

static void close_jobs(struct bench *b)
{
    for (int g = 0; g < 2; g++) {
        symm_graph_destroy(b->graphs[g]);
        b->graphs[g] = NULL;
        matmul_job_close(&b->jobs[g]);
    }
}

static void close_groups(struct bench *b)
{
    close_jobs(b);
    symm_group_destroy(b->groups[1]);
    for (int g = 0; g < 2; g++)
        symm_stream_destroy(b->streams[g]);
    symm_context_destroy(b->ctx);
}

static symm_status capture_both(struct rank *self, struct bench *b)
{
    for (int g = 0; g < 2; g++)
        RANK_TRY(self, symm_graph_begin(b->streams[g]));
    for (int i = 0; i < 2; i++) {
        const int g = (self->rank + i) % 2;
        if (matmul_job_run(self, &b->jobs[g], b->streams[g]) != SYMM_OK)
            goto out;
    }
    for (int g = 0; g < 2; g++)
        RANK_TRY(self, symm_graph_end(b->streams[g], &b->graphs[g]));
out:
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

static symm_status enqueue_both(struct rank *self, struct bench *b, bool captured,
                                const struct matmul_pairs *pairs)
{
    for (int i = 0; i < 2; i++) {
        const int g = (self->rank + i) % 2;
        if (i == 1)
            pause_ms(pairs->apart_ms);
        if (captured)
            RANK_TRY(self, symm_graph_launch(b->graphs[g], b->streams[g]));
        for (int run = 0; !captured && run <= pairs->more; run++)
            if (matmul_job_run(self, &b->jobs[g], b->streams[g]) != SYMM_OK)
                goto out;
    }
out:
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

static symm_status look_at_both(struct rank *self, struct bench *b)
{
    for (int g = 0; g < 2; g++) {
        if (matmul_job_fetch(self, &b->jobs[g], NULL, b->streams[g]) != SYMM_OK ||
            matmul_job_look(self, &b->jobs[g]) != SYMM_OK)
            return SYMM_ERROR_STATE;
        symm_graph_destroy(b->graphs[g]);
        b->graphs[g] = NULL;
    }
    return SYMM_OK;
}

static symm_status run_pair(struct rank *self, struct bench *b, const struct matmul_pairs *pairs,
                            int pair)
{
    const uint64_t first = 10 * (uint64_t)pair; /* of the rounds of all data */

    for (int g = 0; g < 2; g++)
        if (matmul_job_open(self, b->ctx, b->groups[g], &pairs->cases[pair][g], &b->jobs[g]) !=
                SYMM_OK ||
            matmul_job_create(self, &b->jobs[g]) != SYMM_OK)
            return SYMM_ERROR_STATE;
    for (int i = 0; i < pairs->rounds; i++) {
        const bool captured = pairs->graphs && i % 2;
        const uint64_t round = first + (uint64_t)i;
        for (int g = 0; g < 2; g++)
            if (matmul_job_send(self, &b->jobs[g], round + 1000 * (uint64_t)g, b->streams[g]) !=
                SYMM_OK)
                return SYMM_ERROR_STATE;
        if (!pairs->apart_ms)
            exercise_dawdle(self, round);
        if ((captured && capture_both(self, b) != SYMM_OK) ||
            enqueue_both(self, b, captured, pairs) != SYMM_OK || look_at_both(self, b) != SYMM_OK)
            return SYMM_ERROR_STATE;
    }
    return SYMM_OK;
}

void matmul_run_pairs(struct rank *self, void *arg)
{
    const struct matmul_pairs *pairs = arg;
    struct bench b = {.ctx = NULL};

    if (open_groups(self, &b) != SYMM_OK)
        goto out;
    for (int i = 0; i < pairs->ncases; i++) {
        if (run_pair(self, &b, pairs, i) != SYMM_OK)
            goto out;
        close_jobs(&b);
    }
out:
    close_groups(&b);
}
