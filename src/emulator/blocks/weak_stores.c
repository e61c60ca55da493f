/*
 * A block's pending stores, which other blocks do not see yet. They are drained in random order,
 * each with one store of its size.
 */
#include <string.h>
#include "weak_state.h"

void emu__stores_clear(struct emu_stores *stores)
{
    stores->count = 0;
    for (unsigned i = 0; i < EMU_STORES; i++) {
        stores->order[i] = (uint16_t)i;
        stores->heads[i] = EMU_NO_STORE;
    }
}

static uint16_t *head_of(struct emu_stores *stores, const char *granule)
{
    uint64_t hash = (uintptr_t)granule / EMU_GRANULE * 0x9e3779b97f4a7c15u;
    return &stores->heads[(hash >> 32) % EMU_STORES];
}

unsigned emu__stores_first(const struct emu_stores *stores, const char *granule)
{
    unsigned slot = *head_of((struct emu_stores *)stores, granule);
    while (slot != EMU_NO_STORE && stores->slots[slot].at.granule != granule)
        slot = stores->slots[slot].next;
    return slot;
}

unsigned emu__stores_add(struct emu_weak *w, const struct emu_store *store)
{
    struct emu_stores *s = &w->stores;
    if (s->count == EMU_STORES)
        emu__stores_drain_any(w);
    uint16_t slot = s->order[s->count], *head = head_of(s, store->at.granule);
    s->slots[slot] = *store;
    s->slots[slot].position = (uint16_t)s->count++;
    s->slots[slot].next = *head;
    *head = slot;
    return slot;
}

static void remove_slot(struct emu_stores *s, uint16_t slot)
{
    struct emu_store *store = &s->slots[slot];
    uint16_t *link = head_of(s, store->at.granule);
    while (*link != slot)
        link = &s->slots[*link].next;
    *link = store->next;
    uint16_t last = s->order[--s->count];
    s->order[store->position] = last;
    s->slots[last].position = store->position;
    s->order[s->count] = slot;
}

void emu__stores_drain(struct emu_weak *w, unsigned slot)
{
    /* Removed first: the address may fault, and then this does not return. */
    struct emu_store store = w->stores.slots[slot];
    char *to = store.at.granule + store.at.first;
    remove_slot(&w->stores, (uint16_t)slot);
    emu__reads_drop(w, &store.at);
    if (store.apply)
        store.apply(to, store.value);
    else
        emu__store(to, store.at.nbytes, store.value);
}

void emu__stores_drain_any(struct emu_weak *w)
{
    emu__stores_drain(w, w->stores.order[emu__weak_draw(w) % w->stores.count]);
}

bool emu__store_known(const struct emu_store *store, unsigned thread)
{
    return store->owner == thread || store->owner == EMU_OF_BLOCK ||
           store->owner == EMU_OF_WARP + thread / 32 || store->warps >> thread / 32 & 1;
}

static void drain_shuffled(struct emu_weak *w, uint16_t *slots, unsigned n)
{
    for (; n > 0; n--) {
        unsigned i = (unsigned)(emu__weak_draw(w) % n);
        uint16_t slot = slots[i];
        slots[i] = slots[n - 1];
        emu__stores_drain(w, slot);
    }
}

void emu__stores_release(struct emu_weak *w, unsigned thread)
{
    uint16_t slots[EMU_STORES];
    unsigned n = 0;
    for (unsigned i = 0; i < w->stores.count; i++) {
        const struct emu_store *store = &w->stores.slots[w->stores.order[i]];
        if (emu__store_known(store, thread) && (!store->multicast || store->aliased) &&
            !store->async)
            slots[n++] = w->stores.order[i];
    }
    drain_shuffled(w, slots, n);
}

void emu__stores_drain_all(struct emu_weak *w)
{
    uint16_t slots[EMU_STORES];
    memcpy(slots, w->stores.order, w->stores.count * sizeof *slots);
    drain_shuffled(w, slots, w->stores.count);
}
