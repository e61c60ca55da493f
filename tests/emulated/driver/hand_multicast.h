/* Multicast objects of the emulated driver, as several tests need them. */
#ifndef TEST_HAND_MULTICAST_H
#define TEST_HAND_MULTICAST_H

#include "driver_table.h"

#if SYMM_MULTICAST /* else the table has no entries for it */

#define SIZE (4 * GRANULE)

static inline CUmulticastObjectProp multicast_prop(unsigned ndevices)
{
    return (CUmulticastObjectProp){
        .numDevices = ndevices,
        .size = SIZE,
        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    };
}

static inline CUmemGenericAllocationHandle multicast_create(unsigned ndevices)
{
    CUmemGenericAllocationHandle handle;
    CUmulticastObjectProp prop = multicast_prop(ndevices);
    OK(cu.cuMulticastCreate(&handle, &prop));
    return handle;
}

/* An object with devices 0 to n - 1 added. */
static inline CUmemGenericAllocationHandle multicast_full(unsigned n)
{
    CUmemGenericAllocationHandle handle = multicast_create(n);
    for (unsigned d = 0; d < n; d++)
        OK(cu.cuMulticastAddDevice(handle, (CUdevice)d));
    return handle;
}

static inline int export_fd(CUmemGenericAllocationHandle handle)
{
    int fd;
    OK(cu.cuMemExportToShareableHandle(&fd, handle, 1, 0));
    return fd;
}

/* Closes the descriptor. */
static inline CUmemGenericAllocationHandle import_fd(int fd)
{
    CUmemGenericAllocationHandle handle;
    OK(cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, 1));
    close(fd);
    return handle;
}

#endif
#endif
