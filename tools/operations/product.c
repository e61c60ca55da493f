/* The variants of a matrix product. */
#include "product.h"

#include "operation.h"

/* symm's product by one of its schedules. */
#define DATA_PARALLEL(...)                                                                         \
    {                                                                                              \
        .name = "data_parallel", __VA_ARGS__, .schedule = SYMM_SCHEDULE_DATA_PARALLEL              \
    }
#define STREAM_K(...)                                                                              \
    {                                                                                              \
        .name = "stream_k", __VA_ARGS__, .schedule = SYMM_SCHEDULE_STREAM_K                        \
    }
#define ALONE .kind = PRODUCT_ALONE
#define FUSED .kind = PRODUCT_TOGETHER, .strategy = SYMM_STRATEGY_FUSED

static const struct product_variant alone[] = {
    {.name = "cublas", .kind = PRODUCT_CUBLAS},
    {.name = "product", ALONE},
    DATA_PARALLEL(ALONE),
    STREAM_K(ALONE),
    {0},
};

static const struct product_variant gathered[] = {
    {.name = "cublas", .kind = PRODUCT_CUBLAS},
    {.name = "product", .kind = PRODUCT_ALONE},
    {.name = "all_gather", .kind = PRODUCT_COMMUNICATION},
    {.name = "cublas_symm", .kind = PRODUCT_CUBLAS_SYMM},
    {.name = "cublas_nccl", .kind = PRODUCT_CUBLAS_NCCL},
    {.name = "auto", .kind = PRODUCT_TOGETHER, .strategy = SYMM_STRATEGY_AUTO},
    {.name = "fused", FUSED},
    {.name = "pipelined", .kind = PRODUCT_TOGETHER, .strategy = SYMM_STRATEGY_PIPELINED},
    {.name = "unfused", .kind = PRODUCT_TOGETHER, .strategy = SYMM_STRATEGY_UNFUSED},
    DATA_PARALLEL(FUSED),
    STREAM_K(FUSED),
    {0},
};

/* The variants with a communication of this name after the product. */
#define COLLECTED(name_)                                                                           \
    {.name = "cublas", .kind = PRODUCT_CUBLAS}, {.name = "product", .kind = PRODUCT_ALONE},        \
        {.name = (name_), .kind = PRODUCT_COMMUNICATION},                                          \
        {.name = "cublas_symm", .kind = PRODUCT_CUBLAS_SYMM},                                      \
        {.name = "cublas_nccl", .kind = PRODUCT_CUBLAS_NCCL},                                      \
        {.name = "auto", .kind = PRODUCT_TOGETHER, .strategy = SYMM_STRATEGY_AUTO},                \
        {.name = "fused", FUSED}, DATA_PARALLEL(FUSED), STREAM_K(FUSED),                           \
    {                                                                                              \
        .name = "unfused", .kind = PRODUCT_TOGETHER, .strategy = SYMM_STRATEGY_UNFUSED             \
    }
#define PIPELINED                                                                                  \
    {                                                                                              \
        .name = "pipelined", .kind = PRODUCT_TOGETHER, .strategy = SYMM_STRATEGY_PIPELINED         \
    }

static const struct product_variant reduced[] = {COLLECTED("reduce_scatter"), PIPELINED, {0}},
                                    all_reduced[] = {COLLECTED("all_reduce"), PIPELINED, {0}},
                                    scattered[] = {COLLECTED("all_gather"), {0}};

/* The communication is a row of the operations' table. */
static const struct {
    const struct product_variant *variants;
    const char *operation;
} kinds[] = {
    [SYMM_MATMUL] = {alone, NULL},
    [SYMM_ALL_GATHER_MATMUL] = {gathered, "all-gather"},
    [SYMM_MATMUL_REDUCE_SCATTER] = {reduced, "reduce-scatter"},
    [SYMM_MATMUL_ALL_REDUCE] = {all_reduced, "all-reduce"},
    [SYMM_MATMUL_ALL_SCATTER] = {scattered, "all-gather"},
};

const struct product_variant *product_variants(symm_matmul_kind kind)
{
    return kinds[kind].variants;
}

bool product_by_cublas(enum product_kind kind)
{
    return kind == PRODUCT_CUBLAS || kind == PRODUCT_CUBLAS_SYMM || kind == PRODUCT_CUBLAS_NCCL;
}

static bool by_both(enum product_kind kind)
{
    return kind == PRODUCT_CUBLAS_SYMM || kind == PRODUCT_CUBLAS_NCCL;
}

/* Whether parts of the size of the largest, one after another, begin with A. */
static bool gathers_as_one(const struct cublas_shape *shape, int nranks)
{
    const int rest = shape->m % nranks;

    return rest == 0 || (rest == nranks - 1 && shape->l == 1);
}

/* Of a peer's product whose results are collected. */
static const char *why_not_collected(symm_matmul_kind kind, const struct cublas_shape *shape,
                                     symm_dtype partial, int nranks)
{
    if (kind_sums(kind) && shape->beta != 0)
        return "its sum of products has no C: it needs --beta 0";
    if (kind_sums(kind) && partial != shape->dtype)
        return "its partial sums have the type of d";
    if (kind == SYMM_MATMUL_REDUCE_SCATTER && shape->m % nranks != 0)
        return "it scatters equal parts, and m is no multiple of the ranks";
    if (kind == SYMM_MATMUL_REDUCE_SCATTER && shape->d_by_columns)
        return "it scatters rows, and those of its product are not contiguous";
    if (kind == SYMM_MATMUL_ALL_SCATTER && shape->n % nranks != 0)
        return "it gathers equal parts, and n is no multiple of the ranks";
    return NULL;
}

const char *product_unavailable(symm_matmul_kind kind, const struct product_variant *variant,
                                const struct cublas_shape *shape, symm_dtype partial, int nranks)
{
    if (variant->kind == PRODUCT_COMMUNICATION && nranks == 1)
        return "there is one rank only";
    if (variant->kind == PRODUCT_CUBLAS_SYMM && nranks == 1)
        return "there is one rank only";
    if (by_both(variant->kind) && kind_collects(kind))
        return why_not_collected(kind, shape, partial, nranks);
    if (variant->kind == PRODUCT_CUBLAS_SYMM && !gathers_as_one(shape, nranks))
        return "the gathered parts are not one matrix: m is no multiple of the ranks";
    if (variant->kind == PRODUCT_CUBLAS_NCCL && shape->m % nranks != 0)
        return "NCCL gathers equal parts, and m is no multiple of the ranks";
    return NULL;
}

bool product_is_part(const struct product_call *call)
{
    return kind_collects(call->kind) &&
           (call->variant->kind == PRODUCT_ALONE || call->variant->kind == PRODUCT_CUBLAS);
}

bool product_is_apart(const struct product_call *call)
{
    return call->kind == SYMM_MATMUL_ALL_SCATTER && by_both(call->variant->kind);
}

const char *product_strategy(const struct product_call *call)
{
    const symm_strategy strategy = symm_matmul_strategy(call->ours);

    return strategy == SYMM_STRATEGY_AUTO ? "-" : symm_strategy_name(strategy);
}

/* ------------------------------------------------------------------------------------- one call */

/* [l, rows, columns]. */
static symm_tensor tensor(void *data, symm_dtype dtype, int l, int rows, int columns,
                          bool by_columns)
{
    return (symm_tensor){
        .data = data,
        .dtype = dtype,
        .ndim = 3,
        .shape = {l, rows, columns},
        .strides = {(int64_t)rows * columns, by_columns ? 1 : columns, by_columns ? rows : 1}};
}

static struct extents extents(const struct product_call *call)
{
    return extents_of(call->kind, call->shape.m, call->shape.n, call->nranks, call->rank);
}

/* Of this rank's product alone. */
static struct cublas_shape own_shape(const struct product_call *call)
{
    struct cublas_shape own = call->shape;

    own.n = extents(call).columns;
    if (kind_sums(call->kind))
        own.beta = 0;
    return own;
}

/* Where this rank's product alone goes. */
static void *own_d(const struct product_call *call)
{
    return kind_collects(call->kind) ? call->buffers.part : call->buffers.d;
}

static void *own_c(const struct product_call *call)
{
    return kind_sums(call->kind) ? NULL : call->buffers.c;
}

/* symm's product of this rank. */
static void describe_own(const struct product_call *call, symm_matmul_desc *desc)
{
    const struct cublas_shape s = own_shape(call);

    desc->kind = SYMM_MATMUL;
    desc->a = tensor(call->buffers.a, s.dtype, s.l, s.m, s.k, false);
    desc->b[0] = tensor(call->buffers.b, s.dtype, s.l, s.k, s.n, s.b_by_columns);
    desc->d[0] = tensor(own_d(call), s.dtype, s.l, s.m, s.n, s.d_by_columns);
    if (s.beta != 0)
        desc->c[0] = tensor(call->buffers.c, s.dtype, s.l, s.m, s.n, s.d_by_columns);
}

/* symm's product of all ranks. */
static void describe_together(const struct product_call *call, symm_matmul_desc *desc)
{
    const struct cublas_shape *s = &call->shape;
    const struct product_buffers *on = &call->buffers;
    const struct extents e = extents(call);
    const int share = share_of(s->m, call->nranks, call->rank);
    const bool gathers = call->kind == SYMM_ALL_GATHER_MATMUL;

    desc->kind = call->kind;
    desc->strategy = call->variant->strategy;
    desc->a =
        tensor(gathers ? on->part : on->a, s->dtype, s->l, gathers ? share : s->m, s->k, false);
    desc->b[0] = tensor(on->b, s->dtype, s->l, s->k, e.columns, s->b_by_columns);
    desc->d[0] = tensor(on->d, s->dtype, s->l, e.rows, s->n, s->d_by_columns);
    if (on->c)
        desc->c[0] = tensor(on->c, s->dtype, s->l, e.rows, e.columns, s->d_by_columns);
    if (kind_sums(call->kind))
        desc->partial = call->partial;
}

static symm_status prepare_ours(struct product_call *call)
{
    symm_matmul_desc desc = {.schedule = call->variant->schedule,
                             .flags = (call->same_bits ? SYMM_MATMUL_SAME_BITS : 0u) |
                                      (call->any_order ? SYMM_MATMUL_ANY_ORDER : 0u) |
                                      (call->constant_b ? SYMM_MATMUL_CONSTANT_B : 0u) |
                                      (call->traced ? SYMM_MATMUL_TRACE : 0u)};

    if (call->variant->kind == PRODUCT_ALONE)
        describe_own(call, &desc);
    else
        describe_together(call, &desc);
    return symm_matmul_create(call->group, &desc, &call->ours);
}

static symm_status prepare_theirs(struct product_call *call)
{
    const struct cublas_shape own = own_shape(call);

    call->theirs = cublas_product_create(call->cublas, &own);
    return call->theirs ? SYMM_OK : SYMM_ERROR_DRIVER;
}

symm_status product_prepare(struct product_call *call)
{
    switch (call->variant->kind) {
    case PRODUCT_ALONE:
    case PRODUCT_TOGETHER:
        return prepare_ours(call);
    case PRODUCT_CUBLAS:
    case PRODUCT_CUBLAS_SYMM:
    case PRODUCT_CUBLAS_NCCL:
        return prepare_theirs(call);
    default:
        return SYMM_OK;
    }
}

symm_status product_tune(const struct product_call *call)
{
    const struct product_buffers *on = &call->buffers;

    return call->theirs ? cublas_product_tune(call->theirs, on->a, on->b, own_c(call), own_d(call),
                                              call->stream)
                        : SYMM_OK;
}

void product_release(struct product_call *call)
{
    symm_matmul_destroy(call->ours);
    cublas_product_destroy(call->theirs);
    call->ours = NULL;
    call->theirs = NULL;
}

static symm_status run_ours(const struct product_call *call)
{
    const struct cublas_shape s =
        call->variant->kind == PRODUCT_ALONE ? own_shape(call) : call->shape;
    const symm_matmul_args args = {.alpha = &s.alpha, .beta = &s.beta};

    return symm_matmul_run(call->ours, &args, call->stream);
}

static symm_status multiply(const struct product_call *call, const void *a)
{
    return cublas_product_run(call->theirs, a, call->buffers.b, own_c(call), own_d(call),
                              call->stream);
}

/* ------------------------------------------------------------------------------- communication */

/*
 * Elements of one part: of what a rank sends or receives, or of all that is reduced. All parts have
 * the size of the largest.
 */
static size_t part_count(symm_matmul_kind kind, const struct cublas_shape *s, int nranks)
{
    const size_t l = (size_t)s->l;

    switch (kind) {
    case SYMM_ALL_GATHER_MATMUL:
        return (size_t)share_of(s->m, nranks, 0) * (size_t)s->k * l;
    case SYMM_MATMUL_REDUCE_SCATTER:
        return (size_t)share_of(s->m, nranks, 0) * (size_t)s->n * l;
    case SYMM_MATMUL_ALL_REDUCE:
        return (size_t)s->m * (size_t)s->n * l;
    case SYMM_MATMUL_ALL_SCATTER:
        return (size_t)s->m * (size_t)share_of(s->n, nranks, 0) * l;
    default:
        return 0;
    }
}

struct products product_data(symm_matmul_kind kind, const struct cublas_shape *shape, int rank,
                             int nranks)
{
    const int products = kind_sums(kind) ? nranks : 1;

    return (struct products){.kind = kind,
                             .nranks = nranks,
                             .rank = rank,
                             .element = element_by_dtype(shape->dtype),
                             .m = shape->m,
                             .n = shape->n,
                             .k = shape->k,
                             .l = shape->l,
                             .b_by_columns = shape->b_by_columns,
                             .d_by_columns = shape->d_by_columns,
                             .alpha = (double)shape->alpha,
                             .beta = (double)shape->beta,
                             .eps = products_eps((int64_t)products * shape->k)};
}

size_t product_part_count(symm_matmul_kind kind, const struct cublas_shape *shape, int nranks)
{
    const size_t parts = kind == SYMM_MATMUL_REDUCE_SCATTER ? (size_t)nranks : 1;

    return part_count(kind, shape, nranks) * parts;
}

size_t product_gathered_count(symm_matmul_kind kind, const struct cublas_shape *shape, int nranks)
{
    const bool all = kind == SYMM_ALL_GATHER_MATMUL || kind == SYMM_MATMUL_ALL_SCATTER;

    return part_count(kind, shape, nranks) * (all ? (size_t)nranks : 1);
}

/* The communication from `part` to `out`, in n calls for equal pieces of the memory. */
static symm_status communicate(const struct product_call *call, void *out, symm_dtype dtype, int n)
{
    const struct operation *op = operation_find(kinds[call->kind].operation);
    const size_t nranks = (size_t)call->nranks, nbytes = symm_dtype_size(dtype),
                 count = part_count(call->kind, &call->shape, (int)nranks) / (size_t)n,
                 in_step = count * nbytes * (op->out_is_part ? nranks : 1),
                 out_step = count * nbytes * (op->in_is_part ? nranks : 1);
    const symm_options options = {.flags = SYMM_SYMMETRIC};
    symm_status st = SYMM_OK;

    for (size_t i = 0; i < (size_t)n && st == SYMM_OK; i++) {
        const char *from = (const char *)call->buffers.part + i * in_step;
        char *to = (char *)out + i * out_step;

        st = call->variant->kind == PRODUCT_CUBLAS_NCCL
                 ? op->nccl(call->nccl, from, to, count, dtype, SYMM_SUM, call->stream)
                 : op->symm(call->group, from, to, count, dtype, SYMM_SUM, &options, call->stream);
    }
    return st;
}

/* Rows are gathered one matrix of the batch after another. */
static symm_status gather_and_multiply(const struct product_call *call)
{
    const symm_status st =
        communicate(call, call->buffers.gathered, call->shape.dtype, call->shape.l);

    return st == SYMM_OK ? multiply(call, call->buffers.gathered) : st;
}

/* Rows are scattered one matrix of the batch after another. */
static symm_status multiply_and_collect(const struct product_call *call)
{
    const bool by_rows = call->kind == SYMM_MATMUL_REDUCE_SCATTER;
    void *out = product_is_apart(call) ? call->buffers.gathered : call->buffers.d;
    const symm_status st = multiply(call, call->buffers.a);

    return st == SYMM_OK ? communicate(call, out, call->shape.dtype, by_rows ? call->shape.l : 1)
                         : st;
}

symm_status product_enqueue(const struct product_call *call)
{
    switch (call->variant->kind) {
    case PRODUCT_COMMUNICATION:
        return communicate(call, call->buffers.gathered, call->partial, 1);
    case PRODUCT_CUBLAS:
        return multiply(call, call->buffers.a);
    case PRODUCT_CUBLAS_SYMM:
    case PRODUCT_CUBLAS_NCCL:
        return kind_collects(call->kind) ? multiply_and_collect(call) : gather_and_multiply(call);
    default:
        return run_ours(call);
    }
}
