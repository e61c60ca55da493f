/* The domains of a job whose ranks are in several, computed alike on all ranks. */
#ifndef SYMM_SPAN_H
#define SYMM_SPAN_H

#include "wire.h"

struct symm_span {
    int rank, nranks;     /* in the world */
    int domain, ndomains; /* domains are numbered by their first ranks */
    int *domain_of;       /* by world rank */
    int *number;          /* by world rank: its number in its domain */
    int *first;           /* by domain, and one more: the index of its first rank in members */
    int *members;         /* world ranks, domain by domain, in order */
    struct symm_wire_key key;
    struct symm_address root; /* where rank 0 listens */
    int listener;             /* rank 0's socket; else -1 */
};

/*
 * hosts: by world rank, two words that are equal on ranks of one domain. Errors: ERROR_MEMORY;
 * ERROR_UNSUPPORTED (a domain of more than SYMM_MAX_RANKS ranks)
 */
symm_status symm__span_create(int rank, int nranks, const uint64_t (*hosts)[2],
                              struct symm_span **out);
void symm__span_destroy(struct symm_span *span); /* NULL is fine; closes the listener */

/* The ranks of a domain: how many, and their numbers in the world. */
int symm__span_nmembers(const struct symm_span *span, int domain);
const int *symm__span_members(const struct symm_span *span, int domain);

/* "domain 1 (ranks 4 to 7)", "domain 0 (ranks 0, 2, 4)", "domain 2 (rank 8)" */
struct symm_domain_name {
    char text[96];
};
struct symm_domain_name symm__span_name(const struct symm_span *span, int domain);

#endif
