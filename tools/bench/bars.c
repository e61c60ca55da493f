/* Draws results of products. */
#include "bars.h"

#include <string.h>
#include "picture.h"

enum { MAX_BARS = 16 };

/* The ways, in the order in which they appear. */
struct bars {
    const json_t *run;
    const char *algos[MAX_BARS];
    int n;
};

bool bars_are_for(const json_t *run)
{
    const json_t *row = json_array_get(json_object_get(run, "rows"), 0);

    return json_object_get(row, "tflops") != NULL;
}

static bool is_same_shape(const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"m", "n", "k", "l"};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (picture_number(a, keys[i]) != picture_number(b, keys[i]))
            return false;
    }
    return true;
}

/* What has no number of operations a second has no bar. */
static void find_bars(struct bars *out)
{
    size_t i;
    json_t *row;

    json_array_foreach(json_object_get(out->run, "rows"), i, row)
    {
        const char *algo = picture_text(row, "algo");
        int b = 0;

        while (b < out->n && strcmp(out->algos[b], algo) != 0)
            b++;
        if (b == out->n && b < MAX_BARS && json_is_number(json_object_get(row, "tflops")))
            out->algos[out->n++] = algo;
    }
}

/* The bar of a way among the rows of a shape, which are from number `first` on. */
static void write_bar(FILE *to, const json_t *rows, size_t first, const char *algo)
{
    for (size_t i = first; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);

        if (!is_same_shape(row, json_array_get(rows, first)))
            break;
        if (strcmp(picture_text(row, "algo"), algo) == 0) {
            fprintf(to, " %.6g", picture_number(row, "tflops"));
            return;
        }
    }
    fprintf(to, " NaN");
}

/* A line a shape: its name, and a number a way. */
static void write_data(FILE *to, const struct bars *bars)
{
    const json_t *rows = json_object_get(bars->run, "rows");
    const json_t *before = NULL;

    fprintf(to, "$bars << EOD\n");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);

        if (before && is_same_shape(row, before))
            continue;
        before = row;
        fprintf(to, "\"%.0f x %.0f\\nx %.0f\"", picture_number(row, "m"), picture_number(row, "n"),
                picture_number(row, "k"));
        for (int b = 0; b < bars->n; b++)
            write_bar(to, rows, i, bars->algos[b]);
        fprintf(to, "\n");
    }
    fprintf(to, "EOD\n");
}

static void write_script(FILE *to, const void *what)
{
    const struct bars *bars = what;
    const json_t *options = json_object_get(bars->run, "options");
    char title[256];

    snprintf(title, sizeof title, "%.64s, %.0f ranks, %.16s, %s",
             picture_text(bars->run, "operation"), picture_number(bars->run, "ranks"),
             picture_text(options, "dtype"),
             json_is_true(json_object_get(options, "graph")) ? "graphs" : "eager");
    write_data(to, bars);
    fprintf(to, "set terminal svg size 1200,540 dynamic background 'white' font 'sans-serif,12'\n");
    fprintf(to, "set title ");
    picture_quote(to, title);
    fprintf(to, " noenhanced\nset style data histograms\nset style histogram clustered gap 1\n"
                "set style fill solid 0.8 noborder\nset grid ytics\nset yrange [0:*]\n"
                "set ylabel 'TFLOP/s of one rank'\nset xlabel 'm x n of a rank x k' offset 0,-1 "
                "noenhanced\nset bmargin 5\n"
                "set xtics noenhanced\nset key outside right noenhanced\nplot ");
    for (int b = 0; b < bars->n; b++) {
        fprintf(to, "%s$bars using %d%s title ", b ? ", " : "", b + 2, b ? "" : ":xtic(1)");
        picture_quote(to, bars->algos[b]);
    }
    fprintf(to, "\n");
}

bool bars_draw(const json_t *run, const char *path)
{
    struct bars bars = {.run = run};

    find_bars(&bars);
    return picture_draw(write_script, &bars, path);
}
