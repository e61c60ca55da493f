/*
 * Copies of boxes. A box is read whole, then written into the shared memory of each destination, in
 * packs of 16 bytes which the swizzle permutes, and counted by the barrier there.
 */
#include "tensor_copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "emulator/memory/address.h"
#include "emulator/state/machine.h"
#include "emulator/state/sanitizer.h"
#include "mbarrier.h"

#define PACK EMU_TENSOR_PACK
#define SHARED_ALIGNMENT 128u
#define MAP_ALIGNMENT 64u

/* ---- Reading ---- */

/* Reads bytes of memory that the device may access. False: it may not; `rule` says why. */
static bool read_bytes(struct block *b, const struct emu_tensor_copy *copy, const char *from,
                       char *to, size_t nbytes, char *rule)
{
    while (nbytes > 0) {
        const struct emu_span *span = emu__span(from);
        size_t behind = (uintptr_t)from - span->start, n = span->nbytes - behind;
        if (!(span->access & EMU_READ)) {
            emu__describe(b->grid->device, from, rule, EMU_RULE_NBYTES);
            return false;
        }
        n = n < nbytes ? n : nbytes;
        if (b->weak)
            emu__weak_async_read(b, span->home + behind, n, copy->fresh, to);
        else
            memcpy(to, span->home + behind, n);
        from += n;
        to += n;
        nbytes -= n;
    }
    return true;
}

/* Reads a box; elements outside of the tensor are 0. */
static bool read_box(struct block *b, const struct emu_tensor_copy *copy, char *box, char *rule)
{
    const struct emu_tensor_map *map = &copy->map;
    const uint32_t nbytes = emu__tensor_line_nbytes(map);
    memset(box, 0, (size_t)nbytes * emu__tensor_lines(map));
    for (uint32_t i = 0; i < emu__tensor_lines(map); i++, box += nbytes) {
        const struct emu_tensor_line line = emu__tensor_line(map, copy->at, i);
        if (line.n > 0 &&
            !read_bytes(b, copy, line.data, box + (size_t)line.first * map->element_nbytes,
                        (size_t)line.n * map->element_nbytes, rule))
            return false;
    }
    return true;
}

/* ---- Writing ---- */

/* The place of a pack: bits 4 to 6 of its address, as many as the swizzle has, change by 7 to 9. */
uint32_t emu__tensor_swizzle(uint32_t address, uint32_t span)
{
    return span ? address ^ ((address >> 7 & (span / PACK - 1)) * PACK) : address;
}

static void write_box(const struct block *to, uint32_t address, const struct emu_tensor_map *map,
                      const char *box)
{
    uint32_t nbytes = emu__tensor_lines(map) * emu__tensor_line_nbytes(map);
    for (uint32_t i = 0; i < nbytes; i += PACK)
        memcpy(emu__window_bytes(to, emu__tensor_swizzle(address + i, map->span), PACK), box + i,
               PACK);
}

/* Writes the box into one block, and counts its bytes there. With the cluster's lock. */
static bool deliver(struct block *b, const struct emu_tensor_copy *copy, unsigned rank,
                    const char *box, char *rule)
{
    uint32_t nbytes = emu__tensor_lines(&copy->map) * emu__tensor_line_nbytes(&copy->map);
    const char *shared = emu__shared_map(b, copy->shared, nbytes, rank, rule, EMU_RULE_NBYTES);
    const void *bar =
        shared ? emu__shared_map(b, copy->mbarrier, 8, rank, rule, EMU_RULE_NBYTES) : NULL;
    const struct block *to = bar ? b->cluster->blocks[rank] : NULL;
    if (!to || !emu__mbarrier_serves(b, to, bar, rule))
        return false;
    write_box(to, emu__window_address(to, shared, nbytes), &copy->map, box);
    return emu__mbarrier_complete(to, bar, nbytes, rule);
}

/* Returns room for the box. NULL: no memory. */
static char *room_for(struct emu_hopper *h, size_t nbytes)
{
    if (h->box_capacity < nbytes) {
        free(h->box);
        h->box = malloc(nbytes);
        h->box_capacity = h->box ? nbytes : 0;
    }
    return h->box;
}

static bool run(struct block *b, const struct emu_tensor_copy *copy, char *rule)
{
    char *box = room_for(emu__hopper(b), (size_t)emu__tensor_lines(&copy->map) *
                                             emu__tensor_line_nbytes(&copy->map));
    bool ok = box && read_box(b, copy, box, rule);
    if (!box)
        snprintf(rule, EMU_RULE_NBYTES, "no memory for a box");
    emu__cluster_lock(b->cluster);
    for (uint32_t rest = copy->blocks; ok && rest; rest &= rest - 1)
        ok = deliver(b, copy, (unsigned)__builtin_ctz(rest), box, rule);
    emu__cluster_unlock(b->cluster);
    return ok;
}

/* ---- Weakly ordered memory ---- */

static bool add_copy(struct emu_hopper *h, const struct emu_tensor_copy *copy)
{
    if (h->ncopies == h->copies_capacity) {
        unsigned n = h->copies_capacity ? h->copies_capacity * 2 : 32;
        struct emu_tensor_copy *more = realloc(h->copies, n * sizeof *more);
        if (!more)
            return false;
        h->copies = more;
        h->copies_capacity = n;
    }
    h->copies[h->ncopies++] = *copy;
    return true;
}

bool emu__tensor_work(struct block *b)
{
    struct emu_hopper *h = emu__hopper(b);
    char rule[EMU_RULE_NBYTES];
    if (h->ncopies == 0)
        return false;
    unsigned i = (unsigned)(emu__draw(&b->random) % h->ncopies);
    const struct emu_tensor_copy copy = h->copies[i];
    h->copies[i] = h->copies[--h->ncopies];
    if (!run(b, &copy, rule))
        emu__block_fault(b, CUDA_ERROR_ILLEGAL_ADDRESS, rule);
    return true;
}

/* ---- Issue ---- */

/* Whether a tensor map lies in the kernel's argument or in global memory. */
EMU_UNCHECKED static bool is_in_reach(const struct block *b, const struct emu_tensor_map *map)
{
    if ((uintptr_t)map - (uintptr_t)b->grid->args < b->grid->kernel->args_nbytes)
        return true;
    EMU_UNCHECKED_BEGIN();
    const bool global = emu__span(map)->access & EMU_READ;
    EMU_UNCHECKED_END();
    return global;
}

EMU_UNCHECKED void emu__tensor_check(const struct block *b, const void *shared, const void *at,
                                     uint32_t ndim)
{
    const struct emu_tensor_map *map = at;
    if ((uintptr_t)at % MAP_ALIGNMENT)
        emu__block_break(CUDA_ERROR_MISALIGNED_ADDRESS,
                         "a tensor map at %p, which is not aligned to %u bytes", at, MAP_ALIGNMENT);
    if (!emu__tensor_map_valid(map))
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED, "%p is no tensor map", at);
    if (!is_in_reach(b, map))
        emu__block_break(
            CUDA_ERROR_ILLEGAL_ADDRESS,
            "a tensor map at %p, neither in the kernel's argument nor in global memory", at);
    if (map->ndim != ndim)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                         "coordinates of %u dimensions for a tensor map of %u", ndim, map->ndim);
    for (uint32_t i = 0; i < ndim; i++)
        if (map->steps[i] != 1)
            emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                             "a tensor map with steps[%u] = %u: the emulator copies by steps of 1",
                             i, map->steps[i]);
    if (map->span && emu__tensor_line_nbytes(map) != map->span)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                         "lines of %u bytes with a swizzle of %u: the emulator swizzles whole ones",
                         emu__tensor_line_nbytes(map), map->span);
    uint32_t address =
        emu__window_address(b, shared, emu__tensor_lines(map) * emu__tensor_line_nbytes(map));
    if (address == 0)
        emu__block_break(CUDA_ERROR_ILLEGAL_ADDRESS,
                         "a box of %u bytes at %p, of which not all is dynamic shared memory",
                         emu__tensor_lines(map) * emu__tensor_line_nbytes(map), shared);
    if (address % SHARED_ALIGNMENT)
        emu__block_break(CUDA_ERROR_MISALIGNED_ADDRESS,
                         "a box at %p, which is not aligned to %u bytes", shared, SHARED_ALIGNMENT);
}

EMU_UNCHECKED void emu__tensor_load(void *shared, const void *map, uint32_t ndim, const int32_t *at,
                                    uint64_t *bar, uint32_t blocks)
{
    struct block *b = emu__this_block;
    char rule[EMU_RULE_NBYTES];
    struct emu_tensor_copy copy = {.shared = shared,
                                   .mbarrier = bar,
                                   .blocks = blocks ? blocks : 1u << b->rank,
                                   .fresh = b->weak ? emu__weak_async_fresh(b) : 0};
    if (b->weak)
        emu__weak_pause(b);
    emu__tensor_check(b, shared, map, ndim);
    EMU_UNCHECKED_BEGIN();
    copy.map = *(const struct emu_tensor_map *)map;
    memcpy(copy.at, at, ndim * sizeof *at);
    b->progress = true;
    bool ok = b->weak ? add_copy(emu__hopper(b), &copy) : run(b, &copy, rule);
    EMU_UNCHECKED_END();
    if (b->weak && !ok)
        emu__block_break(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "no memory for a copy");
    if (!ok)
        emu__block_break(CUDA_ERROR_ILLEGAL_ADDRESS, "%s", rule);
}
