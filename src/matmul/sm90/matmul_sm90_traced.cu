/* The image of the product for Hopper GPUs, traced. */
#define SYMM_TRACED SYMM_MATMUL_ROLE_PRODUCER
#define SYMM_TRACED_ALONE
#include "matmul_sm90.cu"
