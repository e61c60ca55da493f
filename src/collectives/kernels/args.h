/* The one argument struct of each kind of kernel: the same in C and in the kernels. */
#ifndef SYMM_KERNEL_ARGS_H
#define SYMM_KERNEL_ARGS_H

#include <symm/types.h>

/* A factor of this rank's elements. */
typedef struct symm_scale {
    double value;
    const void *at;        /* an element, read by the kernel; NULL: it is `value` */
    uint32_t on, reserved; /* on: 0: no factor */
} symm_scale;

/*
 * A reduction within this rank's own memory: of the other ranks' elements, which lie
 * `stride` apart in the order of the ranks, each aligned to 16 bytes, with its own ones.
 */
typedef struct symm_local_reduce_args {
    const void *own;
    void *out;
    const char *staged;
    uint64_t stride; /* bytes from one rank to the next one */
    uint64_t count;  /* elements of each rank */
    int32_t rank, nranks;
    uint32_t op, reserved; /* a symm_redop */
    symm_scale scale;      /* of its own ones */
} symm_local_reduce_args;

enum { SYMM_PLACE_SLICE = 8192 /* bytes that a block of threads copies at a time */ };

/* Copies blocks between two orders within this rank's own memory. Pitches: from one to the next. */
typedef struct symm_place_blocks_args {
    const int32_t *ranks;                      /* of each block of `sorted` */
    char *sorted, *by_rank;                    /* by_rank: in the order of the group's ranks */
    uint64_t sorted_pitch, rank_pitch, nbytes; /* nbytes: of a block */
    uint32_t nblocks;
    uint32_t to_ranks; /* 1: from sorted to by_rank; 0: the other way */
} symm_place_blocks_args;

/*
 * An exchange through staging areas sends LEAD chunks ahead of the one that it takes. In each area
 * a block has DEPTH slots for chunks.
 */
enum { SYMM_STAGING_LEAD = 1, SYMM_STAGING_DEPTH = 2 + 2 * SYMM_STAGING_LEAD };

/*
 * The arguments of every collective. Block b uses four channels of the pad, from `channel` + 4b on.
 * Elements are counted in units: packs of 16 bytes, or payloads of packets. The host divides,
 * because a division is noticeable in a kernel of two microseconds. The elements of an all-gather
 * and of a broadcast are bytes.
 */
typedef struct symm_collective_args {
    /* The first words that a kernel needs come first, close together. */
    const void *in;
    void *out;
    symm_signal_pad *pad;
    char *staging, *results; /* this rank's staging area, and the second half of it; symmetric */
    symm_packet *packets;    /* this rank's packet area; symmetric */
    symm_packet *slots;      /* this rank's lamport area; symmetric */
    uint64_t count;          /* elements of the larger of in and out */
    uint64_t stride;         /* of these in each share, the last ones apart */
    uint64_t share;          /* units of a share; of all elements if there are no shares */
    uint64_t block_units;    /* of these, for each block */
    uint64_t own;            /* elements that this rank's share has: in an all-gather of `in`, in a
                              * reduce-scatter of `out`; at most stride */
    uint32_t capacity;       /* units that a block's part of staging or packets holds at a time */
    uint32_t block_packets;  /* slots of each block in the packet area, for any grid */
    uint32_t block_slots;    /* and in the lamport area */
    uint32_t op;             /* a symm_redop */
    uint32_t call;           /* the call, the same on all ranks: a hash, or for packets
                              * symm__packet_call() */
    uint32_t place;          /* a hash of the place of in and out; 0: not usable in place */
    int32_t channel;
    uint32_t aligned; /* whether shares are as many whole packs each, and aligned on this rank */
    symm_view view;
    symm_scale scale; /* of a reduction by lamport */
    int32_t root;     /* of a broadcast */
    uint32_t reserved;
} symm_collective_args;

/*
 * The threads of a row, and its packs of 16 bytes: a warp of `lanes` threads has lanes * packs of
 * them. The blocks of a cluster have `warps` warps of a row each; blocks 1: a block has all of it.
 */
typedef struct symm_row_threads {
    uint32_t blocks, warps, lanes, packs;
} symm_row_threads;

/* Rows that the blocks of a cluster share. */
enum {
    SYMM_ROW_PARTS = 8,  /* blocks of a cluster, on all GPUs that have clusters */
    SYMM_ROW_SUMS = 32,  /* each of a warp's packs of a row, one a lane */
    SYMM_PART_WARPS = 4, /* of a block */
    SYMM_PART_PACKS = 2  /* that each thread keeps */
};

/*
 * All-reduce, residual and RMS norm. Block b has block_rows rows, from b * block_rows on; the last
 * block may have fewer. If the blocks of a cluster share a row, block_rows is 1 and a block has a
 * part of the row. `all` describes the elements of one block: its count, stride, share and
 * alignment.
 */
typedef struct symm_norm_args {
    symm_collective_args all;
    const void *residual, *weight; /* NULL: none */
    void *residual_out;
    uint64_t rows, hidden, block_rows;
    symm_row_threads threads; /* of a row */
    float eps;
    uint32_t reserved;
} symm_norm_args;

#endif
