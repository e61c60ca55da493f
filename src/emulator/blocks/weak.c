/*
 * Weakly ordered memory: chance, barriers and fences. A store stays pending until a fence or chance
 * drains it, that is, writes it to memory. A load may return a value that the block read there
 * before, unless its thread has acquired since. Every free choice of the model is drawn from the
 * seed, separately for each block.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "emulator/state/machine.h"
#include "weak_state.h"

#define SLEEP_MAX_NS 40000u
#define LAG_MAX_NS 150000u /* before a block begins, and before its last stores are drained */
#define LEAD 12u           /* passes of the other threads while one is suspended */

/* ---- Chance ---- */

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
    if (b->units && (draw >> 48 & 255) < w->work)
        b->units->work(b);
    if ((draw >> 16) % 8192 == 0)
        sleep_ns((draw >> 32) % SLEEP_MAX_NS);
    if ((draw >> 8 & 255) >= w->yield)
        return;
    /* Now and then lets the others get far ahead. */
    for (unsigned n = (draw >> 16) % 8 ? 1 : LEAD; n > 0; n--)
        emu__block_give_way(b);
}

void emu__weak_idle(struct block *b)
{
    struct emu_weak *w = b->weak;
    for (unsigned n = (w->stores.count + 3) / 4; n > 0; n--)
        emu__stores_drain_any(w);
    if (b->units)
        b->units->work(b);
}

/* ---- The life of a block ---- */

bool emu__weak_begin(struct block *b, uint64_t seed)
{
    static const unsigned drain[] = {2, 16, 64, 160}, stale[] = {48, 128, 240},
                          yield[] = {2, 12, 48}, work[] = {1, 8, 64, 200};
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
    w->work = work[(draw >> 40) % 4];
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

/* ---- Barriers ---- */

static void freshen(struct emu_weak_thread *t, const struct emu_weak_thread *by)
{
    for (unsigned i = 0; i < EMU_PROXIES; i++)
        if (t->fresh[i] < by->fresh[i])
            t->fresh[i] = by->fresh[i];
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

void emu__weak_warp_met(struct block *b, unsigned first, uint32_t lanes)
{
    struct emu_weak *w = b->weak;
    struct emu_weak_thread all = {0}, *lane = &w->threads[first];
    if (!lane[__builtin_ctz(lanes)].meets) /* a shuffle orders no memory */
        return;
    for (uint32_t rest = lanes; rest; rest &= rest - 1)
        freshen(&all, &lane[__builtin_ctz(rest)]);
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        freshen(&lane[__builtin_ctz(rest)], &all);
        lane[__builtin_ctz(rest)].meets = false;
    }
    for (unsigned i = 0; i < w->stores.count; i++) {
        struct emu_store *store = &w->stores.slots[w->stores.order[i]];
        if (store->owner / 32 == first / 32 && lanes >> store->owner % 32 & 1 && !store->async)
            store->owner = (uint16_t)(EMU_OF_WARP + first / 32);
    }
}

/* ---- mbarriers ---- */

void emu__weak_arrive(struct block *b, struct emu_released *released)
{
    struct emu_weak *w = b->weak;
    unsigned thread = b->running->index;
    for (unsigned i = 0; i < EMU_PROXIES; i++)
        if (released->fresh[i] < w->threads[thread].fresh[i])
            released->fresh[i] = w->threads[thread].fresh[i];
    for (unsigned i = 0; i < w->stores.count; i++) {
        struct emu_store *store = &w->stores.slots[w->stores.order[i]];
        if (!store->async && emu__store_known(store, thread))
            store->marks |= released->mark;
    }
}

void emu__weak_waited(struct block *b, const struct emu_released *released)
{
    struct emu_weak *w = b->weak;
    unsigned thread = b->running->index;
    struct emu_weak_thread by = {.meets = false};
    memcpy(by.fresh, released->fresh, sizeof by.fresh);
    freshen(&w->threads[thread], &by);
    for (unsigned i = 0; i < w->stores.count; i++) {
        struct emu_store *store = &w->stores.slots[w->stores.order[i]];
        if (store->marks & released->mark)
            store->warps |= 1u << thread / 32;
    }
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
    w->threads[thread].fresh[EMU_MULTICAST_PROXY] = w->threads[thread].fresh[EMU_UNICAST];
}

void emu__weak_fence(uint32_t fences)
{
    struct block *b = emu__this_block;
    emu__weak_pause(b);
    struct emu_weak *w = b->weak;
    unsigned thread = b->running->index;
    if (fences & SYMM_EMULATED_BULK_WAIT)
        bulk_wait(w, thread);
    if (fences & SYMM_EMULATED_ASYNC_FENCE) {
        emu__stores_release(w, thread);
        w->threads[thread].fresh[EMU_ASYNC] = w->threads[thread].fresh[EMU_UNICAST];
    }
    if (fences & SYMM_EMULATED_ALIAS_FENCE)
        alias_fence(w, thread);
    if (fences & SYMM_EMULATED_RELEASE)
        emu__stores_release(w, thread);
    atomic_thread_fence(memory_order_seq_cst);
    if (fences & SYMM_EMULATED_ACQUIRE) {
        w->threads[thread].fresh[EMU_UNICAST] = ++w->clock;
        if (emu__weak_draw(w) % 8 == 0)
            emu__reads_ahead(w);
    }
    if (fences & SYMM_EMULATED_WARP)
        w->threads[thread].meets = true;
}
