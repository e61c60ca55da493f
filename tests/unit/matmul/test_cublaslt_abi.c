/* The numbers and layouts of cublaslt.h are those of cuBLASLt's header, where there is one. */
#include "abi/cublaslt_configuration.h"
#include "test.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

enum { HAS_HEADER = 1 };
#define TILE_(rows, columns) CUBLASLT_MATMUL_TILE_##rows##x##columns
/* Of one tile of each run of numbers. */
static const struct {
    int rows, columns, theirs;
} tiles[] = {
#define TILE(rows, columns)                                                                        \
    {                                                                                              \
        rows, columns, TILE_(rows, columns)                                                        \
    }
    TILE(64, 8),    TILE(64, 16),   TILE(64, 24),   TILE(64, 32),   TILE(64, 56),   TILE(64, 64),
    TILE(64, 88),   TILE(64, 96),   TILE(64, 120),  TILE(64, 128),  TILE(64, 184),  TILE(64, 192),
    TILE(64, 248),  TILE(64, 256),  TILE(128, 8),   TILE(128, 24),  TILE(128, 32),  TILE(128, 56),
    TILE(128, 64),  TILE(128, 88),  TILE(128, 96),  TILE(128, 120), TILE(128, 128), TILE(128, 152),
    TILE(128, 160), TILE(128, 184), TILE(128, 192), TILE(128, 248), TILE(128, 256), TILE(192, 8),
    TILE(192, 56),  TILE(192, 64),  TILE(192, 120), TILE(192, 128), TILE(192, 184), TILE(192, 192),
    TILE(192, 248), TILE(192, 256), TILE(256, 8),   TILE(256, 24),  TILE(256, 32),  TILE(256, 56),
    TILE(256, 64),  TILE(256, 120), TILE(256, 128), TILE(256, 184), TILE(256, 192), TILE(256, 248),
    TILE(256, 256), TILE(384, 8),   TILE(384, 56),  TILE(384, 64),  TILE(384, 120), TILE(384, 128),
    TILE(384, 168),
#undef TILE
};
static const struct {
    const char *name;
    long long ours, theirs;
} numbers[] = {
#define NUMBER(ours, theirs)                                                                       \
    {                                                                                              \
#theirs, (long long)(ours), (long long)(theirs)                                            \
    }
    NUMBER(CUBLASLT_COMPUTE_32F, CUBLAS_COMPUTE_32F),
    NUMBER(CUBLASLT_TYPE_32F, CUDA_R_32F),
    NUMBER(CUBLASLT_TYPE_16F, CUDA_R_16F),
    NUMBER(CUBLASLT_TYPE_16BF, CUDA_R_16BF),
    NUMBER(false, CUBLAS_OP_N),
    NUMBER(true, CUBLAS_OP_T),
    NUMBER(sizeof(int32_t), sizeof(cublasOperation_t)),
    NUMBER(CUBLASLT_OPERATION_TRANSPOSE_A, CUBLASLT_MATMUL_DESC_TRANSA),
    NUMBER(CUBLASLT_OPERATION_TRANSPOSE_B, CUBLASLT_MATMUL_DESC_TRANSB),
    NUMBER(CUBLASLT_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT),
    NUMBER(CUBLASLT_LAYOUT_STRIDED_BATCH_OFFSET, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET),
    NUMBER(CUBLASLT_PREFERENCE_MAX_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES),
    NUMBER(CUBLASLT_PREFERENCE_REDUCTION_SCHEME_MASK, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK),
    NUMBER(CUBLASLT_PREFERENCE_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES),
    NUMBER(CUBLASLT_PREFERENCE_MIN_ALIGNMENT_A_BYTES + 1,
           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES),
    NUMBER(CUBLASLT_PREFERENCE_MIN_ALIGNMENT_A_BYTES + 2,
           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES),
    NUMBER(CUBLASLT_PREFERENCE_MIN_ALIGNMENT_A_BYTES + 3,
           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES),
    NUMBER(CUBLASLT_REDUCTION_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE),
    NUMBER(CUBLASLT_ALGORITHM_TILE, CUBLASLT_ALGO_CONFIG_TILE_ID),
    NUMBER(CUBLASLT_ALGORITHM_K_PARTS, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
    NUMBER(CUBLASLT_ALGORITHM_REDUCTION, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
    NUMBER(CUBLASLT_ALGORITHM_CUSTOM_OPTION, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
    NUMBER(CUBLASLT_ALGORITHM_CLUSTER, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID),
    NUMBER(0, CUBLASLT_REDUCTION_SCHEME_NONE),
    NUMBER(CUBLASLT_CLUSTER_2X1, CUBLASLT_CLUSTER_SHAPE_2x1x1),
    NUMBER(CUBLASLT_CLUSTER_4X1, CUBLASLT_CLUSTER_SHAPE_4x1x1),
    NUMBER(CUBLASLT_CLUSTER_1X2, CUBLASLT_CLUSTER_SHAPE_1x2x1),
    NUMBER(sizeof(cublaslt_algorithm), sizeof(cublasLtMatmulAlgo_t)),
    NUMBER(sizeof(cublaslt_heuristic), sizeof(cublasLtMatmulHeuristicResult_t)),
    NUMBER(offsetof(cublaslt_heuristic, workspace_nbytes),
           offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize)),
    NUMBER(offsetof(cublaslt_heuristic, state), offsetof(cublasLtMatmulHeuristicResult_t, state)),
#undef NUMBER
};
#else
enum { HAS_HEADER = 0 };
static const struct {
    int rows, columns, theirs;
} tiles[1];
static const struct {
    const char *name;
    long long ours, theirs;
} numbers[1];
#endif

TEST_GROUP(abi, 10);

TEST(abi, numbers_are_theirs)
{
    if (!HAS_HEADER)
        TEST_SKIP("there is no cublasLt.h");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        ck_assert_msg(numbers[i].ours == numbers[i].theirs, "%s is %lld, not %lld", numbers[i].name,
                      numbers[i].theirs, numbers[i].ours);
}

TEST(abi, numbers_of_tiles_are_theirs)
{
    if (!HAS_HEADER)
        TEST_SKIP("there is no cublasLt.h");
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        const int ours = symm__cublaslt_tile(tiles[i].rows, tiles[i].columns);
        ck_assert_msg(ours == tiles[i].theirs, "%d x %d is %d, not %d", tiles[i].rows,
                      tiles[i].columns, tiles[i].theirs, ours);
    }
}
