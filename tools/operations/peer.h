/* Shared by the libraries that symm is compared with. */
#ifndef SYMM_TOOLS_PEER_H
#define SYMM_TOOLS_PEER_H

#include <stdbool.h>
#include <symm/symm.h>

enum { PEER_WHY = 512 };

/*
 * Agrees on success: `why` is this rank's reason of failure, empty for success; afterwards it is
 * the first reason of any rank on all ranks. Collective.
 */
symm_status peer_agree(symm_group *group, char why[PEER_WHY]);

struct peer_function {
    const char *name;
    void *slot; /* a pointer to a function */
    bool optional;
};

/* Finds n functions of a library. False: one is missing; its name is in why. */
bool peer_look_up(void *library, const struct peer_function *functions, int n, char why[PEER_WHY]);

#endif
