/* The calls that came through to the stand-in: the others were taken. */
#ifndef TEST_NCCL_RECORD_H
#define TEST_NCCL_RECORD_H

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "folder.h"
#include "ranks.h"

/* From here on the stand-in records the calls of this rank, a process. */
static inline void record(const struct rank *self)
{
    char prefix[80];

    snprintf(prefix, sizeof prefix, "%s/record-%d", folder, self->rank);
    setenv("NCCL_STANDIN_RECORD", prefix, 1);
}

/* Returns the number of lines that begin with a call; -1: no recording. */
static inline int recorded(const char *call, bool ends)
{
    const char *prefix = getenv("NCCL_STANDIN_RECORD");
    char pattern[128], line[256];
    glob_t found = {0};
    int n = 0;

    if (!prefix)
        return -1;
    snprintf(pattern, sizeof pattern, "%s.*", prefix);
    if (ends)
        unsetenv("NCCL_STANDIN_RECORD");
    glob(pattern, 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *f = fopen(found.gl_pathv[i], "re");
        while (f && fgets(line, sizeof line, f))
            n += strncmp(line, call, strlen(call)) == 0;
        if (f)
            fclose(f);
        if (ends)
            unlink(found.gl_pathv[i]);
    }
    globfree(&found);
    return n;
}

/* Ends the recording, and returns the number of those lines. */
static inline int forwarded(const char *call)
{
    return recorded(call, true);
}

#endif
