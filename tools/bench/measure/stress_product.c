/* The product of a group of symm-bench stress. */
#include "stress_product.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------------------ its place */

/* A matrix in a buffer: behind a guard, some elements after an aligned address. */
static char *place(const struct stress_group *g, char *buffer, int offset)
{
    const struct stress_choice *c = &g->choice;
    const size_t other = c->uneven && symm_rank(g->group) % 2;

    return buffer + STRESS_GUARD + ((size_t)offset + other) * c->element->nbytes;
}

/* A and B take the two input buffers, D and C the two output buffers. */
static void place_all(struct stress_group *g, struct product_buffers *on)
{
    const struct stress_choice *c = &g->choice;
    char *const a = stress_group_buffer(g, &g->in, c->in_memory),
                *const d = stress_group_buffer(g, &g->out, c->out_memory),
                *const b = a == g->in.plain ? g->in.symmetric : g->in.plain,
                *const addend = d == g->out.plain ? g->out.symmetric : g->out.plain;

    g->out_at = d;
    on->a = on->part = place(g, a, c->in_offset);
    on->b = place(g, b, c->out_offset);
    on->c = g->data.c ? place(g, addend, c->in_offset) : NULL;
    on->d = place(g, d, c->out_offset);
}

/* --------------------------------------------------------------------------------- its matrices */

static bool describe(struct stress_group *g)
{
    const struct stress_choice *c = &g->choice;

    g->data = product_data(c->product.kind, &c->product.shape, symm_rank(g->group),
                           symm_nranks(g->group));
    g->data.partial = element_by_dtype(c->product.partial);
    return products_create(&g->data);
}

/* A piece of a matrix on the host, and where it is on the device. */
struct piece {
    char *on_host, *on_device;
    size_t nbytes;
};

/* The pieces of A that this rank has: its rows of each matrix, or all. Returns their number. */
static int pieces_of_a(const struct stress_group *g, struct piece out[STRESS_MAX_BATCH])
{
    const struct products *p = &g->data;
    const bool shares = p->kind == SYMM_ALL_GATHER_MATMUL;
    const size_t row = (size_t)p->k * p->element->nbytes,
                 rows = (size_t)(shares ? share_of(p->m, p->nranks, p->rank) : p->m),
                 first = (size_t)(shares ? share_begin(p->m, p->nranks, p->rank) : 0);

    for (int l = 0; l < p->l; l++)
        out[l] = (struct piece){p->a + ((size_t)l * (size_t)p->m + first) * row,
                                (char *)g->product.buffers.a + (size_t)l * rows * row, rows * row};
    return p->l;
}

/* The pieces of all inputs. */
static int pieces_of(const struct stress_group *g, struct piece out[STRESS_MAX_BATCH + 2])
{
    const size_t nbytes = g->data.element->nbytes;
    int n = pieces_of_a(g, out);

    out[n++] = (struct piece){g->data.b, g->product.buffers.b, products_b_count(&g->data) * nbytes};
    if (g->data.c)
        out[n++] =
            (struct piece){g->data.c, g->product.buffers.c, products_c_count(&g->data) * nbytes};
    return n;
}

static size_t d_nbytes(const struct stress_group *g)
{
    return products_d_count(&g->data) * g->data.element->nbytes;
}

static symm_status fill(struct stress_group *g)
{
    struct piece pieces[STRESS_MAX_BATCH + 2];
    const int n = pieces_of(g, pieces);
    symm_status st;

    for (int i = 0; i < n; i++) {
        if (pieces[i].nbytes > 0)
            TRY(symm_copy(pieces[i].on_device, pieces[i].on_host, pieces[i].nbytes, g->stream));
    }
    TRY(symm_fill(g->out_at, STRESS_POISON, g->extent, g->stream));
    TRY(symm_synchronize(g->group, g->stream));
out:
    return st;
}

symm_status stress_product_prepare(struct stress_group *g)
{
    const struct stress_choice *c = &g->choice;
    const struct stress_product *p = &c->product;
    const uint64_t seed = c->seed ^ g->salt;

    if (!describe(g))
        return SYMM_ERROR_MEMORY;
    products_fill(&g->data, seed);
    if (!products_refer(&g->data, seed, sums_seed(seed, 0)))
        return SYMM_ERROR_MEMORY;
    g->product = (struct product_call){.group = g->group,
                                       .rank = symm_rank(g->group),
                                       .nranks = symm_nranks(g->group),
                                       .variant = p->variant,
                                       .kind = p->kind,
                                       .shape = p->shape,
                                       .partial = p->partial,
                                       .same_bits = p->same_bits,
                                       .any_order = p->any_order,
                                       .constant_b = p->constant_b,
                                       .stream = g->stream};
    place_all(g, &g->product.buffers);
    g->extent = stress_group_capacity(d_nbytes(g));
    const symm_status st = fill(g);
    return st == SYMM_OK ? product_prepare(&g->product) : st;
}

/* ------------------------------------------------------------------------- the call, its result */

symm_status stress_product_enqueue(const struct stress_group *g)
{
    return product_enqueue(&g->product);
}

static void check_d(struct stress *x, const struct stress_group *g, const char *d)
{
    struct products_verdict v;
    char what[256];

    products_check(&g->data, d, 1, &v);
    x->elements += products_compared(&g->data);
    if (v.wrong == 0)
        return;
    snprintf(what, sizeof what,
             "element [%d, %d, %d] is %s and should be %s (%" PRIu64 " are wrong)", v.l, v.row,
             v.column, v.got, v.expected, v.wrong);
    stress_note_wrong(x, g, what);
}

static symm_status check_inputs(struct stress *x, const struct stress_group *g)
{
    struct piece pieces[STRESS_MAX_BATCH + 2];
    const int n = pieces_of(g, pieces);
    symm_status st = SYMM_OK;

    for (int i = 0; i < n; i++) {
        if (pieces[i].nbytes == 0)
            continue;
        TRY(symm_copy(g->in_host, pieces[i].on_device, pieces[i].nbytes, g->stream));
        TRY(symm_synchronize(g->group, g->stream));
        if (memcmp(g->in_host, pieces[i].on_host, pieces[i].nbytes) != 0)
            stress_note_wrong(x, g, "an input was written");
    }
out:
    return st;
}

symm_status stress_product_check(struct stress *x, struct stress_group *g)
{
    const size_t at = (size_t)((char *)g->product.buffers.d - g->out_at);
    symm_status st;

    TRY(symm_copy(g->out_host, g->out_at, g->extent, g->stream));
    TRY(symm_synchronize(g->group, g->stream));
    check_d(x, g, g->out_host + at);
    if (!stress_is_untouched(g->out_host, g->extent, at, d_nbytes(g)))
        stress_note_wrong(x, g, "something beside the output was written");
    TRY(check_inputs(x, g));
out:
    return st;
}

void stress_product_release(struct stress_group *g)
{
    product_release(&g->product);
    products_destroy(&g->data);
    g->data = (struct products){.a = NULL};
}
