/*
 * Joins a job whose ranks may be on several hosts, and describes its domains, rails and engine as
 * JSON.
 */
#include "domains.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "common/driver.h"
#include "host_info.h"
#include "operations/nccl.h"

/* Of a rank. */
struct card {
    char host[64];
    struct nccl_found engine; /* without a version: none */
    char why[512];            /* there is none */
};

static json_t *describe_domains(const symm_group *world, const struct card *cards)
{
    json_t *domains = json_array(), *domain;

    for (uint32_t d = 0; d < symm_group_ndomains(world); d++)
        json_array_append_new(domains, json_pack("{s:s, s:[]}", "host", "", "ranks"));
    for (int r = 0; r < symm_nranks(world); r++) {
        domain = json_array_get(domains, symm_group_domain_of(world, r));
        json_object_set_new(domain, "host", json_string(cards[r].host));
        json_array_append_new(json_object_get(domain, "ranks"), json_integer(r));
    }
    return domains;
}

/* A rail has the ranks of one number in their domains. None: domains differ in size. */
static json_t *describe_rails(const json_t *domains)
{
    const size_t width = json_array_size(json_object_get(json_array_get(domains, 0), "ranks"));
    json_t *rails = json_array(), *domain, *ranks;
    size_t d;

    for (size_t i = 0; i < width; i++)
        json_array_append_new(rails, json_array());
    json_array_foreach(domains, d, domain)
    {
        ranks = json_object_get(domain, "ranks");
        if (json_array_size(ranks) != width) {
            json_array_clear(rails);
            break;
        }
        for (size_t i = 0; i < width; i++)
            json_array_append(json_array_get(rails, i), json_array_get(ranks, i));
    }
    return rails;
}

/* Rank 0's, and the ranks that have another version. */
static json_t *describe_engine(const struct card *cards, int nranks)
{
    const struct nccl_found *first = &cards[0].engine;
    json_t *others = json_array();

    for (int r = 1; r < nranks; r++)
        if (strcmp(cards[r].engine.version, first->version) != 0)
            json_array_append_new(others, json_integer(r));
    if (!first->version[0])
        return json_pack("{s:n, s:s, s:o}", "version", "reason", cards[0].why, "other_ranks",
                         others);
    return json_pack("{s:s, s:s, s:o}", "version", first->version, "file", first->file,
                     "other_ranks", others);
}

static json_t *describe(const symm_group *world, const struct card *cards)
{
    json_t *domains = describe_domains(world, cards);
    json_t *job = json_pack("{s:i, s:o}", "ranks", symm_nranks(world), "domains", domains);

    if (symm_group_ndomains(world) > 1)
        json_object_set_new(job, "rails", describe_rails(domains));
    json_object_set_new(job, "engine", describe_engine(cards, symm_nranks(world)));
    return job;
}

/* The library that this rank would open between domains. */
static void find_engine(bool emulated, struct card *mine)
{
    if (emulated && !getenv("SYMM_NCCL_LIBRARY"))
        snprintf(mine->why, sizeof mine->why,
                 "the emulated driver needs a library that runs on it: set SYMM_NCCL_LIBRARY");
    else
        nccl_find(&mine->engine, mine->why);
}

static symm_status ask(symm_group *world, bool emulated, json_t **job)
{
    struct card *mine = calloc(1, sizeof *mine),
                *cards = calloc((size_t)symm_nranks(world), sizeof *cards);
    symm_status st = SYMM_ERROR_MEMORY;

    if (mine && cards) {
        gethostname(mine->host, sizeof mine->host - 1);
        find_engine(emulated, mine);
        st = symm_exchange(world, mine, sizeof *mine, cards);
    }
    if (st == SYMM_OK)
        *job = describe(world, cards);
    free(cards);
    free(mine);
    return st;
}

symm_status domains_ask(const char *driver, json_t **job, int *rank)
{
    symm_context *ctx = NULL;
    json_t *found = NULL;
    char why[512];
    symm_status destroyed,
        st = driver_open(host_info_driver(driver), &(symm_config){.span = 1}, &ctx, why);

    if (st != SYMM_OK)
        return st;
    *rank = symm_rank(symm_context_world(ctx));
    st = ask(symm_context_world(ctx), driver_is_emulated(ctx), &found);
    destroyed = symm_context_destroy(ctx);
    if (st == SYMM_OK)
        st = destroyed;
    if (st == SYMM_OK)
        *job = found;
    else
        json_decref(found);
    return st;
}
