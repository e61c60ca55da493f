/* The attributes of devices. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <symm/detail/emulated.h>
#include "emulator/state/call.h"
#include "emulator/state/devices.h"
#include "emulator/state/machine.h"

CUresult emu_cuDeviceGetCount(int *count)
{
    EMU_BEGIN("void");
    EMU_NOT_NULL(count);
    *count = emu__machine.ndevices;
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuDeviceGet(CUdevice *dev, int ordinal)
{
    EMU_BEGIN("ordinal=%d", ordinal);
    EMU_NOT_NULL(dev);
    /* Not a broken rule: programs probe for ordinals. */
    if (!emu__device(ordinal))
        return EMU_END(CUDA_ERROR_INVALID_DEVICE);
    *dev = ordinal;
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuDeviceGetName(char *name, int len, CUdevice dev)
{
    EMU_BEGIN("len=%d, dev=%d", len, dev);
    EMU_NOT_NULL(name);
    if (!emu__device(dev))
        return EMU_END(emu__no_device(dev));
    if (len <= 0)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "len is %d", len));
    snprintf(name, (size_t)len, "SYMM emulated device");
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    EMU_BEGIN("dev=%d", dev);
    EMU_NOT_NULL(uuid);
    if (!emu__device(dev))
        return EMU_END(emu__no_device(dev));
    memset(uuid, 0, sizeof *uuid);
    memcpy(uuid->bytes, SYMM_EMULATED_MAGIC, sizeof SYMM_EMULATED_MAGIC);
    uuid->bytes[15] = (char)dev;
    return EMU_END(CUDA_SUCCESS);
}

static void bus_id(int ordinal, char text[16])
{
    snprintf(text, 16, "0000:EE:%02X.0", (unsigned)ordinal & 0xff);
}

CUresult emu_cuDeviceGetPCIBusId(char *id, int len, CUdevice dev)
{
    EMU_BEGIN("len=%d, dev=%d", len, dev);
    EMU_NOT_NULL(id);
    char text[16];
    if (!emu__device(dev))
        return EMU_END(emu__no_device(dev));
    bus_id(dev, text);
    if (len <= (int)strlen(text))
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "len %d is too small", len));
    strcpy(id, text);
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuDeviceGetByPCIBusId(CUdevice *dev, const char *id)
{
    EMU_BEGIN("id=%s", id ? id : "");
    EMU_NOT_NULL(dev);
    EMU_NOT_NULL(id);
    for (int i = 0; i < emu__machine.ndevices; i++) {
        char text[16];
        bus_id(i, text);
        /* The domain is optional. */
        if (strcasecmp(id, text) == 0 || strcasecmp(id, text + strlen("0000:")) == 0) {
            *dev = i;
            return EMU_END(CUDA_SUCCESS);
        }
    }
    return EMU_END(CUDA_ERROR_INVALID_DEVICE);
}

CUresult emu_cuDeviceGetAttribute(int *value, int attribute, CUdevice dev)
{
    EMU_BEGIN("attribute=%d, dev=%d", attribute, dev);
    EMU_NOT_NULL(value);
    if (!emu__device(dev))
        return EMU_END(emu__no_device(dev));
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = emu__machine.max_block_threads;
        break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = emu__machine.sms;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = 9;
        break;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
        *value = 1;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
        *value = 0;
        break;
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
        *value = emu__machine.pageable;
        break;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
        *value = SYMM_MULTICAST && emu__machine.multicast;
        break;
    default:
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "attribute %d is unknown", attribute));
    }
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuDeviceTotalMem(size_t *nbytes, CUdevice dev)
{
    EMU_BEGIN("dev=%d", dev);
    EMU_NOT_NULL(nbytes);
    if (!emu__device(dev))
        return EMU_END(emu__no_device(dev));
    *nbytes = emu__machine.memory_nbytes;
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
    EMU_BEGIN("dev=%d, peer=%d", dev, peer);
    EMU_NOT_NULL(can);
    if (!emu__device(dev) || !emu__device(peer))
        return EMU_END(emu__no_device(emu__device(dev) ? peer : dev));
    *can = dev != peer && emu__reaches(dev, peer);
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice from, CUdevice to)
{
    EMU_BEGIN("attribute=%d, from=%d, to=%d", attribute, from, to);
    EMU_NOT_NULL(value);
    if (!emu__device(from) || !emu__device(to))
        return EMU_END(emu__no_device(emu__device(from) ? to : from));
    if (from == to)
        return EMU_END(
            emu__rule(CUDA_ERROR_INVALID_DEVICE, "device %d is no peer of itself", from));
    if (attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
        attribute > CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "attribute %d is unknown", attribute));
    *value = emu__reaches(from, to);
    return EMU_END(CUDA_SUCCESS);
}
