/*
 * The values that a block has read, from which a load without acquire may get an old one. The table
 * outlives the block: the next block on this thread reads some of these granules at its very
 * beginning. So a missing acquire is found even in a kernel that reads each address once.
 */
#include <pthread.h>
#include <string.h>
#include "emulator/memory/range.h"
#include "emulator/state/devices.h"
#include "emulator/state/machine.h"
#include "weak_state.h"

#define READ_AHEAD (EMU_READS / 8)

static uintptr_t key_of(const char *granule, enum emu_proxy proxy)
{
    return (uintptr_t)granule + proxy;
}

static const void *granule_of(const struct emu_read *read)
{
    return (const void *)(read->key / EMU_GRANULE * EMU_GRANULE);
}

static struct emu_read *slot_of(const struct emu_weak *w, uintptr_t key)
{
    uint64_t hash = (key / EMU_GRANULE * EMU_PROXIES + key % EMU_GRANULE) * 0x9e3779b97f4a7c15u;
    return (struct emu_read *)&w->reads[(hash >> 32) % EMU_READS];
}

bool emu__reads_get(const struct emu_weak *w, const struct emu_bytes *at, enum emu_proxy proxy,
                    uint64_t fresh, void *out)
{
    uintptr_t key = key_of(at->granule, proxy);
    const struct emu_read *read = slot_of(w, key);
    if (read->key != key || (read->mask & at->mask) != at->mask || read->stamp < fresh)
        return false;
    memcpy(out, read->value + at->first, at->nbytes);
    return true;
}

void emu__reads_put(struct emu_weak *w, const struct emu_bytes *at, enum emu_proxy proxy,
                    uint64_t fresh, const void *value)
{
    uintptr_t key = key_of(at->granule, proxy);
    struct emu_read *read = slot_of(w, key);
    if (read->key != key)
        *read = (struct emu_read){.key = key};
    /* One stamp holds for all bytes: drops the bytes that are too old for this reader. */
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
    for (unsigned proxy = 0; proxy < EMU_PROXIES; proxy++) {
        uintptr_t key = key_of(at->granule, (enum emu_proxy)proxy);
        struct emu_read *read = slot_of(w, key);
        if (read->key == key)
            read->mask &= (uint16_t)~at->mask;
    }
}

/*
 * Skips entries from before the block's first acquire: they may be prefetched. Granules that this
 * block has read itself stay mapped while it runs.
 */
void emu__reads_ahead(struct emu_weak *w)
{
    unsigned first = (unsigned)(emu__weak_draw(w) % EMU_READS);
    for (unsigned i = 0; i < READ_AHEAD; i++) {
        struct emu_read *read = &w->reads[(first + i) % EMU_READS];
        if (!read->key || !read->mask || read->stamp == 0)
            continue;
        emu__load(granule_of(read), EMU_GRANULE, read->value);
        read->mask = read->wanted;
        read->stamp = w->clock;
    }
}

/* Uses its own random numbers: the table's contents must not change the block's other choices. */
static void prefetch(struct emu_weak *w, unsigned likely, uint64_t seed)
{
    for (unsigned i = 0; i < EMU_READS; i++) {
        struct emu_read *read = &w->reads[i];
        read->mask = 0;
        if (!read->key || emu__random(seed, i) % 256 >= likely)
            continue;
        emu__load(granule_of(read), EMU_GRANULE, read->value);
        read->mask = read->wanted;
        read->stamp = 0;
    }
}

void emu__reads_prefetch(struct emu_weak *w)
{
    static const unsigned likely[] = {0, 64, 192, 256};
    uint64_t seed = emu__weak_draw(w);
    /* Unmapping changes the layout, both under the lock. */
    pthread_mutex_lock(&emu__lock);
    uint64_t layout = atomic_load(&emu__layout);
    if (w->layout != layout)
        memset(w->reads, 0, sizeof w->reads);
    else
        prefetch(w, likely[seed % 4], seed);
    w->layout = layout;
    pthread_mutex_unlock(&emu__lock);
}
