/*
 * Where the ranks of one job meet, and how each learns of it: a random session and token, and a
 * folder for the socket that is removed with whatever a killed rank has left in it.
 */
#ifndef SYMM_TOOLS_MEETING_H
#define SYMM_TOOLS_MEETING_H

#include <limits.h>

struct meeting {
    int nranks;
    char session[33], token[33]; /* 128 random bits each, in hex */
    char dir[PATH_MAX];          /* empty: the ranks use the usual place */
};

/* Returns 0 or errno; after a failure there is nothing to destroy, and destroying it is fine. */
int meeting_create(struct meeting *m, int nranks);
void meeting_destroy(struct meeting *m);

/* Puts the variables of this rank into the environment. Returns 0, or -1 and errno. */
int meeting_describe(const struct meeting *m, int rank);

#endif
