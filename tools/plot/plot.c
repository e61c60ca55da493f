/* Draws results of an operation: lines against size. */
#include "plot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bars.h"
#include "picture.h"
#include "roofline.h"
#include "speed.h"

enum { MAX_LINES = 32 };

/* The variants of all runs, in the order in which they appear. */
struct lines {
    struct line {
        const struct plot_run *run;
        const char *algo;
    } all[MAX_LINES];
    int n;
};

static const char *algo_of(const json_t *row)
{
    return json_string_value(json_object_get(row, "algo"));
}

static void find_lines(const struct plot_run *run, struct lines *out)
{
    const int before = out->n;
    size_t i;
    json_t *row;

    json_array_foreach(json_object_get(run->json, "rows"), i, row)
    {
        const char *algo = algo_of(row);
        int l = before;

        while (algo && l < out->n && strcmp(out->all[l].algo, algo) != 0)
            l++;
        if (algo && l == out->n && l < MAX_LINES)
            out->all[out->n++] = (struct line){run, algo};
    }
}

/* A block of data for each line: bytes, microseconds, GB/s. */
static void write_data(FILE *to, const struct lines *lines)
{
    size_t i;
    json_t *row;

    for (int l = 0; l < lines->n; l++) {
        fprintf(to, "$line%d << EOD\n", l);
        json_array_foreach(json_object_get(lines->all[l].run->json, "rows"), i, row)
        {
            const char *algo = algo_of(row);

            if (algo && strcmp(algo, lines->all[l].algo) == 0 &&
                picture_number(row, "time_us") > 0 && picture_number(row, "bytes") > 0)
                fprintf(to, "%.0f %.6g %.6g\n", picture_number(row, "bytes"),
                        picture_number(row, "time_us"), picture_number(row, "busbw"));
        }
        fprintf(to, "EOD\n");
    }
}

static bool is_peer(const struct line *line)
{
    return strncmp(line->algo, "nccl", 4) == 0 || strncmp(line->algo, "torch", 5) == 0;
}

/* Its variant, and the run if another one has a variant of that name. */
static void write_title(FILE *to, const struct lines *lines, const struct line *line)
{
    char title[256];
    bool alone = true;

    for (int l = 0; l < lines->n; l++)
        alone = alone && (&lines->all[l] == line || strcmp(lines->all[l].algo, line->algo) != 0);
    snprintf(title, sizeof title, "%.64s%s%.128s", line->algo, alone ? "" : ", ",
             alone ? "" : line->run->name);
    picture_quote(to, title);
}

/* One panel; column 2 or 3 of the data, and the floor, if any, as a function of the bytes x. */
static void write_panel(FILE *to, const struct lines *lines, const char *title, int column,
                        const char *floor, double floor_gbs)
{
    fprintf(to, "set ylabel '%s'\nplot ", title);
    for (int l = 0; l < lines->n; l++) {
        fprintf(to, "%s$line%d using 1:%d with linespoints pointsize 0.5 linewidth 1.5%s title ",
                l ? ", \\\n  " : "", l, column, is_peer(&lines->all[l]) ? " dashtype 2" : "");
        write_title(to, lines, &lines->all[l]);
    }
    if (floor_gbs > 0)
        fprintf(to,
                ", \\\n  %s with lines linewidth 1 linecolor 'gray40' dashtype 3 title "
                "'floor: %g GB/s'",
                floor, floor_gbs);
    fprintf(to, "\n");
}

struct drawing {
    const json_t *run;
    const struct lines *lines;
    double floor_gbs; /* 0: none */
    bool emulated;    /* at least one of the runs */
};

/* The words and the floor are those of the first run. */
static void write_script(FILE *to, const void *what)
{
    const struct drawing *drawing = what;
    const json_t *run = drawing->run;
    const struct lines *lines = drawing->lines;
    const double floor_gbs = drawing->floor_gbs;
    const json_t *options = json_object_get(run, "options");
    const char *timing = picture_text(options, "timing");
    const bool is_stream = !*timing || strcmp(timing, "stream") == 0;
    char floor[64] = "", title[256];

    snprintf(title, sizeof title, "%.64s, %.0f ranks, %.16s, %s%s%.16s%s",
             picture_text(run, "operation"), picture_number(run, "ranks"),
             picture_text(options, "dtype"),
             json_is_true(json_object_get(options, "graph")) ? "graphs" : "eager",
             is_stream ? "" : ", ", is_stream ? "" : timing,
             drawing->emulated ? PICTURE_EMULATED : "");
    write_data(to, lines);
    /* The legend is below. Titles with names of files are too long for two columns. */
    const int ncolumns = lines->all[0].run == lines->all[lines->n - 1].run ? 2 : 1;
    fprintf(to,
            "set terminal svg size 1200,%d dynamic background 'white' font 'sans-serif,12'\n"
            "set key below maxcols %d Left reverse noenhanced\n",
            430 + 20 * ((lines->n + ncolumns) / ncolumns), ncolumns);
    fprintf(to, "set multiplot layout 1,2 title ");
    picture_quote(to, title);
    fprintf(to, " noenhanced\nset rmargin 5\nset grid\nset logscale x 2\nset format x '%%.0b %%B'\n"
                "set xtics rotate by -45\nset xlabel 'bytes'\n");
    fprintf(to, "set logscale y 10\nset format y '%%g'\n");
    /* Without this the floor's line, which begins near 0, would set the range. */
    fprintf(to, "set yrange [1:*]\n");
    if (floor_gbs > 0)
        snprintf(floor, sizeof floor, "x * %.9g",
                 picture_number(run, "bus_factor") / floor_gbs / 1e3);
    write_panel(to, lines, "latency in microseconds", 2, floor, floor_gbs);
    fprintf(to, "unset logscale y\nset yrange [0:*]\n");
    snprintf(floor, sizeof floor, "%.9g", floor_gbs);
    write_panel(to, lines, "bus bandwidth in GB/s", 3, floor, floor_gbs);
    fprintf(to, "unset multiplot\n");
}

/* Whether two runs have the same axes and the same floor. */
static bool is_comparable(const json_t *a, const json_t *b)
{
    return json_equal(json_object_get(a, "operation"), json_object_get(b, "operation")) &&
           json_equal(json_object_get(a, "ranks"), json_object_get(b, "ranks"));
}

bool plot_draw(const struct plot_run *runs, int nruns, const char *path, double floor_gbs)
{
    struct lines lines = {.n = 0};
    struct drawing drawing = {.run = runs[0].json,
                              .lines = &lines,
                              .floor_gbs = floor_gbs > 0 ? floor_gbs : speed_of(runs[0].json).link};

    for (int i = 0; i < nruns; i++) {
        if (i > 0 && !is_comparable(runs[i].json, runs[0].json))
            return picture_complain(runs[i].name,
                                    "another operation or number of ranks than the first");
        find_lines(&runs[i], &lines);
        drawing.emulated = drawing.emulated || picture_is_emulated(runs[i].json);
    }
    if (lines.n == 0 || picture_number(runs[0].json, "bus_factor") < 0)
        return picture_complain(path, "there are no results of an operation to draw");
    return picture_draw(write_script, &drawing, path);
}

static bool draw_product(const struct bench_options *options, const json_t *run)
{
    if (options->nfiles > 1)
        return picture_complain(options->files[1], "products are drawn one run at a time");
    return options->roofline
               ? roofline_draw(run, options->output, options->floor_gbs, options->peak_tflops)
               : bars_draw(run, options->output);
}

static bool draw_operation(const struct bench_options *options, const struct plot_run *runs)
{
    if (options->roofline)
        return picture_complain(options->files[0], "there is a roofline of products only");
    return plot_draw(runs, options->nfiles, options->output, options->floor_gbs);
}

int plot_files(const struct bench_options *options)
{
    const int n = options->nfiles;
    struct plot_run *runs = calloc((size_t)n, sizeof *runs);
    bool loaded = runs || picture_complain(options->output, strerror(errno));
    json_error_t error;

    for (int i = 0; i < n && loaded; i++) {
        runs[i].name = options->files[i];
        runs[i].json = json_load_file(options->files[i], 0, &error);
        loaded = runs[i].json || picture_complain(options->files[i], error.text);
    }
    bool drawn = loaded && (bars_are_for(runs[0].json) ? draw_product(options, runs[0].json)
                                                       : draw_operation(options, runs));
    for (int i = 0; i < n && runs; i++)
        json_decref(runs[i].json);
    free(runs);
    return !drawn;
}
