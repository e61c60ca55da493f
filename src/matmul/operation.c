/* The kinds of products, and their strategies. */
#include "matmul/plan/order.h"
#include "product.h"

/* --------------------------------------------------------------------------------------- matmul */

static symm_status run_local(struct symm_matmul_run *run)
{
    return symm__matmul_multiply(run, 0, 1);
}

/* --------------------------------------------------------------------------- all-gather, matmul */

static symm_status prepare_gather(struct symm_call *call, struct symm_matmul *m)
{
    struct symm_vote ready = {0};
    symm_status st;

    if (m->plan.workspace_nbytes == 0)
        return SYMM_OK;
    TRY(symm__transport_alloc(call, m, &m->transport));
    TRY(symm__transport_provide(call, &m->transport));
    ready.status = symm__transport_prepare(call, &m->transport);
    st = symm__matmul_vote(call, &ready);
out:
    return st;
}

/* Enqueues products, and on a side stream the transfers of their rows. */
static symm_status run_overlapped(struct symm_matmul_run *run,
                                  symm_status (*multiply)(const struct symm_matmul_run *run))
{
    struct symm_round round = {.t = &run->m->transport,
                               .call = run->call,
                               .shards = &run->shards,
                               .sender_nbytes = run->multiplier->sender_nbytes};
    symm_status st;

    run->sends = true;
    TRY(symm__side_stream_take(run->call, SYMM_URGENT, &round.side));
    TRY(symm__side_stream_mark(round.side));
    st = symm__transport_open(&round);
    if (st == SYMM_OK)
        st = multiply(run);
    st = symm__side_stream_finish(round.side, st);
out:
    return st;
}

/* The tiles wait for their rows. */
static symm_status multiply_all(const struct symm_matmul_run *run)
{
    return symm__matmul_multiply(run, 0, run->problem.nranks);
}

static symm_status run_fused(struct symm_matmul_run *run)
{
    return run_overlapped(run, multiply_all);
}

/* One product after the other, each after all rows of its rank. */
static symm_status multiply_shards(const struct symm_matmul_run *run)
{
    symm_status st;

    TRY(symm__matmul_multiply(run, 0, 1));
    for (int step = 1; step < run->problem.nranks; step++) {
        TRY(symm__transport_await(run->call, &run->m->transport, step));
        TRY(symm__matmul_multiply(run, step, step + 1));
    }
out:
    return st;
}

static symm_status run_pipelined(struct symm_matmul_run *run)
{
    return run_overlapped(run, multiply_shards);
}

static symm_status run_unfused(struct symm_matmul_run *run)
{
    symm_status st;

    TRY(symm__transport_all_gather(run->call, &run->m->transport, &run->shards));
    st = symm__matmul_multiply(run, 0, run->problem.nranks);
out:
    return st;
}

static symm_status finish_gather(struct symm_matmul_run *run)
{
    return symm__transport_copy(run->call, &run->m->transport, &run->shards,
                                &run->problem.gathered_a.matrix);
}

/* ------------------------------------------------------- matmul, sums or columns of all ranks */

static symm_status prepare_collect(struct symm_call *call, struct symm_matmul *m)
{
    struct symm_vote ready = {0};
    symm_status st;

    if (m->plan.strategy == SYMM_STRATEGY_AUTO)
        return SYMM_OK;
    TRY(symm__collect_alloc(call, m, &m->collect));
    ready.status = symm__collect_prepare(call, &m->collect);
    st = symm__matmul_vote(call, &ready);
out:
    return st;
}

/* One product, whose results go where the plan says. Other ranks wait for this rank's results. */
static symm_status run_collected(struct symm_matmul_run *run)
{
    symm_status st;

    run->sends = true;
    TRY(symm__matmul_multiply(run, 0, symm__steps_of(&run->problem, run->m->plan.sink)));
    st = symm__collect_enqueue(run->call, &run->m->collect, &run->product, &run->problem,
                               symm__matmul_adds(run));
out:
    return st;
}

/* A product for each owner, whose results go to its slot. */
static symm_status run_collected_by_owners(struct symm_matmul_run *run)
{
    symm_status st;

    run->sends = true;
    for (int step = 0; step < symm__steps_of(&run->problem, run->m->plan.sink); step++)
        TRY(symm__matmul_multiply(run, step, step + 1));
    st = symm__collect_enqueue(run->call, &run->m->collect, &run->product, &run->problem,
                               symm__matmul_adds(run));
out:
    return st;
}

/* ------------------------------------------------------------------------------------ the table */

#define COLLECTING(operation_name)                                                                 \
    {                                                                                              \
        .name = (operation_name), .collective = true, .plan = symm__matmul_plan_collected,         \
        .prepare = prepare_collect, .run = {                                                       \
            [SYMM_STRATEGY_AUTO] = run_local, /* one rank */                                       \
            [SYMM_STRATEGY_FUSED] = run_collected,                                                 \
            [SYMM_STRATEGY_PIPELINED] = run_collected_by_owners,                                   \
            [SYMM_STRATEGY_UNFUSED] = run_collected                                                \
        }                                                                                          \
    }

static const struct symm_matmul_operation operations[] = {
    [SYMM_MATMUL] = {.name = "matmul",
                     .plan = symm__matmul_plan,
                     .run = {[SYMM_STRATEGY_AUTO] = run_local}},
    [SYMM_ALL_GATHER_MATMUL] = {.name = "all_gather",
                                .collective = true,
                                .plan = symm__matmul_plan,
                                .prepare = prepare_gather,
                                .run = {[SYMM_STRATEGY_AUTO] = run_local, /* one rank */
                                        [SYMM_STRATEGY_FUSED] = run_fused,
                                        [SYMM_STRATEGY_PIPELINED] = run_pipelined,
                                        [SYMM_STRATEGY_UNFUSED] = run_unfused},
                                .finish = finish_gather},
    [SYMM_MATMUL_REDUCE_SCATTER] = COLLECTING("reduce_scatter"),
    [SYMM_MATMUL_ALL_REDUCE] = COLLECTING("all_reduce"),
    [SYMM_MATMUL_ALL_SCATTER] = COLLECTING("all_scatter"),
};

const struct symm_matmul_operation *symm__matmul_operation(symm_matmul_kind kind)
{
    return (size_t)kind < sizeof operations / sizeof operations[0] ? &operations[kind] : NULL;
}
