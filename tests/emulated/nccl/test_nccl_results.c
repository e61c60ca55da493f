/* The stand-in's results, against sums in double precision. */
#include "nccl_client.h"

#include <math.h>

enum { RANKS = 4, MOST = 300 };

static const struct type {
    ncclDataType_t type;
    size_t size;
    symm_dtype real; /* as the oracle knows it; 0: an integer */
    bool has_sign;
} types[] = {
    {ncclInt8, 1, 0, true},
    {ncclUint8, 1, 0, false},
    {ncclInt32, 4, 0, true},
    {ncclUint32, 4, 0, false},
    {ncclInt64, 8, 0, true},
    {ncclUint64, 8, 0, false},
    {ncclFloat16, 2, SYMM_FLOAT16, true},
    {ncclFloat32, 4, SYMM_FLOAT32, true},
    {ncclFloat64, 8, SYMM_FLOAT64, true},
    {ncclBfloat16, 2, SYMM_BFLOAT16, true},
};
enum { TYPES = sizeof types / sizeof *types };

/* Small enough that every type holds every result. */
static double element(const struct type *t, int rank, size_t i)
{
    double x = 1 + (double)(((size_t)rank * 7 + i * 3) % 3);
    return t->has_sign && i % 5 == 4 ? -x : x;
}

static void write_elements(const struct type *t, void *to, int rank, size_t from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        union element_number x = {.real = element(t, rank, from + i)};
        if (!t->real)
            x.whole = (int64_t)x.real;
        if (t->real)
            element_narrow(element_by_dtype(t->real), &x, (char *)to + i * t->size, 1);
        else
            memcpy((char *)to + i * t->size, &x.whole, t->size);
    }
}

static double read_element(const struct type *t, const void *from, size_t i)
{
    union element_number x = {.whole = 0};
    const char *at = (const char *)from + i * t->size;
    if (t->real) {
        element_widen(element_by_dtype(t->real), at, &x, 1);
        return x.real;
    }
    memcpy(&x.whole, at, t->size);
    if (t->has_sign && t->size < 8 && x.whole >> (8 * t->size - 1))
        x.whole -= (int64_t)1 << 8 * t->size;
    return (double)x.whole;
}

static double reduced(const struct type *t, ncclRedOp_t op, size_t i)
{
    double sum = element(t, 0, i);
    for (int r = 1; r < RANKS; r++) {
        double x = element(t, r, i);
        sum = op == ncclProd  ? sum * x
              : op == ncclMin ? fmin(sum, x)
              : op == ncclMax ? fmax(sum, x)
                              : sum + x;
    }
    if (op == ncclAvg)
        sum = t->real ? sum / RANKS : trunc(sum / RANKS);
    return sum;
}

/* The buffers of one call. */
struct sample {
    const struct type *type;
    size_t n;
    void *in, *out; /* in has RANKS n elements of this rank */
};

#define CHECK_ELEMENTS(self, sample, at, count, expected)                                          \
    for (size_t i = 0; i < (count); i++) {                                                         \
        double is = read_element((sample)->type, (sample)->out, (at) + i), wanted = (expected);    \
        CHECK_RANK_MSG(self, is == wanted, "type %d: element %zu of %zu is %g, not %g",            \
                       (int)(sample)->type->type, i, (sample)->n, is, wanted);                     \
    }

static void reductions(struct rank *self, struct client *c, const struct sample *s)
{
    const ncclDataType_t type = s->type->type;
    for (ncclRedOp_t op = ncclSum; op <= ncclAvg; op++) {
        NCCL_TRY(self, ncclAllReduce(s->in, s->out, s->n, type, op, c->comm, c->stream));
        CU_TRY(self, cu.cuStreamSynchronize(c->stream));
        CHECK_ELEMENTS(self, s, 0, s->n, reduced(s->type, op, i));
        NCCL_TRY(self, ncclReduceScatter(s->in, s->out, s->n, type, op, c->comm, c->stream));
        CU_TRY(self, cu.cuStreamSynchronize(c->stream));
        CHECK_ELEMENTS(self, s, 0, s->n, reduced(s->type, op, (size_t)self->rank * s->n + i));
        NCCL_TRY(self, ncclReduce(s->in, s->out, s->n, type, op, 2, c->comm, c->stream));
        CU_TRY(self, cu.cuStreamSynchronize(c->stream));
        if (self->rank == 2)
            CHECK_ELEMENTS(self, s, 0, s->n, reduced(s->type, op, i));
    }
out:;
}

static void moves(struct rank *self, struct client *c, const struct sample *s)
{
    const ncclDataType_t type = s->type->type;
    int next = (self->rank + 1) % RANKS, before = (self->rank + RANKS - 1) % RANKS;
    NCCL_TRY(self, ncclAllGather(s->in, s->out, s->n, type, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    for (int r = 0; r < RANKS; r++)
        CHECK_ELEMENTS(self, s, (size_t)r * s->n, s->n, element(s->type, r, i));
    NCCL_TRY(self, ncclBroadcast(s->in, s->out, s->n, type, 1, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_ELEMENTS(self, s, 0, s->n, element(s->type, 1, i));
    NCCL_TRY(self, ncclGroupStart());
    NCCL_TRY(self, ncclRecv(s->out, s->n, type, before, c->comm, c->stream));
    NCCL_TRY(self, ncclSend(s->in, s->n, type, next, c->comm, c->stream));
    NCCL_TRY(self, ncclGroupEnd());
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_ELEMENTS(self, s, 0, s->n, element(s->type, before, i));
out:;
}

/* All-reduce, and reduce-scatter and all-gather in this rank's part of the buffer. */
static void in_place(struct rank *self, struct client *c, const struct sample *s)
{
    const ncclDataType_t type = s->type->type;
    char *part = (char *)s->out + (size_t)self->rank * s->n * s->type->size;
    memcpy(s->out, s->in, RANKS * s->n * s->type->size);
    NCCL_TRY(self, ncclReduceScatter(s->out, part, s->n, type, ncclSum, c->comm, c->stream));
    NCCL_TRY(self, ncclAllGather(part, s->out, s->n, type, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_ELEMENTS(self, s, 0, RANKS * s->n, reduced(s->type, ncclSum, i));
    memcpy(s->out, s->in, s->n * s->type->size);
    NCCL_TRY(self, ncclAllReduce(s->out, s->out, s->n, type, ncclMax, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_ELEMENTS(self, s, 0, s->n, reduced(s->type, ncclMax, i));
out:;
}

TEST_GROUP(results, 120);

DEVICE_TEST(results, every_type_and_operation, RANKS, .env = {{"NCCL_STANDIN_DELAY_US", "300"}})
{
    static const size_t counts[] = {0, 1, 17, MOST};
    struct sample s = {.in = buffer(RANKS * MOST * 8), .out = buffer(RANKS * MOST * 8)};
    CHECK_RANK(self, s.in && s.out);
    JOIN(self);
    for (int t = 0; t < TYPES; t++)
        for (int k = 0; k < 4; k++) {
            s.type = &types[t];
            s.n = counts[k];
            write_elements(s.type, s.in, self->rank, 0, RANKS * s.n);
            reductions(self, c, &s);
            moves(self, c, &s);
            in_place(self, c, &s);
        }
out:
    cu.cuMemFreeHost(s.in);
    cu.cuMemFreeHost(s.out);
}

/* Each rank scales its own elements; one has its factor in memory that the operation reads. */
DEVICE_TEST(results, sums_are_scaled, RANKS)
{
    float *x = floats(100, 1), *factor = floats(1, 0), immediate = (float)self->rank;
    bool in_memory = self->rank == 3;
    ncclRedOp_t op;
    JOIN(self);
    NCCL_TRY(self, ncclRedOpCreatePreMulSum(&op, in_memory ? factor : &immediate, ncclFloat32,
                                            in_memory ? ncclScalarDevice : ncclScalarHostImmediate,
                                            c->comm));
    *factor = 3;
    immediate = 1000;
    NCCL_TRY(self, ncclAllReduce(x, x, 100, ncclFloat32, op, c->comm, c->stream));
    NCCL_EXPECT(self, ncclInvalidArgument,
                ncclAllReduce(x, x, 50, ncclFloat64, op, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, 100, 0 + 1 + 2 + 3);
    NCCL_TRY(self, ncclRedOpDestroy(op, c->comm));
    NCCL_EXPECT(self, ncclInvalidArgument, ncclRedOpDestroy(op, c->comm));
out:
    cu.cuMemFreeHost(x);
    cu.cuMemFreeHost(factor);
}
