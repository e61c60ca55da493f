/* Chooses a device. Ordinals are valid within this process only; ranks identify devices by UUID. */
#include "device.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "runtime/base/settings.h"

symm_status symm__device_by_uuid(const struct symm_driver *drv, const CUuuid *uuid, bool *found,
                                 CUdevice *out)
{
    int count = 0;
    symm_status st = SYMM_OK;

    *found = false;
    TRY_CU(drv, cuDeviceGetCount, &count);
    for (int i = 0; i < count && !*found; i++) {
        CUuuid its;
        CUdevice dev;
        TRY_CU(drv, cuDeviceGet, &dev, i);
        TRY_CU(drv, cuDeviceGetUuid, &its, dev);
        *found = memcmp(&its, uuid, sizeof its) == 0;
        if (*found)
            *out = dev;
    }
out:
    return st;
}

static bool parse_ordinal(const char *text, long *out)
{
    char *end;

    if (!isdigit((unsigned char)*text) || strlen(text) > 4)
        return false;
    *out = strtol(text, &end, 10);
    return *end == '\0';
}

/* Parses 32 hexadecimal digits, with dashes anywhere and the optional prefix "GPU-". */
static bool parse_uuid(const char *text, CUuuid *out)
{
    int ndigits = 0;

    memset(out, 0, sizeof *out);
    if (strncasecmp(text, "GPU-", 4) == 0)
        text += 4;
    for (; *text; text++) {
        if (*text == '-')
            continue;
        if (!isxdigit((unsigned char)*text) || ndigits == 32)
            return false;
        int digit =
            isdigit((unsigned char)*text) ? *text - '0' : tolower((unsigned char)*text) - 'a' + 10;
        out->bytes[ndigits / 2] = (char)((unsigned char)out->bytes[ndigits / 2] << 4 | digit);
        ndigits++;
    }
    return ndigits == 32;
}

const char *symm__device_more(const struct symm_driver *drv)
{
    return strcmp(drv->name, "cuda") == 0 ? "" : " (SYMM_EMULATED_DEVICES sets how many)";
}

static symm_status by_text(const struct symm_driver *drv, const char *text, const char *source,
                           int count, CUdevice *out)
{
    long ordinal;
    CUuuid uuid;
    bool found;

    if (parse_ordinal(text, &ordinal)) {
        if (ordinal < count && drv->cuDeviceGet(out, (int)ordinal) == CUDA_SUCCESS)
            return SYMM_OK;
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "%s \"%s\": this process sees devices 0 to %d of the %s driver%s", source,
                          text, count - 1, drv->name, symm__device_more(drv));
    }
    if (parse_uuid(text, &uuid)) {
        symm_status st = symm__device_by_uuid(drv, &uuid, &found, out);
        if (st != SYMM_OK || found)
            return st;
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "%s \"%s\": this process sees no device of that UUID", source, text);
    }
    if (strchr(text, ':') && drv->cuDeviceGetByPCIBusId(out, text) == CUDA_SUCCESS)
        return SYMM_OK;
    return symm__fail(SYMM_ERROR_ARGUMENT,
                      "%s \"%s\" is neither the ordinal nor the UUID nor the bus id of a device",
                      source, text);
}

symm_status symm__device_choose(const struct symm_driver *drv, const char *configured,
                                const struct symm_join *join, CUdevice *out)
{
    CUcontext current = NULL;
    CUresult cu;
    int count = 0;
    symm_status st = SYMM_OK;

    TRY_CU(drv, cuDeviceGetCount, &count);
    if (count == 0)
        return symm__fail(
            SYMM_ERROR_DRIVER, "the %s driver shows this process no device%s", drv->name,
            strcmp(drv->name, "cuda") == 0 ? "; SYMM_DRIVER=emulated runs without a GPU" : "");
    if (configured)
        return by_text(drv, configured, "device", count, out);
    if (symm__setting_is_set(SYMM_SETTING_DEVICE))
        return by_text(drv, symm__setting(SYMM_SETTING_DEVICE), "SYMM_DEVICE", count, out);
    TRY_CU(drv, cuCtxGetCurrent, &current);
    cu = current ? drv->cuCtxGetDevice(out) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    /* A destroyed context may still be current. */
    if (cu == CUDA_ERROR_CONTEXT_IS_DESTROYED)
        TRY_CU(drv, cuDeviceGet, out, join->local_rank % count);
    else if (cu != CUDA_SUCCESS)
        st = symm__driver_fail(drv, cu, "cuCtxGetDevice");
out:
    return st;
}
