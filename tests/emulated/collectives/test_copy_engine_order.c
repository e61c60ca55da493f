/*
 * The order of a call by copy engines, as the driver gets it: which copies there are, that no two
 * of a rank can be under way at once and that ranks go through the others in the same rotation;
 * what each copy and each kernel comes after, and that it waits for no more than that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/collectives.h>
#include "collectives/copy_engine.h"
#include "runtime/group/context.h"
#include "test.h"
#include "trace.h"
#include "world.h"

enum { STEPS = 512, MOST = 1 << 20 };

/* ---- The trace ---- */

enum { CALLER, SIDE, NSTREAMS };

/* A kernel or a copy; `after`: the number of earlier steps of each stream, its own included. */
struct step {
    int stream;
    void *function; /* NULL: a copy */
    char *to, *from;
    size_t nbytes;
    int after[NSTREAMS];
};

struct event {
    void *event;
    int after[NSTREAMS];
};

/* The enqueued steps of each stream, in order. */
struct trace {
    void *streams[NSTREAMS];
    struct step steps[NSTREAMS][STEPS];
    int n[NSTREAMS];
    int knows[NSTREAMS][NSTREAMS]; /* steps of the other stream before the next step */
    struct event events[STEPS];
    int nevents;
};

/* The stream's number; the first that is not the caller's is the side stream; -1: a third one. */
static int number_of(struct trace *t, void *stream)
{
    if (stream == t->streams[CALLER])
        return CALLER;
    if (!t->streams[SIDE])
        t->streams[SIDE] = stream;
    return stream == t->streams[SIDE] ? SIDE : -1;
}

static struct event *event_of(struct trace *t, void *event)
{
    int i = 0;

    while (i < t->nevents && t->events[i].event != event)
        i++;
    if (i == t->nevents)
        t->events[t->nevents++] = (struct event){.event = event};
    return &t->events[i];
}

/*
 * An event stands for the last record before the wait. False: work in a third stream, or too much.
 */
static bool take_line(void *arg, const char *line)
{
    struct trace *t = arg;
    struct step step = {.stream = -1};
    void *stream, *event;

    if (sscanf(line, "cuEventRecord(event=%p stream=%p)", &event, &stream) == 2) {
        const int s = number_of(t, stream);
        if (s >= 0) {
            t->knows[s][s] = t->n[s];
            memcpy(event_of(t, event)->after, t->knows[s], sizeof t->knows[s]);
        }
        return s >= 0;
    }
    if (sscanf(line, "cuStreamWaitEvent(stream=%p event=%p", &stream, &event) == 2) {
        const int s = number_of(t, stream);
        for (int i = 0; i < NSTREAMS && s >= 0; i++)
            if (t->knows[s][i] < event_of(t, event)->after[i])
                t->knows[s][i] = event_of(t, event)->after[i];
        return s >= 0;
    }
    if (sscanf(line, "cuMemcpyAsync(dst=%p src=%p nbytes=%zu stream=%p)", (void **)&step.to,
               (void **)&step.from, &step.nbytes, &stream) != 4 &&
        sscanf(
            line,
            "cuLaunchKernelEx(function=%p grid=%*u,%*u,%*u block=%*u,%*u,%*u early=%*d stream=%p)",
            &step.function, &stream) != 2)
        return true;
    step.stream = number_of(t, stream);
    if (step.stream < 0 || t->n[step.stream] == STEPS)
        return false;
    t->knows[step.stream][step.stream] = t->n[step.stream];
    memcpy(step.after, t->knows[step.stream], sizeof step.after);
    t->steps[step.stream][t->n[step.stream]++] = step;
    return true;
}

/* ---- The expected order ---- */

struct way {
    enum symm_operation operation;
    int nranks;
    size_t share; /* bytes, of each rank */
    uint64_t chunks;
    bool in_place;
};

static const struct way ways[] = {
    {SYMM_OPERATION_ALL_REDUCE, 2, 16, 1, false},
    {SYMM_OPERATION_ALL_REDUCE, 2, 65536, 1, false},
    {SYMM_OPERATION_ALL_REDUCE, 3, 40000, 3, true},
    {SYMM_OPERATION_ALL_REDUCE, 4, 100000, 10, false},
    {SYMM_OPERATION_ALL_REDUCE, 5, 30000, 4, true},
    {SYMM_OPERATION_REDUCE_SCATTER, 2, 16, 1, false},
    {SYMM_OPERATION_REDUCE_SCATTER, 3, 40000, 4, false},
    {SYMM_OPERATION_REDUCE_SCATTER, 4, 100000, 10, true},
    {SYMM_OPERATION_ALL_GATHER, 2, 48, 0, true},
    {SYMM_OPERATION_ALL_GATHER, 5, 20000, 0, false},
    {SYMM_OPERATION_BROADCAST, 2, 48, 0, true},
    {SYMM_OPERATION_BROADCAST, 5, 20000, 0, false},
};
enum { NWAYS = sizeof ways / sizeof ways[0], ROOT = 1 };

/* A call and its trace. */
struct look {
    struct rank *self;
    const struct way *way;
    symm_group *group;
    char *in, *out;
    struct symm_copy_chunks chunks;
    struct trace trace;
    int ncopies; /* checked ones of the side stream */
};

static char *peer(const struct look *l, const char *local, int rank)
{
    return (char *)((uintptr_t)local + (uintptr_t)l->group->view.peer[rank]);
}

/* Checks the next copies, one to each other rank: nbytes from `from` and its distance on. */
static void take_copies(struct look *l, const char *to, const char *from, size_t apart,
                        size_t nbytes)
{
    const int n = l->way->nranks, rank = l->self->rank;

    for (int k = 1; k < n; k++) {
        const int r = (rank + k) % n;
        const struct step *s = &l->trace.steps[SIDE][l->ncopies];
        CHECK_RANK_MSG(l->self, l->ncopies++ < l->trace.n[SIDE], "copies to rank %d: none", r);
        /* This rank has its own slots in the staging area of rank r. */
        const char *at = apart ? to + (rank < r ? rank : rank - 1) * (int64_t)l->chunks.stride : to;
        CHECK_RANK_MSG(l->self,
                       !s->function && s->to == peer(l, at, r) &&
                           s->from == from + (size_t)r * apart && s->nbytes == nbytes,
                       "copy %d is no copy of %zu bytes to rank %d", l->ncopies - 1, nbytes, r);
    }
out:;
}

static size_t length_of(const struct look *l, uint64_t chunk)
{
    const size_t left = l->way->share - chunk * l->chunks.nbytes;
    return left < l->chunks.nbytes ? left : l->chunks.nbytes;
}

static void take_scatter(struct look *l, uint64_t chunk)
{
    take_copies(l, symm__group_areas(l->group)->staging + chunk % 2 * l->chunks.nbytes,
                l->in + chunk * l->chunks.nbytes, l->way->share, length_of(l, chunk));
}

static void take_gather(struct look *l, uint64_t chunk)
{
    const char *mine = l->out + (size_t)l->self->rank * l->way->share + chunk * l->chunks.nbytes;
    take_copies(l, mine, mine, 0, length_of(l, chunk));
}

/* Kernel i. With reductions there are two a chunk, of which the first is the barrier. */
static const struct step *kernel(const struct look *l, uint64_t i)
{
    return &l->trace.steps[CALLER][i];
}

static uint64_t meeting_for(uint64_t chunk)
{
    return 1 + 2 * chunk;
}

/* Steps of the other stream before the side stream's copies from `first` on. */
static void assert_after(const struct look *l, int first, uint64_t kernels)
{
    for (int i = first; i < l->ncopies; i++)
        CHECK_RANK_MSG(l->self, l->trace.steps[SIDE][i].after[CALLER] == (int)kernels,
                       "copy %d comes after %d kernels, not %d", i,
                       l->trace.steps[SIDE][i].after[CALLER], (int)kernels);
out:;
}

/* The first copies follow the first barrier, a scatter the barrier of the chunk before. */
static void check_chunk(struct look *l, uint64_t c)
{
    const bool to_all = l->way->operation == SYMM_OPERATION_ALL_REDUCE, last = c + 1 == l->chunks.n;
    const struct step *meeting = kernel(l, meeting_for(c));
    const int scattered = l->ncopies;

    /* It need not wait for the gather before it, which is enqueued after this scatter. */
    const int gathered = to_all && c > 0 ? l->way->nranks - 1 : 0;
    CHECK_RANK_MSG(l->self, meeting->after[SIDE] == scattered - gathered,
                   "the meeting for chunk %d comes after %d copies, not %d", (int)c,
                   meeting->after[SIDE], scattered - gathered);
    CHECK_RANK(l->self, meeting->function != kernel(l, meeting_for(c) + 1)->function);
    CHECK_RANK(l->self, meeting->function == kernel(l, meeting_for(0))->function);
    if (!last) {
        take_scatter(l, c + 1);
        /* From the third chunk on another chunk has used its slot. */
        assert_after(l, scattered, c > 0 ? meeting_for(c) + 1 : 1);
    }
    if (to_all) {
        const int first = l->ncopies;
        take_gather(l, c);
        assert_after(l, first, meeting_for(c) + 2);
    }
out:;
}

static void check_chunks(struct look *l)
{
    const struct trace *t = &l->trace;
    const int kernels = (int)meeting_for(l->chunks.n) + 1;

    CHECK_RANK_MSG(l->self, l->chunks.n == l->way->chunks, "%d chunks", (int)l->chunks.n);
    CHECK_RANK_MSG(l->self, t->n[CALLER] == kernels, "%d kernels", t->n[CALLER]);
    take_scatter(l, 0);
    assert_after(l, 0, 1);
    for (uint64_t c = 0; c < l->chunks.n; c++)
        check_chunk(l, c);
    CHECK_RANK(l->self, kernel(l, meeting_for(l->chunks.n))->function ==
                            kernel(l, meeting_for(0))->function);
out:;
}

/* This rank's elements go to `mine` of all ranks. */
static void check_gather(struct look *l, char *mine)
{
    const size_t share = l->way->share;
    const int own = l->way->in_place ? 0 : 1;

    CHECK_RANK_MSG(l->self, l->trace.n[CALLER] == 2 + own, "%d kernels", l->trace.n[CALLER]);
    CHECK_RANK(l->self, !own || kernel(l, 1)->to == mine);
    take_copies(l, mine, l->way->in_place ? mine : l->in, 0, share);
    assert_after(l, 0, 1);
out:;
}

static void check_order(struct look *l)
{
    const struct trace *t = &l->trace;

    for (int i = 0; i < t->n[SIDE]; i++)
        CHECK_RANK(l->self, !t->steps[SIDE][i].function);
    if (l->way->operation == SYMM_OPERATION_ALL_GATHER)
        check_gather(l, l->out + (size_t)l->self->rank * l->way->share);
    else if (l->way->operation == SYMM_OPERATION_BROADCAST && l->self->rank == ROOT)
        check_gather(l, l->out);
    else if (l->way->operation == SYMM_OPERATION_BROADCAST)
        CHECK_RANK(l->self, t->n[CALLER] == 2 && t->n[SIDE] == 0);
    else
        check_chunks(l);
    CHECK_RANK_MSG(l->self, l->ncopies == t->n[SIDE], "%d copies, not %d", t->n[SIDE], l->ncopies);
    CHECK_RANK(l->self, t->steps[CALLER][t->n[CALLER] - 1].after[SIDE] == t->n[SIDE]);
out:;
}

static symm_status call(const struct look *l, symm_stream stream)
{
    const symm_options options = {.algo = SYMM_ALGO_COPY_ENGINE};
    const size_t count = l->way->share / sizeof(int32_t);

    switch (l->way->operation) {
    case SYMM_OPERATION_ALL_REDUCE:
        return symm_all_reduce(l->group, l->in, l->out, count * (size_t)l->way->nranks, SYMM_INT32,
                               SYMM_SUM, &options, stream);
    case SYMM_OPERATION_REDUCE_SCATTER:
        return symm_reduce_scatter(l->group, l->in, l->out, count, SYMM_INT32, SYMM_SUM, &options,
                                   stream);
    case SYMM_OPERATION_BROADCAST:
        return symm_broadcast(l->group, l->self->rank == ROOT ? l->in : NULL, l->out, count,
                              SYMM_INT32, ROOT, &options, stream);
    default:
        return symm_all_gather(l->group, l->in, l->out, count, SYMM_INT32, &options, stream);
    }
}

static void place(struct look *l, char *in, char *out)
{
    const size_t mine = (size_t)l->self->rank * l->way->share;

    l->in = in;
    l->out = out;
    if (l->way->in_place && l->way->operation == SYMM_OPERATION_ALL_GATHER)
        l->in = out + mine;
    else if (l->way->in_place)
        l->out = in + (l->way->operation == SYMM_OPERATION_REDUCE_SCATTER ? mine : 0);
}

WORLD_RANK(trace_a_call)
{
    struct look *l = calloc(1, sizeof *l);
    char *in = NULL, *out = NULL;
    long at = 0;

    *l = (struct look){.self = self, .way = arg, .group = world};
    RANK_TRY(self, symm_alloc(world, MOST, (void **)&in));
    RANK_TRY(self, symm_alloc(world, MOST, (void **)&out));
    place(l, in, out);
    for (int i = 0; i < 2; i++) { /* the first call creates the side stream */
        l->trace = (struct trace){.streams = {s}};
        CHECK_RANK(self, trace_read(self->rank, &at, NULL, NULL));
        RANK_TRY(self, call(l, s));
        CHECK_RANK(self, trace_read(self->rank, &at, take_line, &l->trace));
        RANK_TRY(self, symm_synchronize(world, s));
    }
    if (l->way->chunks)
        l->chunks = symm__copy_chunks(
            &(struct symm_copy_share){.nbytes = l->way->share,
                                      .nranks = self->nranks,
                                      .gathered = l->way->operation == SYMM_OPERATION_ALL_REDUCE},
            symm__group_areas(l->group)->size.staging_nbytes);
    check_order(l);
out:
    symm_free(world, in);
    symm_free(world, out);
    free(l);
}

TEST_GROUP(order, 60);

TEST_LOOP(order, copies_follow_each_other_and_wait_for_nothing_else, 0, NWAYS)
{
    struct way way = ways[_i];

    setenv("SYMM_STAGING_BYTES", "64K", 1);
    trace_begin();
    ranks_run_ok(way.nranks, RANKS_AS_PROCESSES, trace_a_call, &way, 60);
    trace_end();
}
