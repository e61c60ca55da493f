/* Loads, stores and reductions of weakly ordered memory. */
#include <string.h>
#include "emulator/memory/address.h"
#include "weak_state.h"

/* ---- Memory of the host ---- */

void emu__load(const void *at, size_t nbytes, void *out)
{
#define LOAD_IF_(type)                                                                             \
    if (nbytes == sizeof(type)) {                                                                  \
        type x = __atomic_load_n((const type *)at, __ATOMIC_RELAXED);                              \
        memcpy(out, &x, sizeof x);                                                                 \
        return;                                                                                    \
    }
    LOAD_IF_(uint8_t)
    LOAD_IF_(uint16_t)
    LOAD_IF_(uint32_t)
    LOAD_IF_(uint64_t)
#undef LOAD_IF_
    emu__load(at, 8, out);
    emu__load((const char *)at + 8, 8, (char *)out + 8);
}

void emu__store(void *at, size_t nbytes, const void *value)
{
#define STORE_IF_(type)                                                                            \
    if (nbytes == sizeof(type)) {                                                                  \
        type x;                                                                                    \
        memcpy(&x, value, sizeof x);                                                               \
        __atomic_store_n((type *)at, x, __ATOMIC_RELAXED);                                         \
        return;                                                                                    \
    }
    STORE_IF_(uint8_t)
    STORE_IF_(uint16_t)
    STORE_IF_(uint32_t)
    STORE_IF_(uint64_t)
#undef STORE_IF_
    emu__store(at, 8, value);
    emu__store((char *)at + 8, 8, (const char *)value + 8);
}

/* ---- Accesses ---- */

static struct emu_bytes bytes_at(char *home, size_t nbytes)
{
    unsigned first = (uintptr_t)home % EMU_GRANULE;
    return (struct emu_bytes){.granule = home - first,
                              .mask = (uint16_t)(((1u << nbytes) - 1) << first),
                              .first = (uint8_t)first,
                              .nbytes = (uint8_t)nbytes};
}

static void begin_access(struct block *b, uint32_t how)
{
    emu__weak_pause(b);
    if (!(how & SYMM_EMULATED_RELAXED)) /* a relaxed load may be a poll */
        b->progress = true;
}

/*
 * Returns the home address of these bytes. NULL: host memory, or an access that the hardware will
 * refuse. A fault if the device cannot access them.
 */
static char *home_of(const void *p, int access, uint32_t how)
{
    if (how & SYMM_EMULATED_MULTICAST)
        return (char *)p;
    const struct emu_span *span = emu__span(p);
    if (!span->access)
        emu__block_reach(p);
    return (span->access & access) == access ? span->home + ((uintptr_t)p - span->start) : NULL;
}

/* Drains the pending stores to any of these bytes. */
static void settle(struct emu_weak *w, const struct emu_bytes *at)
{
    for (unsigned slot = emu__stores_first(&w->stores, at->granule), next; slot != EMU_NO_STORE;
         slot = next) {
        const struct emu_store *store = &w->stores.slots[slot];
        next = store->next;
        if (store->at.granule == at->granule && store->at.mask & at->mask)
            emu__stores_drain(w, slot);
    }
}

/*
 * Loads the bytes from a pending store that the thread knows of. False: none has all of them, and
 * those with some of them are drained.
 */
static bool forward(struct emu_weak *w, unsigned thread, const struct emu_bytes *at, bool multicast,
                    void *out)
{
    for (unsigned slot = emu__stores_first(&w->stores, at->granule), next; slot != EMU_NO_STORE;
         slot = next) {
        const struct emu_store *store = &w->stores.slots[slot];
        next = store->next;
        if (store->at.granule != at->granule || !(store->at.mask & at->mask) || store->async ||
            (store->multicast != multicast && !store->aliased) || !emu__store_known(store, thread))
            continue;
        if (!store->apply && (store->at.mask & at->mask) == at->mask) {
            memcpy(out, store->value + (at->first - store->at.first), at->nbytes);
            return true;
        }
        emu__stores_drain(w, slot);
    }
    return false;
}

/* Loads from memory, or, if `old` is true, perhaps an old value. */
static void load_part(struct emu_weak *w, const struct emu_bytes *at, enum emu_proxy proxy,
                      uint64_t fresh, bool old, void *out)
{
    if (old && emu__weak_draw(w) % 256 < w->stale && emu__reads_get(w, at, proxy, fresh, out))
        return;
    emu__load(at->granule + at->first, at->nbytes, out);
    emu__reads_put(w, at, proxy, fresh, out);
}

static void read_part(struct block *b, char *home, size_t nbytes, char *out, uint32_t how)
{
    struct emu_weak *w = b->weak;
    unsigned thread = b->running->index;
    const struct emu_bytes at = bytes_at(home, nbytes);
    enum emu_proxy proxy = how & SYMM_EMULATED_ASYNC       ? EMU_ASYNC
                           : how & SYMM_EMULATED_MULTICAST ? EMU_MULTICAST_PROXY
                                                           : EMU_UNICAST;
    if (proxy != EMU_ASYNC && w->stores.count > 0 &&
        forward(w, thread, &at, proxy == EMU_MULTICAST_PROXY, out))
        return;
    load_part(w, &at, proxy, w->threads[thread].fresh[proxy], !(how & SYMM_EMULATED_RELAXED), out);
}

uint64_t emu__weak_async_fresh(const struct block *b)
{
    return b->weak->threads[b->running->index].fresh[EMU_ASYNC];
}

void emu__weak_async_read(struct block *b, const char *home, size_t nbytes, uint64_t fresh,
                          char *out)
{
    while (nbytes > 0) {
        size_t n = 8;
        while ((uintptr_t)home % n || n > nbytes)
            n /= 2;
        const struct emu_bytes at = bytes_at((char *)home, n);
        load_part(b->weak, &at, EMU_ASYNC, fresh, true, out);
        home += n;
        out += n;
        nbytes -= n;
    }
}

void emu__weak_read(const void *p, size_t nbytes, void *out, uint32_t how)
{
    struct block *b = emu__this_block;
    begin_access(b, how);
    char *home = home_of(p, EMU_READ, how);
    if (!home) {
        emu__load(p, nbytes, out);
    } else if (nbytes <= 8) {
        read_part(b, home, nbytes, out, how);
    } else {
        size_t half = emu__weak_draw(b->weak) % 2 * 8;
        read_part(b, home + half, 8, (char *)out + half, how);
        read_part(b, home + (8 - half), 8, (char *)out + (8 - half), how);
    }
}

static void add_store(struct block *b, char *home, size_t nbytes, const void *value,
                      void (*apply)(void *at, const void *operand), uint32_t how)
{
    struct emu_weak *w = b->weak;
    struct emu_store store = {.at = bytes_at(home, nbytes),
                              .apply = apply,
                              .owner = (uint16_t)b->running->index,
                              .thread = (uint16_t)b->running->index,
                              .multicast = how & SYMM_EMULATED_MULTICAST,
                              .async = how & SYMM_EMULATED_ASYNC};
    memcpy(store.value, value, nbytes);
    settle(w, &store.at);
    unsigned slot = emu__stores_add(w, &store);
    if (how & SYMM_EMULATED_RELAXED && emu__weak_draw(w) % 4)
        emu__stores_drain(w, slot); /* a flag that others poll is rarely late */
}

void emu__weak_write(void *p, size_t nbytes, const void *value, uint32_t how)
{
    struct block *b = emu__this_block;
    begin_access(b, how);
    char *home = home_of(p, EMU_WRITE, how);
    if (!home) {
        emu__store(p, nbytes, value);
    } else if (nbytes <= 8) {
        add_store(b, home, nbytes, value, NULL, how);
    } else {
        add_store(b, home, 8, value, NULL, how);
        add_store(b, home + 8, 8, (const char *)value + 8, NULL, how);
    }
}

void emu__weak_update(void *p, size_t nbytes, const void *operand,
                      void (*apply)(void *at, const void *operand), uint32_t how)
{
    struct block *b = emu__this_block;
    begin_access(b, how);
    char *home = home_of(p, EMU_READ | EMU_WRITE, how);
    if (home)
        add_store(b, home, nbytes, operand, apply, how);
    else
        apply(p, operand);
}

void emu__weak_settle(void *p, size_t nbytes)
{
    struct block *b = emu__this_block;
    char *home = home_of(p, EMU_READ | EMU_WRITE, 0);
    if (!home)
        return;
    const struct emu_bytes at = bytes_at(home, nbytes);
    settle(b->weak, &at);
    emu__reads_drop(b->weak, &at);
}
