/*
 * Creates and destroys contexts. Local work comes first. Its failure is voted in the first vote, so
 * that the other ranks get the reason instead of a timeout. All later failures are verdicts of
 * votes.
 */
#include "context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/settings.h"
#include "runtime/driver/device.h"
#include "abort_line.h"
#include "call.h"
#include "capability.h"
#include "capture.h"
#include "domains.h"
#include "gather.h"
#include "group.h"
#include "kernel.h"
#include "tuning.h"

/* ------------------------------------------------------------------------------------ alone */

static symm_status open_device(struct symm_context *ctx, const char *driver, const char *device)
{
    symm_status st;

    TRY(symm__driver_open(driver, &ctx->drv));
    TRY(symm__device_choose(ctx->drv, device, &ctx->join, &ctx->device));
    TRY_CU(ctx->drv, cuCtxGetCurrent, &ctx->before);
    TRY_CU(ctx->drv, cuDevicePrimaryCtxRetain, &ctx->primary, ctx->device);
    TRY_CU(ctx->drv, cuCtxSetCurrent, ctx->primary);
    TRY_CU(ctx->drv, cuStreamCreate, &ctx->own_stream, CU_STREAM_NON_BLOCKING);
    TRY(symm__abort_lines_create(ctx->drv, &ctx->abort_lines));
    TRY(symm__kernels_open(ctx, &ctx->kernels));
out:
    return st;
}

/* A tuning file belongs to a driver, a version of symm and a device: tuning.h. */
static symm_status load_tuning(struct symm_context *ctx, const char *file)
{
    char device[256], machine[320];
    symm_status st;

    TRY_CU(ctx->drv, cuDeviceGetName, device, sizeof device, ctx->device);
    snprintf(machine, sizeof machine, "%s %d.%d.%d %s", ctx->drv->name, SYMM_VERSION_MAJOR,
             SYMM_VERSION_MINOR, SYMM_VERSION_PATCH, device);
    TRY(symm__tuning_load(file, machine, &ctx->tuning));
out:
    return st;
}

static symm_status check_reserved(const symm_config *config)
{
    for (size_t i = 0; i < sizeof config->reserved / sizeof config->reserved[0]; i++)
        if (config->reserved[i])
            return symm__fail(SYMM_ERROR_ARGUMENT, "config.reserved[%zu] is %llu, not 0", i,
                              (unsigned long long)config->reserved[i]);
    if (config->reserved32)
        return symm__fail(SYMM_ERROR_ARGUMENT, "config.reserved32 is %u, not 0",
                          config->reserved32);
    return SYMM_OK;
}

/* After a failure the defaults hold, by which this rank meets the others to tell them. */
static symm_status read_config(struct symm_context *ctx, const symm_config *config)
{
    int64_t slow, timeout;
    symm_status st;

    ctx->slow_ms = (int)symm__setting_default(SYMM_SETTING_SLOW_MS);
    ctx->timeout_ms = (int)symm__setting_default(SYMM_SETTING_TIMEOUT_MS);
    TRY(check_reserved(config));
    TRY(symm__setting_int(SYMM_SETTING_SLOW_MS, 1, INT32_MAX, &slow));
    TRY(symm__setting_int(SYMM_SETTING_TIMEOUT_MS, -1, INT32_MAX, &timeout));
    if (config->hold != 0 && config->hold != 1)
        return symm__fail(SYMM_ERROR_ARGUMENT, "config.hold is %d; it may be 0 or 1", config->hold);
    if (config->slow_ms < 0)
        return symm__fail(SYMM_ERROR_ARGUMENT, "config.slow_ms is %d", config->slow_ms);
    if (config->timeout_ms < -1)
        return symm__fail(SYMM_ERROR_ARGUMENT, "config.timeout_ms is %d; -1 means never",
                          config->timeout_ms);
    if (config->timeout_ms == 0 && timeout == 0)
        return symm__fail(SYMM_ERROR_ARGUMENT, "SYMM_TIMEOUT_MS=0: -1 means never");
    ctx->hold = config->hold;
    ctx->slow_ms = config->slow_ms ? config->slow_ms : (int)slow;
    ctx->timeout_ms = config->timeout_ms ? config->timeout_ms : (int)timeout;
out:
    return st;
}

/* --------------------------------------------------------------------------------- together */

/*
 * Joins the other ranks. A rank that has failed also joins, without a device, and votes its
 * failure.
 */
static symm_status meet(struct symm_context *ctx, symm_status *mine, const CUuuid *device,
                        struct symm_root *root)
{
    const struct symm_exchange_config config = {
        .join = &ctx->join,
        .log = &ctx->log,
        .arbiter = symm__heap_arbiter(ctx->heap),
        .timeout_ms = ctx->timeout_ms,
        .slow_ms = ctx->slow_ms,
        .device_uuid = *mine == SYMM_OK ? device->bytes : NULL,
        .more_devices = ctx->drv ? symm__device_more(ctx->drv) : "",
        .root = root,
        .tick = symm__stall_tick,
        .user = ctx,
    };
    symm_status st;

    TRY(symm__join_explain(&ctx->join, symm__exchange_open(&config, &ctx->exchange)));
    TRY(symm__group_join_world(ctx, mine, &ctx->domain));
out:
    return st;
}

static symm_status vote(struct symm_context *ctx, struct symm_vote *s)
{
    return symm__host_comm_vote(ctx->domain->comm, s, symm__deadline_in(ctx->timeout_ms));
}

/* A vote in which rank 0 hands out *fd. */
static symm_status hand_out(struct symm_context *ctx, struct symm_vote *s, int *fd)
{
    return symm__host_comm_hand_out(ctx->domain->comm, s, symm__deadline_in(ctx->timeout_ms), fd);
}

/*
 * Votes on the records of all ranks and computes the sizes of memory. Returns the same on all
 * ranks.
 */
static symm_status agree(struct symm_context *ctx, symm_status mine,
                         const struct symm_capability *capability,
                         struct symm_agreed_memory *memory)
{
    int nranks = ctx->join.nranks;
    struct symm_capability *all = calloc((size_t)nranks, sizeof *all);
    struct symm_agreed_memory more, answers[SYMM_MAX_RANKS];
    struct symm_vote gather = {.text = "symm_context_create: capabilities",
                               .status = mine,
                               .mine = capability,
                               .nbytes = sizeof *capability,
                               .all = all,
                               .fd = -1};
    symm_status st;

    if (!all && mine == SYMM_OK)
        gather.status = symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    TRY(vote(ctx, &gather));
    TRY(symm__capability_agree(all, nranks, &ctx->agreed, memory));

    /* Queries that need the agreed values, and each rank's check of its peers. */
    struct symm_vote settle = {.text = "symm_context_create: peers",
                               .mine = &more,
                               .nbytes = sizeof more,
                               .all = answers,
                               .fd = -1};
    memset(&more, 0, sizeof more);
    settle.status = symm__capability_check_peers(ctx->drv, ctx->device, all, nranks);
    if (settle.status == SYMM_OK && !ctx->agreed.multicast_off[0])
        settle.status = symm__capability_multicast(ctx->drv, &ctx->agreed, &more);
    TRY(vote(ctx, &settle));
    symm__capability_settle(answers, nranks, &ctx->agreed, memory);

    struct symm_vote configure = {
        .text = "symm_context_create: window",
        .op = SYMM_HEAP_CONFIGURE,
        .args = {ctx->agreed.window_nbytes, memory->granularity, memory->segment_nbytes}};
    if (!ctx->agreed.multicast_off[0] && ctx->join.rank == 0)
        configure.status = symm__presence_create(&ctx->presence);
    TRY(hand_out(ctx, &configure, &ctx->presence.own));
out:
    free(all);
    return st;
}

static symm_status open_memory(struct symm_context *ctx, const struct symm_agreed_memory *agreed)
{
    const struct symm_memory_config config = {
        .drv = ctx->drv,
        .log = &ctx->log,
        .exchange = ctx->exchange,
        .device = ctx->device,
        .rank = ctx->join.rank,
        .names = ctx->join.names,
        .nranks = ctx->join.nranks,
        .window_nbytes = ctx->agreed.window_nbytes,
        .granularity = agreed->granularity,
        .alignment = agreed->alignment,
        .segment_nbytes = agreed->segment_nbytes,
        .multicast_off = ctx->agreed.multicast_off[0] ? ctx->agreed.multicast_off : NULL,
        .timeout_ms = ctx->timeout_ms,
    };
    struct symm_vote opened = {.text = "symm_context_create: windows reserved"};

    opened.status = symm__memory_open(&config, &ctx->memory);
    return hand_out(ctx, &opened, &ctx->presence.all);
}

/* ---------------------------------------------------------------------------------- release */

/* Releases objects that the user created from the context and did not free. */
static void release_owned(struct symm_context *ctx, symm_status *st)
{
    while (ctx->user_kernels)
        symm_kernel_unload(ctx->user_kernels);
    while (ctx->plain_blocks) {
        struct symm_plain_block *block = ctx->plain_blocks;
        ctx->plain_blocks = block->next;
        if (block->on_host)
            symm__driver_note(ctx->drv, ctx->drv->cuMemFreeHost(block->ptr), "cuMemFreeHost", st);
        else
            symm__driver_note(ctx->drv, ctx->drv->cuMemFree((CUdeviceptr)(uintptr_t)block->ptr),
                              "cuMemFree", st);
        free(block);
    }
}

static void forget_names(struct symm_context *ctx)
{
    while (ctx->kernel_names) {
        struct symm_kernel_name *name = ctx->kernel_names;
        ctx->kernel_names = name->next;
        free(name);
    }
}

/*
 * If this thread still has the context's primary context current, restores the one from before, or
 * none if that was destroyed.
 */
static void restore_current(struct symm_context *ctx)
{
    CUcontext now = NULL;

    if (ctx->drv->cuCtxGetCurrent(&now) == CUDA_SUCCESS && now == ctx->primary &&
        ctx->drv->cuCtxSetCurrent(ctx->before) != CUDA_SUCCESS)
        ctx->drv->cuCtxSetCurrent(NULL);
}

static void keep(symm_status *first, symm_status st)
{
    if (*first == SYMM_OK)
        *first = st;
}

/* Releases everything in the order of the layers. Continues after failures; returns the first. */
static symm_status release(struct symm_context *ctx)
{
    const struct symm_driver *drv = ctx->drv;
    symm_status st = SYMM_OK;
    CUcontext popped;
    bool pushed = ctx->primary && drv->cuCtxPushCurrent(ctx->primary) == CUDA_SUCCESS;

    /* The domain's group was listed first, so it is the last of the list, unless it has failed. */
    bool listed = false;
    for (const struct symm_group *g = ctx->groups; g; g = g->next)
        listed |= g == ctx->domain;
    while (ctx->groups)
        keep(&st, symm__group_release(ctx->groups));
    if (!listed)
        keep(&st, symm__group_release(ctx->domain));
    release_owned(ctx, &st);
    keep(&st, symm__kernels_close(ctx, ctx->kernels));
    if (ctx->memory)
        keep(&st, symm__memory_close(ctx->memory));
    keep(&st, symm__abort_lines_destroy(ctx->abort_lines));
    if (ctx->own_stream)
        symm__driver_note(drv, drv->cuStreamDestroy(ctx->own_stream), "cuStreamDestroy", &st);
    if (pushed)
        drv->cuCtxPopCurrent(&popped);
    symm__presence_close(&ctx->presence);
    symm__exchange_close(ctx->exchange);
    symm__span_destroy(ctx->join.span);
    forget_names(ctx); /* which its thread may have written into texts */
    symm__heap_destroy(ctx->heap);
    symm__tuning_destroy(ctx->tuning);
    if (ctx->primary) {
        restore_current(ctx);
        symm__driver_note(drv, drv->cuDevicePrimaryCtxRelease(ctx->device),
                          "cuDevicePrimaryCtxRelease", &st);
    }
    symm__driver_close(drv);
    pthread_mutex_destroy(&ctx->settled.lock);
    pthread_mutex_destroy(&ctx->owned_lock);
    pthread_mutex_destroy(&ctx->groups_lock);
    symm__fork_mark_clear(&ctx->process);
    free(ctx);
    return st;
}

/* ----------------------------------------------------------------------------------- public */

static void warn_of_settings(const struct symm_log *log)
{
    const char *unknown;

    for (int i = 0; (unknown = symm__setting_unknown(i)); i++)
        symm__log(log, SYMM_LOG_WARNING,
                  "%.200s is no setting of symm (symm-info --env lists them)", unknown);
}

/* Everything on this rank. Returns its failure, which the first vote tells the others. */
static symm_status prepare(struct symm_context *ctx, const symm_config *config,
                           struct symm_capability *capability)
{
    symm_status st;

    TRY(open_device(ctx, config->driver, config->device));
    TRY(load_tuning(ctx, config->tuning_file));
    TRY(symm__capability_read(config, ctx->drv, ctx->device, ctx->tuning, capability));
    capability->world_rank = ctx->join.world_rank;
out:
    return st;
}

/* Everything with the other ranks of the domain. mine: this rank's failure. root: is taken. */
static symm_status create_domain(struct symm_context *ctx, symm_status mine,
                                 const struct symm_capability *capability, struct symm_root *root)
{
    const bool alone = mine != SYMM_OK;
    struct symm_agreed_memory memory;
    char why[SYMM_TEXT_MAX];
    symm_status st;

    strcpy(why, symm__failure_text());
    st = meet(ctx, &mine, &capability->uuid, root);
    /* This rank's own failure came first, so the caller gets its text. */
    if (alone)
        symm__fail(mine, "%s", why);
    if (st != SYMM_OK) {
        st = alone ? mine : st;
        goto out;
    }
    TRY(agree(ctx, mine, capability, &memory));
    TRY(open_memory(ctx, &memory));
    TRY(symm__group_furnish_world(ctx->domain));
out:
    return st;
}

/* mine: this rank's failure, of which the text stays. Other ranks may wait for it here, too. */
static symm_status resolve(const symm_config *config, const struct symm_join_wait *wait,
                           symm_status mine, struct symm_join *join)
{
    char why[SYMM_TEXT_MAX];
    symm_status st;

    strcpy(why, symm__failure_text());
    st = symm__join_resolve(config, wait, join);
    if (mine == SYMM_OK)
        return st;
    symm__fail(mine, "%s", why);
    return st == SYMM_OK ? SYMM_OK : mine;
}

static symm_status create(struct symm_context *ctx, const symm_config *config)
{
    struct symm_capability capability = {0};
    symm_status mine = read_config(ctx, config), st;
    struct symm_root *root = NULL;
    const struct symm_join_wait wait = {.log = &ctx->log,
                                        .deadline = symm__deadline_in(ctx->timeout_ms),
                                        .slow_us = (int64_t)ctx->slow_ms * 1000};

    TRY(resolve(config, &wait, mine, &ctx->join));
    ctx->log.rank = ctx->join.world_rank;
    TRY(symm__heap_create(&ctx->heap));
    mine = symm__domains_root(ctx, mine, &root);
    warn_of_settings(&ctx->log);
    if (mine == SYMM_OK)
        mine = prepare(ctx, config, &capability);
    st = create_domain(ctx, mine, &capability, root);
    if (ctx->join.span)
        st = symm__domains_begin(ctx, st);
    else
        ctx->world = ctx->domain;
    if (st != SYMM_OK)
        goto out;
    symm__log(&ctx->log, SYMM_LOG_INFO,
              "rank %d of %d (%s), domain %d of %d, %s driver, device %d; multicast: %s",
              ctx->join.world_rank, ctx->join.world_nranks, ctx->join.launcher,
              ctx->join.span ? ctx->join.span->domain : 0,
              ctx->join.span ? ctx->join.span->ndomains : 1, ctx->drv->name, ctx->device,
              ctx->domain->multicast_off ? ctx->domain->multicast_off : "on");
out:
    return st;
}

symm_status symm_context_create_v(const symm_config *config, uint32_t version, symm_context **out)
{
    static const symm_config nothing;
    struct symm_context *ctx;
    symm_status st;

    if (version / 100 != SYMM_VERSION / 100)
        return symm__fail(SYMM_ERROR_VERSION,
                          "symm_context_create: the program was compiled for version %u.%u, the "
                          "library is %d.%d",
                          version / 10000, version / 100 % 100, SYMM_VERSION_MAJOR,
                          SYMM_VERSION_MINOR);
    if (!out)
        return symm__fail(SYMM_ERROR_ARGUMENT, "symm_context_create: out is NULL");
    if (symm__driver_forked())
        return symm__fail(SYMM_ERROR_STATE, "symm_context_create: this process was forked from one "
                                            "with a context; fork before, or execute a program");
    if (!config)
        config = &nothing;
    ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return symm__fail(SYMM_ERROR_MEMORY, "symm_context_create: out of host memory");
    ctx->presence = SYMM_NO_PRESENCE;
    symm__fork_mark_set(&ctx->process);
    ctx->log = (struct symm_log){.to = config->log, .user = config->user, .rank = -1};
    pthread_mutex_init(&ctx->groups_lock, NULL);
    pthread_mutex_init(&ctx->owned_lock, NULL);
    pthread_mutex_init(&ctx->settled.lock, NULL);
    st = create(ctx, config);
    if (st != SYMM_OK) {
        char text[SYMM_TEXT_MAX];
        strcpy(text, symm__failure_text()); /* before the clean-up can record another failure */
        release(ctx);
        return symm__fail(st, "symm_context_create: %s", text);
    }
    *out = ctx;
    return SYMM_OK;
}

/* All ranks finish their work before any rank releases memory that others may use. */
static symm_status leave_together(struct symm_context *ctx, struct symm_call *call)
{
    struct symm_vote s = {.text = call->text, .fd = -1};

    for (struct symm_group *g = ctx->groups; g && s.status == SYMM_OK; g = g->next)
        s.status = symm__group_quiesce(g);
    return symm__collective_end(call, symm__group_vote(ctx->world, &s));
}

/* Waits until no kernel of the domain reads through the switch. Without a hub, by the pipe. */
static void await_quiet(struct symm_context *ctx)
{
    const symm_deadline deadline = symm__deadline_in(SYMM_QUIET_MS);

    symm__presence_leave(&ctx->presence);
    if (!ctx->agreed.multicast_off[0] && !symm__host_comm_quiet(ctx->domain->comm, deadline))
        symm__presence_await(&ctx->presence, deadline);
}

/* Leaves without the other ranks: aborts every group, so that its enqueued work ends. */
static void leave_alone(struct symm_context *ctx, const char *why)
{
    char text[SYMM_TEXT_MAX];
    CUcontext popped;

    snprintf(text, sizeof text, "rank %d has destroyed its context: %.900s", ctx->join.world_rank,
             why);
    for (struct symm_group *g = ctx->groups; g; g = g->next)
        if (!atomic_load(&g->ended))
            symm__host_comm_abort(g->comm, SYMM_ERROR_PEER, text);
    if (ctx->drv->cuCtxPushCurrent(ctx->primary) == CUDA_SUCCESS) {
        for (struct symm_group *g = ctx->groups; g; g = g->next)
            symm__group_quiesce(g);
        ctx->drv->cuCtxPopCurrent(&popped);
    }
    await_quiet(ctx);
}

symm_status symm_context_destroy(symm_context *ctx)
{
    struct symm_call call;
    symm_status st, released;
    char why[SYMM_TEXT_MAX];

    if (!ctx)
        return SYMM_OK;
    st = symm__collective_begin_spanning(&call, ctx->world, true, "symm_context_destroy()");
    for (struct symm_group *g = ctx->groups; g && st != SYMM_ERROR_STATE; g = g->next)
        symm__group_hold_no_more(g);
    if (st == SYMM_OK)
        st = leave_together(ctx, &call);
    if (st == SYMM_ERROR_STATE)
        return st; /* forked, or a rank is capturing a stream: nothing has happened on any rank */
    strcpy(why, symm__failure_text());
    if (st != SYMM_OK)
        leave_alone(ctx, why);
    released = release(ctx);
    if (st != SYMM_OK)
        return symm__fail(st, "%s", why); /* the first failure, not later ones */
    return released == SYMM_OK ? SYMM_OK : symm__fail_in(released, "symm_context_destroy: ");
}
