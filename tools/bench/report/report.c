/* Table, JSON and CSV of a run. */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "common/json_text.h"

struct report {
    const struct bench_options *options;
    bool speaks;
    const struct report_column *columns;
    int ncolumns;
    uint64_t nrows;
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

void report_head(struct report *r, json_t *head)
{
    json_object_update(r->json, head);
    json_decref(head);
}

void report_say(struct report *r, const char *format, ...)
{
    va_list args;

    if (!r->speaks)
        return;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

/* A member that is an array; creates it at first. */
static json_t *list(struct report *r, const char *name)
{
    if (!json_object_get(r->json, name))
        json_object_set_new(r->json, name, json_array());
    return json_object_get(r->json, name);
}

void report_unavailable(struct report *r, const char *what, const char *reason)
{
    report_say(r, "# %s: not available: %s", what, reason);
    json_array_append_new(list(r, "unavailable"),
                          json_pack("{s:s, s:s}", "algo", what, "reason", reason));
}

void report_columns(struct report *r, const struct report_column *columns, int ncolumns)
{
    r->columns = columns;
    r->ncolumns = ncolumns;
    list(r, "unavailable");
    list(r, "rows");
    if (!r->speaks)
        return;
    for (int i = 0; i < ncolumns; i++)
        printf("%s%*s", i == 0 ? "#" : " ", columns[i].width - (i == 0), columns[i].name);
    putchar('\n');
    fflush(stdout);
    for (int i = 0; r->csv_file && i < ncolumns; i++)
        fprintf(r->csv_file, "%s%c", columns[i].name, i + 1 < ncolumns ? ',' : '\n');
}

/* A value as text; digits: after the point. */
static const char *as_text(enum report_kind kind, const union report_value *value, int digits,
                           char buffer[32])
{
    if (kind == REPORT_WORD)
        return value->word;
    if (kind == REPORT_FLAG)
        return value->flag ? "yes" : "no";
    if (kind == REPORT_COUNT)
        snprintf(buffer, 32, "%" PRIu64, value->count);
    else if (kind == REPORT_REAL && !isnan(value->real))
        snprintf(buffer, 32, "%.*f", digits, value->real);
    else if (kind == REPORT_WRONG && value->wrong >= 0)
        snprintf(buffer, 32, "%" PRId64, value->wrong);
    else
        snprintf(buffer, 32, "-");
    return buffer;
}

static json_t *as_json(enum report_kind kind, const union report_value *value)
{
    switch (kind) {
    case REPORT_COUNT:
        return json_integer((json_int_t)value->count);
    case REPORT_WORD:
        return json_string(value->word);
    case REPORT_FLAG:
        return json_boolean(value->flag);
    case REPORT_REAL:
        return isnan(value->real) ? json_null() : json_real(value->real);
    default:
        return value->wrong < 0 ? json_null() : json_integer(value->wrong);
    }
}

void report_row(struct report *r, const union report_value *values)
{
    json_t *row;
    char buffer[32];

    r->nrows++;
    if (!r->speaks)
        return;
    row = json_object();
    for (int i = 0; i < r->ncolumns; i++) {
        const struct report_column *c = &r->columns[i];
        char end = i + 1 < r->ncolumns ? ' ' : '\n';

        printf("%*s%c", c->width, as_text(c->kind, &values[i], 2, buffer), end);
        json_object_set_new(row, c->name, as_json(c->kind, &values[i]));
        if (r->csv_file)
            fprintf(r->csv_file, "%s%c", as_text(c->kind, &values[i], 4, buffer),
                    end == ' ' ? ',' : end);
    }
    fflush(stdout);
    json_array_append_new(list(r, "rows"), row);
}

uint64_t report_rows(const struct report *r)
{
    return r->nrows;
}

json_t *report_json(const struct report *r)
{
    return r->json;
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
            json_object_set_new(r->json, "error", json_text(error));
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
