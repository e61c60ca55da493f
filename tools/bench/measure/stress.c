/* symm-bench stress: random calls of everything there is, each result checked. */
#include "stress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "common/text.h"
#include "session.h"
#include "stress_args.h"
#include "stress_choice.h"

extern const symm_image stress_kernels;

enum {
    POISON = 0xff,
    GUARD = 256, /* bytes before and behind the data */
    NLANES = 3,
    LATE_HOST_US = 5000,
    LATE_KERNEL_ROUNDS = 2000
};

/* A buffer of each kind of memory. */
struct room {
    char *symmetric, *plain;
};

/* A group on a stream of its own, and what it works on. */
struct lane {
    const char *name;
    symm_group *group;
    uint64_t salt; /* of its data: disjoint groups have others */
    bool of_world; /* it is the world itself, which nobody destroys */
    symm_stream stream;
    struct room in, out;
    char *in_host, *out_host; /* what in was, and what came out */
    uint32_t *word;           /* for the kernel that is late */
    bool busy;
    struct stress_choice choice;
    struct operation_call call;
    char *in_at, *out_at; /* where the guards before the data begin */
    size_t extent;        /* bytes from there to behind the guards after the data */
    symm_graph graph;
};

struct stress {
    struct session s;
    struct stress_stream random;
    symm_kernel *late;
    struct lane lanes[NLANES];
    size_t room; /* bytes of a buffer */
    uint64_t rounds, calls, elements;
    uint64_t wrong; /* found by this rank in this round */
};

/* -------------------------------------------------------------------------------------- the end */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What is wrong, if it is the first of this round. */
static void note_wrong(struct stress *x, const struct lane *l, const char *what)
{
    char call[512];

    if (x->wrong++ > 0)
        return;
    stress_describe(&l->choice, call, sizeof call);
    fprintf(stderr,
            "# rank %d: wrong in round %" PRIu64 ", group %s (its rank %d of %d): %s\n#   %s\n",
            x->s.rank, x->rounds, l->name, symm_rank(l->group), symm_nranks(l->group), what, call);
}

/* ------------------------------------------------------------------------------------- one call */

static bool is_symmetric(enum stress_memory memory, int rank)
{
    return memory == STRESS_SYMMETRIC || (memory == STRESS_MIXED && rank % 2 == 0);
}

/* Bytes of a buffer for a call of so many: guards on both sides, whatever the offset. */
static size_t room_for(size_t nbytes)
{
    return nbytes + 2 * GUARD + (STRESS_MAX_OFFSET + 1) * sizeof(double);
}

/* Chooses the addresses of a call in a lane. */
static void place(struct lane *l)
{
    const struct stress_choice *c = &l->choice;
    const int rank = symm_rank(l->group), nranks = symm_nranks(l->group);
    const size_t nbytes = c->element->nbytes, other = c->uneven && rank % 2;
    char *in, *out;

    l->call = (struct operation_call){.group = l->group,
                                      .variant = c->variant,
                                      .element = c->element,
                                      .op = c->op,
                                      .count = operation_count(c->operation, c->count, nranks),
                                      .flags = c->flags,
                                      .max_blocks = c->max_blocks,
                                      .stream = l->stream};
    l->in_at = is_symmetric(c->in_memory, rank) ? l->in.symmetric : l->in.plain;
    l->out_at = is_symmetric(c->out_memory, rank) ? l->out.symmetric : l->out.plain;
    in = l->in_at + GUARD + ((size_t)c->in_offset + other) * nbytes;
    out = l->out_at + GUARD + ((size_t)c->out_offset + other) * nbytes;
    l->call.in = in;
    l->call.out = out;
    if (c->in_place) {
        l->out_at = l->in_at;
        operation_in_place(c->operation, &l->call, in);
    }
    l->extent = room_for(l->call.count * nbytes);
}

static size_t in_nbytes(const struct lane *l)
{
    return operation_in_count(l->choice.operation, l->call.count, symm_nranks(l->group)) *
           l->choice.element->nbytes;
}

static size_t out_nbytes(const struct lane *l)
{
    return operation_out_count(l->choice.operation, l->call.count, symm_nranks(l->group)) *
           l->choice.element->nbytes;
}

/* Random data as input in the middle of poison, nothing but poison as output. */
static symm_status fill(struct lane *l)
{
    char *at = l->in_host + ((const char *)l->call.in - l->in_at);
    symm_status st;

    memset(l->in_host, POISON, l->extent);
    sums_fill(l->choice.element, at, in_nbytes(l) / l->choice.element->nbytes,
              l->choice.seed ^ l->salt, symm_rank(l->group));
    TRY(symm_copy(l->in_at, l->in_host, l->extent, l->stream));
    if (!l->choice.in_place)
        TRY(symm_fill(l->out_at, POISON, l->extent, l->stream));
    TRY(symm_synchronize(l->group, l->stream));
out:
    return st;
}

static symm_status enqueue(const struct lane *l)
{
    symm_status st = SYMM_OK;

    for (int i = 0; i < l->choice.repeats && st == SYMM_OK; i++)
        st = l->choice.operation->enqueue(&l->call);
    return st;
}

static symm_status record(struct lane *l)
{
    symm_status st = symm_graph_begin(l->stream);

    if (st != SYMM_OK)
        return st;
    st = enqueue(l);
    symm_status ended = symm_graph_end(l->stream, &l->graph);
    return st == SYMM_OK ? ended : st;
}

/* Makes this rank late, or not: each rank by itself, but all know of all. */
static symm_status dawdle(struct stress *x, struct lane *l)
{
    struct stress_stream random = {.seed = l->choice.late_seed ^ (uint64_t)x->s.rank};
    const uint64_t host = stress_below(&random, LATE_HOST_US);
    const uint64_t kernel = stress_below(&random, LATE_KERNEL_ROUNDS);

    if (l->choice.late_by_host)
        nanosleep(&(struct timespec){.tv_nsec = (long)host * 1000}, NULL);
    if (!l->choice.late_by_kernel)
        return SYMM_OK;
    return symm_launch(l->group, x->late, &(symm_grid){.blocks = 1, .threads = 1},
                       &(stress_args){.word = l->word, .rounds = kernel}, sizeof(stress_args),
                       l->stream);
}

static symm_status start(struct stress *x, struct lane *l)
{
    symm_status st;

    if (l->choice.graph)
        TRY(record(l));
    TRY(dawdle(x, l));
    TRY(l->graph ? symm_graph_launch(l->graph, l->stream) : enqueue(l));
    x->calls += (uint64_t)l->choice.repeats;
    x->elements += l->call.count;
out:
    return st;
}

/* -------------------------------------------------------------------------------- its result */

/* Whether [0, room) of a buffer is poison but for [at, at + nbytes). */
static bool is_untouched(const char *buffer, size_t room, size_t at, size_t nbytes)
{
    for (size_t i = 0; i < room; i++) {
        if (i == at)
            i += nbytes;
        if (i < room && (unsigned char)buffer[i] != POISON)
            return false;
    }
    return true;
}

static void check_output(struct stress *x, struct lane *l)
{
    const struct stress_choice *c = &l->choice;
    const size_t at = (size_t)((char *)l->call.out - l->out_at);
    struct sums_verdict verdict;
    char what[256];

    operation_check(c->operation, &l->call, l->out_host + at, c->seed ^ l->salt,
                    c->in_place ? c->repeats : 1, &verdict);
    if (verdict.wrong > 0) {
        snprintf(what, sizeof what,
                 "element %" PRIu64 " is %s and should be %s (%" PRIu64 " are wrong)",
                 verdict.first, verdict.got, verdict.expected, verdict.wrong);
        note_wrong(x, l, what);
    }
}

/* Looks at a lane when its work is done. */
static symm_status look(struct stress *x, struct lane *l)
{
    const size_t out = (size_t)((char *)l->call.out - l->out_at);
    symm_status st;

    TRY(symm_copy(l->out_host, l->out_at, l->extent, l->stream));
    TRY(symm_synchronize(l->group, l->stream));
    check_output(x, l);
    if (l->choice.in_place) { /* what is not output is as it was */
        memcpy(l->in_host + out, l->out_host + out, out_nbytes(l));
        if (memcmp(l->in_host, l->out_host, l->extent) != 0)
            note_wrong(x, l, "something beside the output was written");
        goto out;
    }
    if (!is_untouched(l->out_host, l->extent, out, out_nbytes(l)))
        note_wrong(x, l, "something beside the output was written");
    TRY(symm_copy(l->out_host, l->in_at, l->extent, l->stream));
    TRY(symm_synchronize(l->group, l->stream));
    if (memcmp(l->in_host, l->out_host, l->extent) != 0)
        note_wrong(x, l, "the input was written");
out:
    symm_graph_destroy(l->graph);
    l->graph = NULL;
    return st;
}

/* ----------------------------------------------------------------------------------- the rounds */

/* An algorithm that was named has to run. */
static symm_status check_algos(struct stress *x)
{
    const char *list = x->s.options->algos;
    char algo[64];

    while (strcmp(x->s.options->algos, "all") != 0 && text_next(&list, algo, sizeof algo)) {
        if (!stress_runs(x->s.group, algo))
            return session_refuse(&x->s, "--algo %s runs here in no operation", algo);
    }
    return SYMM_OK;
}

/* Decides what each lane does. Each of them draws as many numbers on all ranks. */
static symm_status choose(struct stress *x)
{
    uint64_t busy = 1 + stress_below(&x->random, (1 << NLANES) - 1);

    for (int i = 0; i < NLANES; i++) {
        struct lane *l = &x->lanes[i];

        l->busy = busy >> i & 1;
        if (!l->busy)
            continue;
        l->choice = stress_choose(&x->random, x->s.options, x->s.group);
        if (!l->choice.operation)
            return session_refuse(&x->s, "no algorithm of --algo %s runs here",
                                  x->s.options->algos);
        /* A smaller group may lack what the world has; then it does what is always there. */
        if (l->choice.operation->unavailable(l->group, l->choice.variant, l->choice.element,
                                             l->choice.op))
            l->choice.variant = &l->choice.operation->variants[0];
        place(l);
    }
    return SYMM_OK;
}

static symm_status play(struct stress *x)
{
    symm_status st;

    TRY(choose(x));
    for (struct lane *l = x->lanes; l < x->lanes + NLANES; l++) {
        if (l->busy)
            TRY(fill(l));
    }
    for (struct lane *l = x->lanes; l < x->lanes + NLANES; l++) {
        if (l->busy)
            TRY(start(x, l));
    }
    for (struct lane *l = x->lanes; l < x->lanes + NLANES; l++) {
        if (l->busy)
            TRY(look(x, l));
    }
    x->rounds++;
out:
    return st;
}

/* Until the time is up by rank 0's clock, or something is wrong. */
static symm_status play_on(struct stress *x, int64_t *wrong)
{
    const double end = now() + x->s.options->seconds;
    int64_t over;
    symm_status st;

    do {
        TRY(play(x));
        TRY(session_sum(&x->s, x->wrong, wrong));
        TRY(session_sum(&x->s, x->s.rank == 0 && now() >= end, &over));
    } while (*wrong == 0 && (!over || x->elements == 0));
out:
    return st;
}

/* --------------------------------------------------------------------------------- opening, end */

/* A group of the ranks that are even, or odd, as this one is. */
static symm_status create_half(struct stress *x, symm_group **out)
{
    int ranks[SYMM_MAX_RANKS], n = 0;

    for (int r = x->s.rank % 2; r < x->s.nranks; r += 2)
        ranks[n++] = r;
    return symm_group_create(x->s.group, n, ranks, out);
}

static symm_status create_twin(struct stress *x, symm_group **out)
{
    int ranks[SYMM_MAX_RANKS];

    for (int r = 0; r < x->s.nranks; r++)
        ranks[r] = r;
    return symm_group_create(x->s.group, x->s.nranks, ranks, out);
}

static symm_status create_room(struct stress *x, struct lane *l, struct room *out)
{
    symm_status st;

    TRY(symm_alloc(l->group, x->room, (void **)&out->symmetric));
    TRY(symm_device_alloc(x->s.ctx, x->room, (void **)&out->plain));
out:
    return st;
}

static symm_status create_lane(struct stress *x, struct lane *l)
{
    symm_status st;

    TRY(symm_stream_create(x->s.ctx, &l->stream));
    TRY(create_room(x, l, &l->in));
    TRY(create_room(x, l, &l->out));
    TRY(symm_device_alloc(x->s.ctx, sizeof *l->word, (void **)&l->word));
    TRY(symm_fill(l->word, 0, sizeof *l->word, l->stream));
    l->in_host = malloc(x->room);
    l->out_host = malloc(x->room);
    if (!l->in_host || !l->out_host)
        st = SYMM_ERROR_MEMORY;
out:
    return st;
}

static symm_status create_lanes(struct stress *x)
{
    struct lane *l = x->lanes;
    symm_status st;

    /* The count may be less than the ranks and then grows to that. */
    x->room = room_for((size_t)x->s.options->max_bytes + (size_t)x->s.nranks * sizeof(double));
    l[0].name = "world";
    l[0].group = x->s.group;
    l[0].of_world = true;
    l[1].name = "twin";
    TRY(create_twin(x, &l[1].group));
    l[2].name = x->s.rank % 2 ? "odd" : "even";
    l[2].salt = (uint64_t)x->s.rank % 2 << 60;
    TRY(create_half(x, &l[2].group));
    for (int i = 0; i < NLANES; i++)
        TRY(create_lane(x, &l[i]));
out:
    return st;
}

static void destroy_lane(struct stress *x, struct lane *l)
{
    symm_graph_destroy(l->graph);
    if (l->in.plain)
        symm_device_free(x->s.ctx, l->in.plain);
    if (l->out.plain)
        symm_device_free(x->s.ctx, l->out.plain);
    if (l->word)
        symm_device_free(x->s.ctx, l->word);
    if (!l->of_world)
        symm_group_destroy(l->group);
    symm_stream_destroy(l->stream);
    free(l->in_host);
    free(l->out_host);
}

static symm_status run(struct stress *x, struct bench_options *options, int64_t *wrong)
{
    symm_status st;

    TRY(session_open(&x->s, options));
    if (options->max_bytes == 0)
        options->max_bytes = x->s.emulated ? 64 << 10 : 16 << 20;
    x->random.seed = x->s.seed;
    session_introduce(&x->s, "stress");
    TRY(check_algos(x));
    TRY(symm_kernel_load(x->s.ctx, &stress_kernels, "stress_delay", &x->late));
    TRY(create_lanes(x));
    TRY(play_on(x, wrong));
    report_say(x->s.report,
               "# %" PRIu64 " rounds, %" PRIu64 " calls, %" PRIu64 " elements checked, %s",
               x->rounds, x->calls, x->elements, *wrong ? "WRONG" : "none wrong");
out:
    return st;
}

int stress_run(struct bench_options *options)
{
    struct stress x = {.lanes = {{0}}};
    char error[1024];
    int64_t wrong = 0;
    bool failed = session_failed(&x.s, run(&x, options, &wrong), NULL, error);

    for (int i = 0; i < NLANES; i++)
        destroy_lane(&x, &x.lanes[i]);
    return !session_close(&x.s, failed ? error : NULL) || failed || wrong > 0;
}
