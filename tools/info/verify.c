/* The verification: starts the ranks, and runs on each of them. */
#include "verify.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>
#include <symm/stream.h>
#include "common/progress.h"
#include "operations/operation.h"
#include "run/launch.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        st = (call);                                                                               \
        if (st != SYMM_OK)                                                                         \
            goto out;                                                                              \
    } while (0)

enum {
    PAIR_COUNT = 65537, /* floats from each rank to each: not a multiple of anything */
    PAIR_BYTES = PAIR_COUNT * 4,
    POISON = 0xff,
    TIMEOUT_MS = 60000
};

/* Elements of an operation: one, a few, an odd tail, more than one pass of a grid. */
enum { ODD_COUNT = 2, LARGE_COUNT, NCOUNTS, MAX_BYTES = 300000 * 8 };
static const size_t counts[NCOUNTS] = {1, 1000, [ODD_COUNT] = 70001, [LARGE_COUNT] = 300000};

/* The state of a rank. */
struct verify {
    symm_context *ctx;
    symm_group *group;
    symm_stream stream;
    int rank, nranks;
    uint64_t seed;
    char *host;                  /* all pairs of a rank, or the buffer of an operation */
    char *near, *far, *in, *out; /* far, in and out are symmetric */
};

json_t *verify_all(const char *driver, int nranks)
{
    char fd_text[16], self[] = "/proc/self/exe", option[] = "--verify-rank";
    char *argv[] = {self, option, fd_text, NULL};
    int fd = memfd_create("symm-info", 0); /* the ranks inherit it */
    json_t *found = NULL;

    snprintf(fd_text, sizeof fd_text, "%d", fd);
    int code = launch_ranks(&(struct launch){
        .tool = "symm-info", .nranks = nranks, .argv = argv, .driver = driver, .timeout_s = 600});
    if (fd >= 0) {
        lseek(fd, 0, SEEK_SET);
        found = json_loadfd(fd, 0, NULL);
        close(fd);
    }
    if (!found)
        found = json_pack("{s:i, s:b, s:s}", "ranks", nranks, "ok", 0, "error",
                          "the ranks have not finished");
    if (code != 0)
        json_object_set_new(found, "ok", json_false());
    return found;
}

static symm_status open_rank(struct verify *v)
{
    const struct symm_config config = {.timeout_ms = TIMEOUT_MS};
    uint64_t seed, all[SYMM_MAX_RANKS];
    symm_status st;

    TRY(symm_context_create(&config, &v->ctx));
    v->group = symm_context_world(v->ctx);
    v->rank = symm_rank(v->group);
    v->nranks = symm_nranks(v->group);
    size_t npairs = (size_t)v->nranks * PAIR_BYTES, n = npairs > MAX_BYTES ? npairs : MAX_BYTES;
    v->host = malloc(n);
    if (!v->host || getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        TRY(SYMM_ERROR_MEMORY);
    TRY(symm_exchange(v->group, &seed, sizeof seed, all));
    v->seed = all[0];
    TRY(symm_stream_create(v->ctx, &v->stream));
    TRY(symm_device_alloc(v->ctx, n, (void **)&v->near));
    TRY(symm_alloc(v->group, n, (void **)&v->far));
    TRY(symm_alloc(v->group, MAX_BYTES, (void **)&v->in));
    TRY(symm_alloc(v->group, MAX_BYTES, (void **)&v->out));
out:
    return st;
}

/* The data from one rank to another in one of the two phases. */
static void pair_data(const struct verify *v, int phase, int from, int to, char *out)
{
    uint64_t use =
        ((uint64_t)phase * SYMM_MAX_RANKS + (uint64_t)from) * SYMM_MAX_RANKS + (uint64_t)to;

    sums_fill(element_by_dtype(SYMM_FLOAT32), out, PAIR_COUNT, sums_seed(v->seed, use), 0);
}

static size_t slot(int rank)
{
    return (size_t)rank * PAIR_BYTES;
}

/* Fills a buffer with this rank's data for each rank. */
static symm_status offer(struct verify *v, int phase, char *device)
{
    for (int to = 0; to < v->nranks; to++)
        pair_data(v, phase, v->rank, to, v->host + slot(to));
    return symm_copy(device, v->host, slot(v->nranks), v->stream);
}

/* Compares the data of each rank for this one. */
static symm_status look(struct verify *v, int phase, const char *device, bool right[SYMM_MAX_RANKS])
{
    char *expected = malloc(PAIR_BYTES);
    symm_status st;

    if (!expected)
        return SYMM_ERROR_MEMORY;
    TRY(symm_copy(v->host, device, slot(v->nranks), v->stream));
    TRY(symm_synchronize(v->group, v->stream));
    for (int from = 0; from < v->nranks; from++) {
        pair_data(v, phase, from, v->rank, expected);
        right[from] = memcmp(v->host + slot(from), expected, PAIR_BYTES) == 0;
    }
out:
    free(expected);
    return st;
}

static symm_status try_put(struct verify *v, bool right[SYMM_MAX_RANKS])
{
    symm_status st;

    TRY(offer(v, 0, v->near));
    TRY(symm_fill(v->far, POISON, slot(v->nranks), v->stream));
    TRY(symm_barrier(v->group, v->stream));
    for (int to = 0; to < v->nranks; to++)
        TRY(symm_put(v->group, v->far + slot(v->rank), v->near + slot(to), PAIR_BYTES, to,
                     v->stream));
    TRY(symm_barrier(v->group, v->stream));
    TRY(look(v, 0, v->far, right));
    TRY(symm_barrier(v->group, v->stream));
out:
    return st;
}

static symm_status try_get(struct verify *v, bool right[SYMM_MAX_RANKS])
{
    symm_status st;

    TRY(offer(v, 1, v->far));
    TRY(symm_fill(v->near, POISON, slot(v->nranks), v->stream));
    TRY(symm_barrier(v->group, v->stream));
    for (int from = 0; from < v->nranks; from++)
        TRY(symm_get(v->group, v->near + slot(from), v->far + slot(v->rank), PAIR_BYTES, from,
                     v->stream));
    TRY(look(v, 1, v->near, right));
    TRY(symm_barrier(v->group, v->stream));
out:
    return st;
}

/* All ranks' findings as a square. by_reader: a rank's are a row, else a column. Collective. */
static symm_status collect(struct verify *v, const bool right[SYMM_MAX_RANKS], bool by_reader,
                           json_t *found, const char *key)
{
    static bool all[SYMM_MAX_RANKS][SYMM_MAX_RANKS];
    json_t *rows = json_array();

    symm_status st = symm_exchange(v->group, right, sizeof all[0], all);
    for (int r = 0; r < v->nranks; r++) {
        json_t *row = json_array();

        for (int c = 0; c < v->nranks; c++) {
            bool ok = by_reader ? all[r][c] : all[c][r];

            json_array_append_new(row, json_boolean(ok));
            if (!ok)
                json_object_set_new(found, "ok", json_false());
        }
        json_array_append_new(rows, row);
    }
    json_object_set_new(found, key, rows);
    return st;
}

/* Runs an algorithm once and adds up the ranks' wrong elements. Collective. */
static symm_status try_once(struct verify *v, const struct operation *op,
                            const struct operation_call *call, uint64_t seed, uint64_t *wrong)
{
    const size_t in_count = operation_in_count(op, call->count, v->nranks);
    const size_t in = in_count * call->element->nbytes;
    const size_t out = operation_out_count(op, call->count, v->nranks) * call->element->nbytes;
    struct sums_verdict verdict;
    uint64_t all[SYMM_MAX_RANKS];
    symm_status st;

    sums_fill(call->element, v->host, in_count, seed, v->rank);
    TRY(symm_copy(v->in, v->host, in, v->stream));
    TRY(symm_fill(v->out, POISON, out, v->stream));
    TRY(operation_enqueue(op, call));
    TRY(symm_copy(v->host, v->out, out, v->stream));
    TRY(symm_synchronize(v->group, v->stream));
    operation_check(op, call, v->host, seed, 1, &verdict);
    TRY(symm_exchange(v->group, &verdict.wrong, sizeof verdict.wrong, all));
    for (int r = 0; r < v->nranks; r++)
        *wrong += all[r];
out:
    return st;
}

/*
 * One algorithm with one type and reduction. Sums: all counts, the large one with the first type
 * only. Other reductions: one count. Collective.
 */
static symm_status try_elements(struct verify *v, const struct operation *op,
                                const struct operation_call *call, uint64_t use, uint64_t *wrong)
{
    symm_status st = SYMM_OK;

    for (size_t i = 0; i < NCOUNTS; i++) {
        const bool too_large = i == LARGE_COUNT && call->element != element_at(0);
        struct operation_call each = *call;

        each.count = operation_count(op, counts[i], v->nranks);
        each.root = op->from_root ? (int)i % v->nranks : 0;
        if (i == ODD_COUNT || (call->op == SYMM_SUM && !too_large))
            TRY(try_once(v, op, &each, sums_seed(v->seed, use + i), wrong));
    }
out:
    return st;
}

/* Gives one algorithm its verdict. Collective. */
static symm_status try_variant(struct verify *v, const struct operation *op,
                               const struct variant *variant, uint64_t use, char verdict[512])
{
    struct operation_call call = {.group = v->group,
                                  .variant = variant,
                                  .in = v->in,
                                  .out = v->out,
                                  .flags = SYMM_SYMMETRIC,
                                  .stream = v->stream};
    char absent[512] = "";
    uint64_t wrong = 0;
    int nran = 0;
    symm_status st = SYMM_OK;

    for (size_t i = 0; element_at(i / NREDOPS); i++, use += NCOUNTS) {
        call.element = element_at(i / NREDOPS);
        call.op = (symm_redop)(i % NREDOPS);
        const char *reason = op->unavailable(v->group, variant->algo, call.element->dtype, call.op);

        if (!op->reduces && call.op != SYMM_SUM)
            continue; /* the same again */
        if (!reason)
            TRY(try_elements(v, op, &call, use, &wrong));
        else if (!absent[0])
            snprintf(absent, sizeof absent, "%.480s", reason);
        nran += !reason;
    }
    if (nran == 0)
        snprintf(verdict, 512, "not available: %.480s", absent);
    else if (wrong > 0)
        snprintf(verdict, 512, "WRONG (%llu elements)", (unsigned long long)wrong);
    else
        snprintf(verdict, 512, "ok");
out:
    return st;
}

static symm_status try_operations(struct verify *v, json_t *found)
{
    json_t *verdicts = json_array();
    uint64_t use = 1u << 20; /* past the pairs */
    char verdict[512];
    symm_status st = SYMM_OK;

    json_object_set_new(found, "algorithms", verdicts);
    for (size_t i = 0; operation_at(i); i++) {
        const struct operation *op = operation_at(i);

        for (const struct variant *variant = op->variants; variant->name; variant++, use += 256) {
            if (v->rank == 0)
                progress_show("verifying %s %s", op->name, variant->name);
            TRY(try_variant(v, op, variant, use, verdict));
            json_array_append_new(verdicts, json_pack("{s:s, s:s, s:s}", "operation", op->name,
                                                      "algo", variant->name, "verdict", verdict));
            if (strncmp(verdict, "WRONG", 5) == 0)
                json_object_set_new(found, "ok", json_false());
        }
    }
out:
    return st;
}

static symm_status try_everything(struct verify *v, json_t *found)
{
    bool right[SYMM_MAX_RANKS] = {false};
    char seed[32];
    symm_status st;

    TRY(open_rank(v));
    snprintf(seed, sizeof seed, "0x%llx", (unsigned long long)v->seed);
    const char *off = symm_multicast_off(v->group);
    json_object_set_new(found, "ranks", json_integer(v->nranks));
    json_object_set_new(found, "seed", json_string(seed));
    json_object_set_new(found, "multicast_off", off ? json_string(off) : json_null());
    TRY(try_put(v, right));
    TRY(collect(v, right, false, found, "put"));
    TRY(try_get(v, right));
    TRY(collect(v, right, true, found, "get"));
    TRY(try_operations(v, found));
out:
    return st;
}

int verify_rank(int fd)
{
    struct verify v = {.rank = -1};
    json_t *found = json_pack("{s:b}", "ok", 1);
    char error[1024];
    symm_status st = try_everything(&v, found);

    progress_end();
    if (st != SYMM_OK) {
        snprintf(error, sizeof error, "%s: %s", symm_status_name(st), symm_error_text());
        if (v.rank < 0) /* it has not joined */
            fprintf(stderr, "# symm-info: %s\n", error);
        else
            fprintf(stderr, "# rank %d: %s\n", v.rank, error);
        symm_abort(v.group, error);
        json_object_set_new(found, "ok", json_false());
        json_object_set_new(found, "error", json_string(error));
    }
    bool ok = json_is_true(json_object_get(found, "ok"));
    if (v.rank == 0)
        ok = json_dumpfd(found, fd, 0) == 0 && ok;
    json_decref(found);
    free(v.host);
    symm_device_free(v.ctx, v.near);
    symm_stream_destroy(v.stream);
    symm_status destroyed = symm_context_destroy(v.ctx);
    return !ok || destroyed != SYMM_OK;
}
