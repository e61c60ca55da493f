/* Asks the driver about devices by its own functions, which both drivers have. */
#include "host_info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "common/driver.h"

/* The needed part of the driver's binary interface. */
enum {
    ATTRIBUTE_MULTIPROCESSORS = 16,
    ATTRIBUTE_MAJOR = 75,
    ATTRIBUTE_MINOR = 76,
    ATTRIBUTE_VIRTUAL_MEMORY = 102,
    ATTRIBUTE_FD_HANDLES = 103,
    ATTRIBUTE_FABRIC_HANDLES = 128,
    ATTRIBUTE_MULTICAST = 132,
    PINNED = 1,
    ON_DEVICE = 1,
    FD_HANDLE = 1,
    LEAST = 0,
    RECOMMENDED = 1
};

struct allocation {
    int type, handle_types;
    struct {
        int type, id;
    } location;
    void *unused;
    unsigned char flags[8];
};

struct driver {
    int (*version)(int *);
    int (*count)(int *);
    int (*get)(int *device, int ordinal);
    int (*name)(char *, int capacity, int device);
    int (*uuid)(unsigned char *, int device);
    int (*bus_id)(char *, int capacity, int device);
    int (*attribute)(int *, int attribute, int device);
    int (*memory)(size_t *, int device);
    int (*reaches)(int *, int device, int peer);
    int (*granularity)(size_t *, const struct allocation *, int option);
};

static bool look_up(symm_context *ctx, struct driver *d, char why[512])
{
    const struct {
        const char *name;
        void *slot;
    } functions[] = {
        {"cuDriverGetVersion", &d->version},
        {"cuDeviceGetCount", &d->count},
        {"cuDeviceGet", &d->get},
        {"cuDeviceGetName", &d->name},
        {"cuDeviceGetUuid_v2", &d->uuid},
        {"cuDeviceGetPCIBusId", &d->bus_id},
        {"cuDeviceGetAttribute", &d->attribute},
        {"cuDeviceTotalMem_v2", &d->memory},
        {"cuDeviceCanAccessPeer", &d->reaches},
        {"cuMemGetAllocationGranularity", &d->granularity},
    };

    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *function = symm_context_driver_symbol(ctx, functions[i].name);

        if (!function) {
            snprintf(why, 512, "the driver has no %s", functions[i].name);
            return false;
        }
        memcpy(functions[i].slot, &function, sizeof function);
    }
    return true;
}

static void print_uuid(const unsigned char bytes[16], char out[48])
{
    int at = snprintf(out, 48, "GPU");

    for (int i = 0; i < 16; i++)
        at += snprintf(out + at, 48 - (size_t)at, "%s%02x",
                       i == 0 || (i >= 4 && i <= 10 && i % 2 == 0) ? "-" : "", bytes[i]);
}

static int attribute(const struct driver *d, int which, int device)
{
    int value;

    /* A driver that does not know the attribute does not have the capability. */
    return d->attribute(&value, which, device) == 0 ? value : 0;
}

static bool ask_device(const struct driver *d, int device, struct device *out)
{
    struct allocation what = {
        .type = PINNED, .handle_types = FD_HANDLE, .location = {ON_DEVICE, device}};
    unsigned char uuid[16];
    size_t memory;

    if (d->name(out->name, (int)sizeof out->name, device) || d->uuid(uuid, device) ||
        d->bus_id(out->bus_id, (int)sizeof out->bus_id, device) || d->memory(&memory, device))
        return false;
    print_uuid(uuid, out->uuid);
    out->memory = memory;
    out->major = attribute(d, ATTRIBUTE_MAJOR, device);
    out->minor = attribute(d, ATTRIBUTE_MINOR, device);
    out->multiprocessors = attribute(d, ATTRIBUTE_MULTIPROCESSORS, device);
    out->virtual_memory = attribute(d, ATTRIBUTE_VIRTUAL_MEMORY, device);
    out->fd_handles = attribute(d, ATTRIBUTE_FD_HANDLES, device);
    out->fabric_handles = attribute(d, ATTRIBUTE_FABRIC_HANDLES, device);
    out->multicast = attribute(d, ATTRIBUTE_MULTICAST, device);
    if (d->granularity(&out->least_granularity, &what, LEAST))
        out->least_granularity = 0;
    if (d->granularity(&out->best_granularity, &what, RECOMMENDED))
        out->best_granularity = 0;
    return true;
}

static bool ask_driver(const struct driver *d, struct host_info *m, char why[512])
{
    int handles[HOST_INFO_MAX_DEVICES], can;

    if (d->version(&m->driver_version) || d->count(&m->ndevices) || m->ndevices < 1) {
        snprintf(why, 512, "the driver counts no devices");
        return false;
    }
    if (m->ndevices > HOST_INFO_MAX_DEVICES)
        m->ndevices = HOST_INFO_MAX_DEVICES;
    for (int i = 0; i < m->ndevices; i++) {
        if (d->get(&handles[i], i) || !ask_device(d, handles[i], &m->devices[i])) {
            snprintf(why, 512, "the driver does not describe device %d", i);
            return false;
        }
    }
    for (int from = 0; from < m->ndevices; from++) {
        for (int to = 0; to < m->ndevices; to++)
            m->reaches[from][to] =
                from == to || (!d->reaches(&can, handles[from], handles[to]) && can);
    }
    return true;
}

const char *host_info_driver(const char *choice)
{
    const char *set = getenv("SYMM_DRIVER");

    return strcmp(choice, "auto") == 0 && !(set && *set) ? "cuda" : choice;
}

symm_status host_info_ask(const char *driver, struct host_info *out, char why[512])
{
    struct host_info m = {0};
    struct driver d;
    symm_context *ctx = NULL;
    char session[64];

    snprintf(session, sizeof session, "symm-info %ld", (long)getpid());
    why[0] = 0;
    symm_status st =
        driver_open(host_info_driver(driver), &(symm_config){.nranks = 1, .session = session}, &ctx,
                    m.why_driver);
    if (st != SYMM_OK)
        return st;
    snprintf(m.driver, sizeof m.driver, "%s", symm_context_driver(ctx));
    const char *off = symm_multicast_off(symm_context_world(ctx));
    snprintf(m.multicast_off, sizeof m.multicast_off, "%s", off ? off : "");
    symm_memory_usage(ctx, &m.usage);
    getrlimit(RLIMIT_NOFILE, &m.files);
    if (!look_up(ctx, &d, why) || !ask_driver(&d, &m, why))
        st = SYMM_ERROR_DRIVER;
    symm_status destroyed = symm_context_destroy(ctx);
    if (st == SYMM_OK)
        st = destroyed;
    if (st == SYMM_OK)
        *out = m;
    return st;
}
