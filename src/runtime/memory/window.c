/* Reserves and releases the address windows. */
#include "window.h"

symm_status symm__windows_open(const struct symm_driver *drv, int nranks, uint64_t nbytes,
                               uint64_t alignment, struct symm_windows *out)
{
    symm_status st = SYMM_OK;
    struct symm_windows w = {.nranks = nranks, .nbytes = nbytes};

    for (int r = 0; r < nranks; r++)
        TRY_CU(drv, cuMemAddressReserve, &w.base[r], nbytes, alignment, 0, 0);
    *out = w;
    return SYMM_OK;
out:
    symm__windows_close(drv, &w);
    return st;
}

symm_status symm__windows_close(const struct symm_driver *drv, struct symm_windows *w)
{
    symm_status first = SYMM_OK;

    for (int r = 0; r < w->nranks; r++) {
        if (w->base[r])
            RELEASE_CU(drv, first, cuMemAddressFree, w->base[r], w->nbytes);
        w->base[r] = 0;
    }
    return first;
}

int symm__windows_find(const struct symm_windows *w, CUdeviceptr addr, uint64_t *off)
{
    for (int r = 0; r < w->nranks; r++) {
        if (addr >= w->base[r] && addr - w->base[r] < w->nbytes) {
            *off = addr - w->base[r];
            return r;
        }
    }
    return -1;
}
