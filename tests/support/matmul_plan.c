/* Many products, each with every strategy. */
#include "matmul_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "reference.h"
#include "trace.h"

static const symm_strategy strategies[] = {SYMM_STRATEGY_AUTO, SYMM_STRATEGY_FUSED,
                                           SYMM_STRATEGY_PIPELINED, SYMM_STRATEGY_UNFUSED};
enum { NSTRATEGIES = sizeof strategies / sizeof strategies[0] };

/* ------------------------------------------------------------------------------------- one case */

/* Whether it has the strategy of the description, or one that AUTO may choose. */
static bool strategy_fits(const struct matmul_job *job)
{
    const symm_strategy got = symm_matmul_strategy(job->m);

    if (job->c.kind == SYMM_MATMUL || symm_nranks(job->group) == 1)
        return got == SYMM_STRATEGY_AUTO;
    return job->c.strategy == SYMM_STRATEGY_AUTO ? got != SYMM_STRATEGY_AUTO
                                                 : got == job->c.strategy;
}

static bool has_strategy(const struct matmul_case *c, symm_strategy strategy)
{
    if (strategy == SYMM_STRATEGY_AUTO || c->kind == SYMM_ALL_GATHER_MATMUL || matmul_reduces(c))
        return true;
    return matmul_collects(c) && strategy != SYMM_STRATEGY_PIPELINED;
}

/* Creates the product and runs it with this round's data. */
static symm_status create_and_run(struct rank *self, struct matmul_job *job, uint64_t round,
                                  symm_stream stream)
{
    RANK_TRY(self, matmul_job_create(self, job));
    CHECK_RANK_MSG(self, strategy_fits(job), "strategy %d: %s", (int)symm_matmul_strategy(job->m),
                   matmul_text(&job->c));
    RANK_TRY(self, matmul_job_send(self, job, round, stream));
    RANK_TRY(self, matmul_job_run(self, job, stream));
    RANK_TRY(self, matmul_job_fetch(self, job, NULL, stream));
out:
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

/*
 * Runs it once more with other data, and destroys it: if the next strategy used old rows in its
 * workspace, its result would be wrong.
 */
static symm_status run_and_destroy(struct rank *self, struct matmul_job *job, symm_stream stream)
{
    const uint64_t other = 100000 + job->round * NSTRATEGIES + (uint64_t)job->c.strategy;

    RANK_TRY(self, matmul_job_send(self, job, other, stream));
    RANK_TRY(self, matmul_job_run(self, job, stream));
    RANK_TRY(self, symm_synchronize(job->group, stream));
    symm_matmul_destroy(job->m);
    job->m = NULL;
out:
    return self->report->status;
}

/* Copies a job's memory after the first strategy. */
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

/* Whether unfused runs may have other bits: collectives add what is scaled and rounded. */
static bool scales_early(const struct matmul_case *c)
{
    return matmul_reduces(c) && matmul_alpha(c) != 1;
}

static symm_status run_case(struct rank *self, symm_context *ctx, const struct matmul_case *c,
                            bool any_bits, symm_stream stream)
{
    const uint64_t round = 1 + c->layout;
    char *kept[MATMUL_REGIONS] = {NULL, NULL};
    struct matmul_job job;

    RANK_TRY(self, matmul_job_open(self, ctx, symm_context_world(ctx), c, &job));
    for (int s = 0; s < NSTRATEGIES; s++) {
        job.c.strategy = strategies[s];
        if (!has_strategy(c, strategies[s]))
            continue;
        RANK_TRY(self, create_and_run(self, &job, round, stream));
        if (s == 0)
            RANK_TRY(self, matmul_job_look(self, &job));
        else if (any_bits || !c->same_bits || scales_early(c))
            CHECK_RANK_MSG(self, matmul_wrong(&job, self->nranks) == 0, "wrong: %s",
                           matmul_text(&job.c));
        else
            CHECK_RANK_MSG(self, as_kept(&job, kept), "other bits: %s", matmul_text(&job.c));
        if (s == 0)
            keep(&job, kept);
        RANK_TRY(self, run_and_destroy(self, &job, stream));
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
        struct matmul_case c = plan->cases       ? plan->cases[i]
                               : plan->collected ? matmul_draw_collected((uint64_t)i, self->nranks)
                                                 : matmul_draw((uint64_t)i, self->nranks);
        c.same_bits = i % 2 == 1; /* else k may be split */
        if (c.same_bits && c.schedule == SYMM_SCHEDULE_STREAM_K)
            c.schedule = SYMM_SCHEDULE_AUTO;
        RANK_TRY(self, run_case(self, ctx, &c, plan->any_bits, stream));
    }
    RANK_TRY(self, symm_exchange(symm_context_world(ctx), NULL, 0, NULL));
    RANK_TRY(self, symm_memory_usage(ctx, &after));
    CHECK_RANK(self, after.requested == before.requested && after.internal == before.internal);
out:
    symm_stream_destroy(stream);
    symm_context_destroy(ctx);
}

static void force(const char *setting, int number)
{
    char text[12];

    snprintf(text, sizeof text, "%d", number);
    setenv(setting, text, 1);
}

void matmul_force_shape(int index)
{
    force("SYMM_MATMUL_SHAPE", 1 + index % MATMUL_SHAPES);
}

void matmul_force_plain(int index)
{
    force("SYMM_MATMUL_PLAIN", 1 + index % MATMUL_PLAIN_SHAPES);
}

int matmul_hopper_launches(int rank)
{
    return trace_count(rank, "block=384,1,1") + trace_count(rank, "block=512,1,1");
}

void matmul_weaken_memory(int seed_offset)
{
    char seed[32];

    snprintf(seed, sizeof seed, "%d", 1 + (int)(reference_seed() % 10000) + seed_offset);
    setenv("SYMM_EMULATED_SEED", seed, 1);
    setenv("SYMM_EMULATED_WEAK", "1", 1);
    setenv("SYMM_EMULATED_BLOCK", "32", 1); /* small blocks yield more often */
}
