/* The image of the portable product, traced. */
#define SYMM_TRACED SYMM_MATMUL_ROLE_BLOCK
#include "matmul_portable.cu"
