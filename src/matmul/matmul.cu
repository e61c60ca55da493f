/* The image of the products' kernels. */
#include "runtime/group/define_kernels.cuh"
#include "matmul/kernels/matmul.def"
#include "matmul/transport/senders.cuh"
#include "matmul/portable/product.cuh"
#include "matmul/sm90/kernel.cuh"

SYMM_MATMUL_KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R)
