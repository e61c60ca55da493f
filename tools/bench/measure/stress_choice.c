/* The random calls of symm-bench stress. */
#include "stress_choice.h"

#include <stdio.h>

uint64_t stress_draw(struct stress_stream *s)
{
    return sums_seed(s->seed, s->drawn++);
}

uint64_t stress_below(struct stress_stream *s, uint64_t n)
{
    return stress_draw(s) % n;
}

static bool one_in(struct stress_stream *s, uint64_t n)
{
    return stress_below(s, n) == 0;
}

/* Often a corner case, else any count; each power of two is equally likely. */
static size_t choose_count(struct stress_stream *s, uint64_t most)
{
    uint64_t bits = 0;

    while (most >> (bits + 1))
        bits++;
    uint64_t corner = stress_below(s, 16);
    uint64_t floor = (uint64_t)1 << stress_below(s, bits + 1);
    uint64_t count = floor + stress_below(s, floor);

    if (corner < 2)
        return (size_t)corner;
    if (corner < 6)
        count = floor;
    return (size_t)(count < most ? count : most);
}

/* Stores the wanted variant number `which`, over all operations. Returns the number of variants so
 * far. */
static uint64_t find_variant(const struct bench_options *o, uint64_t which, struct stress_choice *c)
{
    uint64_t n = 0;

    for (size_t i = 0; operation_at(i); i++) {
        for (const struct variant *v = operation_at(i)->variants; v->name; v++) {
            if (!bench_options_want(o->algos, v->name))
                continue;
            c->operation = operation_at(i);
            c->variant = v;
            if (n++ == which)
                return n;
        }
    }
    return n;
}

/* Finds a type and an op that the variant runs with, from number `pair` on. */
static bool find_pair(symm_group *world, uint64_t pair, struct stress_choice *c)
{
    uint64_t npairs = 0;

    while (element_at(npairs / NREDOPS))
        npairs++;
    for (uint64_t i = pair; i < pair + npairs; i++) {
        c->element = element_at(i % npairs / NREDOPS);
        c->op = (symm_redop)(i % npairs % NREDOPS);
        if (!c->operation->unavailable(world, c->variant->algo, c->element->dtype, c->op))
            return true;
    }
    return false;
}

/* Chooses a variant, a type and an op. A variant that never runs is replaced by the next one. */
static void choose_variant(struct stress_stream *s, const struct bench_options *o,
                           symm_group *world, struct stress_choice *c)
{
    const uint64_t which = stress_below(s, UINT32_MAX), pair = stress_below(s, UINT32_MAX);
    const uint64_t n = find_variant(o, UINT64_MAX, c);

    for (uint64_t i = 0; i < n; i++) {
        find_variant(o, (which + i) % n, c);
        if (find_pair(world, pair, c))
            return;
    }
    c->operation = NULL;
}

bool stress_runs(symm_group *world, const char *variant)
{
    const struct bench_options named = {.algos = variant};
    struct stress_choice c = {.operation = NULL};
    const uint64_t n = find_variant(&named, UINT64_MAX, &c);

    for (uint64_t i = 0; i < n; i++) {
        find_variant(&named, i, &c);
        if (find_pair(world, 0, &c))
            return true;
    }
    return false;
}

/* Whether the output is at the same place of symmetric memory on all ranks. */
static bool out_symmetric(const struct stress_choice *c)
{
    return !c->uneven && (c->in_place ? c->in_memory : c->out_memory) == STRESS_SYMMETRIC;
}

static int choose_offset(struct stress_stream *s)
{
    uint64_t offset = stress_below(s, 2 * STRESS_MAX_OFFSET);

    return offset < STRESS_MAX_OFFSET ? (int)offset : 0;
}

struct stress_choice stress_choose(struct stress_stream *s, const struct bench_options *o,
                                   symm_group *world)
{
    struct stress_choice c = {.operation = NULL};

    choose_variant(s, o, world, &c);
    if (!c.operation)
        return c;
    c.count = choose_count(s, o->max_bytes / c.element->nbytes);
    c.in_place = one_in(s, 3);
    c.graph = one_in(s, 2);
    c.in_memory = (enum stress_memory)(one_in(s, 2) ? 0 : stress_below(s, 3));
    c.out_memory = (enum stress_memory)(one_in(s, 2) ? 0 : stress_below(s, 3));
    c.in_offset = choose_offset(s);
    c.out_offset = choose_offset(s);
    c.uneven = one_in(s, 8);
    if (operation_needs_symmetric(c.operation, c.variant)) {
        c.out_memory = STRESS_SYMMETRIC;
        c.in_memory = c.in_place ? STRESS_SYMMETRIC : c.in_memory;
        c.uneven = false;
    }
    if (one_in(s, 2) && out_symmetric(&c))
        c.flags |= SYMM_SYMMETRIC;
    if (one_in(s, 4) && !operation_by_switch(c.variant))
        c.flags |= SYMM_DETERMINISTIC;
    c.repeats = 1 + (int)stress_below(s, STRESS_MAX_REPEATS);
    /* Few enough blocks that those of all groups are resident at the same time. */
    c.max_blocks = one_in(s, 4) ? 1 + (uint32_t)stress_below(s, 4) : 32;
    c.seed = stress_draw(s);
    c.late_seed = stress_draw(s);
    c.late_by_host = one_in(s, 4);
    c.late_by_kernel = one_in(s, 4);
    return c;
}

void stress_describe(const struct stress_choice *c, char *out, size_t capacity)
{
    static const char *const memory[] = {"symmetric", "plain", "mixed"};

    snprintf(out, capacity,
             "%s %s, %s%s%zu %s, %s, in %s + %d, out %s + %d%s, flags %u, %d times%s, at most %u "
             "blocks%s%s",
             c->operation->name, c->variant->name,
             c->operation->reduces ? symm_redop_name(c->op) : "",
             c->operation->reduces ? " of " : "", c->count, symm_dtype_name(c->element->dtype),
             c->in_place ? "in place" : "out of place", memory[c->in_memory], c->in_offset,
             memory[c->out_memory], c->out_offset, c->uneven ? " (uneven)" : "", c->flags,
             c->repeats, c->graph ? " in a graph" : "", c->max_blocks,
             c->late_by_host ? ", late hosts" : "", c->late_by_kernel ? ", late kernels" : "");
}
