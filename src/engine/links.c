/* Makes, watches and releases the links of a group. */
#include "links.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/names.h>
#include "runtime/base/cond.h"
#include "runtime/base/numbers.h"
#include "runtime/base/settings.h"
#include "runtime/base/thread.h"
#include "runtime/group/areas.h"
#include "runtime/group/domains.h"
#include "runtime/group/gather.h"
#include "runtime/group/operation.h"
#include "runtime/group/tuning.h"

enum {
    STAGING_BLOCK = 512, /* bytes of the smallest piece of a block, with its alignment */
    WATCH_MS = 20,       /* between looks at the group */
    ASK_EACH = 5,        /* looks between questions to the communicators */
    RAIL_BLOCKS = 4,     /* of NCCL on a rail: the network card of one GPU needs no more */
    ABORT_MS = 10000,    /* how long an abort may take before its communicator is given up */
};

/* What each rank tells the others. */
struct card {
    int32_t version, algo;
    uint64_t tuning; /* a hash of the rows */
    uint64_t staging_nbytes;
    struct symm_engine_id flat; /* of rank 0 */
    struct symm_engine_id rail; /* of the ranks of the first domain */
    bool registered;            /* its staging memory; told once the communicators are made */
};

symm_status symm__links_fail(struct symm_group *group, symm_status st)
{
    char why[SYMM_TEXT_MAX], text[SYMM_TEXT_MAX];

    strcpy(why, symm__failure_text());
    snprintf(text, sizeof text, "rank %d: %.900s", group->ctx->join.world_rank, why);
    symm__host_comm_abort(group->comm, st == SYMM_ERROR_TIMEOUT ? st : SYMM_ERROR_PEER, text);
    return symm__fail(st, "%s", why);
}

/* ---- The thread ---- */

static void *abort_one(void *comm)
{
    symm__engine_abort(comm);
    return NULL;
}

/*
 * Lock held. An abort may block for ever, if another rank is gone. So the two run beside each
 * other: a kernel may wait in either communicator.
 */
static void abort_comms(struct symm_links *links)
{
    struct symm_engine_comm *rail = links->rail, *flat = links->flat;
    pthread_t thread;

    links->rail = links->flat = NULL;
    links->aborted = true;
    pthread_mutex_unlock(&links->lock); /* no one else has them any more */
    const bool beside =
        rail && symm__thread_start(&thread, "symm abort", abort_one, rail) == SYMM_OK;
    if (flat)
        symm__engine_abort(flat);
    if (beside)
        pthread_join(thread, NULL);
    else if (rail)
        symm__engine_abort(rail);
    pthread_mutex_lock(&links->lock);
}

/* Lock held. A network that fails while all processes live: nobody else would notice. */
static void ask_comms(struct symm_links *links)
{
    struct symm_engine_comm *comms[] = {links->rail, links->flat};

    for (int i = 0; i < 2; i++)
        if (comms[i] && symm__engine_error(comms[i]) != SYMM_OK)
            symm__links_fail(links->group, SYMM_ERROR_PEER);
}

/* Lock held. The word of a group that this rank ends may come later. */
static bool is_over(const struct symm_links *links)
{
    return links->failed || atomic_load(&links->group->ended);
}

static void *watch(void *arg)
{
    struct symm_links *links = arg;

    pthread_mutex_lock(&links->lock);
    for (int i = 1; !links->closing && !is_over(links); i++) {
        symm__cond_wait(&links->changed, &links->lock, symm__deadline_in(WATCH_MS));
        if (i % ASK_EACH == 0)
            ask_comms(links);
    }
    if (is_over(links))
        abort_comms(links);
    links->finished = true;
    pthread_cond_broadcast(&links->changed);
    pthread_mutex_unlock(&links->lock);
    return NULL;
}

static symm_status start(struct symm_links *links)
{
    symm_status st = symm__thread_start(&links->thread, "symm links", watch, links);

    links->runs = st == SYMM_OK;
    return st;
}

/* Returns whether the thread has ended; if it has not, an abort does not return. */
static bool stop(struct symm_links *links)
{
    const symm_deadline deadline = symm__deadline_in(ABORT_MS);

    if (!links->runs)
        return true;
    pthread_mutex_lock(&links->lock);
    links->closing = true;
    pthread_cond_broadcast(&links->changed);
    while (!links->finished && symm__cond_wait(&links->changed, &links->lock, deadline))
        ;
    const bool ended = links->finished;
    pthread_mutex_unlock(&links->lock);
    if (ended)
        pthread_join(links->thread, NULL);
    else
        pthread_detach(links->thread);
    return ended;
}

/* ---- Objects ---- */

static void forget_inner(struct symm_attachment *end)
{
    struct symm_links *links =
        (struct symm_links *)(void *)((char *)end - offsetof(struct symm_links, inner_end));

    links->inner = NULL;
    atomic_store(&links->group->inner, NULL);
}

static void release(struct symm_attachment *attachment)
{
    struct symm_links *links = (struct symm_links *)attachment;
    struct symm_context *ctx = links->group->ctx;

    if (!links->runs) { /* nobody else aborts communicators that could not be made */
        pthread_mutex_lock(&links->lock);
        abort_comms(links);
        pthread_mutex_unlock(&links->lock);
    }
    const bool stopped = stop(links);
    if (links->inner) {
        atomic_store(&links->group->inner, NULL);
        symm__group_detach(links->inner, &links->inner_end);
        symm__group_release(links->inner);
        links->inner = NULL;
    }
    if (!stopped) {
        symm__log(&ctx->log, SYMM_LOG_ERROR,
                  "a communicator between domains cannot be aborted: it and its memory are lost");
        return;
    }
    symm__engine_destroy(links->rail);
    symm__engine_destroy(links->flat);
    if (links->staging)
        ctx->drv->cuMemFree(links->staging);
    pthread_cond_destroy(&links->changed);
    pthread_mutex_destroy(&links->lock);
    free(links);
}

struct symm_links *symm__links_of(struct symm_group *group)
{
    return (struct symm_links *)symm__group_attachment(group, release);
}

static struct symm_links *links_new(struct symm_group *group)
{
    struct symm_links *links = calloc(1, sizeof *links);

    if (!links) {
        symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
        return NULL;
    }
    if (symm__cond_init(&links->changed) != SYMM_OK) {
        free(links);
        return NULL;
    }
    links->group = group;
    links->attachment.release = release;
    links->inner_end.release = forget_inner;
    pthread_mutex_init(&links->lock, NULL);
    return links;
}

/* ---- Making ---- */

static symm_status read_algo(symm_algo *out)
{
    const char *text = symm__setting(SYMM_SETTING_SPAN_ALGO);

    if (symm_algo_parse(text, out) == SYMM_OK &&
        (*out == SYMM_ALGO_AUTO || symm__algo_is_form(*out)))
        return SYMM_OK;
    return symm__fail(SYMM_ERROR_ARGUMENT,
                      "SYMM_SPAN_ALGO=%.100s is none of auto, flat, hierarchical", text);
}

static symm_status fill_in(struct symm_links *links, const struct symm_engine **engine,
                           struct card *card)
{
    const struct symm_group *group = links->group;
    symm_status st;

    memset(card, 0, sizeof *card);
    TRY(read_algo(&links->algo));
    if (!strcmp(group->ctx->drv->name, "emulated") &&
        !symm__setting_is_set(SYMM_SETTING_NCCL_LIBRARY))
        return symm__fail(SYMM_ERROR_UNSUPPORTED,
                          "the emulated driver needs a library that runs on it in NCCL's place: "
                          "set SYMM_NCCL_LIBRARY");
    TRY(symm__engine_open(engine));
    card->version = symm__engine_version(*engine);
    card->algo = (int32_t)links->algo;
    card->tuning = symm__tuning_hash(group->ctx->tuning);
    card->staging_nbytes = group->ctx->agreed.staging_nbytes;
    if (group->rank == 0)
        TRY(symm__engine_id(*engine, &card->flat));
    if (group->domains->domain[group->rank] == 0)
        TRY(symm__engine_id(*engine, &card->rail));
out:
    return st;
}

/* The same on all ranks. */
static symm_status compare(const struct symm_group *group, const struct card *all)
{
    const int *world = group->domains->world;

    for (int r = 1; r < group->nranks; r++) {
        if (all[r].version != all[0].version)
            return symm__fail(SYMM_ERROR_MISMATCH, "rank %d has %s, rank %d %s", world[0],
                              symm__engine_name(all[0].version).text, world[r],
                              symm__engine_name(all[r].version).text);
        if (all[r].algo != all[0].algo)
            return symm__fail(SYMM_ERROR_MISMATCH, "SYMM_SPAN_ALGO of rank %d is not that of %d",
                              world[r], world[0]);
        if (all[r].tuning != all[0].tuning)
            return symm__fail(SYMM_ERROR_MISMATCH,
                              "the rows of SYMM_TUNING_FILE of rank %d are not those of %d",
                              world[r], world[0]);
    }
    return SYMM_OK;
}

static int slot_of(const struct symm_domains *d, int rank)
{
    return d->slot[rank] % (int)d->birth.most;
}

int symm__links_number(const struct symm_links *links)
{
    return slot_of(links->group->domains, links->group->rank);
}

int symm__links_width(const struct symm_links *links)
{
    return (int)links->group->domains->birth.most;
}

bool symm__links_has_rails(const struct symm_group *group)
{
    const struct symm_domains *d = group->domains;

    return (uint64_t)d->birth.most * d->birth.ndomains == (uint64_t)group->nranks;
}

/* The rail's id is that of the rank with this number in the first domain. */
static const struct symm_engine_id *rail_id(const struct symm_group *group, const struct card *all)
{
    const struct symm_domains *d = group->domains;
    const int number = slot_of(d, group->rank);

    for (int r = 0; r < group->nranks; r++)
        if (d->domain[r] == 0 && slot_of(d, r) == number)
            return &all[r].rail;
    return NULL;
}

/* The least of all ranks, so that all divide a call alike; with room for a pack of each block. */
static size_t choose_staging(const struct symm_group *group, const struct card *all)
{
    const size_t nblocks =
        group->domains->birth.ndomains * ((size_t)group->domains->birth.most + 2);
    uint64_t least = UINT64_MAX;

    for (int r = 0; r < group->nranks; r++)
        least = symm__min(least, all[r].staging_nbytes);
    return symm__round_up(least + nblocks * STAGING_BLOCK, STAGING_BLOCK);
}

static symm_status write_sorted(const struct symm_links *links)
{
    const struct symm_group *group = links->group;
    const struct symm_context *ctx = group->ctx;
    const struct symm_domains *d = group->domains;
    int32_t *ranks = calloc((size_t)group->nranks, sizeof *ranks);
    symm_status st = SYMM_OK;

    if (!ranks)
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    for (int r = 0; r < group->nranks; r++)
        ranks[(size_t)slot_of(d, r) * d->birth.ndomains + (size_t)d->domain[r]] = r;
    TRY_CU(ctx->drv, cuMemcpyAsync, links->sorted, (CUdeviceptr)(uintptr_t)ranks,
           (size_t)group->nranks * sizeof *ranks, ctx->own_stream);
    TRY_CU(ctx->drv, cuStreamSynchronize, ctx->own_stream);
out:
    free(ranks);
    return st;
}

/* What this rank and its domain need: the inner group with full areas, and staging memory. */
static symm_status prepare(struct symm_links *links, const char *text)
{
    struct symm_group *group = links->group;
    const struct symm_context *ctx = group->ctx;
    symm_status st = SYMM_OK;

    if (group->domains->nlocal > 1) {
        TRY(symm__domains_inner(group, text, SYMM_OK, &links->inner));
        symm__group_attach(links->inner, &links->inner_end);
        TRY(symm__group_make_areas(links->inner, ctx->agreed.staging_nbytes, text));
    }
    TRY_CU(ctx->drv, cuMemAlloc, &links->staging,
           links->staging_nbytes + (size_t)group->nranks * sizeof(int32_t));
    links->sorted = links->staging + links->staging_nbytes;
    if (symm__links_has_rails(group))
        st = write_sorted(links);
out:
    return st;
}

static symm_status connect_all(struct symm_links *links, const struct symm_engine *engine,
                               const struct card *all)
{
    const struct symm_group *group = links->group;
    const symm_deadline deadline = symm__deadline_in(group->ctx->timeout_ms);
    symm_status st;

    TRY(symm__engine_init(engine, group->nranks, group->rank, &all[0].flat, 0, &group->ended,
                          deadline, &links->flat));
    if (symm__links_has_rails(group))
        TRY(symm__engine_init(engine, (int)group->domains->birth.ndomains,
                              group->domains->domain[group->rank], rail_id(group, all), RAIL_BLOCKS,
                              &group->ended, deadline, &links->rail));
out:
    return st;
}

/* The staging memory, with the rail: the flat communicator moves a word of it at most. */
static bool register_staging(struct symm_links *links)
{
    symm_status st;

    if (!links->rail)
        return false;
    st = symm__engine_register(links->rail, (void *)(uintptr_t)links->staging,
                               links->staging_nbytes);
    if (st != SYMM_OK)
        symm__log(&links->group->ctx->log, SYMM_LOG_DETAIL, "staging memory is not registered: %s",
                  symm__failure_text());
    return st == SYMM_OK;
}

/* If one rank has not registered its memory, no rank has: network cards then go through a copy. */
static symm_status keep_registered(struct symm_links *links, const char *text, struct card *mine,
                                   struct card *all)
{
    bool everywhere = true;
    symm_status st;

    TRY(symm__group_gather(links->group, text, SYMM_OK, mine, sizeof *mine, all));
    for (int r = 0; r < links->group->nranks; r++)
        everywhere &= all[r].registered;
    if (everywhere)
        return SYMM_OK;
    TRY(symm__links_enter(links));
    symm__engine_deregister(links->rail);
    symm__links_leave(links);
out:
    return st;
}

static symm_status make(struct symm_links *links, const char *text, struct card *all)
{
    struct symm_group *group = links->group;
    const struct symm_engine *engine = NULL;
    struct symm_vote ready = {.text = text, .fd = -1};
    struct card mine;
    symm_status st = fill_in(links, &engine, &mine);

    TRY(symm__group_gather(group, text, st, &mine, sizeof mine, all));
    TRY(compare(group, all));
    links->staging_nbytes = choose_staging(group, all);
    ready.status = prepare(links, text);
    TRY(symm__group_vote(group, &ready));
    st = connect_all(links, engine, all);
    links->failed = st != SYMM_OK;
    if (links->failed)
        st = symm__links_fail(group, st);
    else
        mine.registered = register_staging(links);
    /* It also aborts communicators that could not be made. */
    if (start(links) != SYMM_OK || st != SYMM_OK)
        return st == SYMM_OK ? symm__links_fail(group, SYMM_ERROR_SYSTEM) : st;
    st = keep_registered(links, text, &mine, all);
out:
    return st;
}

symm_status symm__links_make(struct symm_group *group, const char *text)
{
    struct card *all;
    struct symm_links *links;
    symm_status st;

    /* With nothing to make, a vote: another rank may have failed before, and has voted that. */
    if (symm__links_of(group))
        return symm__group_vote(group, &(struct symm_vote){.text = text, .fd = -1});
    all = calloc((size_t)group->nranks, sizeof *all);
    links = links_new(group);
    st = all && links
             ? make(links, text, all)
             : symm__links_fail(group, symm__fail(SYMM_ERROR_MEMORY, "out of host memory"));
    free(all);
    if (st == SYMM_OK) {
        symm__group_attach(group, &links->attachment);
    } else if (links) {
        char why[SYMM_TEXT_MAX];
        strcpy(why, symm__failure_text());
        release(&links->attachment);
        symm__fail(st, "%s", why);
    }
    return st;
}

symm_status symm__links_enter(struct symm_links *links)
{
    pthread_mutex_lock(&links->lock);
    if (!links->aborted)
        return SYMM_OK;
    pthread_mutex_unlock(&links->lock);
    symm_status st = symm__host_comm_check(links->group->comm);
    return st == SYMM_OK ? symm__fail(SYMM_ERROR_PEER, "the group has ended") : st;
}

void symm__links_leave(struct symm_links *links)
{
    pthread_mutex_unlock(&links->lock);
}
