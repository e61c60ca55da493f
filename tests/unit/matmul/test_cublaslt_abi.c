/* The numbers and layouts of cublaslt.h are those of cuBLASLt's header, where there is one. */
#include "abi/cublaslt.h"
#include "test.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

enum { HAS_HEADER = 1 };
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
