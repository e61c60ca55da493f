/*
 * Shared memory. Dynamic shared memory is a mapping of the block's thread, between guard pages.
 * Static shared memory is thread_local variables of the kernel's image: a place in it is known by
 * its distance to one of them.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "emulator/state/machine.h"
#include "emulator/state/sanitizer.h"
#include "block.h"

#define GUARD_NBYTES (64u << 10)
#define ROOM_NBYTES (256u << 10) /* for EMU_SHARED_NBYTES, in whole pages of any size */
#define STATIC_REACH (256 << 10) /* of a thread's variables around the known one */

/* Makes room for nbytes. The pages before and behind them cannot be accessed. */
EMU_UNCHECKED static bool make_room(struct emu_shared *shared, size_t nbytes)
{
    const size_t all = ROOM_NBYTES + 2 * GUARD_NBYTES, page = (size_t)sysconf(_SC_PAGESIZE),
                 used = (nbytes + page - 1) / page * page;
    if (!shared->base) {
        char *base = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED)
            return false;
        shared->base = base;
    }
    char *end = shared->base + GUARD_NBYTES + ROOM_NBYTES;
    return mprotect(shared->base, all, PROT_NONE) == 0 &&
           mprotect(end - used, used, PROT_READ | PROT_WRITE) == 0;
}

void emu__shared_free(struct emu_shared *shared)
{
    if (shared->base)
        munmap(shared->base, ROOM_NBYTES + 2 * GUARD_NBYTES);
}

EMU_UNCHECKED static void fill_with_garbage(char *at, size_t nbytes, uint64_t seed)
{
    for (size_t i = 0; i < nbytes / 8; i++) {
        uint64_t word = emu__draw(&seed);
        memcpy(at + i * 8, &word, 8);
    }
}

EMU_UNCHECKED char *emu__shared_get(struct block *b)
{
    struct emu_shared *s = &b->shared;
    size_t asked = b->grid->shared_nbytes, nbytes = (asked + EMU_SHARED_ALIGNMENT - 1) /
                                                    EMU_SHARED_ALIGNMENT * EMU_SHARED_ALIGNMENT;
    if (s->at)
        return s->at;
    if (s->nbytes != asked && !make_room(s, nbytes))
        return NULL;
    s->at = s->base + GUARD_NBYTES + ROOM_NBYTES - nbytes;
    s->nbytes = asked;
    EMU_UNCHECKED_BEGIN();
    fill_with_garbage(s->at, nbytes, b->random | 1);
    EMU_UNCHECKED_END();
    return s->at;
}

EMU_UNCHECKED bool emu__shared_guards(const struct emu_shared *shared, const void *address)
{
    uintptr_t at = (uintptr_t)address - (uintptr_t)shared->base;
    return shared->base && at < ROOM_NBYTES + 2 * GUARD_NBYTES;
}

EMU_UNCHECKED char *emu__shared_map(const struct block *b, const void *p, size_t nbytes,
                                    unsigned rank, char *rule, size_t rule_nbytes)
{
    const struct block *to = rank < b->cluster->nblocks ? b->cluster->blocks[rank] : NULL;
    uintptr_t dynamic = (uintptr_t)p - (uintptr_t)b->shared.at;
    intptr_t distance = (intptr_t)((uintptr_t)p - (uintptr_t)b->static_shared);
    if (rank >= b->cluster->nblocks)
        snprintf(rule, rule_nbytes, "block %u of a cluster of %u", rank, b->cluster->nblocks);
    else if (rank != b->rank && !b->met)
        snprintf(rule, rule_nbytes,
                 "an access to shared memory of block %u of the cluster, which may not have begun: "
                 "no thread has passed barrier.cluster.wait",
                 rank);
    else if (!to)
        snprintf(rule, rule_nbytes,
                 "an access to shared memory of block %u of the cluster, which has ended", rank);
    else if (b->shared.at && dynamic < b->shared.nbytes && b->shared.nbytes - dynamic >= nbytes)
        return to->shared.at + dynamic;
    else if (b->static_shared && distance > -STATIC_REACH && distance < STATIC_REACH)
        return to->static_shared + distance;
    else
        snprintf(rule, rule_nbytes, "%p is not in shared memory of the block", p);
    return NULL;
}
