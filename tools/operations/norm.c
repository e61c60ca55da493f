#include "norm.h"

enum { RESIDUAL = 1 << 16, WEIGHT }; /* uses of a seed, past those of the ranks */

size_t norm_count(size_t count, size_t hidden)
{
    return count > 0 && count < hidden ? hidden : count - count % hidden;
}

void norm_fill(const struct norm_tensors *t, const struct element *e, size_t count, uint64_t seed)
{
    sums_fill(e, t->host_residual, count, sums_seed(seed, RESIDUAL), 0);
    sums_fill(e, t->host_weight, t->hidden, sums_seed(seed, WEIGHT), 0);
}

symm_status norm_enqueue(const struct operation_call *c)
{
    const symm_options options = {
        .algo = c->variant->algo, .flags = c->flags, .max_blocks = c->max_blocks};
    const symm_rms_norm norm = {.in = c->in,
                                .residual = c->norm->residual,
                                .weight = c->norm->weight,
                                .out = c->out,
                                .residual_out = c->norm->residual_out,
                                .rows = c->count / c->norm->hidden,
                                .hidden = c->norm->hidden,
                                .eps = NORM_EPS};

    return symm_all_reduce_rms_norm(c->group, &norm, c->element->dtype, &options, c->stream);
}

void norm_check(const struct operation_call *c, const void *out, uint64_t seed,
                struct norms_verdict *verdict)
{
    norms_check(c->element, out, c->norm->host_residual_out,
                &(struct norms_asked){.seed = seed,
                                      .nranks = symm_nranks(c->group),
                                      .rows = c->count / c->norm->hidden,
                                      .hidden = c->norm->hidden,
                                      .eps = (double)NORM_EPS,
                                      .residual = c->norm->host_residual,
                                      .weight = c->norm->host_weight},
                verdict);
}
