/* The domains of a job: which ranks share memory. This process is one of its ranks. */
#ifndef SYMM_INFO_DOMAINS_H
#define SYMM_INFO_DOMAINS_H

#include <jansson.h>
#include <symm/symm.h>

/*
 * Joins the other ranks, asks the world for its domains, exchanges the names of the hosts, leaves.
 * `driver`: as host_info_ask(). *job is new: the number of ranks, and host and ranks of each
 * domain. *rank: this process's.
 *
 * Errors: those of symm_context_create(), symm_exchange() and symm_context_destroy()
 */
symm_status domains_ask(const char *driver, json_t **job, int *rank);

#endif
