/* Many products, each with every strategy. */
#include "matmul_plan.h"

#include <stdlib.h>
#include <string.h>

static const symm_strategy strategies[] = {SYMM_STRATEGY_AUTO, SYMM_STRATEGY_FUSED,
                                           SYMM_STRATEGY_PIPELINED, SYMM_STRATEGY_UNFUSED};
enum { NSTRATEGIES = sizeof strategies / sizeof strategies[0] };

/* ------------------------------------------------------------------------------------- one case */

/* What a product was asked for, or what AUTO may come to. */
static bool strategy_fits(const struct matmul_job *job)
{
    const symm_strategy got = symm_matmul_strategy(job->m);

    if (job->c.kind == SYMM_MATMUL || symm_nranks(job->group) == 1)
        return got == SYMM_STRATEGY_AUTO;
    return job->c.strategy == SYMM_STRATEGY_AUTO ? got != SYMM_STRATEGY_AUTO
                                                 : got == job->c.strategy;
}

/* Makes the product and runs it with this round's data. */
static symm_status make_and_run(struct rank *self, struct matmul_job *job, uint64_t round,
                                symm_stream stream)
{
    if (matmul_job_create(self, job) != SYMM_OK)
        goto out;
    CHECK_RANK_MSG(self, strategy_fits(job), "strategy %d: %s", (int)symm_matmul_strategy(job->m),
                   matmul_text(&job->c));
    if (matmul_job_send(self, job, round, stream) == SYMM_OK &&
        matmul_job_run(self, job, stream) == SYMM_OK)
        matmul_job_fetch(self, job, NULL, stream);
out:
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

/*
 * Runs it once more, with other data, and gives it back: what is left in its workspace is nothing
 * that the next strategy could take for its own.
 */
static symm_status run_and_unmake(struct rank *self, struct matmul_job *job, symm_stream stream)
{
    const uint64_t other = 100000 + job->round * NSTRATEGIES + (uint64_t)job->c.strategy;

    if (matmul_job_send(self, job, other, stream) == SYMM_OK &&
        matmul_job_run(self, job, stream) == SYMM_OK)
        RANK_TRY(self, symm_synchronize(job->group, stream));
    symm_matmul_destroy(job->m);
    job->m = NULL;
out:
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

/* A job's memory as the first strategy has left it. */
static void keep(const struct matmul_job *job, char *kept[MATMUL_REGIONS])
{
    for (int i = 0; i < MATMUL_REGIONS; i++) {
        kept[i] = malloc(job->nbytes[i]);
        memcpy(kept[i], job->got[i], job->nbytes[i]);
    }
}

static bool as_kept(const struct matmul_job *job, char *const *kept)
{
    for (int i = 0; i < MATMUL_REGIONS; i++)
        if (memcmp(kept[i], job->got[i], job->nbytes[i]) != 0)
            return false;
    return true;
}

static symm_status run_case(struct rank *self, symm_context *ctx, const struct matmul_case *c,
                            bool any_bits, symm_stream stream)
{
    const uint64_t round = 1 + c->layout;
    char *kept[MATMUL_REGIONS] = {NULL, NULL};
    struct matmul_job job;

    if (matmul_job_open(self, ctx, symm_context_world(ctx), c, &job) != SYMM_OK)
        goto out;
    for (int s = 0; s < (c->kind == SYMM_MATMUL ? 1 : NSTRATEGIES); s++) {
        job.c.strategy = strategies[s];
        if (make_and_run(self, &job, round, stream) != SYMM_OK)
            goto out;
        if (s == 0 || any_bits) {
            if (matmul_job_look(self, &job) != SYMM_OK)
                goto out;
        } else {
            CHECK_RANK_MSG(self, as_kept(&job, kept), "other bits: %s", matmul_text(&job.c));
        }
        if (s == 0)
            keep(&job, kept);
        if (run_and_unmake(self, &job, stream) != SYMM_OK)
            goto out;
    }
out:
    for (int i = 0; i < MATMUL_REGIONS; i++)
        free(kept[i]);
    matmul_job_close(&job);
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

/* --------------------------------------------------------------------------------- many of them */

void matmul_run_plan(struct rank *self, void *arg)
{
    const struct matmul_plan *plan = arg;
    symm_context *ctx = NULL;
    symm_stream stream = NULL;
    symm_usage before, after;

    RANK_TRY(self, rank_join(self, &ctx));
    RANK_TRY(self, symm_stream_create(ctx, &stream));
    RANK_TRY(self, symm_memory_usage(ctx, &before));
    for (int i = plan->first; i < plan->first + plan->ncases; i++) {
        const struct matmul_case c =
            plan->cases ? plan->cases[i] : matmul_draw((uint64_t)i, self->nranks);
        if (run_case(self, ctx, &c, plan->any_bits, stream) != SYMM_OK)
            goto out;
    }
    RANK_TRY(self, symm_exchange(symm_context_world(ctx), NULL, 0, NULL));
    RANK_TRY(self, symm_memory_usage(ctx, &after));
    CHECK_RANK(self, after.requested == before.requested && after.internal == before.internal);
out:
    symm_stream_destroy(stream);
    symm_context_destroy(ctx);
}
