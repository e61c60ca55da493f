/* The entries of products: create, run, trace, destroy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "as_if.h"
#include "collectives/collective.h"
#include "matmul/collect/sums.h"
#include "matmul/cublas/cublas.h"
#include "matmul/sm90/host.h"
#include "name.h"
#include "product.h"
#include "rival.h"
#include "runtime/api/scope.h"
#include "runtime/base/log.h"
#include "runtime/group/capture.h"
#include "runtime/group/domains.h"
#include "runtime/group/kernel.h"

/* ------------------------------------------------------------------------------------ creating */

symm_status symm__matmul_vote(struct symm_call *call, struct symm_vote *vote)
{
    vote->text = call->text;
    vote->fd = -1;
    return symm__host_comm_vote(call->group->comm, vote,
                                symm__deadline_in(call->group->ctx->timeout_ms));
}

/* Measured times: of all rows by the faster multiplier, of a rank's rows, by symm's kernels. */
enum { OF_ALL, OF_SHARE, BY_SYMM, NTIMES };

/* Values that may differ between ranks and determine the plan. */
struct own_part {
    int64_t columns, k, cublas, wgmma, split, shape, plain, only_sums;
    int64_t sums_order; /* see symm__sums_order() */
    int64_t ns[NTIMES]; /* 0: not measured */
};

/*
 * Votes on errors first, so that an error of one rank is no mismatch. Then the ranks compare the
 * product. The numbers of columns and k may differ: the plan is for the maximum. The multipliers
 * may differ too: other ranks do not depend on them.
 */
static symm_status agree(struct symm_call *call, symm_status mine, const struct symm_matmul *m,
                         const struct own_part *own, struct own_part *all)
{
    struct symm_vote able = {.status = mine},
                     same = {.mine = own, .nbytes = sizeof *own, .all = all};
    symm_status st;

    TRY(symm__matmul_vote(call, &able));
    symm__matmul_name(call, m);
    TRY(symm__matmul_vote(call, &same));
out:
    return st;
}

/* The time of the sums by the group's collectives; 0: not all ranks can use them. */
static double sums_us(const struct symm_matmul *m, const struct own_part *parts, int nparts)
{
    const struct symm_group *group = m->group;
    struct symm_limits limits;

    if (m->transport.view.flags & SYMM_VIEW_PLAYED)
        return 0;
    for (int i = 0; i < nparts; i++)
        if (parts[i].sums_order == 0 || parts[i].sums_order != parts[0].sums_order)
            return 0;
    limits = symm__collective_limits(group);
    /* They are made before the first run. */
    limits.areas = symm__areas_full(group->ctx->agreed.staging_nbytes, group->nranks);
    return symm__sums_us(&limits, &m->problem);
}

/* The time of the slowest rank; 0: not all ranks have measured it. */
static double slowest_us(const struct own_part *parts, int nparts, int time)
{
    int64_t most = 0;

    for (int i = 0; i < nparts; i++) {
        if (parts[i].ns[time] == 0)
            return 0;
        most = parts[i].ns[time] > most ? parts[i].ns[time] : most;
    }
    return (double)most / 1e3;
}

static void plan(struct symm_matmul *m, const struct own_part *parts, int nparts)
{
    const struct symm_agreed *agreed = &m->group->ctx->agreed;
    const uint32_t flags = m->transport.view.flags;
    struct symm_matmul_limits limits = {.nsms = agreed->nsms,
                                        .max_threads = agreed->max_threads,
                                        .cublas = true,
                                        .split = !(flags & SYMM_VIEW_PLAYED),
                                        .shape = (int)parts[0].shape,
                                        .plain = (int)parts[0].plain,
                                        .cublas_us = slowest_us(parts, nparts, OF_ALL),
                                        .share_us = slowest_us(parts, nparts, OF_SHARE),
                                        .own_us = slowest_us(parts, nparts, BY_SYMM),
                                        .only_sums = true,
                                        .multicast = flags & SYMM_VIEW_MULTICAST,
                                        .sums_us = sums_us(m, parts, nparts),
                                        .engine_nbytes = agreed->matmul_engine_nbytes};
    struct symm_problem most_k = m->problem;
    int64_t most = 0;

    for (int i = 0; i < nparts; i++) {
        most = parts[i].columns > most ? parts[i].columns : most;
        most_k.k = parts[i].k > most_k.k ? (int32_t)parts[i].k : most_k.k;
        limits.cublas = limits.cublas && parts[i].cublas;
        limits.wgmma = limits.wgmma || parts[i].wgmma;
        limits.split = limits.split && parts[i].split;
        limits.shape = limits.shape == parts[i].shape ? limits.shape : 0;
        limits.plain = limits.plain == parts[i].plain ? limits.plain : 0;
        limits.only_sums = limits.only_sums && parts[i].only_sums;
    }
    m->plan = m->operation->plan(&limits, &most_k, most);
}

/*
 * If rows arrive during the run, or results leave during it, cuBLASLt multiplies the rows of one
 * rank at a time, or none: a product of its own neither waits for rows nor has several
 * destinations. Partial sums for a collective have another layout. The ranks have agreed by now, so
 * after a failure, symm's kernels compute as without cuBLASLt.
 */
static void suit_cublas_to_plan(struct symm_matmul *m)
{
    const bool had = m->cublas != NULL, by_ranks = m->plan.strategy == SYMM_STRATEGY_PIPELINED;
    struct symm_context *ctx = m->group->ctx;
    struct symm_problem product;

    if (m->plan.chunks == 0 && m->plan.sink == SYMM_TO_D && !m->plan.collective &&
        m->plan.sums != SYMM_SUMS_BANDS)
        return;
    symm__cublas_release(m->cublas);
    m->cublas = NULL;
    if (!had || (!by_ranks && !m->plan.collective))
        return;
    symm__collect_product(&m->collect, &m->problem, &product);
    if (symm__cublas_prepare(ctx, &product, by_ranks ? m->transport.view.nranks : 1, &m->cublas) !=
        SYMM_OK)
        symm__log(&ctx->log, SYMM_LOG_WARNING, "a product does not use cuBLASLt: %s",
                  symm__failure_text());
}

/* The plan of symm's kernels for all rows, with the bits of all rows in one matrix. */
static struct symm_matmul_plan rival_plan(const struct symm_matmul *m)
{
    struct symm_problem all;

    symm__collect_product(&m->collect, &m->problem, &all);
    all.same_bits = true;
    all.rank = all.collect_rank = 0;
    all.nranks = all.collect_nranks = 1;
    return symm__rival_plan(m, &all);
}

/* Whether AUTO chooses among the strategies of an all-gather product. */
static bool auto_gathers(const struct symm_problem *p)
{
    return p->nranks > 1 && p->strategy == SYMM_STRATEGY_AUTO;
}

static int64_t ns_of(double us)
{
    return (int64_t)(us * 1e3);
}

/*
 * Times the multipliers, if AUTO may know: in any order, or if all strategies have the same bits,
 * whichever is faster. Strategies of sums need not: see symm_matmul_create() about alpha.
 */
static symm_status measure(const struct symm_matmul *m, const struct symm_cublas_rival *rival,
                           int64_t ns[NTIMES])
{
    const struct symm_problem *p = &m->problem;
    const bool gathers = auto_gathers(p);
    struct symm_cublas_product *shares = NULL;
    struct symm_cublas_times all;
    symm_status st;

    if (!m->cublas || p->strategy == SYMM_STRATEGY_FUSED || (!gathers && !p->any_order))
        return SYMM_OK;
    all = symm__cublas_measure(m->cublas, rival);
    if (rival_plan(m).split.k_parts == 0) /* fused runs have no other kernel than tiles */
        ns[BY_SYMM] = ns_of(all.own);
    ns[OF_ALL] = ns_of(all.own > 0 && all.own < all.cublas ? all.own : all.cublas);
    if (!gathers)
        return SYMM_OK;
    TRY(symm__cublas_prepare(m->group->ctx, p, p->nranks, &shares));
    ns[OF_SHARE] = ns_of(symm__cublas_measure(shares, rival).cublas);
    if (ns[OF_SHARE] == 0 && !p->any_order) /* perhaps with other bits */
        memset(ns, 0, NTIMES * sizeof *ns);
    symm__cublas_release(shares);
out:
    return st;
}

/*
 * Lets the products pick their algorithms. Measured times may give a product to symm's kernels: in
 * the place of cuBLASLt, or as AUTO's fused all-gather. They add k in order then, as in the trial,
 * so the bits do not depend on these times. A plan of packs keeps its kernel and its parts of k.
 * had: cuBLASLt could compute before the plan.
 */
static void settle(struct symm_matmul *m, const struct symm_cublas_rival *rival, bool had)
{
    const symm_strategy strategy = m->plan.strategy;
    const bool packs = m->plan.sums == SYMM_SUMS_PACKS;
    bool in_order = had && strategy == SYMM_STRATEGY_FUSED && auto_gathers(&m->problem);

    if (m->cublas) {
        symm__cublas_settle(&m->cublas, packs ? NULL : rival);
        in_order = !m->cublas && !packs;
        if (in_order && rival && strategy != SYMM_STRATEGY_PIPELINED) {
            m->plan.split = rival_plan(m).split;
            m->plan.plain = rival_plan(m).plain;
        }
    }
    if (in_order && !m->problem.any_order)
        m->problem.schedule = SYMM_SCHEDULE_DATA_PARALLEL;
}

/* Makes the plan and its memory; of a collective product together with the other ranks. */
static symm_status prepare(struct symm_call *call, symm_status mine, bool collective,
                           struct symm_matmul *m)
{
    struct own_part own = {0}, all[SYMM_MAX_RANKS];
    struct symm_rival kernels;
    const struct symm_cublas_rival *rival = mine == SYMM_OK ? symm__rival(call, m, &kernels) : NULL;
    const bool had = m && m->cublas;
    symm_status st;

    if (mine == SYMM_OK)
        own = (struct own_part){.columns = symm__problem_columns(&m->problem),
                                .k = m->problem.k,
                                .cublas = m->cublas != NULL,
                                .wgmma = m->wgmma.usable,
                                .split = m->wgmma.splits,
                                .shape = m->wgmma.shape,
                                .plain = m->wgmma.plain,
                                .only_sums = symm__only_sums(&m->problem),
                                .sums_order = symm__sums_order(&m->problem)};
    if (mine == SYMM_OK)
        mine = measure(m, rival, own.ns);
    if (!collective && mine != SYMM_OK)
        return symm__fail_on(SYMM_ON(call->group), mine, "%s", "");
    if (!collective) {
        plan(m, &own, 1);
        settle(m, rival, had);
        return SYMM_OK;
    }
    TRY(agree(call, mine, m, &own, all));
    plan(m, all, call->group->nranks);
    suit_cublas_to_plan(m);
    settle(m, rival, had);
    st = m->operation->prepare(call, m);
out:
    return st;
}

static void release(struct symm_attachment *attachment)
{
    struct symm_matmul *m = (struct symm_matmul *)attachment;

    symm__cublas_release(m->cublas);
    symm__trace_close(&m->trace);
    symm__memory_free_owner(m->group->ctx->memory, m);
    free(m);
}

/* Sets m's members, of which some point into m. */
static void init(struct symm_matmul *m, struct symm_group *group, const struct symm_problem *p,
                 const symm_view *view)
{
    *m = (struct symm_matmul){
        .attachment.release = release,
        .group = group,
        .operation = symm__matmul_operation(p->kind),
        .problem = *p,
        .transport = {.group = group, .problem = &m->problem, .plan = &m->plan, .view = *view},
        .collect = {.group = group,
                    .view = &m->transport.view,
                    .problem = &m->problem,
                    .plan = &m->plan},
        .number = group->ncalls,
    };
}

/* Reads the description, for the ranks of *view. */
static symm_status read(const struct symm_group *group, const symm_matmul_desc *desc,
                        struct symm_problem *p, symm_view *view)
{
    symm_status st;

    TRY(symm__domains_refuse(group));
    TRY(symm__as_if(group, desc ? desc->kind : SYMM_MATMUL, view));
    TRY(symm__problem_read(desc, view->rank, view->nranks, p));
    st = symm__as_if_check(view, p);
out:
    return st;
}

symm_status symm_matmul_create(symm_group *group, const symm_matmul_desc *desc, symm_matmul **out)
{
    struct symm_matmul *m = calloc(1, sizeof *m);
    const bool collective = !desc || desc->kind != SYMM_MATMUL;
    struct symm_problem p = {.nranks = 1}, product;
    struct symm_call call;
    symm_view view;
    symm_status st, mine = SYMM_OK;

    if (group)
        mine = read(group, desc, &p, &view);
    if (mine == SYMM_OK && !out)
        mine = symm__fail(SYMM_ERROR_ARGUMENT, "out is NULL");
    if (mine == SYMM_OK && !m)
        mine = symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    TRY(symm__collective_begin(&call, group, collective, "symm_matmul_create"));
    if (m)
        init(m, group, &p, &view);
    if (mine == SYMM_OK)
        mine = symm__problem_check_data(&p, group->ctx->memory);
    if (mine == SYMM_OK)
        mine = symm__kernels_load(group->ctx, group->ctx->kernels, SYMM_IMAGES_PRODUCTS);
    if (mine == SYMM_OK && p.traced)
        mine = symm__trace_open(group->ctx, &m->transport.view, &m->trace);
    if (mine == SYMM_OK)
        mine = symm__wgmma_enable(group->ctx, &m->transport.view, &m->wgmma);
    if (mine == SYMM_OK) {
        symm__collect_product(&m->collect, &p, &product);
        mine = symm__cublas_prepare(group->ctx, &product, 1, &m->cublas);
    }
    TRY(symm__collective_end(&call, prepare(&call, mine, collective, m)));
    symm__group_attach(group, &m->attachment);
    *out = m;
    m = NULL;
out:
    symm_matmul_destroy(m);
    return st;
}

void symm_matmul_destroy(symm_matmul *m)
{
    if (!m)
        return;
    if (!m->group || symm__forked(m->group->ctx)) {
        free(m);
        return;
    }
    symm__group_detach(m->group, &m->attachment);
    release(&m->attachment);
}

symm_strategy symm_matmul_strategy(const symm_matmul *m)
{
    return m ? m->plan.strategy : SYMM_STRATEGY_AUTO;
}

/* ------------------------------------------------------------------------------------- running */

static symm_status enqueue(struct symm_matmul_run *run)
{
    const struct symm_matmul *m = run->m;
    symm_status st;

    if (m->trace.room)
        TRY(symm__trace_clear(&m->trace, run->call->stream, symm__transport_sends(&m->transport)));
    symm__collect_product(&m->collect, &run->problem, &run->product);
    TRY(symm__transport_locate(run->call, &m->transport, &run->product, &run->shards));
    symm__matmul_choose(run);
    TRY(m->operation->run[m->plan.strategy](run));
    if (m->operation->finish)
        st = m->operation->finish(run);
out:
    return st;
}

/*
 * A run that fails after sending began leaves missing rows and stale signals, so it aborts the
 * group.
 */
static symm_status abort_group(const struct symm_matmul_run *run, symm_status st)
{
    char why[SYMM_TEXT_MAX];

    snprintf(why, sizeof why, "%s", symm__failure_text());
    symm__host_comm_abort(run->m->group->comm, SYMM_ERROR_PEER, why);
    return symm__fail(st, "%s", why);
}

/*
 * The text has values that all ranks share. Factors are exact in it, and -0 is 0, so equal factors
 * have equal texts.
 */
static symm_status begin(struct symm_call *call, const struct symm_matmul *m,
                         const struct symm_problem *p, symm_stream stream)
{
    const bool collects = symm__kind_collects(p->kind);

    if (symm__kind_reduces(p->kind))
        return symm__call_begin(
            call, m->group, stream, m->operation->collective,
            "symm_matmul_run(the product of call %llu, %s, m %d, n %d, alpha %a, beta %a)",
            (unsigned long long)m->number, m->operation->name, p->m, p->d[0].columns,
            (double)p->alpha + 0.0, (double)p->beta + 0.0);
    return symm__call_begin(call, m->group, stream, m->operation->collective,
                            "symm_matmul_run(the product of call %llu, %s, m %d, %s %d)",
                            (unsigned long long)m->number, m->operation->name, p->m,
                            collects ? "n" : "k", collects ? p->d[0].columns : p->k);
}

symm_status symm_matmul_run(symm_matmul *m, const symm_matmul_args *args, symm_stream stream)
{
    struct symm_matmul_run run = {.m = m};
    struct symm_call call;
    symm_status st;

    if (!m)
        return symm__fail(SYMM_ERROR_ARGUMENT, "symm_matmul_run: m is NULL");
    TRY(symm__enter(m->group, "symm_matmul_run"));
    st = symm__problem_bind(&m->problem, args, m->group->ctx->memory, &run.problem);
    if (st != SYMM_OK)
        return symm__fail_on(SYMM_ON(m->group), st, "symm_matmul_run: ");
    TRY(begin(&call, m, &run.problem, stream));
    run.call = &call;
    st = symm__call_end(&call, enqueue(&run));
    /* In a capture nothing has been sent. */
    if (st != SYMM_OK && run.sends && !call.capturing)
        st = abort_group(&run, st);
out:
    return st;
}

/* ------------------------------------------------------------------------------------- tracing */

static symm_status check_trace(const symm_matmul *m, const symm_matmul_event **events,
                               const size_t *nevents, const size_t *ndropped)
{
    symm_status st;

    TRY(symm__need(events, "events"));
    TRY(symm__need(nevents, "nevents"));
    TRY(symm__need(ndropped, "ndropped"));
    if (!m->problem.traced)
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "m was created with flags %#x, without "
                          "SYMM_MATMUL_TRACE",
                          (m->problem.same_bits ? SYMM_MATMUL_SAME_BITS : 0u) |
                              (m->problem.any_order ? SYMM_MATMUL_ANY_ORDER : 0u) |
                              (m->problem.constant_b ? SYMM_MATMUL_CONSTANT_B : 0u));
    st = symm__capture_forbids(m->group);
out:
    return st;
}

symm_status symm_matmul_trace(symm_matmul *m, const symm_matmul_event **events, size_t *nevents,
                              size_t *ndropped)
{
    struct symm_scope scope = {.drv = NULL};
    symm_status st;

    if (!m)
        return symm__fail(SYMM_ERROR_ARGUMENT, "symm_matmul_trace: m is NULL");
    TRY(symm__enter(m->group, "symm_matmul_trace"));
    st = symm__scope_begin_in(&scope, m->group->ctx);
    if (st == SYMM_OK)
        st = check_trace(m, events, nevents, ndropped);
    if (st == SYMM_OK)
        st = symm__trace_read(&m->trace, events, nevents, ndropped);
    if (st != SYMM_OK)
        symm__fail_on(SYMM_ON(m->group), st, "symm_matmul_trace: ");
    symm__scope_end(&scope, SYMM_OK, "symm_matmul_trace");
out:
    return st;
}
