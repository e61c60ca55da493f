/*
 * Weakly ordered memory: what loads, stores, fences and barriers do when SYMM_EMULATED_WEAK is set.
 * A store stays pending until a fence or chance makes it real; a load may return what the block has
 * read there before, unless its thread has acquired since. Everything that the model leaves open is
 * drawn from the seed, for each block apart.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "emulator/blocks/weak_state.h"

#define SLEEP_MAX_NS 40000u
#define LAG_MAX_NS 150000u /* before a block begins, and before its last stores become real */
#define LEAD 12u           /* passes over the other threads while one stands still */

/* ---- Memory as it is ---- */

void emu__load(const void *at, size_t nbytes, void *out)
{
    switch (nbytes) {
    case 1:
        *(uint8_t *)out = __atomic_load_n((const uint8_t *)at, __ATOMIC_RELAXED);
        break;
    case 2: {
        uint16_t x = __atomic_load_n((const uint16_t *)at, __ATOMIC_RELAXED);
        memcpy(out, &x, sizeof x);
        break;
    }
    case 4: {
        uint32_t x = __atomic_load_n((const uint32_t *)at, __ATOMIC_RELAXED);
        memcpy(out, &x, sizeof x);
        break;
    }
    case 8: {
        uint64_t x = __atomic_load_n((const uint64_t *)at, __ATOMIC_RELAXED);
        memcpy(out, &x, sizeof x);
        break;
    }
    default:
        emu__load(at, 8, out);
        emu__load((const char *)at + 8, 8, (char *)out + 8);
    }
}

void emu__store(void *at, size_t nbytes, const void *value)
{
    switch (nbytes) {
    case 1:
        __atomic_store_n((uint8_t *)at, *(const uint8_t *)value, __ATOMIC_RELAXED);
        break;
    case 2: {
        uint16_t x;
        memcpy(&x, value, sizeof x);
        __atomic_store_n((uint16_t *)at, x, __ATOMIC_RELAXED);
        break;
    }
    case 4: {
        uint32_t x;
        memcpy(&x, value, sizeof x);
        __atomic_store_n((uint32_t *)at, x, __ATOMIC_RELAXED);
        break;
    }
    case 8: {
        uint64_t x;
        memcpy(&x, value, sizeof x);
        __atomic_store_n((uint64_t *)at, x, __ATOMIC_RELAXED);
        break;
    }
    default:
        emu__store(at, 8, value);
        emu__store((char *)at + 8, 8, (const char *)value + 8);
    }
}

/* ---- Chance ---- */

uint64_t emu__weak_draw(struct emu_weak *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static void sleep_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

void emu__weak_pause(struct block *b)
{
    struct emu_weak *w = b->weak;
    uint64_t draw = emu__weak_draw(w);
    if ((draw & 255) < w->drain && w->stores.count > 0)
        emu__stores_drain_any(w);
    if ((draw >> 16) % 8192 == 0)
        sleep_ns((draw >> 32) % SLEEP_MAX_NS);
    if ((draw >> 8 & 255) >= w->yield)
        return;
    /* Now and then the others get far ahead. */
    for (unsigned n = (draw >> 16) % 8 ? 1 : LEAD; n > 0; n--)
        emu__block_give_way(b);
}

void emu__weak_idle(struct block *b)
{
    struct emu_weak *w = b->weak;
    for (unsigned n = (w->stores.count + 3) / 4; n > 0; n--)
        emu__stores_drain_any(w);
}

/* ---- The life of a block ---- */

bool emu__weak_begin(struct block *b, uint64_t seed)
{
    static const unsigned drain[] = {2, 16, 64, 160}, stale[] = {48, 128, 240},
                          yield[] = {2, 12, 48};
    struct emu_weak *w = b->weak;
    if (!w) {
        w = calloc(1, sizeof *w);
        if (!w)
            return false;
        emu__stores_clear(&w->stores);
        b->weak = w;
    }
    if (w->capacity < b->nthreads) {
        struct emu_weak_thread *threads = realloc(w->threads, b->nthreads * sizeof *threads);
        if (!threads)
            return false;
        w->threads = threads;
        w->capacity = b->nthreads;
    }
    memset(w->threads, 0, b->nthreads * sizeof *w->threads);
    if (w->stores.count > 0) /* the block before was abandoned */
        emu__stores_clear(&w->stores);
    w->clock = 0;
    w->random = emu__random(seed, 0) | 1;
    uint64_t draw = emu__weak_draw(w);
    w->drain = drain[draw % 4];
    w->stale = stale[(draw >> 8) % 3];
    w->yield = b->nthreads > 1 ? yield[(draw >> 16) % 3] : 0;
    if ((draw >> 24) % 4 == 0)
        sleep_ns((draw >> 32) % LAG_MAX_NS);
    emu__reads_prefetch(w);
    return true;
}

void emu__weak_free(struct emu_weak *w)
{
    if (w)
        free(w->threads);
    free(w);
}

void emu__weak_thread_left(struct block *b, const struct cuda_thread *t)
{
    struct emu_weak *w = b->weak;
    struct emu_stores *s = &w->stores;
    w->threads[t->index] = (struct emu_weak_thread){0};
    for (unsigned i = 0; i < s->count; i++) {
        struct emu_store *store = &s->slots[s->order[i]];
        if (store->owner == t->index)
            store->owner = EMU_OF_ENDED;
    }
    if (b->ended + 1 == b->nthreads) {
        if (s->count > 0 && emu__weak_draw(w) % 2)
            sleep_ns(emu__weak_draw(w) % LAG_MAX_NS);
        emu__stores_drain_all(w);
        atomic_thread_fence(memory_order_seq_cst);
    }
}

/* ---- Threads that meet ---- */

static void freshen(struct emu_weak_thread *t, const struct emu_weak_thread *by)
{
    if (t->fresh_from < by->fresh_from)
        t->fresh_from = by->fresh_from;
    if (t->fresh_alias < by->fresh_alias)
        t->fresh_alias = by->fresh_alias;
}

void emu__weak_block_met(struct block *b)
{
    struct emu_weak *w = b->weak;
    struct emu_weak_thread all = {0};
    for (unsigned i = 0; i < b->nthreads; i++)
        freshen(&all, &w->threads[i]);
    for (unsigned i = 0; i < b->nthreads; i++)
        freshen(&w->threads[i], &all);
    for (unsigned i = 0; i < w->stores.count; i++) {
        struct emu_store *store = &w->stores.slots[w->stores.order[i]];
        if (store->owner != EMU_OF_ENDED && !store->async)
            store->owner = EMU_OF_BLOCK;
    }
}

void emu__weak_warp_met(struct block *b, unsigned first, uint32_t came)
{
    struct emu_weak *w = b->weak;
    struct emu_weak_thread all = {0}, *lane = &w->threads[first];
    if (!lane[__builtin_ctz(came)].meets) /* then none does: a shuffle orders no memory */
        return;
    for (uint32_t rest = came; rest; rest &= rest - 1)
        freshen(&all, &lane[__builtin_ctz(rest)]);
    for (uint32_t rest = came; rest; rest &= rest - 1) {
        freshen(&lane[__builtin_ctz(rest)], &all);
        lane[__builtin_ctz(rest)].meets = false;
    }
    for (unsigned i = 0; i < w->stores.count; i++) {
        struct emu_store *store = &w->stores.slots[w->stores.order[i]];
        if (store->owner / 32 == first / 32 && came >> store->owner % 32 & 1 && !store->async)
            store->owner = (uint16_t)(EMU_OF_WARP + first / 32);
    }
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
    if (!(how & SYMM_EMULATED_RELAXED)) /* which may be a poll */
        b->progress = true;
}

/* Where the driver keeps these bytes. NULL: in the host's memory, or the access is for the hardware
 * to stop. A fault where the device cannot access them. */
static char *place(const void *p, int access, uint32_t how)
{
    if (how & SYMM_EMULATED_MULTICAST)
        return (char *)p;
    const struct emu_span *span = emu__span(p);
    if (!span->access)
        emu__block_reach(p);
    return (span->access & access) == access ? span->home + ((uintptr_t)p - span->start) : NULL;
}

/* Makes pending stores to any of these bytes real, whoever knows of them. */
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

/* What the thread has to see of its own and of the stores it knows: from one of them, or false once
 * they are real. */
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

static void read_part(struct block *b, char *home, size_t nbytes, char *out, uint32_t how)
{
    struct emu_weak *w = b->weak;
    unsigned thread = b->running->index;
    const struct emu_bytes at = bytes_at(home, nbytes);
    bool multicast = how & SYMM_EMULATED_MULTICAST;
    uint64_t fresh = multicast ? w->threads[thread].fresh_alias : w->threads[thread].fresh_from;
    if (how & SYMM_EMULATED_ASYNC) {
        emu__load(home, nbytes, out);
        return;
    }
    if (w->stores.count > 0 && forward(w, thread, &at, multicast, out))
        return;
    if (!(how & SYMM_EMULATED_RELAXED) && emu__weak_draw(w) % 256 < w->stale &&
        emu__reads_get(w, &at, multicast, fresh, out))
        return;
    emu__load(home, nbytes, out);
    emu__reads_put(w, &at, multicast, fresh, out);
}

void emu__weak_read(const void *p, size_t nbytes, void *out, uint32_t how)
{
    struct block *b = emu__this_block;
    begin_access(b, how);
    char *home = place(p, EMU_READ, how);
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
        emu__stores_drain(w, slot); /* what others poll for is rarely late */
}

void emu__weak_write(void *p, size_t nbytes, const void *value, uint32_t how)
{
    struct block *b = emu__this_block;
    begin_access(b, how);
    char *home = place(p, EMU_WRITE, how);
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
    char *home = place(p, EMU_READ | EMU_WRITE, how);
    if (home)
        add_store(b, home, nbytes, operand, apply, how);
    else
        apply(p, operand);
}

void emu__weak_settle(void *p, size_t nbytes)
{
    struct block *b = emu__this_block;
    char *home = place(p, EMU_READ | EMU_WRITE, 0);
    if (!home)
        return;
    const struct emu_bytes at = bytes_at(home, nbytes);
    settle(b->weak, &at);
    emu__reads_drop(b->weak, &at);
}

/* ---- Fences ---- */

static void bulk_wait(struct emu_weak *w, unsigned thread)
{
    for (unsigned i = 0; i < w->stores.count; i++) {
        struct emu_store *store = &w->stores.slots[w->stores.order[i]];
        if (store->thread == thread)
            store->async = false;
    }
}

static void alias_fence(struct emu_weak *w, unsigned thread)
{
    for (unsigned i = 0; i < w->stores.count; i++) {
        struct emu_store *store = &w->stores.slots[w->stores.order[i]];
        if (!store->async && emu__store_known(store, thread))
            store->aliased = true;
    }
    w->threads[thread].fresh_alias = w->threads[thread].fresh_from;
}

void emu__weak_fence(uint32_t fences)
{
    struct block *b = emu__this_block;
    emu__weak_pause(b);
    struct emu_weak *w = b->weak;
    unsigned thread = b->running->index;
    if (fences & SYMM_EMULATED_BULK_WAIT)
        bulk_wait(w, thread);
    if (fences & SYMM_EMULATED_ASYNC_FENCE)
        emu__stores_release(w, thread);
    if (fences & SYMM_EMULATED_ALIAS_FENCE)
        alias_fence(w, thread);
    if (fences & SYMM_EMULATED_RELEASE)
        emu__stores_release(w, thread);
    atomic_thread_fence(memory_order_seq_cst);
    if (fences & SYMM_EMULATED_ACQUIRE) {
        w->threads[thread].fresh_from = ++w->clock;
        if (emu__weak_draw(w) % 8 == 0)
            emu__reads_ahead(w);
    }
    if (fences & SYMM_EMULATED_WARP)
        w->threads[thread].meets = true;
}
