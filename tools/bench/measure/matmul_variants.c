/* Peers, and the choice of variants. */
#include "matmul_variants.h"

#include <stdio.h>

symm_status matmul_peers_open(const struct session *s, struct matmul_peers *peers)
{
    static const char emulated[] = "it needs GPUs, and this is the emulated driver";
    const struct bench_options *o = s->options;
    symm_status st = SYMM_OK;

    snprintf(peers->why_cublas, sizeof peers->why_cublas, "%s", emulated);
    snprintf(peers->why_nccl, sizeof peers->why_nccl, "%s", emulated);
    if (o->cublas && !s->emulated)
        peers->cublas = cublas_open(s->ctx, peers->why_cublas, &st);
    if (st == SYMM_OK && o->nccl && !s->emulated)
        peers->nccl = nccl_open(s->group, peers->why_nccl, &st);
    return st;
}

int matmul_nranks(const struct session *s)
{
    return s->options->as_if ? s->options->as_if : s->nranks;
}

/* Whether the options want it. Without --peer all peers are wanted. */
static bool is_wanted(const struct session *s, const struct product_variant *variant)
{
    const struct bench_options *o = s->options;

    if (variant->schedule != SYMM_SCHEDULE_AUTO)
        return bench_options_want(o->schedules, variant->name);
    switch (variant->kind) {
    case PRODUCT_TOGETHER:
        return bench_options_want(o->strategies, variant->name);
    case PRODUCT_CUBLAS:
    case PRODUCT_CUBLAS_SYMM:
        return o->cublas;
    case PRODUCT_CUBLAS_NCCL:
        return o->cublas && o->nccl;
    default:
        return true;
    }
}

static const char *why_not_as_if(const struct session *s, const struct product_variant *variant,
                                 const struct cublas_shape *shape)
{
    switch (variant->kind) {
    case PRODUCT_ALONE:
    case PRODUCT_CUBLAS:
        return NULL;
    case PRODUCT_TOGETHER:
        if (variant->strategy != SYMM_STRATEGY_FUSED &&
            variant->strategy != SYMM_STRATEGY_PIPELINED)
            return "--as-if has fused and pipelined products";
        if ((kind_sums(s->options->kind) || shape->l > 1) && shape->m % matmul_nranks(s) != 0)
            return "--as-if needs equal parts, and m is no multiple of the ranks";
        return NULL;
    default:
        return "--as-if has no other communication than that of products";
    }
}

static const char *why_not(const struct session *s, const struct matmul_peers *peers,
                           const struct product_variant *variant, const struct cublas_shape *shape)
{
    if (product_by_cublas(variant->kind) && !peers->cublas)
        return peers->why_cublas;
    if (variant->kind == PRODUCT_CUBLAS_NCCL && !peers->nccl)
        return peers->why_nccl;
    if (s->nranks == 1 && variant->strategy != SYMM_STRATEGY_AUTO &&
        bench_options_name(s->options->strategies, variant->name))
        return "one rank alone takes no strategy";
    if (s->options->as_if && why_not_as_if(s, variant, shape))
        return why_not_as_if(s, variant, shape);
    return product_unavailable(s->options->kind, variant, shape, s->options->partial->dtype,
                               matmul_nranks(s));
}

/*
 * A variant that cannot run, with the option that names it. A peer whose collective does not take a
 * shape has no option of its own: `--peer cublas` also names the product alone.
 */
static struct unavailable absent(const struct session *s, const struct matmul_peers *peers,
                                 const struct product_variant *variant, const char *reason)
{
    const struct bench_options *o = s->options;
    struct unavailable what = {.option = "peer", .shown = variant->name, .reason = reason};

    if (variant->schedule != SYMM_SCHEDULE_AUTO) {
        what.option = "schedule";
        what.list = o->schedules;
        what.name = variant->name;
    } else if (variant->kind == PRODUCT_TOGETHER) {
        what.option = "strategy";
        what.list = o->strategies;
        what.name = variant->name;
    } else if (product_by_cublas(variant->kind) && !peers->cublas) {
        what.list = o->peers;
        what.name = "cublas";
    } else if (variant->kind == PRODUCT_CUBLAS_NCCL && !peers->nccl) {
        what.list = o->peers;
        what.name = "nccl";
    }
    return what;
}

symm_status matmul_variants(struct session *s, const struct matmul_peers *peers,
                            const struct cublas_shape *shape, bool first,
                            const struct product_variant **out, int *n)
{
    symm_status st = SYMM_OK;

    *n = 0;
    for (const struct product_variant *variant = product_variants(s->options->kind); variant->name;
         variant++) {
        const char *reason = is_wanted(s, variant) ? why_not(s, peers, variant, shape) : NULL;
        const struct unavailable what = absent(s, peers, variant, reason);

        if (reason && (first || bench_options_name(what.list, what.name)))
            TRY(session_unavailable(s, &what));
        if (!reason && is_wanted(s, variant))
            out[(*n)++] = variant;
    }
out:
    return st;
}
