/* Sorts the ranks of a job into domains. */
#include "span.h"

#include <stdio.h>
#include <stdlib.h>

/* The domain of a rank whose host an earlier rank has, or the next domain. */
static int domain_of(const struct symm_span *span, int rank, const uint64_t (*hosts)[2])
{
    for (int r = 0; r < rank; r++)
        if (hosts[r][0] == hosts[rank][0] && hosts[r][1] == hosts[rank][1])
            return span->domain_of[r];
    return span->ndomains;
}

static void sort(struct symm_span *span, const uint64_t (*hosts)[2])
{
    for (int r = 0; r < span->nranks; r++) {
        int d = span->domain_of[r] = domain_of(span, r, hosts);
        span->ndomains += d == span->ndomains;
        span->number[r] = span->first[d + 1]++; /* counts the domain's ranks so far */
    }
    for (int d = 0; d < span->ndomains; d++)
        span->first[d + 1] += span->first[d];
    for (int r = 0; r < span->nranks; r++)
        span->members[span->first[span->domain_of[r]] + span->number[r]] = r;
    span->domain = span->domain_of[span->rank];
}

symm_status symm__span_create(int rank, int nranks, const uint64_t (*hosts)[2],
                              struct symm_span **out)
{
    const size_t n = (size_t)nranks;
    struct symm_span *span = calloc(1, sizeof *span + (4 * n + 1) * sizeof(int));

    if (!span)
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for %d ranks", nranks);
    span->rank = rank;
    span->nranks = nranks;
    span->listener = -1;
    span->domain_of = (int *)(span + 1);
    span->number = span->domain_of + n;
    span->members = span->number + n;
    span->first = span->members + n;
    sort(span, hosts);
    for (int d = 0; d < span->ndomains; d++)
        if (symm__span_nmembers(span, d) > SYMM_MAX_RANKS) {
            int members = symm__span_nmembers(span, d);
            symm__span_destroy(span);
            return symm__fail(SYMM_ERROR_UNSUPPORTED,
                              "domain %d has %d ranks: there can be %d at most", d, members,
                              SYMM_MAX_RANKS);
        }
    *out = span;
    return SYMM_OK;
}

void symm__span_destroy(struct symm_span *span)
{
    if (!span)
        return;
    symm__address_unlisten(&span->listener);
    free(span);
}

int symm__span_nmembers(const struct symm_span *span, int domain)
{
    return span->first[domain + 1] - span->first[domain];
}

const int *symm__span_members(const struct symm_span *span, int domain)
{
    return span->members + span->first[domain];
}

struct symm_domain_name symm__span_name(const struct symm_span *span, int domain)
{
    const int *members = symm__span_members(span, domain), n = symm__span_nmembers(span, domain);
    struct symm_domain_name name;
    const size_t room = sizeof name.text - 8; /* for the end */
    size_t used = (size_t)snprintf(name.text, room, "domain %d (rank%s %d", domain,
                                   n > 1 ? "s" : "", members[0]);
    int i = 1;

    if (n > 1 && members[n - 1] - members[0] == n - 1) {
        used += (size_t)snprintf(name.text + used, room - used, " to %d", members[n - 1]);
        i = n;
    }
    for (; i < n && used < room - 12; i++)
        used += (size_t)snprintf(name.text + used, room - used, ", %d", members[i]);
    snprintf(name.text + used, sizeof name.text - used, i < n ? ", ...)" : ")");
    return name;
}
