/* The image of the transport's kernels, traced. */
#define SYMM_TRACED SYMM_MATMUL_ROLE_ROUND
#include "matmul_transport.cu"
