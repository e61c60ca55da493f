#include "tensor_add.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/detail/convert.h>
#include "emulator/memory/address.h"
#include "emulator/state/machine.h"
#include "emulator/state/sanitizer.h"
#include "tensor_copy.h"

/* ---- Arithmetic ---- */

static uint16_t sum_of(uint8_t dtype, uint16_t x, uint16_t y)
{
    if (dtype == CU_TENSOR_MAP_DATA_TYPE_FLOAT16)
        return symm_detail_to_f16(symm_detail_from_f16(x) + symm_detail_from_f16(y));
    return symm_detail_to_bf16(symm_detail_from_bf16(x) + symm_detail_from_bf16(y));
}

static void add_element(uint8_t dtype, char *to, const char *operand)
{
    uint16_t *at = (uint16_t *)(void *)to, old = __atomic_load_n(at, __ATOMIC_RELAXED), x;
    memcpy(&x, operand, sizeof x);
    while (!__atomic_compare_exchange_n(at, &old, sum_of(dtype, old, x), true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
        ;
}

/* ---- One addition ---- */

static uint32_t nbytes_of(const struct emu_tensor_map *map)
{
    return emu__tensor_lines(map) * emu__tensor_line_nbytes(map);
}

static bool read_box(struct emu_tensor_add *add, char *rule)
{
    add->box = malloc(nbytes_of(&add->map));
    if (add->box)
        memcpy(add->box, add->shared, nbytes_of(&add->map));
    else
        snprintf(rule, EMU_RULE_NBYTES, "no memory for a box");
    return add->box != NULL;
}

/* Adds elements to memory that the device may access. False: it may not; `rule` says why. */
static bool add_line(struct block *b, const struct emu_tensor_add *add,
                     const struct emu_tensor_line *line, const char *from, char *rule)
{
    const uint32_t size = add->map.element_nbytes;
    for (uint32_t i = 0; i < line->n; i++) {
        const char *at = line->data + (size_t)i * size;
        const struct emu_span *span = emu__span(at);
        if ((span->access & (EMU_READ | EMU_WRITE)) != (EMU_READ | EMU_WRITE)) {
            emu__describe(b->grid->device, at, rule, EMU_RULE_NBYTES);
            return false;
        }
        add_element(add->map.dtype, span->home + ((uintptr_t)at - span->start),
                    from + (size_t)(line->first + i) * size);
    }
    return true;
}

static bool add_box(struct block *b, const struct emu_tensor_add *add, char *rule)
{
    const char *from = add->box;
    bool ok = true;
    for (uint32_t i = 0; i < emu__tensor_lines(&add->map) && ok; i++) {
        const struct emu_tensor_line line = emu__tensor_line(&add->map, add->at, i);
        ok = add_line(b, add, &line, from, rule);
        from += emu__tensor_line_nbytes(&add->map);
    }
    return ok;
}

static void drop(struct emu_hopper *h, unsigned i)
{
    free(h->adds[i].box);
    h->adds[i] = h->adds[--h->nadds];
}

/* Reads the box of addition i, or does it whole. False: `rule` says why it cannot. */
static bool advance(struct block *b, unsigned i, bool whole, char *rule)
{
    struct emu_hopper *h = emu__hopper(b);
    struct emu_tensor_add *add = &h->adds[i];
    if (!add->box)
        return read_box(add, rule) && (!whole || advance(b, i, true, rule));
    if (!whole)
        return true;
    const bool ok = add_box(b, add, rule);
    drop(h, i);
    return ok;
}

/* ---- Weakly ordered memory, and the end of a block ---- */

bool emu__tensor_add_work(struct block *b)
{
    struct emu_hopper *h = emu__hopper(b);
    char rule[EMU_RULE_NBYTES];
    if (h->nadds == 0)
        return false;
    const unsigned i = (unsigned)(emu__draw(&b->random) % h->nadds);
    if (!advance(b, i, h->adds[i].box != NULL, rule))
        emu__block_fault(b, CUDA_ERROR_ILLEGAL_ADDRESS, rule);
    return true;
}

void emu__tensor_add_end(struct block *b)
{
    struct emu_hopper *h = (struct emu_hopper *)b->units;
    char rule[EMU_RULE_NBYTES];
    while (h->nadds > 0) {
        if (!h->adds[0].box) {
            emu__block_fault(b, CUDA_ERROR_LAUNCH_FAILED,
                             "the block ends while boxes in its shared memory are not added yet");
            return;
        }
        if (!advance(b, 0, true, rule)) {
            emu__block_fault(b, CUDA_ERROR_ILLEGAL_ADDRESS, rule);
            return;
        }
    }
}

void emu__tensor_add_free(struct emu_hopper *h)
{
    while (h->nadds > 0)
        drop(h, 0);
    free(h->adds);
    h->adds = NULL;
    h->adds_capacity = 0;
}

/* ---- Issue ---- */

static struct emu_tensor_add *append(struct emu_hopper *h)
{
    if (h->nadds == h->adds_capacity) {
        unsigned n = h->adds_capacity ? h->adds_capacity * 2 : 32;
        struct emu_tensor_add *more = realloc(h->adds, n * sizeof *more);
        if (!more)
            return NULL;
        h->adds = more;
        h->adds_capacity = n;
    }
    return &h->adds[h->nadds++];
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

static bool issue(struct block *b, const struct emu_tensor_add *add)
{
    struct emu_hopper *h = emu__hopper(b);
    const uint64_t *committed = groups(b, h);
    struct emu_tensor_add *to = committed ? append(h) : NULL;
    if (!to)
        return false;
    *to = *add;
    to->group = *committed;
    return true;
}

EMU_UNCHECKED static void check_type(const struct emu_tensor_map *map)
{
    if (map->span || (map->dtype != CU_TENSOR_MAP_DATA_TYPE_FLOAT16 &&
                      map->dtype != CU_TENSOR_MAP_DATA_TYPE_BFLOAT16))
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                         "an addition by a tensor map of type %u and a swizzle of %u: the emulator "
                         "adds float16 and bfloat16 without one",
                         map->dtype, map->span);
}

EMU_UNCHECKED void emu__tensor_add(const void *map, uint32_t ndim, const int32_t *at,
                                   const void *shared)
{
    struct block *b = emu__this_block;
    struct emu_tensor_add add = {.shared = shared, .thread = b->running->index};
    if (b->weak)
        emu__weak_pause(b);
    emu__tensor_check(b, shared, map, ndim);
    check_type(map);
    EMU_UNCHECKED_BEGIN();
    add.map = *(const struct emu_tensor_map *)map;
    memcpy(add.at, at, ndim * sizeof *at);
    b->progress = true;
    const bool ok = issue(b, &add);
    EMU_UNCHECKED_END();
    if (!ok)
        emu__block_break(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "no memory for an addition");
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
        emu__block_break(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "no memory for groups of additions");
}

/* Completes the running thread's groups below `end`; with `whole` false, only reads their boxes. */
static bool finish(struct block *b, uint64_t end, bool whole, char *rule)
{
    struct emu_hopper *h = emu__hopper(b);
    bool ok = true;
    for (unsigned i = 0; i < h->nadds && ok;) {
        const struct emu_tensor_add *add = &h->adds[i];
        const bool mine = add->thread == b->running->index && add->group < end;
        if (mine && (whole || !add->box))
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
