/* One row of symm-bench p2p: how bytes move, and between which ranks. */
#ifndef SYMM_BENCH_P2P_MOVE_H
#define SYMM_BENCH_P2P_MOVE_H

#include "p2p_args.h"
#include "subject.h"

enum { P2P_BY_KERNEL, P2P_BY_COPY_ENGINE, P2P_BY_PING };

struct p2p_how {
    const char *name;
    int by, mode; /* the mode of the kernel p2p_move */
    bool pulls;   /* a rank fetches its bytes */
    const char *kernel;
};
enum { P2P_NHOWS = 8 };
extern const struct p2p_how p2p_hows[P2P_NHOWS];

/* Rank r, if it is one of the first `movers`, moves with r + first, r + first + stride, ... */
struct p2p_pattern {
    const char *name;
    int movers; /* 0: all ranks */
    int least;  /* ranks: with fewer it equals an earlier pattern */
};
enum { P2P_PAIR_BOTH = 1, P2P_NPATTERNS = 5 };
extern const struct p2p_pattern p2p_patterns[P2P_NPATTERNS];

/* Buffers and kernels of all rows. */
struct p2p_room {
    struct session *s;
    char *src, *dst;
    symm_packet *slots;
    symm_signal_pad *pad;
    uint32_t *wrong;
    symm_kernel *fill, *check, *kernel[P2P_NHOWS];
    uint32_t threads, rounds;
};

/* Allocates for moves of up to `most` bytes; s, threads and rounds are set. Collective. */
symm_status p2p_room_create(struct p2p_room *room, uint64_t most);
/* The symmetric memory goes with the context. */
void p2p_room_destroy(struct p2p_room *room);

struct p2p_move {
    struct p2p_room *room;
    const struct p2p_how *how;
    const struct p2p_pattern *pattern;
    uint32_t blocks; /* 0: no kernel */
    uint64_t nbytes;
    p2p_args args;  /* of this rank */
    p2p_args found; /* the origin of the bytes that this rank's dst then has */
};

/* Fills in the arguments of this rank by the first members. */
void p2p_plan(struct p2p_move *m);

/* `what` is a struct p2p_move. */
extern const struct subject_kind p2p_kind;

#endif
