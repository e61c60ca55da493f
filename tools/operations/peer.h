/* What the libraries that symm is compared with have in common. */
#ifndef SYMM_TOOLS_PEER_H
#define SYMM_TOOLS_PEER_H

#include <stdbool.h>
#include <symm/symm.h>

enum { PEER_WHY = 512 };

/*
 * Whether all ranks could do it: `why` is empty where this one could, and afterwards on all ranks
 * if all could, else the first reason. Collective.
 */
symm_status peer_agree(symm_group *group, char why[PEER_WHY]);

struct peer_function {
    const char *name;
    void *slot; /* a pointer to a function */
    bool optional;
};

/* Finds n functions of a library. False: one is missing, with its name in why. */
bool peer_look_up(void *library, const struct peer_function *functions, int n, char why[PEER_WHY]);

#endif
