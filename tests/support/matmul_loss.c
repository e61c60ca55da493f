/* Products until the last rank has gone. */
#include "matmul_loss.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include "exercise.h"
#include "matmul_bench.h"

/* Values of a report; the first one counts jobs. */
enum { RUNS = 1, DONE, LEFT_MS, TOLD_MS }; /* runs: enqueued; done: waited for */

enum { LIMIT_S = 60, KEPT_MOST = 4 << 20 /* by the driver */ };

/* How much memory is free while a product works in a world of all but the last rank. */
static symm_status work_without_the_last(struct rank *self, const char *name, size_t *available)
{
    struct matmul_bench b = {0};

    RANK_TRY(self, rank_join_without(self, self->nranks - 1, name, &b.ctx));
    if (matmul_bench_open_in(self, &b, &matmul_works) == SYMM_OK &&
        matmul_bench_works(self, &b) == SYMM_OK)
        *available = exercise_free_memory(b.ctx);
out:
    matmul_bench_close(&b);
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

static symm_status capture(struct rank *self, struct matmul_bench *b, symm_graph *graph)
{
    RANK_TRY(self, symm_graph_begin(b->stream));
    if (matmul_job_run(self, &b->job, b->stream) == SYMM_OK)
        RANK_TRY(self, symm_graph_end(b->stream, graph));
out:
    return self->report->status;
}

static symm_status run_burst(struct rank *self, struct matmul_bench *b, symm_graph graph, int burst)
{
    for (int i = 0; i < burst; i++) {
        if (graph)
            RANK_TRY(self, symm_graph_launch(graph, b->stream));
        else if (matmul_job_run(self, &b->job, b->stream) != SYMM_OK)
            goto out;
        self->report->value[RUNS]++;
    }
    RANK_TRY(self, symm_synchronize(b->world, b->stream));
    self->report->value[DONE] = self->report->value[RUNS];
out:
    return self->report->status;
}

static symm_status run_round(struct rank *self, struct matmul_bench *b, symm_graph graph,
                             const struct matmul_loss *loss)
{
    const bool leaves = loss->gives_up && self->rank == self->nranks - 1;

    if (matmul_job_send(self, &b->job, ++b->round, b->stream) != SYMM_OK)
        return self->report->status;
    if (leaves && self->report->value[RUNS] == 2 * loss->burst) {
        pause_ms(100);
        self->report->value[LEFT_MS] = now_ms();
        symm_abort(b->world, "that is enough");
    }
    if (run_burst(self, b, graph, loss->burst) != SYMM_OK ||
        matmul_job_fetch(self, &b->job, NULL, b->stream) != SYMM_OK)
        return self->report->status;
    return matmul_job_look(self, &b->job);
}

static void run_until_the_end(struct rank *self, const struct matmul_loss *loss)
{
    struct matmul_bench b = {0};
    symm_graph graph = NULL;

    if (matmul_bench_open(self, &b, &loss->c) != SYMM_OK ||
        matmul_bench_works(self, &b) != SYMM_OK ||
        (loss->replayed && capture(self, &b, &graph) != SYMM_OK))
        goto out;
    while (run_round(self, &b, graph, loss) == SYMM_OK)
        ;
    self->report->value[TOLD_MS] = now_ms();
    CHECK_RANK_MSG(self, self->report->status == SYMM_ERROR_PEER, "%s: %s",
                   symm_status_name(self->report->status), self->report->text);
    self->report->failed[0] = 0; /* that a call was not OK is no failure here */
    rank_note(self, SYMM_OK);
out:
    symm_graph_destroy(graph);
    matmul_bench_close(&b);
}

static void lose_a_rank(struct rank *self, void *arg)
{
    const bool stays = self->rank < self->nranks - 1;
    size_t before = 0, after = 0;

    if (stays && work_without_the_last(self, "before", &before) != SYMM_OK)
        return;
    run_until_the_end(self, arg);
    if (!stays || self->report->failed[0] ||
        work_without_the_last(self, "after", &after) != SYMM_OK)
        return;
    CHECK_RANK_MSG(self, before && after + KEPT_MOST > before, "%zu bytes free, then %zu", before,
                   after);
out:
    return;
}

int64_t matmul_lose_the_last(struct matmul_loss *loss, int nranks)
{
    const int victim = nranks - 1;
    const int64_t burst = loss->burst;
    struct rank_report reports[RANKS_MAX];
    struct ranks *run = ranks_start(nranks, RANKS_AS_PROCESSES, lose_a_rank, loss);
    int64_t left = 0, last = 0;
    char who[64];
    int used = snprintf(who, sizeof who, "rank %d", victim);

    if (!loss->gives_up) {
        snprintf(who + used, sizeof who - (size_t)used, " (pid %d) died",
                 (int)ranks_pid(run, victim));
        left = ranks_kill_at(run, victim, RUNS, 2 * burst + burst / 2 + 1);
    }
    const char *missing = ranks_finish(run, reports, LIMIT_S);
    ck_assert_msg(!missing, "%s", missing);
    ranks_assert_ok(reports, loss->gives_up ? nranks : victim);
    if (!loss->gives_up) {
        ck_assert_int_eq(reports[victim].end, RANK_KILLED);
        ck_assert_msg(burst == 1 || reports[victim].value[RUNS] > reports[victim].value[DONE],
                      "it was killed between two rounds");
    } else {
        left = reports[victim].value[LEFT_MS];
    }
    for (int r = 0; r < victim; r++) {
        const int64_t took = reports[r].value[TOLD_MS] - left;
        ck_assert_msg(strstr(reports[r].text, who), "rank %d: no %s in: %s", r, who,
                      reports[r].text);
        last = took > last ? took : last;
    }
    return last;
}
