/* Products: drawing them, laying them out, running them. */
#include "matmul.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "reference.h"

/* -------------------------------------------------------------------------------------- drawing */

/* Numbers one after the other. */
struct draws {
    uint64_t stream, index;
};

static uint64_t below(struct draws *d, uint64_t n)
{
    return reference_random(d->stream, d->index++) % n;
}

#define PICK(d, array) ((array)[below((d), sizeof(array) / sizeof *(array))])

/* Products of two numbers that a case may have. */
enum { WORK_MOST = 300000 };

static int64_t work(const struct matmul_case *c)
{
    int64_t n = 0;

    for (int i = 0; i < c->nb; i++)
        n += c->n[i];
    return (int64_t)c->m * c->k * c->l * n;
}

/* Several chunks and tiles' rows, more than a band of them, several tiles' columns; few rows. */
static const struct {
    int32_t m, k, l, n;
} landmarks[] = {
    {600, 8, 1, 9},   {1300, 3, 1, 130}, {5, 9, 1, 300},   {129, 127, 1, 7},
    {200, 8, 3, 20},  {257, 16, 2, 17},  {1, 200, 1, 200}, {3, 1, 2, 129},
    {128, 64, 1, 16}, {7, 8, 3, 128},    {1000, 24, 2, 3},
};
enum { NLANDMARKS = sizeof landmarks / sizeof landmarks[0] };

static void draw_shape(struct draws *d, uint64_t number, struct matmul_case *c)
{
    static const int32_t sizes[] = {1,  2,  3,  5,  7,   8,   9,   16,  17,
                                    31, 33, 64, 65, 127, 128, 129, 200, 264};

    c->nb = below(d, 2) ? 1 : 1 + (int32_t)below(d, MATMUL_B);
    if (number < NLANDMARKS) {
        c->m = landmarks[number].m;
        c->k = landmarks[number].k;
        c->l = landmarks[number].l;
        c->nb = 1 + (int32_t)(number % 2);
        c->n[0] = c->n[1] = landmarks[number].n;
        return;
    }
    c->l = below(d, 2) ? 1 : 1 + (int32_t)below(d, 3);
    do {
        c->m = PICK(d, sizes);
        c->k = PICK(d, sizes);
        for (int i = 0; i < c->nb; i++)
            c->n[i] = PICK(d, sizes);
    } while (work(c) > WORK_MOST);
}

float matmul_alpha(const struct matmul_case *c)
{
    return c->alpha ? *c->alpha : 1;
}

float matmul_beta(const struct matmul_case *c)
{
    return c->beta ? *c->beta : 0;
}

struct matmul_case matmul_draw(uint64_t number, int nranks)
{
    static const float factors[] = {1.0f, -2.0f, 0.5f, 0.0f};
    static const symm_dtype inputs[] = {SYMM_BFLOAT16, SYMM_FLOAT16},
                            outputs[] = {SYMM_BFLOAT16, SYMM_FLOAT16, SYMM_FLOAT32};
    struct draws d = {5000 + (uint64_t)nranks, number * 100};
    struct matmul_case c = {
        .kind = number % 8 == 7 ? SYMM_MATMUL : SYMM_ALL_GATHER_MATMUL,
        .activation = below(&d, 2) ? SYMM_NONE : (symm_activation)below(&d, 3),
        .in = PICK(&d, inputs),
        .out = PICK(&d, outputs),
        .addend = PICK(&d, outputs),
        .n_differs = below(&d, 3) == 0,
        .has_c = below(&d, 2),
        .has_bias = below(&d, 2),
        .same = below(&d, 2) ? MATMUL_ALL_DIFFER : (enum matmul_same)below(&d, 3),
        .data = (enum matmul_data)below(&d, MATMUL_DATA),
        .whole = below(&d, 2),
        .contiguous = below(&d, 4) == 0,
        .layout = number,
    };

    draw_shape(&d, number, &c);
    c.gathered = c.kind == SYMM_ALL_GATHER_MATMUL && below(&d, 3) == 0;
    if (below(&d, 2)) {
        c.alpha = &PICK(&d, factors);
        c.beta = c.has_c ? &PICK(&d, factors) : NULL;
    }
    c.joined = c.nb > 1 && below(&d, 2);
    c.in_place = c.has_c && matmul_beta(&c) != 0 && below(&d, 2);
    if (c.in_place)
        c.addend = c.out;
    c.schedule = below(&d, 2) ? SYMM_SCHEDULE_AUTO : (symm_schedule)below(&d, 3);
    return c;
}

struct matmul_case matmul_draw_collected(uint64_t number, int nranks)
{
    static const symm_matmul_kind kinds[] = {SYMM_MATMUL_REDUCE_SCATTER, SYMM_MATMUL_ALL_REDUCE,
                                             SYMM_MATMUL_ALL_SCATTER};
    static const symm_dtype partials[] = {0, SYMM_FLOAT32, SYMM_BFLOAT16, SYMM_FLOAT16};
    struct draws d = {5500 + (uint64_t)nranks, number * 100};
    struct matmul_case c = matmul_draw(number, nranks);

    c.kind = kinds[number % 3];
    c.gathered = false;
    c.k_differs = below(&d, 2);
    if (matmul_reduces(&c))
        c.partial = PICK(&d, partials);
    else
        c.in_place = false;
    return c;
}

const char *matmul_text(const struct matmul_case *c)
{
    static _Thread_local char text[320];

    snprintf(
        text, sizeof text,
        "kind %d, strategy %d, schedule %d, m %d, k %d, l %d, n[%d] %d %d %d %d%s, types %d %d %d, "
        "activation %d, c %d, in place %d, bias %d, gathered %d, alpha %g, beta %g, same %d, "
        "data %d, whole %d, contiguous %d, joined %d, k differs %d, partial %d, layout %llu",
        (int)c->kind, (int)c->strategy, (int)c->schedule, c->m, c->k, c->l, c->nb, c->n[0], c->n[1],
        c->n[2], c->n[3], c->n_differs ? " at most" : "", (int)c->in, (int)c->out, (int)c->addend,
        (int)c->activation, c->has_c, c->in_place, c->has_bias, c->gathered,
        (double)matmul_alpha(c), (double)matmul_beta(c), (int)c->same, (int)c->data, c->whole,
        c->contiguous, c->joined, c->k_differs, (int)c->partial, (unsigned long long)c->layout);
    return text;
}

/* ----------------------------------------------------------------------------------- laying out */

enum { MARGIN = 64, ALIGNMENT = 16, NLAYOUTS = 8 };

bool matmul_reduces(const struct matmul_case *c)
{
    return c->kind == SYMM_MATMUL_REDUCE_SCATTER || c->kind == SYMM_MATMUL_ALL_REDUCE;
}

bool matmul_collects(const struct matmul_case *c)
{
    return matmul_reduces(c) || c->kind == SYMM_MATMUL_ALL_SCATTER;
}

int32_t matmul_first(int32_t m, int rank, int nranks)
{
    return m / nranks * rank + (rank < m % nranks ? rank : m % nranks);
}

static int32_t share(int32_t m, int rank, int nranks)
{
    return matmul_first(m, rank + 1, nranks) - matmul_first(m, rank, nranks);
}

/* Extents of a rank's operands. */
struct extents {
    int32_t a_rows, k, d_rows;
    int64_t n[MATMUL_B], d_columns[MATMUL_B];
};

/* Strides of a matrix whose elements are apart. */
static void draw_strides(struct draws *d, int layout, const int64_t shape[3], int64_t strides[3])
{
    const int64_t l = shape[0], rows = shape[1], columns = shape[2], pad = 1 + (int64_t)below(d, 7),
                  more = (int64_t)below(d, 20), step = 2 + (int64_t)below(d, 2);
    const int64_t ways[NLAYOUTS][3] = {
        {rows * columns, columns, 1},
        {(rows + more) * (columns + pad), columns + pad, 1},
        {rows * columns, 1, rows},
        {columns * (rows + pad) + more, 1, rows + pad},
        {rows * (columns * step + pad), columns * step + pad, step},
        {columns, l * columns, 1},
        {rows * ((columns + 7) / 8 * 8), (columns + 7) / 8 * 8, 1},
        {1, l * columns, l},
    };

    memcpy(strides, ways[layout], sizeof ways[layout]);
}

/* Room for an operand behind all that there are. */
static void place(const struct matmul_case *c, struct draws *d, struct matmul_operands *all,
                  struct matmul_operand *x)
{
    const size_t size = symm_dtype_size(x->t.dtype);
    size_t last = 0;
    bool empty = false;

    for (int i = 0; i < x->t.ndim; i++) {
        empty = empty || x->t.shape[i] == 0;
        last += (size_t)((x->t.shape[i] - 1) * x->t.strides[i]);
    }
    x->region = c->foreign     ? MATMUL_PLAIN
                : c->symmetric ? MATMUL_SYMMETRIC
                               : (int)below(d, MATMUL_REGIONS);
    size_t *end = &all->nbytes[x->region];
    x->at = (*end + MARGIN + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!c->contiguous && below(d, 2))
        x->at += (1 + below(d, 7)) * size;
    *end = x->at + (empty ? 0 : (last + 1) * size) + MARGIN;
}

/* Strides of which nothing depends may be anything. */
static void spoil_strides(struct draws *d, const int64_t shape[3], int64_t strides[3])
{
    for (int i = 0; i < 3; i++)
        if (shape[i] <= 1 && below(d, 2))
            strides[i] = 100000 + (int64_t)below(d, 100);
}

/* A matrix [l, rows, columns]; zero: bits of the dimensions that may have stride 0. */
static void lay_out(const struct matmul_case *c, struct draws *d, struct matmul_operands *all,
                    symm_dtype dtype, const int64_t shape[3], unsigned zero,
                    struct matmul_operand *x)
{
    const int layout = c->contiguous ? 0 : (int)below(d, NLAYOUTS);
    const int first = shape[0] == 1 && below(d, 2); /* two dimensions are enough */
    int64_t strides[3];

    draw_strides(d, layout, shape, strides);
    for (int i = 0; i < 3; i++)
        if (!c->contiguous && zero >> i & 1 && below(d, 4) == 0)
            strides[i] = 0;
    if (!c->contiguous)
        spoil_strides(d, shape, strides);
    x->t = (symm_tensor){.dtype = dtype, .ndim = 3 - first};
    memcpy(x->t.shape, shape + first, sizeof *shape * (size_t)x->t.ndim);
    memcpy(x->t.strides, strides + first, sizeof *strides * (size_t)x->t.ndim);
    place(c, d, all, x);
}

/* All b or all d, of so many rows. */
static void lay_out_all(const struct matmul_case *c, struct draws *d, struct matmul_operands *all,
                        symm_dtype dtype, int64_t rows, const int64_t n[MATMUL_B], unsigned zero,
                        struct matmul_operand x[MATMUL_B])
{
    struct matmul_operand whole;
    int64_t columns = 0;

    for (int i = 0; i < c->nb; i++) {
        if (!c->joined)
            lay_out(c, d, all, dtype, (int64_t[]){c->l, rows, n[i]}, zero, &x[i]);
        columns += n[i];
    }
    if (!c->joined)
        return;
    lay_out(c, d, all, dtype, (int64_t[]){c->l, rows, columns}, zero, &whole);
    for (int i = 0; i < c->nb; i++) {
        const int last = whole.t.ndim - 1;
        x[i] = whole;
        x[i].t.shape[last] = n[i];
        whole.at += (size_t)(n[i] * whole.t.strides[last]) * symm_dtype_size(dtype);
    }
}

/* [n], [1, n], [1, 1, n] or [l, 1, n]. */
static void lay_out_bias(const struct matmul_case *c, struct draws *d, struct matmul_operands *all,
                         int64_t n, struct matmul_operand *x)
{
    const int64_t l = below(d, 2) ? c->l : 1, step = c->contiguous ? 1 : 1 + (int64_t)below(d, 2);
    const int64_t shape[3] = {l, 1, n}, strides[3] = {n * step + (int64_t)below(d, 3), 5, step};
    const int first = l == 1 ? (int)below(d, 3) : 0;

    x->t = (symm_tensor){.dtype = c->addend, .ndim = 3 - first};
    memcpy(x->t.shape, shape + first, sizeof *shape * (size_t)x->t.ndim);
    memcpy(x->t.strides, strides + first, sizeof *strides * (size_t)x->t.ndim);
    place(c, d, all, x);
}

static struct extents extents_of(const struct matmul_case *c, int rank, int nranks, struct draws *d)
{
    struct extents e = {
        .a_rows = c->kind == SYMM_ALL_GATHER_MATMUL ? share(c->m, rank, nranks) : c->m,
        .k = c->k_differs && matmul_collects(c) ? c->k - 5 * rank % c->k : c->k,
        .d_rows = c->kind == SYMM_MATMUL_REDUCE_SCATTER ? share(c->m, rank, nranks) : c->m,
    };

    for (int i = 0; i < c->nb; i++) {
        e.n[i] = e.d_columns[i] = c->n[i];
        if (c->n_differs && !matmul_collects(c))
            e.n[i] = e.d_columns[i] = 1 + (int64_t)below(d, (uint64_t)c->n[i]);
        if (c->kind == SYMM_MATMUL_ALL_SCATTER) {
            e.d_columns[i] = c->n[i] > nranks ? c->n[i] : nranks;
            e.n[i] = share((int32_t)e.d_columns[i], rank, nranks);
        }
    }
    return e;
}

void matmul_lay_out(const struct matmul_case *c, int rank, int nranks, struct matmul_operands *out)
{
    struct draws d = {6000 + (uint64_t)rank, c->layout * 1000};
    const struct extents e = extents_of(c, rank, nranks, &d);
    const unsigned any = 7, a_zero = c->same == MATMUL_SAME_ROWS      ? 2u
                                     : c->same == MATMUL_SAME_BATCHES ? 1u
                                                                      : 0;

    memset(out, 0, sizeof *out);
    lay_out(c, &d, out, c->in, (int64_t[]){c->l, e.a_rows, e.k}, a_zero, &out->a);
    if (c->gathered)
        lay_out(c, &d, out, c->in, (int64_t[]){c->l, c->m, c->k}, 0, &out->gathered);
    lay_out_all(c, &d, out, c->in, e.k, e.n, any, out->b);
    lay_out_all(c, &d, out, c->out, e.d_rows, e.d_columns, 0, out->d);
    for (int i = 0; i < c->nb; i++) {
        if (c->has_c && c->in_place)
            out->c[i] = out->d[i];
        else if (c->has_c)
            lay_out(c, &d, out, c->addend, (int64_t[]){c->l, e.d_rows, e.n[i]}, any, &out->c[i]);
        if (c->has_bias)
            lay_out_bias(c, &d, out, e.n[i], &out->bias[i]);
    }
    for (int i = 0; i < MATMUL_REGIONS; i++) /* none is empty */
        out->nbytes[i] += MARGIN;
}

/* ---------------------------------------------------------------------------------------- a job */

symm_status matmul_job_open(struct rank *self, symm_context *ctx, symm_group *group,
                            const struct matmul_case *c, struct matmul_job *job)
{
    const int n = symm_nranks(group);

    *job = (struct matmul_job){.c = *c, .ctx = ctx, .group = group};
    for (int r = 0; r < n; r++) {
        matmul_lay_out(c, r, n, &job->o);
        for (int i = 0; i < MATMUL_REGIONS; i++)
            if (job->o.nbytes[i] > job->nbytes[i])
                job->nbytes[i] = job->o.nbytes[i];
    }
    matmul_lay_out(c, symm_rank(group), n, &job->o);
    for (int i = 0; i < MATMUL_REGIONS; i++) {
        job->sent[i] = malloc(job->nbytes[i]);
        job->got[i] = malloc(job->nbytes[i]);
        CHECK_RANK(self, job->sent[i] && job->got[i]);
    }
    RANK_TRY(self, symm_device_alloc(ctx, job->nbytes[MATMUL_PLAIN],
                                     (void **)&job->device[MATMUL_PLAIN]));
    RANK_TRY(self, symm_alloc(group, job->nbytes[MATMUL_SYMMETRIC],
                              (void **)&job->device[MATMUL_SYMMETRIC]));
    return SYMM_OK;
out:
    return self->report->status ? self->report->status : SYMM_ERROR_STATE;
}

void matmul_job_close(struct matmul_job *job)
{
    symm_matmul_destroy(job->m);
    if (job->device[MATMUL_PLAIN])
        symm_device_free(job->ctx, job->device[MATMUL_PLAIN]);
    if (job->device[MATMUL_SYMMETRIC])
        symm_free(job->group, job->device[MATMUL_SYMMETRIC]);
    for (int i = 0; i < MATMUL_REGIONS; i++) {
        free(job->sent[i]);
        free(job->got[i]);
    }
    *job = (struct matmul_job){.nbytes = {0}};
}

static void *data_of(const struct matmul_job *job, const struct matmul_operand *x)
{
    return x->t.dtype ? job->device[x->region] + x->at : NULL;
}

/* An operand as the description has it: where addresses are in both, this one is not to be used. */
static symm_tensor describe(const struct matmul_job *job, const struct matmul_operand *x)
{
    symm_tensor t = x->t;

    if (t.dtype && job->c.data != MATMUL_IN_ARGS)
        t.data = (char *)data_of(job, x) - (job->c.data == MATMUL_IN_BOTH ? ALIGNMENT : 0);
    return t;
}

symm_matmul_desc matmul_job_desc(const struct matmul_job *job)
{
    const struct matmul_case *c = &job->c;
    symm_matmul_desc desc = {
        .kind = c->kind,
        .strategy = c->strategy,
        .activation = c->activation,
        .schedule = c->schedule,
        .nb = c->nb == 1 && c->layout % 2 ? 0 : c->nb,
        .a = describe(job, &job->o.a),
        .gathered_a = describe(job, &job->o.gathered),
        .flags = (c->same_bits ? SYMM_MATMUL_SAME_BITS : 0u) |
                 (c->any_order ? SYMM_MATMUL_ANY_ORDER : 0u) |
                 (c->constant_b ? SYMM_MATMUL_CONSTANT_B : 0u) |
                 (c->traced ? SYMM_MATMUL_TRACE : 0u),
        .partial = c->partial,
    };

    for (int i = 0; i < c->nb; i++) {
        desc.b[i] = describe(job, &job->o.b[i]);
        desc.c[i] = describe(job, &job->o.c[i]);
        desc.d[i] = describe(job, &job->o.d[i]);
        desc.bias[i] = describe(job, &job->o.bias[i]);
    }
    return desc;
}

symm_matmul_args matmul_job_args(const struct matmul_job *job)
{
    symm_matmul_args args = {.alpha = job->c.alpha, .beta = job->c.beta};

    if (job->c.data == MATMUL_IN_DESC)
        return args;
    args.a = data_of(job, &job->o.a);
    args.gathered_a = data_of(job, &job->o.gathered);
    for (int i = 0; i < job->c.nb; i++) {
        args.b[i] = data_of(job, &job->o.b[i]);
        args.c[i] = data_of(job, &job->o.c[i]);
        args.d[i] = data_of(job, &job->o.d[i]);
        args.bias[i] = data_of(job, &job->o.bias[i]);
    }
    return args;
}

symm_status matmul_job_create(struct rank *self, struct matmul_job *job)
{
    const symm_matmul_desc desc = matmul_job_desc(job);

    RANK_TRY(self, symm_matmul_create(job->group, &desc, &job->m));
out:
    return self->report->status;
}

symm_status matmul_job_send(struct rank *self, struct matmul_job *job, uint64_t round,
                            symm_stream stream)
{
    job->round = round;
    matmul_fill(job, symm_rank(job->group), symm_nranks(job->group), job->sent);
    for (int i = 0; i < MATMUL_REGIONS; i++)
        RANK_TRY(self, symm_copy(job->device[i], job->sent[i], job->nbytes[i], stream));
out:
    return self->report->status;
}

symm_status matmul_job_run(struct rank *self, struct matmul_job *job, symm_stream stream)
{
    const float alpha = matmul_alpha(&job->c), beta = matmul_beta(&job->c);
    symm_matmul_args args = matmul_job_args(job);
    const bool none = job->c.data == MATMUL_IN_DESC && !args.alpha && !args.beta;

    /* Those that are gone when this returns: a run has read them. */
    args.alpha = args.alpha ? &alpha : NULL;
    args.beta = args.beta ? &beta : NULL;

    RANK_TRY(self, symm_matmul_run(job->m, none ? NULL : &args, stream));
out:
    return self->report->status;
}

symm_status matmul_job_fetch(struct rank *self, struct matmul_job *job, char *const *from,
                             symm_stream stream)
{
    for (int i = 0; i < MATMUL_REGIONS; i++)
        RANK_TRY(self,
                 symm_copy(job->got[i], (from ? from : job->device)[i], job->nbytes[i], stream));
    RANK_TRY(self, symm_synchronize(job->group, stream));
out:
    return self->report->status;
}

symm_status matmul_job_look(struct rank *self, const struct matmul_job *job)
{
    const int n = symm_nranks(job->group);
    const int64_t wrong = matmul_wrong(job, n);

    self->report->wrong += wrong;
    self->report->value[0]++;
    CHECK_RANK_MSG(self, wrong == 0, "%lld wrong: rank %d of %d, round %llu, %s", (long long)wrong,
                   symm_rank(job->group), n, (unsigned long long)job->round, matmul_text(&job->c));
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

symm_status matmul_job_works(struct rank *self, struct matmul_job *job, uint64_t round,
                             symm_stream stream)
{
    RANK_TRY(self, matmul_job_send(self, job, round, stream));
    RANK_TRY(self, matmul_job_run(self, job, stream));
    RANK_TRY(self, matmul_job_fetch(self, job, NULL, stream));
    RANK_TRY(self, matmul_job_look(self, job));
out:
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}
