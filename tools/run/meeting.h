/*
 * The rendezvous of a job's ranks: a random session and token, and a folder for the socket, which
 * is removed with everything that a killed rank has left in it. With pretended hosts also a name of
 * each host, and a port of this host at which rank 0 listens.
 */
#ifndef SYMM_TOOLS_MEETING_H
#define SYMM_TOOLS_MEETING_H

#include <limits.h>

struct meeting {
    int nranks, nhosts;          /* nhosts: 0 if none are pretended */
    char session[33], token[33]; /* 128 random bits each, in hex */
    char dir[PATH_MAX];          /* empty: the ranks use the default folder */
    char address[32];            /* with pretended hosts: 127.0.0.1:PORT */
    int port;                    /* the socket that keeps PORT for this job; else -1 */
};

/* Returns 0 or errno. Destroying after a failure is fine. */
int meeting_create(struct meeting *m, int nranks, int nhosts);
void meeting_destroy(struct meeting *m);

/* Sets the environment variables of this rank. Returns 0, or -1 and errno. */
int meeting_describe(const struct meeting *m, int rank);

#endif
