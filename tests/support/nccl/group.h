/* Groups: operations and jobs of a thread, which wait for the outermost ncclGroupEnd. */
#ifndef STANDIN_GROUP_H
#define STANDIN_GROUP_H

#include "operation.h"

/* Work on the host for which all ranks must come: connecting, splitting, windows. On a thread. */
struct job {
    struct job *next;
    ncclResult_t (*run)(struct job *job);
    ncclComm_t comm;      /* of which it is an operation */
    ncclComm_t child;     /* of a split; NULL: none */
    ncclComm_t *out;      /* where a nonblocking one is filled in when it is ready */
    ncclWindow_t *window; /* filled in with its handle when all ranks have it */
    ncclWindow_t made;
    uint64_t number;
    int values[2];
    ncclResult_t result;
    pthread_t thread;
};

/* Between them a call adds its work. The end of the outermost group does it all. */
void group_begin(void);
ncclResult_t group_end(ncclResult_t result);
/* Copies. */
void group_add(const struct operation *operation);
void group_add_job(const struct job *job);

#endif
