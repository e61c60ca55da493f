/* Arguments that the products' kernels share: the same structs for C and for kernels. */
#ifndef SYMM_MATMUL_KERNEL_ARGS_H
#define SYMM_MATMUL_KERNEL_ARGS_H

#include <symm/matmul.h>
#include "split.h"

/* Of a pack, which lies in one row: 16 bytes of 16-bit elements. Rows in workspaces are packs. */
enum { SYMM_PACK_ELEMENTS = 8 };

/* A matrix in memory; strides in elements. */
typedef struct symm_matrix {
    void *data; /* NULL: absent */
    int64_t row, column, batch;
    uint32_t dtype, reserved;
} symm_matrix;

/*
 * All of A, [l, m, k]: this rank's rows in place, the other ranks' rows in the workspace, where
 * each rank has a slab of [l, its rows, ld]. The rows of a slab are numbered consecutively over all
 * batches; the ranks exchange rows by these numbers.
 */
typedef struct symm_shards {
    symm_matrix own;
    char *workspace;      /* symmetric; NULL: own is all of A */
    uint64_t slab_nbytes; /* from one rank's slab to the next one's */
    int64_t ld;
    int32_t m, k, l;
    int32_t rank, nranks; /* 0 and 1 if own is all of A */
    uint32_t reserved;
} symm_shards;

/*
 * How rows arrive. A rank's rows are cut into strips of rows, and each strip along k into pieces:
 * piece p of strip s is chunk s * k_pieces + p. Chunks are sent in this order. Chunk c has channel
 * c, on which a signal announces its arrival. On channel `chunks` the ranks tell each other that
 * their workspaces may be written.
 */
typedef struct symm_arrival_plan {
    symm_signal_pad *pad;
    uint32_t strip_rows;       /* 0: all rows are present */
    uint32_t k_piece;          /* elements of k; the last piece of a strip may have fewer */
    uint32_t k_pieces, chunks; /* pieces of a strip; chunks of the largest shard */
} symm_arrival_plan;

/*
 * The progress of the runs of a product whose rows arrive, in this rank's memory. Signals of chunks
 * are counted, not taken: run i has the i-th of each channel.
 */
typedef struct symm_round_state {
    uint32_t runs;    /* that have ended */
    uint32_t started; /* blocks of the product in this run */
    uint32_t ended;   /* blocks that wait for no more rows */
    uint32_t reserved;
} symm_round_state;

/*
 * The destination of results. TO_D: d[i]. Else d[i] is this rank's slot in the workspace, which has
 * the same place on all ranks. TO_OWNERS: the rows that a rank has of the sum, [l, its rows, n], go
 * to the slot on that rank. TO_ALL: all results go to the slots on all ranks.
 */
typedef enum symm_sink { SYMM_TO_D, SYMM_TO_OWNERS, SYMM_TO_ALL } symm_sink;

/*
 * The order of tiles of products whose results go to owners: `others` tiles for the other owners,
 * then this rank's own. `early` of the own ones are spread evenly over the others', so that results
 * leave during all waves but the last one, at an even rate. All 0: in the order of steps.
 */
typedef struct symm_mixed_order {
    uint32_t others, early;
    uint32_t share; /* early / (others + early), in units of 2^-32, rounded up */
} symm_mixed_order;

/*
 * The tiles of a launch, and their order. Blocks find their next tile by it while the tensor cores
 * wait, so the host has made the divisions. Only products with batches divide once more.
 */
typedef struct symm_tile_order {
    symm_row_split rows;  /* of the ranks whose rows are multiplied: see rows_of_step() */
    int32_t across;       /* tiles of a row of tiles */
    symm_divisor band;    /* tiles of a band */
    symm_divisor height;  /* rows of tiles of a band */
    symm_divisor last[2]; /* of a step's last band; [1]: of a rank with one more row */
    symm_mixed_order mixed;
} symm_tile_order;

/* A tile of this rank's sums, [l, its rows, n], at its first row and column. */
typedef struct symm_part_tile {
    int32_t product, batch, row, rows, column, columns;
} symm_part_tile;

/* The state of symm_parts, in this rank's memory. */
typedef struct symm_parts_state {
    union {
        uint32_t runs; /* that have ended */
        /* With packs: the runs that have begun; in the high half the blocks of the next one. */
        uint64_t begun;
    };
    uint32_t nlate; /* entries of late[]: tiles whose part had not come in time */
    uint32_t ended; /* blocks of the kernel that ends the run */
} symm_parts_state; /* late[] follows: symm_part_tile */

/* Numbers of sets of slots. Runs use the sets in rotation. */
enum { SYMM_PART_SETS = 2, SYMM_PACK_SETS = 4 };

/* The ways to make the sums of a product's results over ranks. */
typedef enum symm_sums {
    SYMM_SUMS_COLLECTED, /* by the collecting kernel, between barriers */
    SYMM_SUMS_PARTS,     /* by products of two ranks, tile by tile: see sum_parts.cuh */
    SYMM_SUMS_PACKS,     /* by the kernel for few rows: see sum_packs.cuh */
    SYMM_SUMS_BANDS      /* by the switch, beside the products: see sum_bands.cuh */
} symm_sums;

/*
 * Sums that a product makes, or a kernel beside it. With PARTS a rank's results for an owner's tile
 * are its part of that tile's sum. A signal on the tile's channel tells the owner that the other
 * rank's part is in its slot. With BANDS it tells this rank's own kernel beside the product that
 * the tile is stored. Signals are counted, not taken: run i has the i-th of each channel.
 *
 * All ranks have the same tiles: `rows` x `columns`, numbered within an owner's rows.
 */
typedef struct symm_parts {
    symm_signal_pad *pad; /* NULL: the sums are collected */
    symm_parts_state *state;
    uint64_t set_nbytes;                     /* distance between two sets of slots */
    uint64_t slot_nbytes[SYMM_MATMUL_MAX_B]; /* from one rank's slot to the next one's */
    symm_matrix slots[SYMM_MATMUL_MAX_B];    /* the first rank's */
    int32_t rows, columns;                   /* of a tile */
    uint32_t all_own; /* all ranks own all rows; else each row has one owner */
    /*
     * The product stores this rank's parts in D, not in its slot, signals the other rank's parts
     * tile by tile, and adds those of the other rank that come in time. Else the kernel behind the
     * product signals and adds all parts. With packs, the product sends and adds all of them, or
     * the kernel behind it does. With bands, the product signals its tiles, or the kernel does,
     * which then comes behind it.
     */
    uint32_t beside;
    uint32_t sums;      /* symm_sums */
    int32_t band_rows;  /* with bands: the rows of the product's bands of tiles */
    uint32_t by_switch; /* with bands: the memory is bound to the multicast object */
} symm_parts;

/* A product, or its part with the rows of steps [first_step, last_step): see rows_of_step(). */
typedef struct symm_product_args {
    symm_shards a;
    symm_arrival_plan arrivals;
    symm_matrix b[SYMM_MATMUL_MAX_B], c[SYMM_MATMUL_MAX_B], d[SYMM_MATMUL_MAX_B],
        bias[SYMM_MATMUL_MAX_B]; /* row of a bias: 0 */
    int32_t n[SYMM_MATMUL_MAX_B], nb;
    int32_t first_step, last_step;
    uint32_t sink; /* symm_sink */
    symm_tile_order order;
    symm_parts parts;
    float alpha, beta;
    uint32_t activation;
    symm_round_state *round; /* NULL: all rows are present */
    symm_view view;
} symm_product_args;

#endif
