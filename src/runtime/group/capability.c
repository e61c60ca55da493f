/* Reads the capabilities of a rank, and computes the values that all ranks agree on. */
#include "capability.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/numbers.h"
#include "runtime/base/settings.h"
#include "runtime/base/text.h"
#include "runtime/driver/device.h"
#include "runtime/memory/heap.h"
#include "runtime/memory/segment.h"
#include "tuning.h"

enum { STAGING_LEAST = 1 << 10, STAGING_AT_LEAST = 8 << 20, STAGING_AT_MOST = 256 << 20 };

static symm_status read_check(int configured, const struct symm_driver *drv, int32_t *out)
{
    int64_t number = strcmp(drv->name, "emulated") == 0;
    symm_status st = SYMM_OK;

    if (strcmp(symm__setting(SYMM_SETTING_CHECK), "auto") != 0)
        TRY(symm__setting_int(SYMM_SETTING_CHECK, 0, 1, &number));
    if (configured < -1 || configured > 1)
        return symm__fail(SYMM_ERROR_ARGUMENT, "config.check is %d; 1 means on, -1 off",
                          configured);
    *out = configured ? configured > 0 : (int32_t)number;
out:
    return st;
}

static symm_status read_staging(uint64_t configured, uint64_t *out)
{
    uint64_t nbytes;
    symm_status st;

    TRY(symm__setting_bytes(SYMM_SETTING_STAGING_BYTES, &nbytes));
    if (configured)
        nbytes = configured;
    if (nbytes && (nbytes < STAGING_LEAST || nbytes > UINT32_MAX))
        st = symm__fail(SYMM_ERROR_ARGUMENT, "%s=%" PRIu64 " is not 0 or within 1K to 4G",
                        configured ? "config.staging_bytes" : "SYMM_STAGING_BYTES", nbytes);
    *out = symm__round_up(nbytes, SYMM_HEAP_ALIGNMENT);
out:
    return st;
}

static symm_status read_settings(const symm_config *config, const struct symm_driver *drv,
                                 struct symm_capability *c)
{
    int64_t number;
    symm_status st;

    TRY(read_check(config->check, drv, &c->check));
    TRY(read_staging(config->staging_bytes, &c->staging_nbytes));
    TRY(symm__setting_int(SYMM_SETTING_EPOCH_START, 0, UINT32_MAX, &number));
    c->epoch_start = (uint32_t)number;
    TRY(symm__setting_bytes(SYMM_SETTING_SEGMENT_BYTES, &c->segment_nbytes));
    TRY(symm__setting_bytes(SYMM_SETTING_WINDOW_BYTES, &c->window_nbytes));
    TRY(symm__setting_bytes(SYMM_SETTING_MATMUL_ENGINE_BYTES, &c->matmul_engine_nbytes));
out:
    return st;
}

static symm_status read_device(const struct symm_driver *drv, CUdevice device,
                               struct symm_capability *c)
{
    const struct {
        int attribute;
        int32_t *out;
    } wanted[] = {
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &c->vmm},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, &c->fds},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &c->compute_major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &c->compute_minor},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &c->nsms},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &c->max_threads},
    };
    CUmemAllocationProp prop;
    size_t least, recommended, total;
    symm_status st = SYMM_OK;

    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        TRY_CU(drv, cuDeviceGetAttribute, wanted[i].out, wanted[i].attribute, device);
    TRY_CU(drv, cuDeviceGetUuid, &c->uuid, device);
    TRY_CU(drv, cuDeviceTotalMem, &total, device);
    c->memory_nbytes = total;
    if (!c->vmm)
        goto out; /* symm__capability_agree() reports UNSUPPORTED */
    TRY(symm__segment_properties(drv, device, &prop));
    TRY_CU(drv, cuMemGetAllocationGranularity, &least, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    TRY_CU(drv, cuMemGetAllocationGranularity, &recommended, &prop,
           CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    c->granularity = least;
    c->alignment = recommended;
out:
    return st;
}

static symm_status read_multicast(int configured, const struct symm_driver *drv, CUdevice device,
                                  struct symm_capability *c)
{
    const char *off = symm__driver_multicast_off(drv);
    int64_t number;
    int supported = 0;
    symm_status st;

    TRY(symm__setting_int(SYMM_SETTING_MULTICAST, 0, 1, &number));
    if (configured != 0 && configured != -1)
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "config.multicast is %d; -1 means off, 0 as the environment", configured);
    if (!off && configured)
        off = "switched off by config.multicast";
    if (!off) {
        TRY_CU(drv, cuDeviceGetAttribute, &supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
               device);
        if (!supported)
            off = "the device does not support multicast";
    }
    snprintf(c->multicast_off, sizeof c->multicast_off, "%s", off ? off : "");
out:
    return st;
}

symm_status symm__capability_read(const symm_config *config, const struct symm_driver *drv,
                                  CUdevice device, const struct symm_tuning *tuning,
                                  struct symm_capability *out)
{
    symm_status st;

    memset(out, 0, sizeof *out);
    out->tuning = symm__tuning_hash(tuning);
    snprintf(out->driver, sizeof out->driver, "%s", drv->name);
    TRY(read_settings(config, drv, out));
    TRY(read_device(drv, device, out));
    TRY(read_multicast(config->multicast, drv, device, out));
out:
    return st;
}

/* ---------------------------------------------------------------------------------- verdict */

static symm_status agree_settings(const struct symm_capability *all, int nranks)
{
    for (int r = 1; r < nranks; r++) {
        const struct {
            const char *name;
            uint64_t a, b;
        } settings[] = {
            {"SYMM_CHECK", (uint64_t)all[0].check, (uint64_t)all[r].check},
            {"SYMM_EPOCH_START", all[0].epoch_start, all[r].epoch_start},
            {"SYMM_STAGING_BYTES", all[0].staging_nbytes, all[r].staging_nbytes},
            {"SYMM_SEGMENT_BYTES", all[0].segment_nbytes, all[r].segment_nbytes},
            {"SYMM_WINDOW_BYTES", all[0].window_nbytes, all[r].window_nbytes},
            {"SYMM_MATMUL_ENGINE_BYTES", all[0].matmul_engine_nbytes, all[r].matmul_engine_nbytes},
        };
        if (strcmp(all[0].driver, all[r].driver) != 0)
            return symm__fail(SYMM_ERROR_MISMATCH,
                              "rank %d uses the %s driver and rank %d the %s driver",
                              all[0].world_rank, all[0].driver, all[r].world_rank, all[r].driver);
        for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
            if (settings[i].a != settings[i].b)
                return symm__fail(SYMM_ERROR_MISMATCH,
                                  "%s is %" PRIu64 " on rank %d and %" PRIu64 " on rank %d",
                                  settings[i].name, settings[i].a, all[0].world_rank, settings[i].b,
                                  all[r].world_rank);
    }
    return SYMM_OK;
}

/* With different rows, ranks would choose algorithms that do not match. */
static symm_status agree_tuning(const struct symm_capability *all, int nranks)
{
    struct symm_rank_set others = {{0}};
    struct symm_text text = {.used = 0};
    int names[SYMM_MAX_RANKS];

    for (int r = 0; r < nranks; r++) {
        names[r] = all[r].world_rank;
        if (all[r].tuning != all[0].tuning)
            symm__rank_set_add(&others, r);
    }
    symm__text_add_ranks(&text, others, names);
    if (text.used == 0)
        return SYMM_OK;
    return symm__fail(
        SYMM_ERROR_MISMATCH,
        "the rows of SYMM_TUNING_FILE on %s differ from those on rank %d; a rank without "
        "the file has no rows",
        text.bytes, all[0].world_rank);
}

static symm_status agree_devices(const struct symm_capability *all, int nranks)
{
    for (int r = 0; r < nranks; r++)
        if (!all[r].vmm || !all[r].fds)
            return symm__fail(SYMM_ERROR_UNSUPPORTED, "the device of rank %d has no %s",
                              all[r].world_rank,
                              all[r].vmm ? "memory handles that are file descriptors"
                                         : "virtual memory management");
    return SYMM_OK;
}

/* 1/512 of the device memory, within bounds. This keeps the links busy. */
static uint64_t staging_by_memory(uint64_t memory_nbytes)
{
    uint64_t nbytes = STAGING_AT_LEAST;

    while (nbytes < STAGING_AT_MOST && nbytes * 2 <= memory_nbytes / 512)
        nbytes *= 2;
    return nbytes;
}

symm_status symm__capability_agree(const struct symm_capability *all, int nranks,
                                   struct symm_agreed *out, struct symm_agreed_memory *memory)
{
    uint64_t least_memory = UINT64_MAX;
    symm_status st;

    TRY(agree_settings(all, nranks));
    TRY(agree_tuning(all, nranks));
    TRY(agree_devices(all, nranks));
    *out = (struct symm_agreed){
        .nranks = nranks,
        .nsms = all[0].nsms,
        .max_threads = all[0].max_threads,
        .compute_major = all[0].compute_major,
        .check = all[0].check,
        .epoch_start = all[0].epoch_start,
        .staging_nbytes = all[0].staging_nbytes,
        .matmul_engine_nbytes = all[0].matmul_engine_nbytes,
    };
    *memory = (struct symm_agreed_memory){.segment_nbytes = all[0].segment_nbytes};
    for (int r = 0; r < nranks; r++) {
        const struct symm_capability *c = &all[r];
        out->nsms = c->nsms < out->nsms ? c->nsms : out->nsms;
        out->max_threads = c->max_threads < out->max_threads ? c->max_threads : out->max_threads;
        if (c->compute_major < out->compute_major)
            out->compute_major = c->compute_major;
        out->window_nbytes =
            symm__max(out->window_nbytes, c->window_nbytes ? c->window_nbytes : c->memory_nbytes);
        memory->granularity = symm__max(memory->granularity, c->granularity);
        memory->alignment = symm__max(memory->alignment, c->alignment);
        if (c->multicast_off[0] && !out->multicast_off[0])
            snprintf(out->multicast_off, sizeof out->multicast_off, "%s (on rank %d)",
                     c->multicast_off, c->world_rank);
        if (c->memory_nbytes < least_memory)
            least_memory = c->memory_nbytes;
    }
    if (!out->staging_nbytes)
        out->staging_nbytes = staging_by_memory(least_memory);
    if (nranks == 1 && !out->multicast_off[0])
        snprintf(out->multicast_off, sizeof out->multicast_off,
                 "multicast needs two ranks or more");
out:
    return st;
}

symm_status symm__capability_check_peers(const struct symm_driver *drv, CUdevice device,
                                         const struct symm_capability *all, int nranks)
{
    symm_status st = SYMM_OK;

    for (int r = 0; r < nranks; r++) {
        CUdevice peer;
        bool seen;
        int can = 1;
        TRY(symm__device_by_uuid(drv, &all[r].uuid, &seen, &peer));
        /*
         * A device that this process does not see may be accessible: mapping its memory will tell.
         */
        if (!seen || peer == device)
            continue;
        TRY_CU(drv, cuDeviceCanAccessPeer, &can, device, peer);
        if (!can)
            return symm__fail(SYMM_ERROR_UNSUPPORTED,
                              "this rank's device has no peer access to that of rank %d: with "
                              "symm_config.span, a SYMM_HOSTID for each part divides the ranks "
                              "of a host into domains",
                              all[r].world_rank);
    }
out:
    return st;
}

symm_status symm__capability_multicast(const struct symm_driver *drv,
                                       const struct symm_agreed *agreed,
                                       struct symm_agreed_memory *out)
{
    symm_status st = SYMM_OK;

    *out = (struct symm_agreed_memory){0};
#if SYMM_MULTICAST
    const CUmulticastObjectProp prop = {
        .numDevices = (unsigned int)agreed->nranks,
        .size = agreed->window_nbytes,
        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    };
    size_t least, recommended;

    TRY_CU(drv, cuMulticastGetGranularity, &least, &prop, CU_MULTICAST_GRANULARITY_MINIMUM);
    TRY_CU(drv, cuMulticastGetGranularity, &recommended, &prop,
           CU_MULTICAST_GRANULARITY_RECOMMENDED);
    out->granularity = least;
    out->alignment = recommended;
out:
#else
    (void)drv;
    (void)agreed;
#endif
    return st;
}

void symm__capability_settle(const struct symm_agreed_memory *all, int nranks,
                             struct symm_agreed *agreed, struct symm_agreed_memory *memory)
{
    for (int r = 0; r < nranks; r++) {
        memory->granularity = symm__max(memory->granularity, all[r].granularity);
        memory->alignment = symm__max(memory->alignment, all[r].alignment);
    }
    /* All of these are powers of two. */
    memory->alignment = symm__max(memory->alignment, memory->granularity);
    memory->segment_nbytes =
        symm__round_up(symm__max(memory->segment_nbytes, memory->granularity), memory->granularity);
    agreed->window_nbytes = symm__round_up(agreed->window_nbytes, memory->granularity);
}
