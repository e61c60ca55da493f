/*
 * The domains of a job: which ranks share memory, which form rails between domains, and the library
 * that communicates there. This process is one of its ranks.
 */
#ifndef SYMM_INFO_DOMAINS_H
#define SYMM_INFO_DOMAINS_H

#include <jansson.h>
#include <symm/symm.h>

/*
 * Joins the other ranks, asks the world for its domains, exchanges names of hosts and libraries,
 * leaves. `driver`: as host_info_ask(). *job is new: the number of ranks; host and ranks of each
 * domain; of several domains the ranks of each rail, none if domains differ in size; the version
 * and the file of rank 0's NCCL, or the reason why there is none, and the ranks with another
 * version. *rank: this process's.
 *
 * Errors: those of symm_context_create(), symm_exchange() and symm_context_destroy()
 */
symm_status domains_ask(const char *driver, json_t **job, int *rank);

#endif
