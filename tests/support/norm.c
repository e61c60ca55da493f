/* The data of a call, and all that must not change; the oracle judges its results. */
#include "norm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/stream.h>
#include "oracle/norms.h"
#include "reference.h"

enum { MARGIN = 256, ROUNDS_OF_OTHERS = 1 << 20 /* rounds of residual and weight */ };

static const char *const names[] = {"in", "residual", "weight", "out", "residual_out"};

symm_status norm_open(symm_context *ctx, size_t most, struct norm_buffers *b)
{
    symm_status st = SYMM_OK;

    b->ctx = ctx;
    b->nbytes = 2 * most + 2 * MARGIN;
    b->got = malloc(3 * b->nbytes);
    for (int i = 0; i < NORM_TENSORS && st == SYMM_OK; i++) {
        b->sent[i] = malloc(b->nbytes);
        st = symm_alloc(symm_context_world(ctx), b->nbytes, (void **)&b->symmetric[i]);
        if (st == SYMM_OK)
            st = symm_device_alloc(ctx, b->nbytes, (void **)&b->foreign[i]);
    }
    return st == SYMM_OK ? symm_stream_create(ctx, &b->stream) : st;
}

void norm_close(struct norm_buffers *b)
{
    for (int i = 0; i < NORM_TENSORS && b->ctx; i++) {
        symm_free(symm_context_world(b->ctx), b->symmetric[i]);
        symm_device_free(b->ctx, b->foreign[i]);
        free(b->sent[i]);
    }
    symm_stream_destroy(b->stream);
    free(b->got);
}

/* ---- The data ---- */

static size_t count_of(const struct norm_call *c, int tensor)
{
    return tensor == NORM_WEIGHT ? c->hidden : c->rows * c->hidden;
}

/* Half of the tensors of each rank are symmetric memory, half begin at any element of 16 bytes. */
static void place(const struct norm_call *c, struct norm_buffers *b, int rank)
{
    for (int i = 0; i < NORM_TENSORS; i++) {
        const uint64_t u =
            c->places ? sums_mix(c->places + (uint64_t)(rank * NORM_TENSORS + i)) : 0;

        b->at[i] = (u & 1 ? b->foreign : b->symmetric)[i] + MARGIN / 2;
        b->at[i] += u & 2 ? (u >> 2) % 8 * 2 : 0;
    }
    if (c->in_place)
        b->at[NORM_OUT] = b->at[NORM_IN];
    if (c->residual_in_place)
        b->at[NORM_RESIDUAL_OUT] = b->at[NORM_RESIDUAL];
}

/* Whether a tensor has data of its own before the call. */
static bool is_input(const struct norm_call *c, int tensor)
{
    return tensor == NORM_IN || (tensor == NORM_RESIDUAL && c->residual) ||
           (tensor == NORM_WEIGHT && c->weight);
}

static bool is_output(const struct norm_call *c, int tensor)
{
    return tensor == NORM_OUT || tensor == NORM_RESIDUAL_OUT ||
           (tensor == NORM_IN && c->in_place) || (tensor == NORM_RESIDUAL && c->residual_in_place);
}

/* The data of a tensor: `in` of a rank, the others of all. */
static void fill(const struct norm_call *c, int tensor, int rank, void *out)
{
    reference_fill(out, count_of(c, tensor), c->dtype,
                   c->round + (uint64_t)tensor * ROUNDS_OF_OTHERS, tensor == NORM_IN ? rank : 0);
}

/* Tensors in place of another one are not sent a second time. */
static bool is_alias(const struct norm_call *c, int tensor)
{
    return (tensor == NORM_OUT && c->in_place) ||
           (tensor == NORM_RESIDUAL_OUT && c->residual_in_place);
}

symm_status norm_send(const struct norm_call *c, struct norm_buffers *b, int rank)
{
    symm_status st = SYMM_OK;

    place(c, b, rank);
    for (int i = 0; i < NORM_TENSORS && st == SYMM_OK; i++) {
        const size_t nbytes = 2 * count_of(c, i) + MARGIN;

        reference_poison(b->sent[i], nbytes, reference_random(700 + (uint64_t)i, c->round));
        if (is_input(c, i))
            fill(c, i, rank, b->sent[i] + MARGIN / 2);
        if (!is_alias(c, i))
            st = symm_copy(b->at[i] - MARGIN / 2, b->sent[i], nbytes, b->stream);
    }
    return st;
}

symm_status norm_enqueue(const struct norm_call *c, const struct norm_buffers *b, symm_group *group,
                         symm_stream stream)
{
    const symm_rms_norm norm = {.in = b->at[NORM_IN],
                                .residual = c->residual ? b->at[NORM_RESIDUAL] : NULL,
                                .weight = c->weight ? b->at[NORM_WEIGHT] : NULL,
                                .out = b->at[NORM_OUT],
                                .residual_out = b->at[NORM_RESIDUAL_OUT],
                                .rows = c->rows,
                                .hidden = c->hidden,
                                .eps = c->eps};
    const symm_options options = {.algo = c->algo, .max_blocks = c->max_blocks};

    return symm_all_reduce_rms_norm(group, &norm, c->dtype, &options, stream);
}

/* ---- The check ---- */

const char *norm_text(const struct norm_call *c)
{
    static _Thread_local char text[256];

    snprintf(text, sizeof text,
             "%s, %s, %zu x %zu, max_blocks %u,%s%s%s%s places %llx, round %llu (seed %llu)",
             symm_algo_name(c->algo), symm_dtype_name(c->dtype), c->rows, c->hidden, c->max_blocks,
             c->residual ? " residual," : "", c->weight ? " weight," : "",
             c->in_place ? " in place," : "", c->residual_in_place ? " residual in place," : "",
             (unsigned long long)c->places, (unsigned long long)c->round,
             (unsigned long long)reference_seed());
    return text;
}

static uint64_t hash_of(uint64_t hash, const char *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        hash = sums_mix(hash ^ (uint8_t)bytes[i]);
    return hash;
}

/* The bytes of a tensor that the call may have written. */
static size_t written(const struct norm_call *c, int tensor)
{
    return is_output(c, tensor) ? 2 * count_of(c, tensor) : 0;
}

/* Fetches a tensor, and checks that its call has written nothing but its `n` bytes. */
static symm_status fetch(const struct norm_call *c, const struct norm_buffers *b, int i,
                         struct rank *self, symm_group *group, char *got)
{
    const size_t nbytes = 2 * count_of(c, i) + MARGIN, from = MARGIN / 2,
                 end = from + written(c, i);

    RANK_TRY(self, symm_copy(got, b->at[i] - from, nbytes, b->stream));
    RANK_TRY(self, symm_synchronize(group, b->stream));
    CHECK_RANK_MSG(self,
                   memcmp(got, b->sent[i], from) == 0 &&
                       memcmp(got + end, b->sent[i] + end, nbytes - end) == 0,
                   "%s was written, or around it: %s", names[i], norm_text(c));
    return SYMM_OK;
out:
    return self->report->status ? self->report->status : SYMM_ERROR_STATE;
}

symm_status norm_check(const struct norm_call *c, const struct norm_buffers *b, struct rank *self,
                       symm_group *group, uint64_t *hash)
{
    const size_t nbytes = 2 * c->rows * c->hidden;
    char *residual = malloc(nbytes), *weight = malloc(2 * c->hidden), *out = b->got,
         *residual_out = b->got + b->nbytes, *unused = residual_out + b->nbytes;
    struct norms_verdict v;

    for (int i = 0; i < NORM_TENSORS; i++)
        if (!is_alias(c, i))
            RANK_TRY(self, fetch(c, b, i, self, group,
                                 b->at[i] == b->at[NORM_OUT]            ? out
                                 : b->at[i] == b->at[NORM_RESIDUAL_OUT] ? residual_out
                                                                        : unused));
    fill(c, NORM_RESIDUAL, 0, residual);
    fill(c, NORM_WEIGHT, 0, weight);
    norms_check(element_by_dtype(c->dtype), out + MARGIN / 2, residual_out + MARGIN / 2,
                &(struct norms_asked){.source = reference_source,
                                      .seed = c->round,
                                      .nranks = symm_nranks(group),
                                      .rows = c->rows,
                                      .hidden = c->hidden,
                                      .eps = (double)c->eps,
                                      .residual = c->residual ? residual : NULL,
                                      .weight = c->weight ? weight : NULL,
                                      .relative_error = c->relative_error},
                &v);
    CHECK_RANK_MSG(self, v.wrong_norms + v.wrong_residuals == 0,
                   "%d norms and %d residuals wrong: element %d is %s, not %s: %d ranks, %s",
                   (int)v.wrong_norms, (int)v.wrong_residuals, (int)v.first, v.got, v.expected,
                   symm_nranks(group), norm_text(c));
    if (hash)
        *hash = hash_of(hash_of(0, out + MARGIN / 2, nbytes), residual_out + MARGIN / 2, nbytes);
    self->report->value[0]++;
    free(residual);
    free(weight);
    return SYMM_OK;
out:
    free(residual);
    free(weight);
    return self->report->status ? self->report->status : SYMM_ERROR_STATE;
}

symm_status norm_try(const struct norm_call *c, struct norm_buffers *b, struct rank *self,
                     symm_group *group, uint64_t *hash)
{
    RANK_TRY(self, norm_send(c, b, symm_rank(group)));
    RANK_TRY(self, norm_enqueue(c, b, group, b->stream));
    return norm_check(c, b, self, group, hash);
out:
    return self->report->status;
}
