/* The kernel that does nothing. */
#include <symm/device.cuh>
#include "bare_launch_args.h"

SYMM_KERNEL(bare_launch, bare_launch_args, a, 128)
{
    (void)a;
}
