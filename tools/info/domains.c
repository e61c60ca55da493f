/* Joins a job whose ranks may be on several hosts, and describes its domains as JSON. */
#include "domains.h"

#include <stdlib.h>
#include <unistd.h>
#include "common/driver.h"
#include "host_info.h"

struct host {
    char name[64];
};

static json_t *describe(const symm_group *world, const struct host *hosts)
{
    json_t *domains = json_array(), *domain;

    for (uint32_t d = 0; d < symm_group_ndomains(world); d++)
        json_array_append_new(domains, json_pack("{s:s, s:[]}", "host", "", "ranks"));
    for (int r = 0; r < symm_nranks(world); r++) {
        domain = json_array_get(domains, symm_group_domain_of(world, r));
        json_object_set_new(domain, "host", json_string(hosts[r].name));
        json_array_append_new(json_object_get(domain, "ranks"), json_integer(r));
    }
    return json_pack("{s:i, s:o}", "ranks", symm_nranks(world), "domains", domains);
}

static symm_status ask(symm_group *world, json_t **job)
{
    struct host mine = {""}, *hosts = calloc((size_t)symm_nranks(world), sizeof *hosts);
    symm_status st = SYMM_ERROR_MEMORY;

    gethostname(mine.name, sizeof mine.name - 1);
    if (hosts)
        st = symm_exchange(world, &mine, sizeof mine, hosts);
    if (st == SYMM_OK)
        *job = describe(world, hosts);
    free(hosts);
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
    st = ask(symm_context_world(ctx), &found);
    destroyed = symm_context_destroy(ctx);
    if (st == SYMM_OK)
        st = destroyed;
    if (st == SYMM_OK)
        *job = found;
    else
        json_decref(found);
    return st;
}
