/*
 * Timelines in Chrome's trace format. A rank is a process there. Each role of an SM is a thread, of
 * several lanes if its events overlap without being nested, which the format does not allow.
 */
#include "timeline_file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_NESTED = 8, MAX_CHUNKS = 64 };

/* One line of a rank. Sends have no SM: many blocks send a chunk. */
struct lane {
    int rank, sm, role, thread, to, number; /* to: the receiver of sends */
    uint64_t ends[MAX_NESTED]; /* of the events that are open, the first one ends last */
    int nested;
};

struct lanes {
    struct lane *all;
    size_t n, capacity;
};

struct output {
    FILE *file;
    struct lanes lanes;
    size_t elements;
    bool failed;
};

/* -------------------------------------------------------------------------------------- clocks */

/*
 * The time of a rank's clock that all ranks have at about the same moment: when the last rank has
 * allowed it to send; without such waits its first event.
 */
static uint64_t origin_of(const struct timeline_rank *rank)
{
    uint64_t last = 0;

    for (size_t i = 0; i < rank->n; i++)
        if (rank->events[i].kind == SYMM_MATMUL_EVENT_WAIT_WORKSPACE && rank->events[i].end > last)
            last = rank->events[i].end;
    return last || rank->n == 0 ? last : rank->events[0].begin;
}

/* Nanoseconds of each rank's clock at the beginning of the picture. */
static void find_begins(const struct timeline *t, uint64_t begins[SYMM_MAX_RANKS])
{
    uint64_t before = 0; /* the longest time from an event to the common moment */

    for (int r = 0; r < t->nranks; r++) {
        const struct timeline_rank *rank = &t->ranks[r];
        begins[r] = t->one_clock ? INT64_MAX : origin_of(rank);
        if (rank->n > 0 && begins[r] - rank->events[0].begin > before)
            before = begins[r] - rank->events[0].begin;
    }
    for (int r = 0; r < t->nranks; r++)
        begins[r] -= before;
}

/* --------------------------------------------------------------------------------------- lanes */

static struct lane lane_of(int rank, const symm_matmul_event *e)
{
    struct lane lane = {.rank = rank, .sm = e->sm, .role = e->role, .thread = e->thread};

    if (e->kind == SYMM_MATMUL_EVENT_SEND)
        lane = (struct lane){.rank = rank, .sm = -1, .role = e->role, .to = e->rank};
    return lane;
}

/* Without the number of the lane. */
static int compare(const struct lane *a, const struct lane *b)
{
    const int x[] = {a->rank, a->sm, a->role, a->thread, a->to},
              y[] = {b->rank, b->sm, b->role, b->thread, b->to};

    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static int compare_lanes(const void *x, const void *y)
{
    const struct lane *a = x, *b = y;
    const int order = compare(a, b);

    return order ? order : a->number - b->number;
}

/* Whether the event fits behind or into those of the lane; then it is the lane's last one. */
static bool takes(struct lane *lane, const symm_matmul_event *e)
{
    while (lane->nested > 0 && lane->ends[lane->nested - 1] <= e->begin)
        lane->nested--;
    if (lane->nested == MAX_NESTED || (lane->nested > 0 && lane->ends[lane->nested - 1] < e->end))
        return false;
    lane->ends[lane->nested++] = e->end;
    return true;
}

/* The lane that takes the event, which may be a new one. NULL: out of memory. */
static struct lane *place(struct lanes *lanes, int rank, const symm_matmul_event *e)
{
    struct lane lane = lane_of(rank, e);

    for (size_t i = 0; i < lanes->n; i++) {
        if (compare(&lanes->all[i], &lane) != 0)
            continue;
        if (takes(&lanes->all[i], e))
            return &lanes->all[i];
        lane.number++;
    }
    if (lanes->n == lanes->capacity) {
        const size_t capacity = 2 * lanes->capacity + 64;
        struct lane *all = realloc(lanes->all, capacity * sizeof *all);
        if (!all)
            return NULL;
        lanes->all = all;
        lanes->capacity = capacity;
    }
    takes(&lane, e);
    lanes->all[lanes->n] = lane;
    return &lanes->all[lanes->n++];
}

/* Makes the lanes of all events, in the order in which they are shown. */
static bool find_lanes(const struct timeline *t, struct lanes *lanes)
{
    for (int r = 0; r < t->nranks; r++)
        for (size_t i = 0; i < t->ranks[r].n; i++)
            if (!place(lanes, r, &t->ranks[r].events[i]))
                return false;
    if (lanes->n > 0)
        qsort(lanes->all, lanes->n, sizeof *lanes->all, compare_lanes);
    for (size_t i = 0; i < lanes->n; i++)
        lanes->all[i].nested = 0;
    return true;
}

/* -------------------------------------------------------------------------------------- writing */

static const char *kind_name(int kind)
{
    switch (kind) {
#define NAME(id, value, name, text)                                                                \
    case value:                                                                                    \
        return name;
        SYMM_MATMUL_EVENT_MAP(NAME)
    default:
        return "unknown";
    }
}

static const char *role_name(int role)
{
    switch (role) {
        SYMM_MATMUL_ROLE_MAP(NAME)
#undef NAME
    default:
        return "unknown";
    }
}

/* Writes an element of the list of events, and releases it. */
static void write_element(struct output *out, json_t *element)
{
    fputs(out->elements++ > 0 ? ",\n" : "", out->file);
    if (!element || json_dumpf(element, out->file, JSON_COMPACT | JSON_REAL_PRECISION(15)) != 0)
        out->failed = true;
    json_decref(element);
}

static void write_name(struct output *out, const char *what, int rank, int lane, const char *name)
{
    write_element(out, json_pack("{s:s, s:i, s:i, s:s, s:{s:s}}", "ph", "M", "pid", rank, "tid",
                                 lane, "name", what, "args", "name", name));
}

/* Of the Hopper kernel one thread of a role records. */
static void name_lane(const struct lane *lane, char name[64])
{
    const char *const role = role_name(lane->role);

    if (lane->sm < 0)
        snprintf(name, 64, "sends to rank %d", lane->to);
    else if (lane->role == SYMM_MATMUL_ROLE_BLOCK || lane->role == SYMM_MATMUL_ROLE_ROUND)
        snprintf(name, 64, "SM %d %s, thread %d", lane->sm, role, lane->thread);
    else
        snprintf(name, 64, "SM %d %s", lane->sm, role);
}

/* Lane 0 of a rank has the arrivals. */
static void write_names(struct output *out, const struct timeline *t)
{
    char name[64];

    for (int r = 0; r < t->nranks; r++) {
        snprintf(name, sizeof name, "rank %d", r);
        write_name(out, "process_name", r, 0, name);
        write_name(out, "thread_name", r, 0, "arrivals");
    }
    for (size_t i = 0; i < out->lanes.n; i++) {
        name_lane(&out->lanes.all[i], name);
        write_name(out, "thread_name", out->lanes.all[i].rank, (int)i + 1, name);
    }
}

/* Adds whose rows or workspace an event is about. */
static void name_event(const symm_matmul_event *e, char name[64])
{
    const char *const kind = kind_name(e->kind);

    switch (e->kind) {
    case SYMM_MATMUL_EVENT_OPEN_ROUND:
        snprintf(name, 64, "%s", kind);
        break;
    default:
        snprintf(name, 64, "%s %s rank %d", kind, e->kind == SYMM_MATMUL_EVENT_SEND ? "to" : "of",
                 e->rank);
    }
}

static json_t *arguments_of(const symm_matmul_event *e)
{
    if (e->kind == SYMM_MATMUL_EVENT_TILE)
        return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "block", e->block, "rank",
                         e->rank, "product", e->product, "batch", e->batch, "row", e->row, "column",
                         e->column, "rows", e->rows, "columns", e->columns);
    return json_pack("{s:i, s:i, s:i}", "block", e->block, "rank", e->rank, "chunk", e->chunk);
}

static double us(uint64_t ns)
{
    return (double)ns / 1e3;
}

static void write_event(struct output *out, int rank, const symm_matmul_event *e, uint64_t begin)
{
    const struct lane *lane = place(&out->lanes, rank, e);
    char name[64];

    name_event(e, name);
    write_element(out, json_pack("{s:s, s:i, s:i, s:f, s:f, s:s, s:s, s:o}", "ph", "X", "pid", rank,
                                 "tid", (int)(lane - out->lanes.all) + 1, "ts",
                                 us(e->begin - begin), "dur", us(e->end - e->begin), "cat",
                                 kind_name(e->kind), "name", name, "args", arguments_of(e)));
}

static void write_arrival(struct output *out, int number, int from, int chunk, uint64_t ns)
{
    char name[64];

    snprintf(name, sizeof name, "chunk %d of rank %d has arrived", chunk, from);
    write_element(out, json_pack("{s:s, s:s, s:i, s:i, s:f, s:s, s:s, s:{s:i, s:i}}", "ph", "i",
                                 "s", "t", "pid", number, "tid", 0, "ts", us(ns), "cat", "arrived",
                                 "name", name, "args", "rank", from, "chunk", chunk));
}

/* Marks when each chunk was first seen by a thread that waited for it. */
static void write_arrivals(struct output *out, const struct timeline_rank *rank, int number,
                           uint64_t begin)
{
    uint64_t seen[SYMM_MAX_RANKS][MAX_CHUNKS] = {{0}};

    for (const symm_matmul_event *e = rank->events; e < rank->events + rank->n; e++) {
        if (e->kind != SYMM_MATMUL_EVENT_WAIT_ROWS || e->chunk >= MAX_CHUNKS)
            continue;
        uint64_t *at = &seen[e->rank][e->chunk];
        *at = *at && *at < e->end ? *at : e->end;
    }
    for (int r = 0; r < SYMM_MAX_RANKS; r++)
        for (int c = 0; c < MAX_CHUNKS; c++)
            if (seen[r][c])
                write_arrival(out, number, r, c, seen[r][c] - begin);
}

static void write_all(struct output *out, const struct timeline *t)
{
    uint64_t begins[SYMM_MAX_RANKS];
    size_t dropped = 0;

    find_begins(t, begins);
    fputs("{\"displayTimeUnit\":\"ns\",\n\"traceEvents\":[\n", out->file);
    write_names(out, t);
    for (int r = 0; r < t->nranks; r++) {
        const struct timeline_rank *rank = &t->ranks[r];
        for (size_t i = 0; i < rank->n; i++)
            write_event(out, r, &rank->events[i], begins[r]);
        write_arrivals(out, rank, r, begins[r]);
        dropped += rank->dropped;
    }
    fputs("\n],\n\"otherData\":", out->file);
    out->elements = 0;
    write_element(out, json_pack("{s:s, s:s, s:i, s:I}", "title", t->title, "driver", t->driver,
                                 "ranks", t->nranks, "dropped", (json_int_t)dropped));
    fputs("}\n", out->file);
}

bool timeline_file_write(const struct timeline *t, const char *path)
{
    struct output out = {.file = NULL};
    bool written = find_lanes(t, &out.lanes);

    if (written)
        out.file = fopen(path, "we");
    if (out.file) {
        write_all(&out, t);
        written = !out.failed && !ferror(out.file);
    }
    written = out.file && fclose(out.file) == 0 && written;
    free(out.lanes.all);
    return written;
}
