/*
 * What a block has read, so that a load that no acquire orders can return an old value. The table
 * outlives the block: the next one on this thread reads some of it at its very beginning, which is
 * how a kernel that reads each address once is caught.
 */
#include <string.h>
#include "emulator/memory/object.h"
#include "emulator/blocks/weak_state.h"

#define READ_AHEAD (EMU_READS / 8)

static uintptr_t key_of(const char *granule, bool multicast)
{
    return (uintptr_t)granule + multicast;
}

static struct emu_read *slot_of(const struct emu_weak *w, uintptr_t key)
{
    uint64_t hash = (key / EMU_GRANULE * 2 + key % 2) * 0x9e3779b97f4a7c15u;
    return (struct emu_read *)&w->reads[(hash >> 32) % EMU_READS];
}

bool emu__reads_get(const struct emu_weak *w, const struct emu_bytes *at, bool multicast,
                    uint64_t fresh, void *out)
{
    uintptr_t key = key_of(at->granule, multicast);
    const struct emu_read *read = slot_of(w, key);
    if (read->key != key || (read->mask & at->mask) != at->mask || read->stamp < fresh)
        return false;
    memcpy(out, read->value + at->first, at->nbytes);
    return true;
}

void emu__reads_put(struct emu_weak *w, const struct emu_bytes *at, bool multicast, uint64_t fresh,
                    const void *value)
{
    uintptr_t key = key_of(at->granule, multicast);
    struct emu_read *read = slot_of(w, key);
    if (read->key != key)
        *read = (struct emu_read){.key = key};
    /* One stamp for all bytes, so those that this reader may not see any more go. */
    if ((read->mask & ~at->mask) == 0 || read->stamp < fresh) {
        read->mask = 0;
        read->stamp = w->clock;
    }
    read->mask |= at->mask;
    read->wanted |= at->mask;
    memcpy(read->value + at->first, value, at->nbytes);
}

void emu__reads_drop(struct emu_weak *w, const struct emu_bytes *at)
{
    for (unsigned multicast = 0; multicast < 2; multicast++) {
        uintptr_t key = key_of(at->granule, multicast);
        struct emu_read *read = slot_of(w, key);
        if (read->key == key)
            read->mask &= (uint16_t)~at->mask;
    }
}

/*
 * Only what this block has read itself, which stays mapped while it runs; what is from before its
 * first acquire may have been prefetched.
 */
void emu__reads_ahead(struct emu_weak *w)
{
    unsigned first = (unsigned)(emu__weak_draw(w) % EMU_READS);
    for (unsigned i = 0; i < READ_AHEAD; i++) {
        struct emu_read *read = &w->reads[(first + i) % EMU_READS];
        if (!read->key || !read->mask || read->stamp == 0)
            continue;
        emu__load((const void *)(read->key & ~(uintptr_t)1), EMU_GRANULE, read->value);
        read->mask = read->wanted;
        read->stamp = w->clock;
    }
}

/* Drawn apart from all else, so that what the table holds does not change the block's course. */
static void prefetch(struct emu_weak *w, unsigned likely, uint64_t seed)
{
    for (unsigned i = 0; i < EMU_READS; i++) {
        struct emu_read *read = &w->reads[i];
        read->mask = 0;
        if (!read->key || emu__random(seed, i) % 256 >= likely)
            continue;
        emu__load((const void *)(read->key & ~(uintptr_t)1), EMU_GRANULE, read->value);
        read->mask = read->wanted;
        read->stamp = 0;
    }
}

void emu__reads_prefetch(struct emu_weak *w)
{
    static const unsigned likely[] = {0, 64, 192, 256};
    uint64_t seed = emu__weak_draw(w);
    /* Whatever unmaps memory changes the layout, and does both under the lock. */
    pthread_mutex_lock(&emu__lock);
    uint64_t layout = atomic_load(&emu__layout);
    if (w->layout != layout)
        memset(w->reads, 0, sizeof w->reads);
    else
        prefetch(w, likely[seed % 4], seed);
    w->layout = layout;
    pthread_mutex_unlock(&emu__lock);
}
