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

/* Chooses a variant, a type and an op. The next variant replaces one that never runs. */
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
}

bool stress_runs(symm_group *world, const char *variants)
{
    const struct bench_options named = {.algos = variants};
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

static enum stress_memory choose_memory(struct stress_stream *s)
{
    return (enum stress_memory)(one_in(s, 2) ? 0 : stress_below(s, 3));
}

/* Chooses what operations and products have in common. */
static void choose_circumstances(struct stress_stream *s, struct stress_choice *c)
{
    c->graph = one_in(s, 2);
    c->in_memory = choose_memory(s);
    c->out_memory = choose_memory(s);
    c->in_offset = choose_offset(s);
    c->out_offset = choose_offset(s);
    c->uneven = one_in(s, 8);
    c->repeats = 1 + (int)stress_below(s, STRESS_MAX_REPEATS);
    c->seed = stress_draw(s);
    c->late_seed = stress_draw(s);
    c->late_by_host = one_in(s, 4);
    c->late_by_kernel = one_in(s, 4);
}

struct stress_choice stress_choose(struct stress_stream *s, const struct bench_options *o,
                                   symm_group *world, uint32_t most_blocks)
{
    struct stress_choice c = {.operation = NULL};

    choose_variant(s, o, world, &c);
    c.count = choose_count(s, o->max_bytes / c.element->nbytes);
    c.root = c.operation->from_root ? (int)stress_below(s, SYMM_MAX_RANKS) : 0;
    c.in_place = one_in(s, 3);
    choose_circumstances(s, &c);
    if (operation_needs_symmetric(c.operation, c.variant)) {
        c.out_memory = STRESS_SYMMETRIC;
        c.in_memory = c.in_place ? STRESS_SYMMETRIC : c.in_memory;
        c.uneven = false;
    }
    if (one_in(s, 2) && out_symmetric(&c))
        c.flags |= SYMM_SYMMETRIC;
    if (one_in(s, 4) && !operation_by_switch(c.variant))
        c.flags |= SYMM_DETERMINISTIC;
    c.max_blocks = one_in(s, 4) ? 1 + (uint32_t)stress_below(s, most_blocks < 4 ? most_blocks : 4)
                                : most_blocks;
    return c;
}

/* ---------------------------------------------------------------------------------- products */

/* Whether it is symm's product of all ranks, or of one, by a wanted strategy. */
static bool is_wanted(const struct bench_options *o, symm_matmul_kind kind,
                      const struct product_variant *v)
{
    const enum product_kind ours = kind == SYMM_MATMUL ? PRODUCT_ALONE : PRODUCT_TOGETHER;

    return v->kind == ours && bench_options_want(o->strategies, symm_strategy_name(v->strategy));
}

/* As find_variant(), of products. */
static uint64_t find_product(const struct bench_options *o, uint64_t which,
                             struct stress_product *out)
{
    uint64_t n = 0;

    for (int kind = SYMM_MATMUL; kind <= SYMM_MATMUL_ALL_SCATTER; kind++) {
        for (const struct product_variant *v = product_variants((symm_matmul_kind)kind); v->name;
             v++) {
            if (!is_wanted(o, (symm_matmul_kind)kind, v))
                continue;
            out->kind = (symm_matmul_kind)kind;
            out->variant = v;
            if (n++ == which)
                return n;
        }
    }
    return n;
}

bool stress_multiplies(const struct bench_options *o)
{
    struct stress_product p;

    return find_product(o, 0, &p) > 0;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* From 1 to `most`; 1 if that is 0. */
static int choose_extent(struct stress_stream *s, uint64_t most)
{
    const size_t extent = most > 1 ? choose_count(s, most) : 1;

    return extent > 0 ? (int)extent : 1;
}

/* Multiplications of a product: 2^18 with matrices of 64 KiB, 2^34 with those of 16 MiB. */
static uint64_t work_of(uint64_t nbytes)
{
    const uint64_t side = lesser(nbytes, 16 << 20) / 128;

    return side > 1 ? side * side : 1;
}

/* Draws extents until `work` multiplications; no matrix has more than `most` elements. */
static void choose_shape(struct stress_stream *s, uint64_t work, uint64_t most, int nranks,
                         struct stress_product *p)
{
    struct cublas_shape *const shape = &p->shape;
    uint64_t side = 1;

    while (side * side < work)
        side *= 2;
    shape->l = one_in(s, 4) ? 1 + (int)stress_below(s, STRESS_MAX_BATCH) : 1;
    work /= (uint64_t)shape->l;
    most /= (uint64_t)shape->l;
    shape->m = choose_extent(s, lesser(side, most));
    work /= (uint64_t)shape->m;
    shape->n = choose_extent(s, lesser(work, most / (uint64_t)shape->m));
    if (p->kind == SYMM_MATMUL_ALL_SCATTER && shape->n < nranks)
        shape->n = nranks; /* each rank has a column */
    work /= (uint64_t)shape->n;
    shape->k = choose_extent(
        s, lesser(work, lesser(most / (uint64_t)shape->m, most / (uint64_t)shape->n)));
}

struct stress_choice stress_choose_product(struct stress_stream *s, const struct bench_options *o,
                                           int nranks)
{
    static const symm_dtype types[] = {SYMM_BFLOAT16, SYMM_FLOAT16, SYMM_FLOAT32};
    static const float factors[] = {1, 1, 0, -0.5f};
    struct stress_choice c = {.operation = NULL};
    struct stress_product *const p = &c.product;

    find_product(o, stress_below(s, find_product(o, UINT64_MAX, p)), p);
    c.element = element_by_dtype(types[stress_below(s, 2)]);
    p->shape.dtype = c.element->dtype;
    p->shape.b_by_columns = one_in(s, 2);
    p->shape.d_by_columns = one_in(s, 2);
    p->shape.alpha = factors[stress_below(s, 4)];
    p->shape.beta = factors[stress_below(s, 4)];
    p->partial = types[stress_below(s, 3)];
    p->same_bits = one_in(s, 3) && p->variant->schedule != SYMM_SCHEDULE_STREAM_K;
    p->any_order = !p->same_bits && one_in(s, 3);
    p->constant_b = one_in(s, 3);
    choose_shape(s, work_of((uint64_t)o->max_bytes), (uint64_t)o->max_bytes / c.element->nbytes,
                 nranks, p);
    choose_circumstances(s, &c);
    return c;
}

/* ------------------------------------------------------------------------------------ in words */

static int describe_product(const struct stress_choice *c, char *out, size_t capacity)
{
    static const char *const kinds[] = {
        [SYMM_MATMUL] = "matmul",
        [SYMM_ALL_GATHER_MATMUL] = "all-gather-matmul",
        [SYMM_MATMUL_REDUCE_SCATTER] = "matmul-reduce-scatter",
        [SYMM_MATMUL_ALL_REDUCE] = "matmul-all-reduce",
        [SYMM_MATMUL_ALL_SCATTER] = "matmul-all-scatter",
    };
    const struct stress_product *p = &c->product;
    const struct cublas_shape *s = &p->shape;

    return snprintf(out, capacity,
                    "%s %s, m %d, n %d, k %d, l %d, %s%s%s, alpha %g, beta %g, "
                    "partial sums of %s%s%s%s",
                    kinds[p->kind], p->variant->name, s->m, s->n, s->k, s->l,
                    symm_dtype_name(s->dtype), s->b_by_columns ? ", B by columns" : "",
                    s->d_by_columns ? ", D by columns" : "", (double)s->alpha, (double)s->beta,
                    symm_dtype_name(p->partial), p->same_bits ? ", the same bits" : "",
                    p->any_order ? ", any order" : "", p->constant_b ? ", constant B" : "");
}

static int describe_operation(const struct stress_choice *c, char *out, size_t capacity)
{
    char root[32] = "";

    if (c->operation->from_root)
        snprintf(root, sizeof root, " from rank %d", c->root);
    return snprintf(
        out, capacity, "%s %s, %s%s%zu %s%s, %s, flags %u, at most %u blocks", c->operation->name,
        c->variant->name, c->operation->reduces ? symm_redop_name(c->op) : "",
        c->operation->reduces ? " of " : "", c->count, symm_dtype_name(c->element->dtype), root,
        c->in_place ? "in place" : "out of place", c->flags, c->max_blocks);
}

void stress_describe(const struct stress_choice *c, char *out, size_t capacity)
{
    static const char *const memory[] = {"symmetric", "plain", "mixed"};
    const int n = c->product.variant ? describe_product(c, out, capacity)
                                     : describe_operation(c, out, capacity);

    if (n >= 0 && (size_t)n < capacity)
        snprintf(out + n, capacity - (size_t)n, ", in %s + %d, out %s + %d%s, %d times%s%s%s",
                 memory[c->in_memory], c->in_offset, memory[c->out_memory], c->out_offset,
                 c->uneven ? " (uneven)" : "", c->repeats, c->graph ? " in a graph" : "",
                 c->late_by_host ? ", late hosts" : "", c->late_by_kernel ? ", late kernels" : "");
}
