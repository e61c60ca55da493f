/* One group of symm-bench stress. */
#include "stress_group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "stress_args.h"
#include "stress_product.h"

enum { LATE_HOST_US = 5000, LATE_KERNEL_ROUNDS = 2000 };

void stress_note_wrong(struct stress *x, const struct stress_group *g, const char *what)
{
    char call[512];

    if (x->wrong++ > 0)
        return;
    stress_describe(&g->choice, call, sizeof call);
    fprintf(stderr,
            "# rank %d: wrong in round %" PRIu64 ", group %s (its rank %d of %d): %s\n#   %s\n",
            x->s.rank, x->rounds, g->name, symm_rank(g->group), symm_nranks(g->group), what, call);
}

/* ------------------------------------------------------------------------------------- one call */

static bool is_symmetric(enum stress_memory memory, int rank)
{
    return memory == STRESS_SYMMETRIC || (memory == STRESS_MIXED && rank % 2 == 0);
}

char *stress_group_buffer(const struct stress_group *g, const struct buffers *pair,
                          enum stress_memory memory)
{
    return is_symmetric(memory, symm_rank(g->group)) ? pair->symmetric : pair->plain;
}

size_t stress_group_capacity(size_t nbytes)
{
    return nbytes + 2 * STRESS_GUARD + (STRESS_MAX_OFFSET + 1) * sizeof(double);
}

static void place(struct stress_group *g)
{
    const struct stress_choice *c = &g->choice;
    const int rank = symm_rank(g->group), nranks = symm_nranks(g->group);
    const size_t nbytes = c->element->nbytes, other = c->uneven && rank % 2;
    char *in, *out;

    g->call = (struct operation_call){.group = g->group,
                                      .variant = c->variant,
                                      .element = c->element,
                                      .op = c->op,
                                      .count = operation_count(c->operation, c->count, nranks),
                                      .root = c->root % nranks,
                                      .flags = c->flags,
                                      .max_blocks = c->max_blocks,
                                      .stream = g->stream};
    g->in_at = stress_group_buffer(g, &g->in, c->in_memory);
    g->out_at = stress_group_buffer(g, &g->out, c->out_memory);
    in = g->in_at + STRESS_GUARD + ((size_t)c->in_offset + other) * nbytes;
    out = g->out_at + STRESS_GUARD + ((size_t)c->out_offset + other) * nbytes;
    g->call.in = in;
    g->call.out = out;
    if (c->in_place) {
        g->out_at = g->in_at;
        operation_in_place(c->operation, &g->call, in);
    }
    g->extent = stress_group_capacity(g->call.count * nbytes);
}

static size_t in_nbytes(const struct stress_group *g)
{
    return operation_in_count(g->choice.operation, g->call.count, symm_nranks(g->group)) *
           g->choice.element->nbytes;
}

static size_t out_nbytes(const struct stress_group *g)
{
    return operation_out_count(g->choice.operation, g->call.count, symm_nranks(g->group)) *
           g->choice.element->nbytes;
}

/* Random input between poisoned guards; the output is all poison. */
static symm_status fill(struct stress_group *g)
{
    char *at = g->in_host + ((const char *)g->call.in - g->in_at);
    symm_status st;

    memset(g->in_host, STRESS_POISON, g->extent);
    sums_fill(g->choice.element, at, in_nbytes(g) / g->choice.element->nbytes,
              g->choice.seed ^ g->salt, symm_rank(g->group));
    TRY(symm_copy(g->in_at, g->in_host, g->extent, g->stream));
    if (!g->choice.in_place)
        TRY(symm_fill(g->out_at, STRESS_POISON, g->extent, g->stream));
    TRY(symm_synchronize(g->group, g->stream));
out:
    return st;
}

symm_status stress_group_prepare(struct stress_group *g)
{
    if (g->choice.product.variant)
        return stress_product_prepare(g);
    place(g);
    return fill(g);
}

static symm_status enqueue(const struct stress_group *g)
{
    symm_status st = SYMM_OK;

    for (int i = 0; i < g->choice.repeats && st == SYMM_OK; i++)
        st = g->choice.product.variant ? stress_product_enqueue(g)
                                       : operation_enqueue(g->choice.operation, &g->call);
    return st;
}

static symm_status record(struct stress_group *g)
{
    symm_status st = symm_graph_begin(g->stream);

    if (st != SYMM_OK)
        return st;
    st = enqueue(g);
    symm_status ended = symm_graph_end(g->stream, &g->graph);
    return st == SYMM_OK ? ended : st;
}

/* Delays this rank. The seed determines the delay of each rank. */
static symm_status delay(struct stress *x, struct stress_group *g)
{
    struct stress_stream random = {.seed = g->choice.late_seed ^ (uint64_t)x->s.rank};
    const uint64_t host = stress_below(&random, LATE_HOST_US);
    const uint64_t kernel = stress_below(&random, LATE_KERNEL_ROUNDS);

    if (g->choice.late_by_host)
        nanosleep(&(struct timespec){.tv_nsec = (long)host * 1000}, NULL);
    if (!g->choice.late_by_kernel)
        return SYMM_OK;
    return symm_launch(g->group, x->late, &(symm_grid){.blocks = 1, .threads = 1},
                       &(stress_args){.word = g->word, .rounds = kernel}, sizeof(stress_args),
                       g->stream);
}

symm_status stress_group_start(struct stress *x, struct stress_group *g)
{
    symm_status st;

    if (g->choice.graph)
        TRY(record(g));
    TRY(delay(x, g));
    TRY(g->graph ? symm_graph_launch(g->graph, g->stream) : enqueue(g));
    x->calls += (uint64_t)g->choice.repeats;
out:
    return st;
}

/* -------------------------------------------------------------------------------- its result */

bool stress_is_untouched(const char *buffer, size_t extent, size_t at, size_t nbytes)
{
    for (size_t i = 0; i < extent; i++) {
        if (i == at)
            i += nbytes;
        if (i < extent && (unsigned char)buffer[i] != STRESS_POISON)
            return false;
    }
    return true;
}

static void check_output(struct stress *x, struct stress_group *g)
{
    const struct stress_choice *c = &g->choice;
    const size_t at = (size_t)((char *)g->call.out - g->out_at);
    struct sums_verdict verdict;
    char what[256];

    operation_check(c->operation, &g->call, g->out_host + at, c->seed ^ g->salt,
                    c->in_place ? c->repeats : 1, &verdict);
    x->elements += out_nbytes(g) / c->element->nbytes;
    if (verdict.wrong > 0) {
        snprintf(what, sizeof what,
                 "element %" PRIu64 " is %s and should be %s (%" PRIu64 " are wrong)",
                 verdict.first, verdict.got, verdict.expected, verdict.wrong);
        stress_note_wrong(x, g, what);
    }
}

static symm_status check_operation(struct stress *x, struct stress_group *g)
{
    const size_t out = (size_t)((char *)g->call.out - g->out_at);
    symm_status st;

    TRY(symm_copy(g->out_host, g->out_at, g->extent, g->stream));
    TRY(symm_synchronize(g->group, g->stream));
    check_output(x, g);
    if (g->choice.in_place) { /* everything but the output is unchanged */
        memcpy(g->in_host + out, g->out_host + out, out_nbytes(g));
        if (memcmp(g->in_host, g->out_host, g->extent) != 0)
            stress_note_wrong(x, g, "something beside the output was written");
        goto out;
    }
    if (!stress_is_untouched(g->out_host, g->extent, out, out_nbytes(g)))
        stress_note_wrong(x, g, "something beside the output was written");
    TRY(symm_copy(g->out_host, g->in_at, g->extent, g->stream));
    TRY(symm_synchronize(g->group, g->stream));
    if (memcmp(g->in_host, g->out_host, g->extent) != 0)
        stress_note_wrong(x, g, "the input was written");
out:
    return st;
}

symm_status stress_group_check(struct stress *x, struct stress_group *g)
{
    const symm_status st =
        g->choice.product.variant ? stress_product_check(x, g) : check_operation(x, g);

    symm_graph_destroy(g->graph);
    g->graph = NULL;
    stress_product_release(g);
    return st;
}

/* -------------------------------------------------------------------------------- opening, end */

static symm_status create_buffers(struct stress *x, struct stress_group *g, struct buffers *out)
{
    symm_status st;

    TRY(symm_alloc(g->group, x->capacity, (void **)&out->symmetric));
    TRY(symm_device_alloc(x->s.ctx, x->capacity, (void **)&out->plain));
out:
    return st;
}

symm_status stress_group_open(struct stress *x, struct stress_group *g)
{
    symm_status st;

    TRY(symm_stream_create(x->s.ctx, &g->stream));
    TRY(create_buffers(x, g, &g->in));
    TRY(create_buffers(x, g, &g->out));
    TRY(symm_device_alloc(x->s.ctx, sizeof *g->word, (void **)&g->word));
    TRY(symm_fill(g->word, 0, sizeof *g->word, g->stream));
    g->in_host = malloc(x->capacity);
    g->out_host = malloc(x->capacity);
    if (!g->in_host || !g->out_host)
        st = SYMM_ERROR_MEMORY;
out:
    return st;
}

void stress_group_close(struct stress *x, struct stress_group *g)
{
    symm_graph_destroy(g->graph);
    stress_product_release(g);
    if (g->in.plain)
        symm_device_free(x->s.ctx, g->in.plain);
    if (g->out.plain)
        symm_device_free(x->s.ctx, g->out.plain);
    if (g->word)
        symm_device_free(x->s.ctx, g->word);
    if (!g->is_world)
        symm_group_destroy(g->group);
    symm_stream_destroy(g->stream);
    free(g->in_host);
    free(g->out_host);
}
