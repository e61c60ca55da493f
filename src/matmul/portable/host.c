/* The launch of the portable product. */
#include "host.h"

#include "ids.h"
#include "matmul/plan/order.h"
#include "matmul/trace/trace.h"
#include "tile.h"

SYMM_KERNEL_LISTS(matmul_portable, SYMM_MATMUL_PORTABLE_KERNELS);

symm_status symm__portable_enqueue(struct symm_call *call, const struct symm_problem *p,
                                   const struct symm_matmul_plan *plan,
                                   const symm_product_args *args)
{
    const symm_kernel_id kernel = p->dtype == SYMM_FLOAT16 ? SYMM_KERNEL_matmul_product_float16
                                                           : SYMM_KERNEL_matmul_product_bfloat16;

    symm_product_args all = *args;

    all.order = symm__tile_order(p, args, TILE_ROWS, TILE_COLUMNS, plan->blocks, plan->band);
    return symm__call_launch_local(call, symm__trace_kernel(kernel, &args->view), plan->blocks,
                                   plan->threads, &all);
}
