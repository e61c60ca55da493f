/*
 * The algorithms of the collectives: a row for each pair of operation and algorithm. Choosing,
 * planning, launching and symm_*_unavailable() read the rows and know no algorithm by its name.
 * Pure: a row says nothing of the place of the data.
 */
#ifndef SYMM_ALGORITHMS_H
#define SYMM_ALGORITHMS_H

#include <symm/names.h>
#include "collectives/kernels/ids.h"
#include "model/cost.h"
#include "runtime/group/areas.h"
#include "runtime/group/operation.h"

struct symm_tuning;

struct symm_limits {
    int nranks;                       /* of the group */
    int nsms, max_threads;            /* of each rank's device, the least */
    int compute_major;                /* the lowest */
    const char *multicast_off;        /* NULL: multimem can reach the group's memory */
    struct symm_areas_size areas;     /* of each rank */
    const struct symm_tuning *tuning; /* the table of AUTO; NULL: it has its model alone */
};

struct symm_collective_call {
    enum symm_operation operation;
    symm_algo algo;
    uint32_t flags, max_blocks;
    symm_dtype dtype;
    symm_redop op;  /* of an operation that moves elements: SYMM_SUM, which means nothing */
    bool scaled;    /* each rank multiplies its elements by a number first */
    uint64_t count; /* at least 1; of one share, or of everything if there are no shares */
    uint64_t row;   /* elements of a row, all of which one block has; 0: there are no rows */
    int root;       /* of a broadcast; else 0 */
};

/* How elements travel. The kernel counts them in units. */
enum symm_transfer {
    SYMM_TRANSFER_PACKETS, /* through the packet area; a unit is the payload of a packet */
    SYMM_TRANSFER_PACKS,   /* in place or through the staging area; a unit is a pack of 16 bytes */
    SYMM_TRANSFER_LAMPORT, /* through the lamport area; a unit is a pack, which is its own flag */
    SYMM_TRANSFER_COPIES   /* by copy engines: the row needs no kernel, grid or capacity */
};

/* How elements are divided among the ranks. */
enum symm_division {
    SYMM_DIVISION_NONE,  /* every rank handles all of them */
    SYMM_DIVISION_UNITS, /* whole units for each rank: the last shares may have fewer elements */
    SYMM_DIVISION_EVEN   /* call->count elements for each rank */
};

struct symm_algorithm {
    enum symm_operation operation;
    symm_algo algo;
    enum symm_transfer transfer;
    enum symm_division division;

    /* Buffers of other ranks that it reads or writes: in place, if they can be used so. */
    struct {
        bool in, out;
    } reach;
    bool by_switch;    /* needs multicast; reduces in the switch's own order */
    bool floats;       /* of floating types only */
    bool scales;       /* can multiply a rank's elements by a number */
    bool ranks_differ; /* the ranks may get different bits, so AUTO must not take it */

    struct {
        symm_kernel_id first; /* of float32 or of bytes, for two ranks */
        int dtype_ids; /* ids from a dtype to the next one; 0: one kernel for all, of bytes */
        bool by_ranks; /* for 2, 4, 8 and any number of ranks */
    } kernel;

    /*
     * Blocks have `threads` until there are as many blocks as there may be, then twice as many, up
     * to most_threads, while units are left. Two groups may be active at once, so twice the blocks
     * fit the device: those of most_threads with the registers that they have.
     */
    struct {
        uint32_t threads, most_threads;
        uint32_t helpers; /* more threads of a block, which handle no units; 0 or a warp */
        bool few_blocks;  /* at most 32, on half of the SMs; else one on each SM */
        /* Up to so many units a block half of the blocks are as fast as all. 0: never. */
        uint32_t half_grid_units;
        bool splits_blocks; /* the units of each block are again divided among the ranks */
        bool clusters;      /* the blocks of a cluster may share a row */
    } grid;

    /*
     * A block's part of its area has `slots` chunks, each of all ranks, or of
     * one. pair: the kernel for two ranks has slots for the other rank alone.
     */
    struct {
        uint32_t slots;
        bool per_rank, pair;
    } capacity;

    /* A block with `units` or more makes `chunks` chunks at least. 0: one chunk. */
    struct {
        uint32_t chunks, units;
    } pipeline;

    /* AUTO takes it from so many ranks and bytes on, before it compares costs. 0 ranks: never. */
    struct {
        int nranks;
        uint64_t nbytes;
    } preferred;

    struct symm_cost cost;          /* the model of AUTO */
    struct symm_staged_cost staged; /* added without SYMM_SYMMETRIC, for `out` */
};

/* Those of one operation in the order in which AUTO prefers them at equal cost. */
extern const struct symm_algorithm symm__algorithms[];
extern const int symm__nalgorithms;

/* NULL: the operation has no such algorithm. */
const struct symm_algorithm *symm__algorithm_find(enum symm_operation operation, symm_algo algo);

/* Whether the operation computes: all but an all-gather and a broadcast. */
bool symm__operation_reduces(enum symm_operation operation);

/* Whether `in` or `out` is one of as many shares of the other as there are ranks. */
bool symm__operation_has_shares(enum symm_operation operation);

/* Bytes of the larger of in and out. */
uint64_t symm__collective_nbytes(const struct symm_limits *limits,
                                 const struct symm_collective_call *call);

/* Why it cannot run here for valid elements; NULL: it can. */
const char *symm__algorithm_reason(const struct symm_algorithm *algorithm,
                                   const struct symm_limits *limits, symm_dtype dtype,
                                   symm_redop op);

/* The same for any values. AUTO runs if there is arithmetic of the elements. */
const char *symm__collective_reason(const struct symm_limits *limits, enum symm_operation operation,
                                    symm_algo algo, symm_dtype dtype, symm_redop op);

/* Whether `out` must be symmetric memory: copies into it cannot go through the staging area. */
bool symm__needs_symmetric(const struct symm_algorithm *algorithm);

#endif
