/* Trials of cuBLASLt's algorithms for a product. */
#include "trial.h"

#include <math.h>
#include <string.h>
#include "bits.h"
#include "runtime/base/deadline.h"
#include "runtime/base/numbers.h"

enum {
    ROUNDS_MIN = 3, /* after one that loads the kernels */
    ROUNDS_MAX = 5,
    ROUNDS_US = 20000, /* of all candidates */
    RUNS_MIN = 1,      /* of a candidate in a round */
    RUNS_MAX = 4,
    RUNS_US = 200,
    ATTEMPTS = 3, /* at runs that the device may have waited for */
    LINE_UP = 12, /* fills before them: a slow processor enqueues five runs meanwhile */
    LINE_UP_US = 180,
    LOADED_US = 100, /* from this time on, products are timed under load */
    LOAD_US = 2000,  /* at work on it before the time counts, and while it does */
    LIMIT_MS = 5000,
    ALIGNMENT = 256
};

/* A candidate replaces the first one if its time is less than this part. */
static const double GAIN = 0.97;

/* A run of so long is still at work when the host has enqueued the next one. */
static const double LONG_US = 50;

/* A long algorithm has no more rounds above this multiple of the least time; under load. */
static const double HOPELESS = 1.25, HOPELESS_LOADED = 1.08;

static const double PRODUCTS_PER_US = 3.5e8; /* multiply-adds */

static uint64_t nbytes_of(const struct cublaslt_matrix *x, int32_t batches)
{
    const uint64_t size = x->type == CUBLASLT_TYPE_32F ? sizeof(float) : sizeof(uint16_t),
                   elements =
                       (uint64_t)x->ld * x->columns + (uint64_t)(batches - 1) * (uint64_t)x->batch;

    return symm__round_up(elements * size, ALIGNMENT);
}

uint64_t symm__cublas_trial_nbytes(const struct cublaslt_shape *s)
{
    return nbytes_of(&s->a, s->batches) + nbytes_of(&s->b, s->batches) +
           nbytes_of(&s->d, s->batches) + s->workspace_nbytes;
}

symm_status symm__cublas_trial_open(const struct symm_driver *drv, const struct cublaslt *lt,
                                    uint64_t nbytes, struct symm_cublas_trial *out)
{
    symm_status st = SYMM_OK;

    *out = (struct symm_cublas_trial){.drv = drv, .lt = lt};
    TRY_CU(drv, cuMemAlloc, &out->memory, nbytes);
    TRY_CU(drv, cuStreamCreate, &out->stream, CU_STREAM_NON_BLOCKING);
    TRY_CU(drv, cuEventCreate, &out->begin, 0);
    TRY_CU(drv, cuEventCreate, &out->end, 0);
    TRY_CU(drv, cuMemsetD8Async, out->memory, 0, nbytes, out->stream);
out:
    return st;
}

void symm__cublas_trial_close(struct symm_cublas_trial *t)
{
    if (t->begin)
        t->drv->cuEventDestroy(t->begin);
    if (t->end)
        t->drv->cuEventDestroy(t->end);
    if (t->stream)
        t->drv->cuStreamDestroy(t->stream);
    if (t->memory && !t->busy)
        t->drv->cuMemFree(t->memory);
}

static struct cublaslt_operands operands(const struct symm_cublas_trial *t,
                                         const struct cublaslt_shape *s)
{
    const CUdeviceptr a = t->memory, b = a + nbytes_of(&s->a, s->batches),
                      d = b + nbytes_of(&s->b, s->batches),
                      workspace = d + nbytes_of(&s->d, s->batches);

    return (struct cublaslt_operands){
        .a = (void *)(uintptr_t)a,
        .b = (void *)(uintptr_t)b,
        .d = (void *)(uintptr_t)d,
        .alpha = 1,
        .workspace = (void *)(uintptr_t)workspace,
    };
}

static symm_status await_end(struct symm_cublas_trial *t)
{
    const symm_deadline deadline = symm__deadline_in(LIMIT_MS);
    CUresult cu;

    while ((cu = t->drv->cuEventQuery(t->end)) == CUDA_ERROR_NOT_READY) {
        if (symm__deadline_over(deadline)) {
            t->busy = true;
            return symm__fail(SYMM_ERROR_TIMEOUT,
                              "the device has not run a product by cuBLASLt within %d ms",
                              (int)LIMIT_MS);
        }
        symm__sleep_us(20);
    }
    return cu == CUDA_SUCCESS ? SYMM_OK : symm__driver_fail(t->drv, cu, "cuEventQuery");
}

symm_status symm__cublas_trial_await(struct symm_cublas_trial *t)
{
    symm_status st;

    TRY_CU(t->drv, cuEventRecord, t->end, t->stream);
    st = await_end(t);
out:
    return st;
}

/* The problem with the trial's operands. */
static struct symm_problem problem_on(const struct symm_cublas_tried *tried,
                                      const struct cublaslt_operands *on)
{
    struct symm_problem p = tried->problem;

    p.alpha = on->alpha;
    p.beta = on->beta;
    p.a.matrix.data = (void *)(uintptr_t)(tried->flipped ? on->b : on->a);
    p.b[0].matrix.data = (void *)(uintptr_t)(tried->flipped ? on->a : on->b);
    p.d[0].matrix.data = on->d;
    if (p.c[0].matrix.dtype)
        p.c[0].matrix.data = on->d;
    return p;
}

bool symm__cublas_trial_enqueue(const struct symm_cublas_trial *t,
                                const struct symm_cublas_tried *tried,
                                const struct cublaslt_operands *on,
                                const cublaslt_heuristic *algorithms, int n, int candidate)
{
    struct cublaslt_product product = *tried->product;
    char why[CUBLASLT_WHY];

    if (candidate == n) {
        const struct symm_problem p = problem_on(tried, on);
        return tried->rival->enqueue(tried->rival, &p, t->stream) == SYMM_OK;
    }
    product.chosen = algorithms[candidate];
    return symm__cublaslt_multiply(t->lt, &product, on, t->stream, why);
}

/* Keeps the device at work while the host enqueues the runs that follow. */
static symm_status line_up(const struct symm_cublas_trial *t, const struct cublaslt_shape *shape,
                           const struct cublaslt_operands *on)
{
    const CUdeviceptr workspace = (CUdeviceptr)(uintptr_t)on->workspace;
    symm_status st = SYMM_OK;

    for (int i = 0; i < LINE_UP; i++)
        TRY_CU(t->drv, cuMemsetD8Async, workspace, 0, shape->workspace_nbytes, t->stream);
out:
    return st;
}

/* The candidates of a trial: algorithms of the library, then perhaps the rival. */
struct candidates {
    const struct symm_cublas_tried *tried;
    const struct cublaslt_operands *on;
    cublaslt_heuristic algorithms[SYMM_CUBLAS_CANDIDATES];
    int n;
    bool rival;
    bool hopeless[SYMM_CUBLAS_CANDIDATES];    /* algorithms that have no more rounds */
    double least[SYMM_CUBLAS_CANDIDATES + 1]; /* us; INFINITY: it does not run */
};

static bool enqueue(const struct symm_cublas_trial *t, const struct candidates *c, int candidate,
                    int runs)
{
    bool ran = true;

    for (int i = 0; i < runs && ran; i++)
        ran = symm__cublas_trial_enqueue(t, c->tried, c->on, c->algorithms, c->n, candidate);
    return ran;
}

/* The runs of a candidate in a round: the first ones are not timed. */
struct pace {
    int before, timed;
    bool loaded; /* the device is at work for so long that its power limits the clock */
};

/*
 * *us: of one run; INFINITY: the candidate does not run. *ahead: the runs were enqueued before the
 * first timed one began.
 */
static symm_status time_runs(struct symm_cublas_trial *t, const struct candidates *c, int candidate,
                             const struct pace *pace, double *us, bool *ahead)
{
    float ms;
    bool ran;
    symm_status st = SYMM_OK;

    ran = enqueue(t, c, candidate, pace->before); /* line_up() has emptied the device's cache */
    TRY_CU(t->drv, cuEventRecord, t->begin, t->stream);
    ran = ran && enqueue(t, c, candidate, pace->timed);
    TRY_CU(t->drv, cuEventRecord, t->end, t->stream);
    *ahead = t->drv->cuEventQuery(t->begin) == CUDA_ERROR_NOT_READY;
    TRY(await_end(t));
    TRY_CU(t->drv, cuEventElapsedTime, &ms, t->begin, t->end);
    *us = ran ? (double)ms * 1e3 / pace->timed : INFINITY;
out:
    return st;
}

static double estimate_us(const struct cublaslt_shape *s)
{
    const double k = (double)(s->a.transposed ? s->a.rows : s->a.columns);

    return (double)s->d.rows * (double)s->d.columns * k * s->batches / PRODUCTS_PER_US;
}

static struct pace pace_of(const struct cublaslt_shape *s)
{
    const double us = estimate_us(s);
    const int under_load = (int)fmax(LOAD_US / us, RUNS_MIN);

    if (us >= LOADED_US)
        return (struct pace){under_load, under_load, true};
    return (struct pace){1, (int)fmin(fmax(RUNS_US / us, RUNS_MIN), RUNS_MAX), false};
}

static int rounds_of(const struct cublaslt_shape *s, const struct pace *pace, int n)
{
    const double us = n * (LINE_UP_US + (pace->before + pace->timed) * estimate_us(s));

    return (int)fmin(fmax(ROUNDS_US / us, ROUNDS_MIN), ROUNDS_MAX);
}

static void forget_times(struct candidates *c)
{
    for (int i = 0; i < c->n + c->rival; i++)
        c->least[i] = INFINITY;
}

static double least_of(const struct candidates *c)
{
    double least = INFINITY;

    for (int i = 0; i < c->n + c->rival; i++)
        least = fmin(least, c->least[i]);
    return least;
}

/* Not of short ones: they take little time, and the host may have slowed them. */
static void give_up(struct candidates *c, const struct pace *pace)
{
    const double limit = (pace->loaded ? HOPELESS_LOADED : HOPELESS) * fmax(least_of(c), LONG_US);

    for (int i = 0; i < c->n; i++)
        c->hopeless[i] = c->hopeless[i] || c->least[i] > limit;
}

/* Times short runs again if the host was late: the least time counts. */
static symm_status time_candidate(struct symm_cublas_trial *t, const struct cublaslt_shape *shape,
                                  struct candidates *c, int candidate, const struct pace *pace)
{
    double us = 0;
    bool ahead = false;
    symm_status st = SYMM_OK;

    for (int i = 0; i < ATTEMPTS && !ahead && us < LONG_US; i++) {
        if (!pace->loaded)
            TRY(line_up(t, shape, c->on));
        TRY(time_runs(t, c, candidate, pace, &us, &ahead));
        c->least[candidate] = fmin(c->least[candidate], us);
    }
out:
    return st;
}

static symm_status time_round(struct symm_cublas_trial *t, const struct cublaslt_shape *shape,
                              struct candidates *c, const struct pace *pace)
{
    symm_status st = SYMM_OK;

    for (int i = 0; i < c->n + c->rival; i++)
        if (i >= c->n || !c->hopeless[i])
            TRY(time_candidate(t, shape, c, i, pace));
out:
    return st;
}

/*
 * Times all candidates. The first round does not count: it loads the kernels, and under load the
 * first candidates have more power than the last ones.
 */
static symm_status time_all(struct symm_cublas_trial *t, const struct cublaslt_shape *shape,
                            struct candidates *c)
{
    const struct pace pace = pace_of(shape),
                      first = pace.loaded ? pace : (struct pace){1, 1, false};
    const int rounds = rounds_of(shape, &pace, c->n + c->rival);
    symm_status st;

    forget_times(c);
    TRY(time_round(t, shape, c, &first));
    forget_times(c);
    for (int round = 0; round < rounds; round++) {
        TRY(time_round(t, shape, c, &pace));
        if (round > 0 || pace.loaded)
            give_up(c, &pace);
    }
out:
    return st;
}

symm_status symm__cublas_trial_pick(struct symm_cublas_trial *t,
                                    const struct symm_cublas_tried *tried,
                                    struct symm_cublas_pick *pick)
{
    const struct cublaslt_shape *shape = &pick->shape;
    const struct cublaslt_operands on = operands(t, shape);
    struct candidates c = {
        .tried = tried, .on = &on, .n = tried->candidates->n, .rival = tried->rival != NULL};
    int best = 0;
    symm_status st;

    memcpy(c.algorithms, tried->candidates->algorithms, sizeof c.algorithms);
    TRY(symm__cublas_fill(t, shape, &on));
    if (!pick->any_order)
        TRY(symm__cublas_keep_same(t, pick, tried, &on, c.algorithms, &c.n, &c.rival));
    TRY(time_all(t, shape, &c));
    for (int i = 1; i < c.n; i++)
        if (c.least[i] < c.least[best] * (best == 0 ? GAIN : 1))
            best = i;
    if (c.n == 0 || c.least[best] == INFINITY)
        return symm__fail(SYMM_ERROR_DRIVER, "cuBLASLt: no algorithm runs");
    pick->chosen = c.algorithms[best];
    pick->us = c.least[best];
    pick->own_us = c.rival && c.least[c.n] < INFINITY ? c.least[c.n] : 0;
out:
    return st;
}
