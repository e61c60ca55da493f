SYMM_KERNEL(subtract, add_args, a, 32)
{
    a.x[threadIdx.x] -= a.by;
}
