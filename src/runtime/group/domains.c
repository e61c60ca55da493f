/* Creates groups of several domains, and sorts the results of their votes. */
#include "domains.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "gather.h"

/* ---- Where the ranks are ---- */

static int compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Fills in domains, rising and each once. */
static void list_domains(const struct symm_span *span, int nranks, struct symm_domains *d)
{
    uint32_t n = 0;

    for (int r = 0; r < nranks; r++)
        d->domains[r] = (uint32_t)span->domain_of[d->world[r]];
    qsort(d->domains, (size_t)nranks, sizeof d->domains[0], compare);
    for (int r = 0; r < nranks; r++)
        if (!n || d->domains[n - 1] != d->domains[r])
            d->domains[n++] = d->domains[r];
    d->birth.ndomains = n;
}

static int index_of(const struct symm_domains *d, uint32_t domain)
{
    const uint32_t *at =
        bsearch(&domain, d->domains, d->birth.ndomains, sizeof d->domains[0], compare);

    return (int)(at - d->domains);
}

/* Numbers the ranks of each domain, in the order of the group. counts: zeros. */
static void place(const struct symm_span *span, int nranks, struct symm_domains *d, int *counts)
{
    for (int r = 0; r < nranks; r++) {
        const int domain = span->domain_of[d->world[r]];
        d->domain[r] = index_of(d, (uint32_t)domain);
        d->slot[r] = counts[d->domain[r]]++; /* in its domain, for now */
        if (domain == span->domain)
            d->local[d->nlocal++] = r;
        if (counts[d->domain[r]] > (int)d->birth.most)
            d->birth.most = (uint32_t)counts[d->domain[r]];
    }
    for (int r = 0; r < nranks; r++)
        d->slot[r] += d->domain[r] * (int)d->birth.most;
}

static uint64_t hash_of(int nranks, const int *ranks)
{
    uint64_t hash[2] = {0, 0};
    char text[32];

    for (int r = 0; r < nranks; r++) {
        snprintf(text, sizeof text, "%d", ranks[r]);
        symm__join_mix(hash, text);
    }
    return hash[0];
}

/*
 * The same ranks in another order are the same attempt at a group: its verdict says that the calls
 * differ.
 */
static void identify(int nranks, struct symm_domains *d)
{
    int *rising = d->slot; /* until place() fills it in */

    memcpy(rising, d->world, (size_t)nranks * sizeof rising[0]);
    qsort(rising, (size_t)nranks, sizeof rising[0], compare);
    d->birth.hash = hash_of(nranks, rising);
    d->birth.order = (uint32_t)hash_of(nranks, d->world);
}

/* world: by rank of the new group, its number in the world. */
static symm_status find(const struct symm_span *span, int nranks, const int *world,
                        struct symm_domains **out)
{
    const size_t n = (size_t)nranks;
    struct symm_domains *d = calloc(1, sizeof *d + 6 * n * sizeof(int));

    if (!d)
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for a group of %d ranks", nranks);
    d->world = (int *)(d + 1);
    d->domain = d->world + n;
    d->slot = d->domain + n;
    d->local = d->slot + n;
    d->domains = (uint32_t *)(d->local + n);
    memcpy(d->world, world, n * sizeof d->world[0]);
    identify(nranks, d);
    list_domains(span, nranks, d);
    place(span, nranks, d, (int *)(d->domains + n));
    *out = d;
    return SYMM_OK;
}

/* ---- Groups ---- */

static struct symm_group *group_of(struct symm_context *ctx, int nranks, int rank,
                                   struct symm_domains *domains)
{
    struct symm_group *group = symm__group_new(ctx);

    if (!group) {
        free(domains);
        return NULL;
    }
    group->rank = rank;
    group->nranks = nranks;
    group->domains = domains;
    group->multicast_off = "the group has ranks in several domains";
    return group;
}

symm_status symm__domains_world(struct symm_context *ctx, symm_status *mine,
                                struct symm_group **out)
{
    const struct symm_span *span = ctx->join.span;
    int *world = calloc((size_t)span->nranks, sizeof *world);
    struct symm_host_comm_events events;
    struct symm_domains *domains;
    struct symm_group *group;
    symm_status st;

    if (!world)
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for %d ranks", span->nranks);
    for (int r = 0; r < span->nranks; r++)
        world[r] = r;
    TRY(find(span, span->nranks, world, &domains));
    group = group_of(ctx, span->nranks, span->rank, domains);
    st = group ? SYMM_OK : SYMM_ERROR_MEMORY;
    if (st != SYMM_OK)
        goto out;
    if (*mine == SYMM_OK)
        *mine = symm__group_equip_event(group);
    events = symm__group_events(group);
    symm__host_comm_span(ctx->exchange, &events, &group->comm);
    group->members = symm__host_comm_members(group->comm);
    symm__group_list(group);
    *out = group;
out:
    free(world);
    return st;
}

/* An ordinary group: the members' numbers in the comm of `of`. */
static symm_status create_ordinary(struct symm_group *of, int nranks, const int *ranks,
                                   const char *what, symm_status mine, struct symm_group **out)
{
    const struct symm_domains *d = of->domains;
    int members[SYMM_MAX_RANKS], rank = 0;

    for (int i = 0; i < nranks; i++) {
        members[i] = 0;
        while (d->local[members[i]] != ranks[i])
            members[i]++;
        if (ranks[i] == of->rank)
            rank = i;
    }
    return symm__group_create_at(of, rank, nranks, members, SYMM_CREATE_ORDINARY, what, mine, out);
}

symm_status symm__domains_inner(struct symm_group *of, const char *what, symm_status mine,
                                struct symm_group **out)
{
    int members[SYMM_MAX_RANKS], rank = 0;
    symm_status st;

    for (int i = 0; i < of->domains->nlocal; i++) {
        members[i] = i;
        if (of->domains->local[i] == of->rank)
            rank = i;
    }
    TRY(symm__group_create_at(of, rank, of->domains->nlocal, members, SYMM_CREATE_INNER, what, mine,
                              out));
    atomic_store(&of->inner, *out);
out:
    return st;
}

static symm_status create_spanning(struct symm_group *of, int nranks, const int *ranks, int rank,
                                   struct symm_domains *domains, struct symm_vote *vote,
                                   struct symm_group **out)
{
    struct symm_group *group = group_of(of->ctx, nranks, rank, domains);
    struct symm_host_comm_events events;
    int members[SYMM_MAX_RANKS];
    symm_status st;

    if (!group)
        return SYMM_ERROR_MEMORY;
    if (vote->status == SYMM_OK)
        vote->status = symm__group_equip_event(group);
    for (int i = 0; i < domains->nlocal; i++) {
        members[i] = 0;
        while (of->domains->local[members[i]] != ranks[domains->local[i]])
            members[i]++;
    }
    events = symm__group_events(group);
    TRY(symm__host_comm_create_span(of->comm, domains->nlocal, members, &domains->birth,
                                    domains->domains, &events, vote,
                                    symm__deadline_in(of->ctx->timeout_ms), &group->comm));
    group->members = symm__host_comm_members(group->comm);
    symm__group_list(group);
    *out = group;
    group = NULL;
out:
    symm__group_release(group);
    return st;
}

symm_status symm__domains_create(struct symm_group *of, int nranks, const int *ranks,
                                 const char *what, symm_status mine, struct symm_group **out)
{
    struct symm_vote vote = {.text = what, .status = mine, .fd = -1};
    int *world = calloc((size_t)nranks, sizeof *world);
    struct symm_domains *domains = NULL;
    int rank = 0;
    symm_status st;

    if (!world)
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for a group of %d ranks", nranks);
    for (int i = 0; i < nranks; i++) {
        world[i] = of->domains->world[ranks[i]];
        if (ranks[i] == of->rank)
            rank = i;
    }
    TRY(find(of->ctx->join.span, nranks, world, &domains));
    if (domains->birth.ndomains == 1) {
        free(domains);
        st = create_ordinary(of, nranks, ranks, what, mine, out);
    } else {
        st = create_spanning(of, nranks, ranks, rank, domains, &vote, out);
    }
out:
    free(world);
    return st;
}

symm_status symm__domains_root(struct symm_context *ctx, symm_status mine, struct symm_root **out)
{
    struct symm_span *span = ctx->join.span;
    symm_status st;
    int listener;

    if (!span || span->rank)
        return mine;
    listener = span->listener;
    span->listener = -1;
    st = symm__root_open(span, listener, &ctx->log, out);
    return mine == SYMM_OK ? st : mine;
}

/* A group's calls are compared on all its ranks, or on none. */
static symm_status compare_checks(const struct symm_context *ctx, const int *checks)
{
    for (int r = 1; r < ctx->join.world_nranks; r++)
        if (checks[r] != checks[0])
            return symm__fail(SYMM_ERROR_MISMATCH, "SYMM_CHECK is %d on rank 0 and %d on rank %d",
                              checks[0], checks[r], r);
    return SYMM_OK;
}

symm_status symm__domains_begin(struct symm_context *ctx, symm_status st)
{
    int *checks = calloc((size_t)ctx->join.world_nranks, sizeof *checks);
    symm_status mine = st, all = st;
    char why[SYMM_TEXT_MAX];

    strcpy(why, symm__failure_text());
    if (ctx->exchange)
        all = symm__domains_world(ctx, &mine, &ctx->world);
    if (ctx->world) {
        if (st != SYMM_OK)
            symm__fail(st, "%s", why);
        else if (mine == SYMM_OK && !checks)
            mine = symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
        all = symm__group_gather(ctx->world, "symm_context_create: domains", mine,
                                 &ctx->agreed.check, sizeof ctx->agreed.check, checks);
    }
    if (all == SYMM_OK)
        all = compare_checks(ctx, checks);
    free(checks);
    return st == SYMM_OK ? all : symm__fail(st, "%s", why);
}

bool symm__group_is_near(const struct symm_group *group, int rank)
{
    return !group->domains || group->domains->domain[rank] == group->domains->domain[group->rank];
}

symm_status symm__domains_refuse(const struct symm_group *group)
{
    if (!group || !group->domains)
        return SYMM_OK;
    return symm__fail(
        SYMM_ERROR_ARGUMENT,
        "the group has ranks in %u domains, which share no memory: use a group of one "
        "domain, as symm_context_domain() returns it",
        group->domains->birth.ndomains);
}
