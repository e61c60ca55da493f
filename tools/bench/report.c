/* Table, JSON and CSV of a run. All three have the same columns. */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "operation.h"

struct report {
    const struct bench_options *options;
    bool speaks;
    int nranks;
    FILE *json_file, *csv_file;
    json_t *json; /* jansson's calls accept NULL and fail; report_close() sees it */
};

static FILE *open_file(const char *path, char why[512], bool *ok)
{
    FILE *file = path ? fopen(path, "we") : NULL;

    if (path && !file) {
        snprintf(why, 512, "%.300s: %s", path, strerror(errno));
        *ok = false;
    }
    return file;
}

struct report *report_open(const struct bench_options *o, bool speaks, char why[512])
{
    struct report *r = calloc(1, sizeof *r);
    bool ok = r != NULL;

    if (!r) {
        snprintf(why, 512, "out of memory");
        return NULL;
    }
    r->options = o;
    r->speaks = speaks;
    if (!speaks)
        return r;
    r->json_file = open_file(o->json, why, &ok);
    r->csv_file = open_file(o->csv, why, &ok);
    r->json = json_object();
    if (ok)
        return r;
    report_close(r, why);
    return NULL;
}

static json_t *options_as_json(const struct report_about *about)
{
    const struct bench_options *o = about->options;

    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:b, s:b, s:b, s:s, s:s?}", "algo", o->algos,
                     "dtype", o->element->name, "iters", o->iters, "warmup", o->warmup,
                     "operations", about->nops, "graph", o->graph, "in_place", o->in_place, "check",
                     o->check, "memory", o->plain_memory ? "plain" : "symmetric", "peer",
                     o->nccl ? "nccl" : NULL);
}

static void about_as_json(struct report *r, const struct report_about *about)
{
    char version[32], seed[32];

    snprintf(version, sizeof version, "%d.%d.%d", SYMM_VERSION_MAJOR, SYMM_VERSION_MINOR,
             SYMM_VERSION_PATCH);
    /* As text: a JSON number may lose bits of it. */
    snprintf(seed, sizeof seed, "0x%" PRIx64, about->seed);
    json_t *head = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:s?, s:o}", "version", version, "operation",
        about->options->operation->name, "driver", about->driver, "device", about->device,
        "timings", about->emulated ? "emulated, no performance" : "measured", "ranks",
        about->nranks, "seed", seed, "nccl", about->nccl, "options", options_as_json(about));
    json_object_update(r->json, head);
    json_object_set_new(r->json, "unavailable", json_array());
    json_object_set_new(r->json, "rows", json_array());
    json_decref(head);
}

void report_about(struct report *r, const struct report_about *about)
{
    const struct bench_options *o = about->options;

    r->nranks = about->nranks;
    if (!r->speaks)
        return;
    about_as_json(r, about);
    printf("# symm-bench %d.%d.%d %s: %d rank%s, %s driver, %s\n", SYMM_VERSION_MAJOR,
           SYMM_VERSION_MINOR, SYMM_VERSION_PATCH, o->operation->name, about->nranks,
           about->nranks == 1 ? "" : "s", about->driver, about->device);
    if (about->why_driver[0])
        printf("# %s driver: %s\n", about->driver, about->why_driver);
    printf("# %d repetition%s of %d operations after %d to warm up, %s, %s memory\n", o->iters,
           o->iters == 1 ? "" : "s", about->nops, o->warmup,
           o->graph ? "one graph each" : "enqueued one by one",
           o->plain_memory ? "plain" : "symmetric");
    if (about->nccl)
        printf("# NCCL %s\n", about->nccl);
    if (o->check)
        printf("# seed 0x%" PRIx64 "\n", about->seed);
    if (about->emulated)
        printf(
            "# the times are those of an emulation on CPUs; they say nothing about performance\n");
}

void report_unavailable(struct report *r, const char *algo, const char *reason)
{
    if (!r->speaks)
        return;
    printf("# %s: not available: %s\n", algo, reason);
    json_array_append_new(json_object_get(r->json, "unavailable"),
                          json_pack("{s:s, s:s}", "algo", algo, "reason", reason));
}

void report_columns(struct report *r)
{
    if (!r->speaks)
        return;
    printf("#%10s %11s %5s %4s %17s %5s %8s %11s %11s %8s %8s %8s\n", "bytes", "count", "dtype",
           "op", "algo", "ranks", "in_place", "time_us", "p95_us", "algbw", "busbw", "wrong");
    fflush(stdout);
    if (r->csv_file)
        fprintf(r->csv_file,
                "bytes,count,dtype,op,algo,ranks,in_place,time_us,p95_us,algbw,busbw,wrong\n");
}

static void row_as_json(struct report *r, const struct report_row *row)
{
    const struct bench_options *o = r->options;
    json_t *wrong = row->wrong < 0 ? json_null() : json_integer(row->wrong);

    json_array_append_new(
        json_object_get(r->json, "rows"),
        json_pack("{s:I, s:I, s:s, s:s, s:s, s:i, s:b, s:f, s:f, s:f, s:f, s:o}", "bytes",
                  (json_int_t)row->nbytes, "count", (json_int_t)row->count, "dtype",
                  o->element->name, "op", o->operation->op, "algo", row->algo, "ranks", r->nranks,
                  "in_place", row->in_place, "time_us", row->time_us, "p95_us", row->p95_us,
                  "algbw", row->algbw, "busbw", row->busbw, "wrong", wrong));
}

void report_row(struct report *r, const struct report_row *row)
{
    const struct bench_options *o = r->options;
    const char *in_place = row->in_place ? "yes" : "no";
    char wrong[24] = "-";

    if (!r->speaks)
        return;
    if (row->wrong >= 0)
        snprintf(wrong, sizeof wrong, "%" PRId64, row->wrong);
    printf("%11" PRIu64 " %11" PRIu64 " %5s %4s %17s %5d %8s %11.2f %11.2f %8.2f %8.2f %8s\n",
           row->nbytes, row->count, o->element->name, o->operation->op, row->algo, r->nranks,
           in_place, row->time_us, row->p95_us, row->algbw, row->busbw, wrong);
    fflush(stdout);
    row_as_json(r, row);
    if (r->csv_file)
        fprintf(r->csv_file, "%" PRIu64 ",%" PRIu64 ",%s,%s,%s,%d,%s,%.3f,%.3f,%.4f,%.4f,%s\n",
                row->nbytes, row->count, o->element->name, o->operation->op, row->algo, r->nranks,
                in_place, row->time_us, row->p95_us, row->algbw, row->busbw, wrong);
}

static bool close_file(FILE *file, const char *path, bool ok)
{
    if (!file)
        return true;
    ok = !ferror(file) && ok;
    ok = fclose(file) == 0 && ok;
    if (!ok)
        fprintf(stderr, "# symm-bench: %s: could not be written\n", path);
    return ok;
}

bool report_close(struct report *r, const char *error)
{
    bool ok = true;

    if (!r)
        return true;
    if (r->json_file) {
        if (error)
            json_object_set_new(r->json, "error", json_string(error));
        bool dumped =
            json_dumpf(r->json, r->json_file, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0 &&
            fputc('\n', r->json_file) != EOF;
        ok = close_file(r->json_file, r->options->json, dumped);
    }
    ok = close_file(r->csv_file, r->options->csv, true) && ok;
    if (r->speaks && (fflush(stdout) != 0 || ferror(stdout))) {
        fprintf(stderr, "# symm-bench: the table could not be written\n");
        ok = false;
    }
    json_decref(r->json);
    free(r);
    return ok;
}
