/* Pretended hosts on this one: ranks with a SYMM_HOSTID of their own, which meet over TCP. */
#ifndef TEST_HOSTS_H
#define TEST_HOSTS_H

#include "ranks.h"

/* The number of ranks of each host, and how they are dealt out. */
struct hosts {
    int n, sizes[RANKS_MAX];
    bool round_robin;
    char address[32]; /* hosts_address() */
};

int hosts_nranks(const struct hosts *hosts);
int hosts_of(const struct hosts *hosts, int rank); /* the host of a rank */

/* Chooses a port that is free now. In the test itself. */
void hosts_address(struct hosts *hosts);

/* This rank's configuration, and its SYMM_HOSTID. */
symm_config hosts_config(const struct rank *self, const struct hosts *hosts);
symm_status hosts_join(const struct rank *self, const struct hosts *hosts, symm_context **out);

#endif
