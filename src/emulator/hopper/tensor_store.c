#include "tensor_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/detail/convert.h>
#include "emulator/memory/address.h"
#include "emulator/state/machine.h"
#include "emulator/state/sanitizer.h"
#include "tensor_copy.h"
#include "unfenced.h"

/* ---- Arithmetic ---- */

static uint16_t sum_of(uint8_t dtype, uint16_t x, uint16_t y)
{
    if (dtype == CU_TENSOR_MAP_DATA_TYPE_FLOAT16)
        return symm_detail_to_f16(symm_detail_from_f16(x) + symm_detail_from_f16(y));
    return symm_detail_to_bf16(symm_detail_from_bf16(x) + symm_detail_from_bf16(y));
}

static void add_element(uint8_t dtype, uint16_t *to, uint16_t x)
{
    uint16_t old = __atomic_load_n(to, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(to, &old, sum_of(dtype, old, x), true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
        ;
}

static void put_element(const struct emu_tensor_store *store, char *to, const char *from)
{
    uint16_t x;
    memcpy(&x, from, sizeof x);
    if (store->adds)
        add_element(store->map.dtype, (uint16_t *)(void *)to, x);
    else
        __atomic_store_n((uint16_t *)(void *)to, x, __ATOMIC_RELAXED);
}

/* ---- One store ---- */

static uint32_t nbytes_of(const struct emu_tensor_map *map)
{
    return emu__tensor_lines(map) * emu__tensor_line_nbytes(map);
}

static bool read_box(const struct block *b, struct emu_tensor_store *store, char *rule)
{
    const uint32_t nbytes = nbytes_of(&store->map),
                   address = emu__window_address(b, store->shared, nbytes);
    store->box = malloc(nbytes);
    for (uint32_t i = 0; store->box && i < nbytes; i += EMU_TENSOR_PACK) {
        const uint32_t pack = emu__tensor_swizzle(address + i, store->map.span);
        memcpy(store->box + i, emu__window_bytes(b, pack, EMU_TENSOR_PACK), EMU_TENSOR_PACK);
    }
    if (!store->box)
        snprintf(rule, EMU_RULE_NBYTES, "no memory for a box");
    return store->box != NULL;
}

/* Writes elements of memory that the device may access. False: it may not; `rule` says why. */
static bool write_line(struct block *b, const struct emu_tensor_store *store,
                       const struct emu_tensor_line *line, const char *from, char *rule)
{
    const uint32_t size = store->map.element_nbytes,
                   needed = EMU_WRITE | (store->adds ? EMU_READ : 0);
    for (uint32_t i = 0; i < line->n; i++) {
        const char *at = line->data + (size_t)i * size;
        const struct emu_span *span = emu__span(at);
        if ((span->access & needed) != needed) {
            emu__describe(b->grid->device, at, rule, EMU_RULE_NBYTES);
            return false;
        }
        put_element(store, span->home + ((uintptr_t)at - span->start),
                    from + (size_t)(line->first + i) * size);
    }
    return true;
}

static bool write_box(struct block *b, const struct emu_tensor_store *store, char *rule)
{
    const char *from = store->box;
    bool ok = true;
    for (uint32_t i = 0; i < emu__tensor_lines(&store->map) && ok; i++) {
        const struct emu_tensor_line line = emu__tensor_line(&store->map, store->at, i);
        ok = write_line(b, store, &line, from, rule);
        from += emu__tensor_line_nbytes(&store->map);
    }
    return ok;
}

static void drop(struct emu_hopper *h, unsigned i)
{
    free(h->stores[i].box);
    h->stores[i] = h->stores[--h->nstores];
}

/* Reads the box of store i, or does it whole. False: `rule` says why it cannot. */
static bool advance(struct block *b, unsigned i, bool whole, char *rule)
{
    struct emu_hopper *h = emu__hopper(b);
    struct emu_tensor_store *store = &h->stores[i];
    if (!store->box)
        return read_box(b, store, rule) && (!whole || advance(b, i, true, rule));
    if (!whole)
        return true;
    const bool ok = write_box(b, store, rule);
    drop(h, i);
    return ok;
}

/* ---- Weakly ordered memory, and the end of a block ---- */

bool emu__tensor_store_work(struct block *b)
{
    struct emu_hopper *h = emu__hopper(b);
    char rule[EMU_RULE_NBYTES];
    if (h->nstores == 0)
        return false;
    const unsigned i = (unsigned)(emu__draw(&b->random) % h->nstores);
    if (!advance(b, i, h->stores[i].box != NULL, rule))
        emu__block_fault(b, CUDA_ERROR_ILLEGAL_ADDRESS, rule);
    return true;
}

void emu__tensor_store_end(struct block *b)
{
    struct emu_hopper *h = (struct emu_hopper *)b->units;
    char rule[EMU_RULE_NBYTES];
    while (h->nstores > 0) {
        if (!h->stores[0].box) {
            emu__block_fault(b, CUDA_ERROR_LAUNCH_FAILED,
                             "the block ends while boxes in its shared memory are not read yet");
            return;
        }
        if (!advance(b, 0, true, rule)) {
            emu__block_fault(b, CUDA_ERROR_ILLEGAL_ADDRESS, rule);
            return;
        }
    }
}

void emu__tensor_store_free(struct emu_hopper *h)
{
    while (h->nstores > 0)
        drop(h, 0);
    free(h->stores);
    h->stores = NULL;
    h->stores_capacity = 0;
}

/* ---- Issue ---- */

static struct emu_tensor_store *append(struct emu_hopper *h)
{
    if (h->nstores == h->stores_capacity) {
        unsigned n = h->stores_capacity ? h->stores_capacity * 2 : 32;
        struct emu_tensor_store *more = realloc(h->stores, n * sizeof *more);
        if (!more)
            return NULL;
        h->stores = more;
        h->stores_capacity = n;
    }
    return &h->stores[h->nstores++];
}

/* The groups that the running thread has committed. */
static uint64_t *groups(struct block *b, struct emu_hopper *h)
{
    if (h->groups_capacity < b->nthreads) {
        uint64_t *more = calloc(b->nthreads, sizeof *more);
        if (!more)
            return NULL;
        if (h->committed)
            memcpy(more, h->committed, h->groups_capacity * sizeof *more);
        free(h->committed);
        h->committed = more;
        h->groups_capacity = b->nthreads;
    }
    return &h->committed[b->running->index];
}

static bool issue(struct block *b, const struct emu_tensor_store *store)
{
    struct emu_hopper *h = emu__hopper(b);
    const uint64_t *committed = groups(b, h);
    struct emu_tensor_store *to = committed ? append(h) : NULL;
    if (!to)
        return false;
    *to = *store;
    to->group = *committed;
    return true;
}

EMU_UNCHECKED static void check_type(const struct emu_tensor_map *map)
{
    if (map->dtype != CU_TENSOR_MAP_DATA_TYPE_FLOAT16 &&
        map->dtype != CU_TENSOR_MAP_DATA_TYPE_BFLOAT16)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                         "a store by a tensor map of type %u: the emulator stores float16 and "
                         "bfloat16",
                         map->dtype);
}

EMU_UNCHECKED static void store_box(const void *map, uint32_t ndim, const int32_t *at,
                                    const void *shared, bool adds)
{
    struct block *b = emu__this_block;
    struct emu_tensor_store store = {.shared = shared, .thread = b->running->index, .adds = adds};
    if (b->weak)
        emu__weak_pause(b);
    emu__tensor_check(b, shared, map, ndim);
    check_type(map);
    emu__unfenced_check(b, shared, nbytes_of(map));
    EMU_UNCHECKED_BEGIN();
    store.map = *(const struct emu_tensor_map *)map;
    memcpy(store.at, at, ndim * sizeof *at);
    b->progress = true;
    const bool ok = issue(b, &store);
    EMU_UNCHECKED_END();
    if (!ok)
        emu__block_break(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "no memory for a store");
}

EMU_UNCHECKED void emu__tensor_store(const void *map, uint32_t ndim, const int32_t *at,
                                     const void *shared)
{
    store_box(map, ndim, at, shared, false);
}

EMU_UNCHECKED void emu__tensor_add(const void *map, uint32_t ndim, const int32_t *at,
                                   const void *shared)
{
    store_box(map, ndim, at, shared, true);
}

EMU_UNCHECKED void emu__bulk_commit(void)
{
    struct block *b = emu__this_block;
    EMU_UNCHECKED_BEGIN();
    uint64_t *committed = groups(b, emu__hopper(b));
    if (committed)
        ++*committed;
    EMU_UNCHECKED_END();
    if (!committed)
        emu__block_break(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "no memory for groups of stores");
}

/* Completes the running thread's groups below `end`; with `whole` false, only reads their boxes. */
static bool finish(struct block *b, uint64_t end, bool whole, char *rule)
{
    struct emu_hopper *h = emu__hopper(b);
    bool ok = true;
    for (unsigned i = 0; i < h->nstores && ok;) {
        const struct emu_tensor_store *store = &h->stores[i];
        const bool mine = store->thread == b->running->index && store->group < end;
        if (mine && (whole || !store->box))
            ok = advance(b, i, whole, rule);
        i += !(mine && whole);
    }
    return ok;
}

EMU_UNCHECKED void emu__bulk_wait(uint32_t pending, uint32_t read)
{
    struct block *b = emu__this_block;
    char rule[EMU_RULE_NBYTES];
    if (b->weak)
        emu__weak_pause(b);
    EMU_UNCHECKED_BEGIN();
    const uint64_t *committed = groups(b, emu__hopper(b));
    const uint64_t end = committed && *committed > pending ? *committed - pending : 0;
    const bool ok = finish(b, end, !read, rule);
    EMU_UNCHECKED_END();
    if (!ok)
        emu__block_break(CUDA_ERROR_ILLEGAL_ADDRESS, "%s", rule);
}
