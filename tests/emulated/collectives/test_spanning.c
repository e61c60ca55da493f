/*
 * Collectives of groups of several domains, on pretended hosts and the stand-in for NCCL: flat and
 * hierarchical, every operation, against sums in double precision.
 */
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/collectives.h>
#include <symm/names.h>
#include <unistd.h>
#include "collective.h"
#include "draw.h"
#include "exercise.h"
#include "folder.h"
#include "hosts.h"
#include "reference.h"
#include "standin.h"
#include "test.h"

enum { CALLS = 12, MOST = 3000 };

static const struct hosts shapes[] = {
    {2, {2, 2}, false, ""},       {2, {2, 2}, true, ""},     {2, {4, 4}, false, ""},
    {4, {1, 1, 1, 1}, false, ""}, {2, {3, 1}, false, ""},    {2, {8, 7}, false, ""},
    {3, {2, 2, 2}, true, ""},     {3, {3, 3, 3}, false, ""},
};
static const char *const algos[] = {"flat", "hierarchical", "auto"};
enum { SHAPES = sizeof shapes / sizeof shapes[0], ALGOS = 3 };

struct scene {
    struct hosts hosts;
    size_t most; /* elements of a call */
};

/* ---- One call ---- */

static double unit_of(symm_dtype dtype)
{
    return dtype == SYMM_BFLOAT16  ? 0x1p-8
           : dtype == SYMM_FLOAT16 ? 0x1p-11
           : dtype == SYMM_FLOAT32 ? 0x1p-24
                                   : 0x1p-53;
}

static bool is_integer(symm_dtype dtype)
{
    return dtype == SYMM_INT32 || dtype == SYMM_INT64;
}

static int64_t integer(const void *array, size_t i, symm_dtype dtype)
{
    return dtype == SYMM_INT32 ? ((const int32_t *)array)[i] : ((const int64_t *)array)[i];
}

/* Element `at` of every rank's input, reduced; sum of the magnitudes in *size. */
static double expected(const struct collective *c, const char *inputs, size_t nbytes, size_t at,
                       int nranks, double *size)
{
    double x = reference_get(inputs, at, c->dtype);

    *size = fabs(x);
    for (int r = 1; r < nranks; r++) {
        const double y = reference_get(inputs + (size_t)r * nbytes, at, c->dtype);
        *size += fabs(y);
        x = c->op == SYMM_MIN ? fmin(x, y) : c->op == SYMM_MAX ? fmax(x, y) : x + y;
    }
    return c->op == SYMM_AVG ? x / nranks : x;
}

static bool right_integer(const struct collective *c, const char *inputs, size_t nbytes, size_t at,
                          int nranks, int64_t got)
{
    int64_t x = integer(inputs, at, c->dtype);

    for (int r = 1; r < nranks; r++) {
        const int64_t y = integer(inputs + (size_t)r * nbytes, at, c->dtype);
        x = c->op == SYMM_MIN   ? (x < y ? x : y)
            : c->op == SYMM_MAX ? (x > y ? x : y)
                                : (int64_t)((uint64_t)x + (uint64_t)y);
    }
    return c->dtype == SYMM_INT32 ? (int32_t)x == (int32_t)got : x == got;
}

/* In fp32, or in doubles those of doubles; rounded to the type as at the end of a reduction. */
static double fold(const struct collective *c, double x, double y)
{
    const double sum = c->dtype == SYMM_FLOAT64 ? x + y : (double)((float)x + (float)y);

    return c->op == SYMM_MIN ? fmin(x, y) : c->op == SYMM_MAX ? fmax(x, y) : sum;
}

static double finish(const struct collective *c, double x, int n)
{
    char element[8];

    if (c->op == SYMM_AVG)
        x = c->dtype == SYMM_FLOAT64 ? x / n : (double)((float)x / (float)n);
    reference_set(element, 0, c->dtype, x);
    return reference_get(element, 0, c->dtype);
}

/* The domain of each rank of a group. */
struct order {
    int nranks, ndomains;
    int domain[RANKS_MAX];
};

static struct order order_of(const symm_group *group)
{
    struct order order = {symm_nranks(group), (int)symm_group_ndomains(group), {0}};

    for (int r = 0; r < order.nranks; r++)
        order.domain[r] = (int)symm_group_domain_of(group, r);
    return order;
}

/* With SYMM_DETERMINISTIC: in the order of each domain's ranks, then in that of the domains. */
static double promised(const struct collective *c, const struct order *order, const char *inputs,
                       size_t nbytes, size_t at)
{
    double sums[RANKS_MAX], all = 0;
    int counts[RANKS_MAX] = {0};

    for (int r = 0; r < order->nranks; r++) {
        const int d = order->domain[r];
        const double x = reference_get(inputs + (size_t)r * nbytes, at, c->dtype);
        sums[d] = counts[d]++ ? fold(c, sums[d], x) : x;
    }
    for (int d = 0; d < order->ndomains; d++) {
        const double x = finish(c, sums[d], counts[d]);
        all = d ? fold(c, all, x) : x;
    }
    return finish(c, all, order->ndomains);
}

/* inputs: of all ranks. first: the element of them that out begins with. */
static int64_t reduction_wrong(const struct collective *c, const symm_group *group,
                               const char *inputs, size_t nbytes, size_t first, const void *out)
{
    const struct order order = order_of(group);
    const int nranks = order.nranks;
    int64_t wrong = 0;

    for (size_t i = 0; i < c->count; i++) {
        if (is_integer(c->dtype)) {
            wrong +=
                !right_integer(c, inputs, nbytes, first + i, nranks, integer(out, i, c->dtype));
            continue;
        }
        double size, want = expected(c, inputs, nbytes, first + i, nranks, &size);
        const double got = reference_get(out, i, c->dtype), unit = unit_of(c->dtype);
        const bool exact = c->op == SYMM_MIN || c->op == SYMM_MAX;
        if (c->flags & SYMM_DETERMINISTIC && order.ndomains > 1) {
            wrong += got != promised(c, &order, inputs, nbytes, first + i);
            continue;
        }
        wrong += !(fabs(got - want) <= (exact ? 0 : (nranks + 3) * unit * size));
    }
    return wrong;
}

/*
 * A rank's input. With SYMM_DETERMINISTIC, floating elements have many magnitudes, because a sum
 * depends on its order only if it is rounded. collective_fill() gives elements that are not.
 */
static void fill(const struct collective *c, int rank, int nranks, void *in)
{
    struct draw d = {reference_seed() + c->round * RANKS_MAX + (uint64_t)rank};

    collective_fill(c, rank, nranks, in);
    if (!(c->flags & SYMM_DETERMINISTIC) || is_integer(c->dtype))
        return;
    for (size_t i = 0; i < collective_in_nbytes(c, nranks) / symm_dtype_size(c->dtype); i++)
        reference_set(
            in, i, c->dtype,
            ldexp((double)draw_below(&d, 1 << 24) - (1 << 23), (int)draw_below(&d, 8) - 26));
}

static int64_t wrong_elements(const struct collective *c, const symm_group *group, const void *out)
{
    const int rank = symm_rank(group), nranks = symm_nranks(group);
    const size_t nbytes = collective_in_nbytes(c, nranks);
    char *inputs;
    int64_t wrong;

    if (!collective_reduces(c->operation))
        return collective_wrong(c, rank, nranks, out);
    inputs = malloc(nbytes * (size_t)nranks + 1);
    for (int r = 0; r < nranks; r++)
        fill(c, r, nranks, inputs + (size_t)r * nbytes);
    wrong = reduction_wrong(c, group, inputs, nbytes,
                            c->operation == REDUCE_SCATTER ? (size_t)rank * c->count : 0, out);
    free(inputs);
    return wrong;
}

struct place {
    void *device, *host; /* both: room for all ranks' elements */
    size_t nbytes;
};

/* `in` and `out` in one block: apart, or in place. */
static void lay_out(const struct collective *c, const struct place *p, int rank, int nranks,
                    bool in_place, char **in, char **out)
{
    const size_t share = c->count * symm_dtype_size(c->dtype), half = p->nbytes / 2;

    *in = p->device;
    *out = (char *)p->device + half;
    if (in_place && (c->operation == ALL_REDUCE || c->operation == BROADCAST))
        *out = *in;
    else if (in_place && c->operation == REDUCE_SCATTER)
        *out = *in + (size_t)rank * share;
    else if (in_place)
        *in = *out + (size_t)rank * share;
    (void)nranks;
}

/* times > 1: a graph, replayed. */
static void call_once(struct rank *self, symm_group *group, const struct collective *c,
                      const struct place *p, bool in_place, bool graph, symm_stream s)
{
    const int rank = symm_rank(group), nranks = symm_nranks(group);
    symm_graph replay = NULL;
    char *in, *out;

    lay_out(c, p, rank, nranks, in_place, &in, &out);
    memset(p->host, 0x77, p->nbytes);
    RANK_TRY(self, symm_copy(p->device, p->host, p->nbytes, s));
    fill(c, rank, nranks, p->host);
    RANK_TRY(self, symm_copy(in, p->host, collective_in_nbytes(c, nranks), s));
    if (graph) {
        RANK_TRY(self, symm_group_reserve(group, 0));
        RANK_TRY(self, symm_graph_begin(s));
    }
    RANK_TRY(self, collective_call(c, group, in, out, s));
    if (graph) {
        RANK_TRY(self, symm_graph_end(s, &replay));
        RANK_TRY(self, symm_graph_launch(replay, s));
    }
    RANK_TRY(self, symm_copy(p->host, out, collective_out_nbytes(c, nranks), s));
    RANK_TRY(self, symm_synchronize(group, s));
    const int64_t wrong = wrong_elements(c, group, p->host);
    CHECK_RANK_MSG(self, wrong == 0, "%s: %lld wrong%s%s", collective_text(c), (long long)wrong,
                   in_place ? ", in place" : "", graph ? ", in a graph" : "");
out:
    symm_graph_destroy(replay);
}

/* ---- Many ---- */

/* Whether each domain has as many ranks of the group. */
static bool is_even(const symm_group *group)
{
    const struct order order = order_of(group);
    int counts[RANKS_MAX] = {0};
    bool even = true;

    for (int r = 0; r < order.nranks; r++)
        counts[order.domain[r]]++;
    for (int d = 0; d < order.ndomains; d++)
        even &= counts[d] == counts[0];
    return even;
}

static struct collective draw_call(struct draw *d, size_t most, const symm_group *group,
                                   uint64_t round)
{
    const int nranks = symm_nranks(group);
    static const symm_dtype dtypes[] = {SYMM_FLOAT32, SYMM_FLOAT16, SYMM_BFLOAT16,
                                        SYMM_FLOAT64, SYMM_INT32,   SYMM_INT64};
    struct collective c = {.operation =
                               (enum collective_operation)draw_below(d, COLLECTIVE_OPERATIONS),
                           .dtype = dtypes[draw_below(d, 6)],
                           .round = round};

    do
        c.op = (symm_redop)draw_below(d, 4);
    while (c.op == SYMM_AVG && is_integer(c.dtype));
    if (!collective_reduces(c.operation))
        c.op = SYMM_SUM;
    if (collective_reduces(c.operation) && is_even(group) && draw_below(d, 3) == 0)
        c.flags = SYMM_DETERMINISTIC;
    c.count = draw_below(d, 4) ? 1 + draw_below(d, (uint32_t)most) : draw_below(d, 3);
    c.root = (int)draw_below(d, (uint32_t)nranks);
    if (symm_group_ndomains(group) > 1 && draw_below(d, 3) == 0) {
        c.algo = c.flags || (is_even(group) && draw_below(d, 2)) ? SYMM_ALGO_HIERARCHICAL
                                                                 : SYMM_ALGO_FLAT;
    }
    return c;
}

static void run_calls(struct rank *self, symm_context *ctx, symm_group *group, size_t most,
                      uint64_t first)
{
    struct draw d = {reference_seed() + first};
    const int nranks = symm_nranks(group);
    struct place p = {.nbytes = 2 * (most + 64) * (size_t)nranks * 8};
    symm_stream s = NULL;

    p.host = malloc(p.nbytes);
    CHECK_RANK(self, p.host);
    RANK_TRY(self, symm_stream_create(ctx, &s));
    RANK_TRY(self, symm_device_alloc(ctx, p.nbytes, &p.device));
    for (int i = 0; i < CALLS && !self->report->failed[0]; i++) {
        const struct collective c = draw_call(&d, most, group, first + (uint64_t)i);
        const bool in_place = draw_below(&d, 2), graph = draw_below(&d, 4) == 0;
        exercise_dawdle(self, first + (uint64_t)i);
        call_once(self, group, &c, &p, in_place, graph, s);
        if (i % 5 == 4)
            RANK_TRY(self, symm_barrier(group, s));
    }
    RANK_TRY(self, symm_synchronize(group, s));
out:
    symm_device_free(ctx, p.device);
    symm_stream_destroy(s);
    free(p.host);
}

static void run_scene(struct rank *self, void *arg)
{
    const struct scene *scene = arg;
    symm_context *ctx = NULL, *last;
    symm_group *world, *rail = NULL;
    const int apart[] = {0, self->nranks - 1};

    RANK_TRY(self, hosts_join(self, &scene->hosts, &ctx));
    world = symm_context_world(ctx);
    run_calls(self, ctx, world, scene->most, 100);
    if (self->rank == apart[0] || self->rank == apart[1]) {
        RANK_TRY(self, symm_group_create(world, 2, apart, &rail));
        run_calls(self, ctx, rail, scene->most, 200);
    }
    run_calls(self, ctx, symm_context_domain(ctx), 100, 300);
    RANK_TRY(self, symm_group_destroy(rail));
    rail = NULL;
    last = ctx;
    ctx = NULL;
    RANK_TRY(self, symm_context_destroy(last));
out:
    symm_group_destroy(rail);
    symm_context_destroy(ctx);
}

TEST_GROUP(spanning, 120, IN_A_FOLDER);

TEST_LOOP(spanning, every_form_is_right, 0, SHAPES *ALGOS)
{
    struct scene scene = {.hosts = shapes[_i / ALGOS], .most = MOST};

    standin_use();
    setenv("SYMM_SPAN_ALGO", algos[_i % ALGOS], 1);
    setenv("SYMM_EMULATED_DEVICES", "16", 1);
    if (_i % 2) /* calls go in pieces */
        setenv("SYMM_STAGING_BYTES", "8K", 1);
    hosts_address(&scene.hosts);
    ranks_run_ok(hosts_nranks(&scene.hosts), RANKS_AS_PROCESSES, run_scene, &scene, 100);
}

/* Sixteen hosts of eight ranks. */
TEST_LOOP(spanning, many_hosts_are_right, 0, ALGOS - 1)
{
    struct scene scene = {.hosts = {.n = 16, .round_robin = _i}, .most = 20};

    for (int h = 0; h < scene.hosts.n; h++)
        scene.hosts.sizes[h] = 8;
    standin_use();
    setenv("SYMM_SPAN_ALGO", algos[_i], 1);
    setenv("SYMM_EMULATED_DEVICES", "128", 1);
    setenv("SYMM_STAGING_BYTES", "64K", 1);
    hosts_address(&scene.hosts);
    ranks_run_ok(hosts_nranks(&scene.hosts), RANKS_AS_PROCESSES, run_scene, &scene, 100);
}

/* ---- Broadcasts of many bytes ---- */

enum { MANY = 1 << 20 /* from so many bytes on, each rail has a shard */ };

static const struct hosts even[] = {
    {2, {2, 2}, false, ""},   {2, {2, 2}, true, ""},     {2, {4, 4}, false, ""},
    {3, {2, 2, 2}, true, ""}, {3, {3, 3, 3}, false, ""}, {3, {1, 1, 1}, false, ""},
};
enum { EVEN = sizeof even / sizeof even[0] };

/* Whole packs of each rank, less, and odd bytes; in place; graphs. */
static const struct many {
    symm_dtype dtype;
    size_t count;
} many[] = {{SYMM_UINT8, MANY + 5}, {SYMM_FLOAT16, MANY / 2 + 12}, {SYMM_FLOAT64, MANY / 8 + 720}};
enum { CALLS_OF_MANY = sizeof many / sizeof many[0], MOST_BYTES = MANY + 8 * 720 };

/* Makes calls on the group of all ranks, with nbytes of memory for their data. */
typedef void calls_fn(struct rank *self, symm_group *world, struct place *p, symm_stream s);

static void make_calls(struct rank *self, const struct scene *scene, size_t nbytes, calls_fn *calls)
{
    struct place p = {.nbytes = nbytes};
    symm_context *ctx = NULL;
    symm_stream s = NULL;

    p.host = malloc(p.nbytes);
    CHECK_RANK(self, p.host);
    RANK_TRY(self, hosts_join(self, &scene->hosts, &ctx));
    RANK_TRY(self, symm_stream_create(ctx, &s));
    RANK_TRY(self, symm_device_alloc(ctx, p.nbytes, &p.device));
    calls(self, symm_context_world(ctx), &p, s);
out:
    symm_stream_destroy(s);
    symm_device_free(ctx, p.device);
    symm_context_destroy(ctx);
    free(p.host);
}

static void call_many(struct rank *self, symm_group *world, struct place *p, symm_stream s)
{
    const int n = self->nranks, roots[] = {n - 1, n / 2, 0};

    for (int i = 0; i < CALLS_OF_MANY && !self->report->failed[0]; i++) {
        const struct collective c = {.operation = BROADCAST,
                                     .dtype = many[i].dtype,
                                     .count = many[i].count,
                                     .round = (uint64_t)i,
                                     .root = roots[i]};
        call_once(self, world, &c, p, i % 2, i == 2, s);
    }
}

static void broadcast_many(struct rank *self, void *arg)
{
    make_calls(self, arg, 2 * MOST_BYTES, call_many);
}

/* The largest broadcast of any rail, and removes the records. */
static size_t most_on_a_rail(const char *prefix)
{
    char pattern[128], line[200];
    size_t most = 0, n;
    glob_t found = {0};

    snprintf(pattern, sizeof pattern, "%s.*", prefix);
    ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *file = fopen(found.gl_pathv[i], "r");
        while (fgets(line, sizeof line, file))
            if (sscanf(line, "ncclBroadcast %zu", &n) == 1 && n > most)
                most = n;
        fclose(file);
        unlink(found.gl_pathv[i]);
    }
    globfree(&found);
    return most;
}

TEST_LOOP(spanning, rails_share_a_broadcast_of_many_bytes, 0, EVEN)
{
    struct scene scene = {.hosts = even[_i]};
    const size_t size = (size_t)scene.hosts.sizes[0];
    char prefix[80];

    snprintf(prefix, sizeof prefix, "%s/record", folder);
    setenv("NCCL_STANDIN_RECORD", prefix, 1);
    standin_use();
    setenv("SYMM_SPAN_ALGO", "hierarchical", 1);
    hosts_address(&scene.hosts);
    ranks_run_ok(hosts_nranks(&scene.hosts), RANKS_AS_PROCESSES, broadcast_many, &scene, 100);
    const size_t most = most_on_a_rail(prefix);
    ck_assert_uint_ge(most, MANY / size);
    ck_assert_uint_lt(most, MOST_BYTES / size + size * 16);
}

/* ---- Orders ---- */

enum { BY_SWITCH = 120000 /* elements: inside, auto would take the switch */ };

static void call_in_order(struct rank *self, symm_group *world, struct place *p, symm_stream s)
{
    for (int i = 0; i < 2; i++) {
        const struct collective c = {
            .operation = i ? REDUCE_SCATTER : ALL_REDUCE,
            .dtype = SYMM_FLOAT32,
            .op = SYMM_SUM,
            .count = i ? BY_SWITCH / (size_t)self->nranks : BY_SWITCH,
            .flags = SYMM_DETERMINISTIC,
        };
        call_once(self, world, &c, p, false, false, s);
    }
}

static void reduce_many(struct rank *self, void *arg)
{
    make_calls(self, arg, 2 * BY_SWITCH * sizeof(float), call_in_order);
}

/* The switch has an order of its own, and so has each rank of a rail, which has its own part. */
TEST_LOOP(spanning, a_deterministic_reduction_has_one_order, 0, 2)
{
    struct scene scene = {.hosts = _i ? (struct hosts){4, {1, 1, 1, 1}, false, ""}
                                      : (struct hosts){2, {4, 4}, false, ""}};

    standin_use();
    setenv("SYMM_EMULATED_ORDER", "reverse", 1);
    setenv("SYMM_STAGING_BYTES", "4M", 1); /* in one piece */
    hosts_address(&scene.hosts);
    ranks_run_ok(hosts_nranks(&scene.hosts), RANKS_AS_PROCESSES, reduce_many, &scene, 100);
}

/* ---- Averages ---- */

enum { AVERAGED = 200 };
static const double large = 60000; /* float16 ends at 65504 */

static void check_averages(struct rank *self, symm_group *group, char *x, symm_stream s)
{
    char host[2 * AVERAGED * RANKS_MAX];
    const int nranks = symm_nranks(group);

    for (int flags = 0; flags <= SYMM_DETERMINISTIC; flags += SYMM_DETERMINISTIC) {
        const symm_options options = {.flags = (uint32_t)flags};
        for (size_t i = 0; i < (size_t)(AVERAGED * nranks); i++)
            reference_set(host, i, SYMM_FLOAT16, large);
        RANK_TRY(self, symm_copy(x, host, 2 * AVERAGED * (size_t)nranks, s));
        RANK_TRY(self, symm_all_reduce(group, x, x, (size_t)(AVERAGED * nranks), SYMM_FLOAT16,
                                       SYMM_AVG, &options, s));
        RANK_TRY(self, symm_reduce_scatter(group, x, x + 2 * AVERAGED * self->rank, AVERAGED,
                                           SYMM_FLOAT16, SYMM_AVG, &options, s));
        RANK_TRY(self, symm_copy(host, x + 2 * AVERAGED * self->rank, 2 * AVERAGED, s));
        RANK_TRY(self, symm_synchronize(group, s));
        for (size_t i = 0; i < AVERAGED; i++)
            CHECK_RANK(self, reference_get(host, i, SYMM_FLOAT16) == large);
    }
out:;
}

static void average(struct rank *self, void *arg)
{
    const struct scene *scene = arg;
    symm_context *ctx = NULL;
    symm_stream s = NULL;
    char *x = NULL;

    RANK_TRY(self, hosts_join(self, &scene->hosts, &ctx));
    RANK_TRY(self, symm_stream_create(ctx, &s));
    RANK_TRY(self, symm_device_alloc(ctx, 2 * AVERAGED * RANKS_MAX, (void **)&x));
    check_averages(self, symm_context_world(ctx), x, s);
out:
    symm_stream_destroy(s);
    symm_device_free(ctx, x);
    symm_context_destroy(ctx);
}

/* A sum of two would be infinite in float16. On one host as on several. */
TEST_LOOP(spanning, an_average_does_not_overflow, 0, 2 * ALGOS)
{
    struct scene scene = {.hosts = {_i % 2 ? 2 : 1, {_i % 2 ? 2 : 4, 2}, false, ""}};

    standin_use();
    setenv("SYMM_SPAN_ALGO", algos[_i / 2], 1);
    hosts_address(&scene.hosts);
    ranks_run_ok(hosts_nranks(&scene.hosts), RANKS_AS_PROCESSES, average, &scene, 100);
}
