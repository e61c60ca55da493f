/* The tiles of the Hopper kernel, for its list of kernels and for the model. */
#ifndef SYMM_MATMUL_SM90_TILES_H
#define SYMM_MATMUL_SM90_TILES_H

/*
 * One kernel a shape and type: X(K, rows and columns of a tile, blocks of a cluster). Many numbers
 * of rows, so that the tiles of most products fill the SMs.
 */
#define SYMM_WGMMA_SHAPES(X, K)                                                                    \
    X(K, 64, 128, 2)                                                                               \
    X(K, 128, 128, 2)                                                                              \
    X(K, 144, 128, 2)                                                                              \
    X(K, 160, 128, 2)                                                                              \
    X(K, 192, 128, 1)                                                                              \
    X(K, 208, 128, 2)                                                                              \
    X(K, 128, 192, 2)                                                                              \
    X(K, 96, 256, 1)                                                                               \
    X(K, 112, 256, 1)                                                                              \
    X(K, 112, 256, 2)                                                                              \
    X(K, 128, 256, 1)                                                                              \
    X(K, 128, 256, 2)

/*
 * The same of the kernel for plain products, which has no state besides a tile's accumulators. So
 * there are more shapes, and tiles of more than SYMM_PLAIN_OVERLAPPED elements, whose accumulators
 * take nearly all registers: they are stored before the next tile is multiplied.
 */
#define SYMM_PLAIN_SHAPES(X, K)                                                                    \
    X(K, 64, 128, 2)                                                                               \
    X(K, 96, 128, 2)                                                                               \
    X(K, 128, 128, 2)                                                                              \
    X(K, 160, 128, 2)                                                                              \
    X(K, 192, 128, 1)                                                                              \
    X(K, 208, 128, 1)                                                                              \
    X(K, 224, 128, 1)                                                                              \
    X(K, 240, 128, 1)                                                                              \
    X(K, 256, 128, 1)                                                                              \
    X(K, 144, 192, 1)                                                                              \
    X(K, 160, 192, 1)                                                                              \
    X(K, 176, 192, 1)                                                                              \
    X(K, 192, 192, 1)                                                                              \
    X(K, 128, 256, 1)                                                                              \
    X(K, 128, 256, 2)                                                                              \
    X(K, 144, 256, 1)                                                                              \
    X(K, 160, 256, 1)                                                                              \
    X(K, 176, 256, 1)

/*
 * The same of the kernel that splits k: X(K, rows and columns of a tile, stages). Two blocks fit on
 * an SM. Fewer rows leave room for more stages.
 */
#define SYMM_SPLIT_SHAPES(X, K)                                                                    \
    X(K, 16, 64, 11)                                                                               \
    X(K, 64, 64, 7)                                                                                \
    X(K, 64, 128, 4)                                                                               \
    X(K, 128, 64, 4)

/* Consumers of a tile of this many columns: warpgroups with one or two panels of 64 columns. */
#define SYMM_WGMMA_CONSUMERS(columns) ((columns) == 192 ? 3 : (columns) > 64 ? 2 : 1)

enum {
    SYMM_PLAIN_OVERLAPPED = 128 * 256,
    SYMM_WGMMA_DEPTH = 64, /* elements of k in a stage: 128 bytes */
    SYMM_WGMMA_LINE = 64   /* columns of a box of results, and of B if it is row-major: 128 bytes */
};

#endif
