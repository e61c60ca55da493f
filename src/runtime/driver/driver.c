/*
 * Opens the driver and fills in its table. dlsym finds cuGetProcAddress_v2 only. All other entries
 * come from it with an explicit version, so that a newer driver still gives the binary interface of
 * abi/cuda_driver.h.
 */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <symm/detail/image.h>
#include "runtime/base/settings.h"

enum { DRIVER_CUDA, DRIVER_EMULATED, DRIVERS };

/*
 * One entry per kind of driver. The library stays loaded after the last close, since neither driver
 * can be unloaded safely.
 */
static struct symm_driver_slot {
    struct symm_driver table;
    PFN_cuGetProcAddress_v12000 get;
    void *library;
    int nopen;
} drivers[DRIVERS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards drivers */
static _Atomic pid_t opened_by; /* the process with an open driver; 0: none */

/* dlsym and cuGetProcAddress return functions as void *. ISO C converts these only by a copy. */
#define STORE_FUNCTION(field, address) memcpy(&(field), &(address), sizeof(field))

const char *symm__driver_multicast_off(const struct symm_driver *drv)
{
#if SYMM_MULTICAST
    static const struct {
        const char *name, *value, *reason;
    } neighbours[] = {
        {"NCCL_NVLS_ENABLE", "0", "switched off by NCCL_NVLS_ENABLE=0"},
        {"TORCH_SYMM_MEM_DISABLE_MULTICAST", "1",
         "switched off by TORCH_SYMM_MEM_DISABLE_MULTICAST=1"},
        {"NVSHMEM_DISABLE_NVLS", "1", "switched off by NVSHMEM_DISABLE_NVLS=1"},
    };

    if (strcmp(symm__setting(SYMM_SETTING_MULTICAST), "1") != 0)
        return "switched off by SYMM_MULTICAST";
    for (size_t i = 0; i < sizeof neighbours / sizeof neighbours[0]; i++) {
        const char *value = getenv(neighbours[i].name);
        if (value && strcmp(value, neighbours[i].value) == 0)
            return neighbours[i].reason;
    }
    if (drv && (!drv->cuMulticastGetGranularity || !drv->cuMulticastCreate ||
                !drv->cuMulticastAddDevice || !drv->cuMulticastBindMem || !drv->cuMulticastUnbind))
        return "the driver has no multicast";
    return NULL;
#else
    (void)drv;
    return "symm was built without multicast";
#endif
}

static symm_status look_up(PFN_cuGetProcAddress_v12000 get, const char *driver, const char *name,
                           int version, int need, void **out)
{
    int found = CU_GET_PROC_ADDRESS_SUCCESS;
    CUresult cu = get(name, out, version, CU_GET_PROC_ADDRESS_DEFAULT, &found);

    /* A driver older than the requested version returns INVALID_VALUE: the entry is missing. */
    if (cu != CUDA_SUCCESS || found != CU_GET_PROC_ADDRESS_SUCCESS)
        *out = NULL;
    if (*out || need == CU_OPTIONAL)
        return SYMM_OK;
    return symm__fail(SYMM_ERROR_UNSUPPORTED,
                      "the %s driver has no %s of version %d.%d: it is too old for symm", driver,
                      name, version / 1000, version % 1000 / 10);
}

static symm_status fill_in(struct symm_driver_slot *d)
{
    symm_status st = SYMM_OK;
    void *address;

#define LOOK_UP_(fn, version, need, params)                                                        \
    TRY(look_up(d->get, d->table.name, #fn, version, need, &address));                             \
    STORE_FUNCTION(d->table.fn, address);
    CU_FUNCTIONS_BASE(LOOK_UP_)
    CU_FUNCTIONS_TENSOR(LOOK_UP_)
#if SYMM_MULTICAST
    if (!symm__driver_multicast_off(NULL)) {
        CU_FUNCTIONS_MULTICAST(LOOK_UP_)
    }
#endif
#undef LOOK_UP_
out:
    return st;
}

static void *open_cuda(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!library)
        symm__fail(SYMM_ERROR_DRIVER, "no GPU driver: %s; SYMM_DRIVER=emulated runs without a GPU",
                   dlerror());
    return library;
}

/* Looks for the emulated driver beside the library of this code, then by the loader's search. */
static void *open_emulated(void)
{
    static const char name[] = "libsymm_emulated.so";
    static const char here; /* an object of this library, for dladdr */
    char path[4096];
    void *library = NULL;
    Dl_info self;

    if (dladdr(&here, &self) && self.dli_fname) {
        const char *slash = strrchr(self.dli_fname, '/');
        int folder = slash ? (int)(slash - self.dli_fname) + 1 : 0;
        int n = snprintf(path, sizeof path, "%.*s%s", folder, self.dli_fname, name);
        /* If the file exists but cannot be opened, its own error must be reported. */
        if (folder > 0 && n < (int)sizeof path && access(path, F_OK) == 0) {
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            goto out;
        }
    }
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
out:
    if (!library)
        symm__fail(SYMM_ERROR_DRIVER, "no emulated driver: %s", dlerror());
    return library;
}

static symm_status load(struct symm_driver_slot *d, int kind)
{
    symm_status st = SYMM_OK;
    void *address;
    CUresult cu;

    memset(&d->table, 0, sizeof d->table);
    d->table.name = kind == DRIVER_CUDA ? "cuda" : "emulated";
    if (!d->library)
        d->library = kind == DRIVER_CUDA ? open_cuda() : open_emulated();
    if (!d->library)
        return SYMM_ERROR_DRIVER;
    address = dlsym(d->library, "cuGetProcAddress_v2");
    if (!address)
        return symm__fail(SYMM_ERROR_UNSUPPORTED,
                          "the %s driver has no cuGetProcAddress_v2: it is older than CUDA 12",
                          d->table.name);
    STORE_FUNCTION(d->get, address);
    TRY(fill_in(d));
    cu = d->table.cuInit(0);
    if (cu != CUDA_SUCCESS) {
        st = symm__driver_fail(&d->table, cu, "cuInit");
        if (kind == DRIVER_CUDA)
            st =
                symm__fail(st, "%s; SYMM_DRIVER=emulated runs without a GPU", symm__failure_text());
        goto out;
    }
    TRY_CU(&d->table, cuDriverGetVersion, &d->table.version);
out:
    return st;
}

symm_status symm__driver_open(const char *name, const struct symm_driver **out)
{
    const char *wanted = name ? name : symm__setting(SYMM_SETTING_DRIVER);
    symm_status st = SYMM_OK;
    int kind;

    if (strcmp(wanted, "cuda") == 0)
        kind = DRIVER_CUDA;
    else if (strcmp(wanted, "emulated") == 0)
        kind = DRIVER_EMULATED;
    else
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s \"%s\" is neither \"cuda\" nor \"emulated\"",
                          name ? "driver" : "SYMM_DRIVER", wanted);

    pthread_mutex_lock(&lock);
    struct symm_driver_slot *d = &drivers[kind], *other = &drivers[!kind];
    if (other->nopen > 0)
        st = symm__fail(SYMM_ERROR_STATE, "driver \"%s\": this process already uses the %s driver",
                        wanted, other->table.name);
    else if (d->nopen == 0)
        st = load(d, kind);
    if (st == SYMM_OK) {
        d->nopen++;
        atomic_store(&opened_by, getpid());
        *out = &d->table;
    }
    pthread_mutex_unlock(&lock);
    return st;
}

static struct symm_driver_slot *slot_of(const struct symm_driver *drv)
{
    for (int i = 0; i < DRIVERS; i++)
        if (drv == &drivers[i].table)
            return &drivers[i];
    return NULL;
}

void symm__driver_close(const struct symm_driver *drv)
{
    if (!drv)
        return;
    pthread_mutex_lock(&lock);
    if (--slot_of(drv)->nopen == 0)
        atomic_store(&opened_by, 0);
    pthread_mutex_unlock(&lock);
}

bool symm__driver_forked(void)
{
    pid_t pid = atomic_load(&opened_by);

    /* Takes no lock: in a forked child, a thread that does not exist there may hold it. */
    return pid && pid != getpid();
}

const struct symm_driver *symm__driver_current(void)
{
    const struct symm_driver *drv = NULL;

    if (symm__driver_forked())
        return NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < DRIVERS; i++)
        if (drivers[i].nopen > 0)
            drv = &drivers[i].table;
    pthread_mutex_unlock(&lock);
    return drv;
}

void *symm__driver_symbol(const struct symm_driver *drv, const char *name)
{
    const struct symm_driver_slot *d = slot_of(drv);
    const char *suffix = strstr(name, "_v");
    char base[128];
    void *address;

    /* The multicast switch also applies to look-ups by name. */
    if (strncmp(name, "cuMulti", 7) == 0 && symm__driver_multicast_off(drv))
        return NULL;
    address = dlsym(d->library, name);
    if (address)
        return address;
    /* The emulated driver exports only its look-up function, which takes names without _v2. */
    if (snprintf(base, sizeof base, "%.*s", suffix ? (int)(suffix - name) : (int)strlen(name),
                 name) >= (int)sizeof base)
        return NULL;
    if (look_up(d->get, d->table.name, base, d->table.version, CU_OPTIONAL, &address) != SYMM_OK)
        return NULL;
    return address;
}

const void *symm__driver_image(const struct symm_driver *drv, const struct symm_image *image)
{
    return drv == &drivers[DRIVER_EMULATED].table ? (const void *)image->emulated : image->fatbin;
}

symm_status symm__driver_fail(const struct symm_driver *drv, CUresult result, const char *call)
{
    const char *name = NULL;
    symm_status st = SYMM_ERROR_DRIVER;

    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        st = SYMM_ERROR_MEMORY;
    else if (result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
             result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
        st = SYMM_ERROR_STATE;
    if (drv->cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
        name = "an unknown error";
    return symm__fail(st, "%s: %s (%d)", call, name, result);
}

symm_status symm__driver_copy_rows(const struct symm_driver *drv, CUdeviceptr to, uint64_t to_pitch,
                                   CUdeviceptr from, uint64_t from_pitch, uint64_t width,
                                   uint64_t rows, CUstream stream)
{
    const CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = from,
        .srcPitch = from_pitch,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = to,
        .dstPitch = to_pitch,
        .WidthInBytes = width,
        .Height = rows,
    };
    symm_status st = SYMM_OK;

    if (width == from_pitch && width == to_pitch)
        TRY_CU(drv, cuMemcpyAsync, to, from, width * rows, stream);
    else
        TRY_CU(drv, cuMemcpy2DAsync, &copy, stream);
out:
    return st;
}

void symm__driver_note(const struct symm_driver *drv, CUresult result, const char *call,
                       symm_status *st)
{
    if (result != CUDA_SUCCESS && *st == SYMM_OK)
        *st = symm__driver_fail(drv, result, call);
}
