#include "their_memory.h"

#include <stdint.h>

/* As the driver has them; without its header, since this is not the library's code. */
struct location {
    int type, id;
};
struct properties {
    int type, handle_types;
    struct location location;
    void *win32;
    unsigned char flags[8];
};
struct access {
    struct location location;
    int flags;
};
enum { PINNED = 1, DESCRIPTOR = 1, ON_DEVICE = 1, READ_WRITE = 3 };

#define ENTRY(theirs, name, ...)                                                                   \
    int (*name)(__VA_ARGS__);                                                                      \
    *(void **)&name = symm_context_driver_symbol((theirs)->ctx, #name)

static bool map(struct their_memory *t, unsigned long long handle)
{
    ENTRY(t, cuMemAddressReserve, char **, size_t, size_t, uint64_t, unsigned long long);
    ENTRY(t, cuMemMap, char *, size_t, size_t, unsigned long long, unsigned long long);
    ENTRY(t, cuMemSetAccess, char *, size_t, const struct access *, size_t);
    const struct access access = {{ON_DEVICE, symm_context_device(t->ctx)}, READ_WRITE};

    t->reserved = cuMemAddressReserve(&t->at, t->nbytes, 0, 0, 0) == 0;
    t->mapped = t->reserved && cuMemMap(t->at, t->nbytes, 0, handle, 0) == 0;
    return t->mapped && cuMemSetAccess(t->at, t->nbytes, &access, 1) == 0;
}

bool their_memory_make(symm_context *ctx, size_t nbytes, bool shared, struct their_memory *out)
{
    *out = (struct their_memory){.ctx = ctx, .nbytes = nbytes};
    ENTRY(out, cuMemCreate, unsigned long long *, size_t, const struct properties *,
          unsigned long long);
    ENTRY(out, cuMemRelease, unsigned long long);
    const struct properties properties = {.type = PINNED,
                                          .handle_types = shared ? DESCRIPTOR : 0,
                                          .location = {ON_DEVICE, symm_context_device(ctx)}};
    unsigned long long handle;

    if (cuMemCreate(&handle, nbytes, &properties, 0) != 0)
        return false;
    const bool ok = map(out, handle);
    if (cuMemRelease(handle) != 0) /* the mapping keeps the memory */
        cuMemRelease(handle);
    if (!ok)
        their_memory_free(out);
    return ok;
}

void their_memory_free(struct their_memory *t)
{
    if (!t->ctx)
        return;
    ENTRY(t, cuMemUnmap, char *, size_t);
    ENTRY(t, cuMemAddressFree, char *, size_t);

    if (t->mapped && cuMemUnmap(t->at, t->nbytes) != 0)
        cuMemUnmap(t->at, t->nbytes);
    if (t->reserved && cuMemAddressFree(t->at, t->nbytes) != 0)
        cuMemAddressFree(t->at, t->nbytes);
    *t = (struct their_memory){.ctx = NULL};
}
