/* The table of operations. */
#include "operation.h"

#include <string.h>
#include "norm.h"

static const struct variant all_reduce_variants[] = {
    {.name = "auto", .algo = SYMM_ALGO_AUTO},
    {.name = "low_latency", .algo = SYMM_ALGO_LOW_LATENCY},
    {.name = "low_latency_two_shot", .algo = SYMM_ALGO_LOW_LATENCY_TWO_SHOT},
    {.name = "lamport", .algo = SYMM_ALGO_LAMPORT},
    {.name = "one_shot", .algo = SYMM_ALGO_ONE_SHOT},
    {.name = "two_shot", .algo = SYMM_ALGO_TWO_SHOT},
    {.name = "multimem", .algo = SYMM_ALGO_MULTIMEM},
    {.name = "multimem_one_shot", .algo = SYMM_ALGO_MULTIMEM_ONE_SHOT},
    {.name = "copy_engine", .algo = SYMM_ALGO_COPY_ENGINE},
    {0},
};

static const struct variant reduce_scatter_variants[] = {
    {.name = "auto", .algo = SYMM_ALGO_AUTO},
    {.name = "low_latency", .algo = SYMM_ALGO_LOW_LATENCY},
    {.name = "lamport", .algo = SYMM_ALGO_LAMPORT},
    {.name = "one_shot", .algo = SYMM_ALGO_ONE_SHOT},
    {.name = "multimem", .algo = SYMM_ALGO_MULTIMEM},
    {.name = "copy_engine", .algo = SYMM_ALGO_COPY_ENGINE},
    {0},
};

/* Of operations that move elements, and change none. */
static const struct variant moving_variants[] = {
    {.name = "auto", .algo = SYMM_ALGO_AUTO},
    {.name = "low_latency", .algo = SYMM_ALGO_LOW_LATENCY},
    {.name = "one_shot", .algo = SYMM_ALGO_ONE_SHOT},
    {.name = "multimem", .algo = SYMM_ALGO_MULTIMEM},
    {.name = "copy_engine", .algo = SYMM_ALGO_COPY_ENGINE},
    {0},
};

/* Of groups of several domains. */
static const struct variant forms[] = {
    {.name = "auto", .algo = SYMM_ALGO_AUTO},
    {.name = "flat", .algo = SYMM_ALGO_FLAT},
    {.name = "hierarchical", .algo = SYMM_ALGO_HIERARCHICAL},
    {0},
};

static const struct variant norm_variants[] = {
    {.name = "auto", .algo = SYMM_ALGO_AUTO},
    {.name = "low_latency", .algo = SYMM_ALGO_LOW_LATENCY},
    {.name = "low_latency_two_shot", .algo = SYMM_ALGO_LOW_LATENCY_TWO_SHOT},
    {.name = "lamport", .algo = SYMM_ALGO_LAMPORT},
    {0},
};

static const char *norm_unavailable(symm_group *group, symm_algo algo, symm_dtype dtype,
                                    symm_redop op)
{
    (void)op;
    return symm_all_reduce_rms_norm_unavailable(group, algo, dtype);
}

static const char *all_gather_unavailable(symm_group *group, symm_algo algo, symm_dtype dtype,
                                          symm_redop op)
{
    (void)op;
    return symm_all_gather_unavailable(group, algo, dtype);
}

static const char *broadcast_unavailable(symm_group *group, symm_algo algo, symm_dtype dtype,
                                         symm_redop op)
{
    (void)op;
    return symm_broadcast_unavailable(group, algo, dtype);
}

static symm_status all_gather(symm_group *group, const void *in, void *out, size_t count,
                              symm_dtype dtype, symm_redop op, const symm_options *options,
                              symm_stream stream)
{
    (void)op;
    return symm_all_gather(group, in, out, count, dtype, options, stream);
}

static const struct operation operations[] = {
    {.name = "all-reduce",
     .variants = all_reduce_variants,
     .reduces = true,
     .unavailable = symm_all_reduce_unavailable,
     .symm = symm_all_reduce,
     .nccl = nccl_all_reduce},
    {.name = "all-gather",
     .variants = moving_variants,
     .in_is_part = true,
     .unavailable = all_gather_unavailable,
     .symm = all_gather,
     .nccl = nccl_all_gather},
    {.name = "reduce-scatter",
     .variants = reduce_scatter_variants,
     .reduces = true,
     .out_is_part = true,
     .unavailable = symm_reduce_scatter_unavailable,
     .symm = symm_reduce_scatter,
     .nccl = nccl_reduce_scatter},
    {.name = "broadcast",
     .variants = moving_variants,
     .from_root = true,
     .unavailable = broadcast_unavailable},
};

static const struct operation norm = {.name = OPERATION_NORM,
                                      .variants = norm_variants,
                                      .reduces = true,
                                      .norms = true,
                                      .unavailable = norm_unavailable};

const struct operation *operation_at(size_t index)
{
    return index < sizeof operations / sizeof operations[0] ? &operations[index] : NULL;
}

const struct operation *operation_find(const char *name)
{
    size_t i = 0;

    if (strcmp(norm.name, name) == 0)
        return &norm;
    while (operation_at(i) && strcmp(operation_at(i)->name, name) != 0)
        i++;
    return operation_at(i);
}

const struct variant *operation_variants(const struct operation *op, bool spans)
{
    return spans ? forms : op->variants;
}

static bool has_parts(const struct operation *op)
{
    return op->in_is_part || op->out_is_part;
}

/* The other ranks than the root have no input. */
static symm_status broadcast(const struct operation_call *c, const symm_options *options)
{
    const void *in = symm_rank(c->group) == c->root ? c->in : NULL;
    const symm_dtype dtype = c->element->dtype;

    if (c->variant->nccl)
        return nccl_broadcast(c->nccl, in, c->out, c->count, dtype, c->root, c->stream);
    return symm_broadcast(c->group, in, c->out, c->count, dtype, c->root, options, c->stream);
}

symm_status operation_enqueue(const struct operation *op, const struct operation_call *c)
{
    const size_t parts = has_parts(op) ? (size_t)symm_nranks(c->group) : 1;
    const symm_options options = {
        .algo = c->variant->algo, .flags = c->flags, .max_blocks = c->max_blocks};

    if (op->norms)
        return norm_enqueue(c);
    if (op->from_root)
        return broadcast(c, &options);
    if (c->variant->nccl)
        return op->nccl(c->nccl, c->in, c->out, c->count / parts, c->element->dtype, c->op,
                        c->stream);
    return op->symm(c->group, c->in, c->out, c->count / parts, c->element->dtype, c->op, &options,
                    c->stream);
}

double operation_bus_factor(const struct operation *op, int nranks)
{
    const double share = (double)(nranks - 1) / nranks;

    return op->from_root ? 1 : has_parts(op) ? share : 2 * share;
}

bool operation_needs_symmetric(const struct operation *op, const struct variant *v)
{
    return v->algo == SYMM_ALGO_COPY_ENGINE && !op->out_is_part;
}

bool operation_by_switch(const struct variant *v)
{
    return v->algo == SYMM_ALGO_MULTIMEM || v->algo == SYMM_ALGO_MULTIMEM_ONE_SHOT;
}

bool operation_chains(const struct operation *op)
{
    return op->reduces && !has_parts(op) && !op->norms;
}

size_t operation_count(const struct operation *op, size_t count, int nranks)
{
    const size_t parts = has_parts(op) ? (size_t)nranks : 1;

    return count > 0 && count < parts ? parts : count - count % parts;
}

size_t operation_in_count(const struct operation *op, size_t count, int nranks)
{
    return op->in_is_part ? count / (size_t)nranks : count;
}

size_t operation_out_count(const struct operation *op, size_t count, int nranks)
{
    return op->out_is_part ? count / (size_t)nranks : count;
}

void operation_in_place(const struct operation *op, struct operation_call *call, void *whole)
{
    size_t rank = (size_t)symm_rank(call->group), nranks = (size_t)symm_nranks(call->group);
    char *part = (char *)whole + rank * (call->count / nranks) * call->element->nbytes;

    call->in = op->in_is_part ? part : whole;
    call->out = op->out_is_part ? part : whole;
}

/*
 * Variants that may use the switch add in its order; NCCL, and each domain of several, rounds to
 * the type in between.
 */
static enum sums_rule rule(const struct operation *op, const struct operation_call *call)
{
    const bool may_be_chosen =
        call->variant->algo == SYMM_ALGO_AUTO && !(call->flags & SYMM_DETERMINISTIC) &&
        !op->unavailable(call->group, SYMM_ALGO_MULTIMEM, call->element->dtype, call->op);

    if (call->variant->nccl || symm_group_ndomains(call->group) > 1)
        return SUMS_TYPE;
    return may_be_chosen || operation_by_switch(call->variant) ? SUMS_SWITCH : SUMS_EXACT;
}

/* Each part must equal the input of its rank. */
static void check_moved(const struct operation_call *call, const char *got, uint64_t seed,
                        struct sums_verdict *out)
{
    const int nranks = symm_nranks(call->group);
    const size_t part = call->count / (size_t)nranks;
    struct sums_asked asked = {.seed = seed, .nranks = 1, .rule = SUMS_EXACT};
    struct sums_verdict one;

    *out = (struct sums_verdict){0};
    for (asked.rank = 0; asked.rank < nranks; asked.rank++) {
        const size_t first = (size_t)asked.rank * part;

        sums_check(call->element, got + first * call->element->nbytes, part, &asked, &one);
        one.first += first;
        one.wrong += out->wrong;
        if (out->wrong)
            out->wrong = one.wrong;
        else
            *out = one;
    }
}

void operation_check(const struct operation *op, const struct operation_call *call, const void *got,
                     uint64_t seed, int links, struct sums_verdict *out)
{
    const int rank = symm_rank(call->group), nranks = symm_nranks(call->group);
    const size_t count = operation_out_count(op, call->count, nranks);

    if (op->in_is_part) {
        check_moved(call, got, seed, out);
        return;
    }
    if (op->from_root) {
        const struct sums_asked asked = {
            .seed = seed, .rank = call->root, .nranks = 1, .rule = SUMS_EXACT};

        sums_check(call->element, got, count, &asked, out);
        return;
    }
    sums_check(call->element, got, count,
               &(struct sums_asked){.seed = seed,
                                    .op = call->op,
                                    .nranks = nranks,
                                    .first = op->out_is_part ? (size_t)rank * count : 0,
                                    .rule = rule(op, call),
                                    .links = links,
                                    .alone = op->out_is_part,
                                    .mine = rank},
               out);
}
