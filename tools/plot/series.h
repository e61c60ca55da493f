/* The ways to a product that a run has measured, for its pictures. */
#ifndef SYMM_BENCH_WAYS_H
#define SYMM_BENCH_WAYS_H

#include <jansson.h>

enum { WAYS_MAX = 16 };

/* Those that have a number of operations a second, in the order in which they appear. */
struct ways {
    const char *names[WAYS_MAX];
    int n;
};
void ways_find(const json_t *run, struct ways *out);

/* What the run was of. */
void ways_title(const json_t *run, char title[256]);

#endif
