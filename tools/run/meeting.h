/*
 * The rendezvous of a job's ranks: a random session and token, and a folder for the socket, which
 * is removed with everything that a killed rank has left in it.
 */
#ifndef SYMM_TOOLS_MEETING_H
#define SYMM_TOOLS_MEETING_H

#include <limits.h>

struct meeting {
    int nranks;
    char session[33], token[33]; /* 128 random bits each, in hex */
    char dir[PATH_MAX];          /* empty: the ranks use the default folder */
};

/* Returns 0 or errno. Destroying after a failure is fine. */
int meeting_create(struct meeting *m, int nranks);
void meeting_destroy(struct meeting *m);

/* Sets the environment variables of this rank. Returns 0, or -1 and errno. */
int meeting_describe(const struct meeting *m, int rank);

#endif
