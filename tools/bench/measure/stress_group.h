/* One group of symm-bench stress: its stream, its buffers, and the call of a round. */
#ifndef SYMM_BENCH_STRESS_GROUP_H
#define SYMM_BENCH_STRESS_GROUP_H

#include "oracle/products.h"
#include "session.h"
#include "stress_choice.h"

enum { STRESS_POISON = 0xff /* a NaN */, STRESS_GUARD = 256 /* bytes on both sides of data */ };

/* Shared by all groups of a run. */
struct stress {
    struct session s;
    symm_kernel *late;
    size_t capacity; /* bytes of a buffer */
    uint64_t rounds, calls, elements;
    uint64_t wrong; /* results that this rank has found wrong in this round */
};

/* A buffer of each kind of memory. */
struct buffers {
    char *symmetric, *plain;
};

struct stress_group {
    const char *name;
    symm_group *group;
    uint64_t salt; /* of its data: it differs between disjoint groups */
    bool is_world; /* the context destroys it */
    symm_stream stream;
    struct buffers in, out;
    char *in_host, *out_host; /* the input as it was, and the result */
    uint32_t *word;           /* for the kernel that makes a rank late */
    bool busy;                /* it has a call in this round */
    struct stress_choice choice;
    struct operation_call call;
    struct product_call product; /* or this one, and its matrices on the host: */
    struct products data;
    char *in_at, *out_at; /* the guards before the data begin here */
    size_t extent;        /* bytes from there to the end of the guards behind the data */
    symm_graph graph;
};

/* Bytes of a buffer for calls of nbytes: with guards on both sides and the largest offset. */
size_t stress_group_capacity(size_t nbytes);

/* Makes stream and buffers; name, group and salt are set. Collective over the group. */
symm_status stress_group_open(struct stress *x, struct stress_group *g);
void stress_group_close(struct stress *x, struct stress_group *g);

/* A call in steps: fills its buffers and prepares it, enqueues it, checks its result. */
symm_status stress_group_prepare(struct stress_group *g);
symm_status stress_group_start(struct stress *x, struct stress_group *g);
symm_status stress_group_check(struct stress *x, struct stress_group *g);

/* The one of a pair of buffers that has this kind of memory on this rank. */
char *stress_group_buffer(const struct stress_group *g, const struct buffers *pair,
                          enum stress_memory memory);
/* Prints the first wrong result of a round. */
void stress_note_wrong(struct stress *x, const struct stress_group *g, const char *what);
/* Whether the first `extent` bytes of a buffer are poison, except [at, at + nbytes). */
bool stress_is_untouched(const char *buffer, size_t extent, size_t at, size_t nbytes);

#endif
