/*
 * What one rank needs to run protocols: a group with pads, symmetric and own memory, a result that
 * kernels count into, and random choices that all ranks make alike. Ranks are threads.
 */
#ifndef PROOF_STAGE_H
#define PROOF_STAGE_H

#include <pthread.h>
#include <symm/collectives.h>
#include <symm/stream.h>
#include "draw.h"
#include "protocol_kernels.h"
#include "ranks.h"
#include "test.h"

enum {
    STAGE_PADS = 76,
    STAGE_KERNELS = 24,
    STAGE_COUNT = 512,           /* elements of a library call, at most */
    STAGE_DATA_NBYTES = 8192,    /* of each of three arrays: in, out, a peer's data */
    STAGE_ROOM_NBYTES = 2 << 20, /* of one product's matrices */
    STAGE_THREADS = 64,          /* of a block of the protocols' kernels, at most */
    STAGE_WIDE = 512             /* of the Hopper kernel's blocks */
};

/* Shared by the ranks of a process. */
struct hall {
    uint32_t block; /* threads of a block */
    void (*set_seed)(uint64_t seed);
    pthread_barrier_t meet;
    _Atomic unsigned
        asked[PROOF_RANKS]; /* the blocks of this rank that want an end of their wait */
    const char *protocol;   /* that runs now, */
    uint64_t seed, runs;    /* its seed, and how many runs there were before */
};

struct stage {
    struct rank *self;
    struct hall *hall;
    symm_context *ctx;
    symm_group *group;
    symm_view view;
    symm_stream stream;
    symm_signal_pad *pads[STAGE_PADS];
    char *cells, *data, *own, *room; /* data: symmetric; own and room: not */
    symm_packet *slots;
    uint32_t *salt, *result, salts[8], counts[2], nsalts;
    symm_status expected; /* a failure that is none, because the group is to end; else OK */
    symm_status status;   /* of the last call */
    const char *inside;   /* the protocol that another one runs */
    struct {
        const char *name;
        symm_kernel *kernel;
    } kernels[STAGE_KERNELS];
};

/* Before ranks join: weakly ordered memory, blocks of this size, counters below their wrap. */
void stage_environment(int nranks, uint32_t block, uint64_t seed);

/* All ranks together. */
bool stage_open(struct stage *st, struct rank *self, struct hall *hall);
/* A new group with everything that belongs to one, in place of the old one, dead or alive. */
bool stage_renew(struct stage *st);
void stage_close(struct stage *st);

/* The rank that is `by` after this one, in a ring. */
int stage_neighbour(const struct stage *st, int by);

/* Loads it once. NULL: failed. */
symm_kernel *stage_kernel(struct stage *st, const char *name);

/* The arguments that do not depend on the protocol. */
proof_args stage_args(const struct stage *st, int pad);
bool stage_launch(struct stage *st, const char *kernel, uint32_t blocks, const void *args,
                  size_t nbytes, symm_stream stream);
/* The same deed on elements of a library call that reduces by `op`; x[0] is the `first` of them. */
bool stage_data(struct stage *st, enum proof_deed deed, void *x, size_t first, size_t count,
                symm_dtype dtype, int from, int ranks, symm_redop op);

/*
 * Checks the norm of these rows of sums, with 1 added to the mean of squares. The weight is the
 * data of the rank behind these ranks.
 */
bool stage_norm(struct stage *st, void *x, size_t rows, size_t hidden, symm_dtype dtype, int from,
                int ranks);

/* Enqueues once or twice, eagerly or as a graph, with new salts; waits and checks the counts. */
bool stage_repeat(struct stage *st, struct draw *draw, bool (*enqueue)(struct stage *, void *),
                  void *arg);

/* Whether a call was OK. If not, and that was not to be expected, stage_fail(). */
bool stage_ok(struct stage *st, symm_status status, const char *what);
/* Prints the failure and its run, and ends the process: other ranks would wait for this one. */
__attribute__((noreturn, format(printf, 2, 3))) void stage_fail(struct stage *st, const char *fmt,
                                                                ...);

#endif
