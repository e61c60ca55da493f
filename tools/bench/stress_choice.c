/* What symm-bench stress does next. */
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

/* Often a corner, else anything: each power of two is as likely as another. */
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

/*
 * The which-th wanted variant, of whatever operation, that runs with the type of c, into c. Returns
 * how many there are up to it.
 */
static uint64_t find_variant(const struct bench_options *o, symm_group *world, uint64_t which,
                             struct stress_choice *c)
{
    uint64_t n = 0;

    for (size_t i = 0; operation_at(i); i++) {
        for (const struct variant *v = operation_at(i)->variants; v->name; v++) {
            if (!bench_options_want(o->algos, v->name) ||
                operation_at(i)->unavailable(world, v, c->element))
                continue;
            c->operation = operation_at(i);
            c->variant = v;
            if (n++ == which)
                return n;
        }
    }
    return n;
}

/* A type, and one of the variants that run with it; if there are none, the next type. */
static void choose_variant(struct stress_stream *s, const struct bench_options *o,
                           symm_group *world, struct stress_choice *c)
{
    static const char *const types[] = {"bf16", "fp16", "fp32"};
    const uint64_t type = stress_below(s, 3), which = stress_draw(s);
    uint64_t n = 0;

    for (uint64_t i = 0; i < 3 && n == 0; i++) {
        c->element = element_find(types[(type + i) % 3]);
        n = find_variant(o, world, UINT64_MAX, c);
    }
    if (n > 0)
        find_variant(o, world, which % n, c);
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
    c.count = choose_count(s, o->max_bytes / c.element->nbytes);
    c.in_place = one_in(s, 3);
    c.graph = one_in(s, 2);
    c.in_memory = (enum stress_memory)(one_in(s, 2) ? 0 : stress_below(s, 3));
    c.out_memory = (enum stress_memory)(one_in(s, 2) ? 0 : stress_below(s, 3));
    c.in_offset = choose_offset(s);
    c.out_offset = choose_offset(s);
    c.uneven = one_in(s, 8);
    c.repeats = 1 + (int)stress_below(s, STRESS_MAX_REPEATS);
    /* Few enough for the blocks of all groups to be resident together, in whatever order. */
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
             "%s %s, %zu %s, %s, in %s + %d, out %s + %d%s, %d times%s, at most %u blocks%s%s",
             c->operation->name, c->variant->name, c->count, c->element->name,
             c->in_place ? "in place" : "out of place", memory[c->in_memory], c->in_offset,
             memory[c->out_memory], c->out_offset, c->uneven ? " (uneven)" : "", c->repeats,
             c->graph ? " in a graph" : "", c->max_blocks, c->late_by_host ? ", late hosts" : "",
             c->late_by_kernel ? ", late kernels" : "");
}
