/* Draws results of products. */
#include "bars.h"

#include <string.h>
#include "picture.h"
#include "series.h"

struct bars {
    const json_t *run;
    struct ways ways;
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
        for (int b = 0; b < bars->ways.n; b++)
            write_bar(to, rows, i, bars->ways.names[b]);
        fprintf(to, "\n");
    }
    fprintf(to, "EOD\n");
}

static void write_script(FILE *to, const void *what)
{
    const struct bars *bars = what;
    char title[256];

    ways_title(bars->run, title);
    write_data(to, bars);
    fprintf(to, "set terminal svg size 1200,540 dynamic background 'white' font 'sans-serif,12'\n");
    fprintf(to, "set title ");
    picture_quote(to, title);
    fprintf(to, " noenhanced\nset style data histograms\nset style histogram clustered gap 1\n"
                "set style fill solid 0.8 noborder\nset grid ytics\nset yrange [0:*]\n"
                "set ylabel 'TFLOP/s of one rank'\nset xlabel 'm x n of a rank x k' offset 0,-1 "
                "noenhanced\nset bmargin 5\n"
                "set xtics noenhanced\nset key outside right noenhanced\nplot ");
    for (int b = 0; b < bars->ways.n; b++) {
        fprintf(to, "%s$bars using %d%s title ", b ? ", " : "", b + 2, b ? "" : ":xtic(1)");
        picture_quote(to, bars->ways.names[b]);
    }
    fprintf(to, "\n");
}

bool bars_draw(const json_t *run, const char *path)
{
    struct bars bars = {.run = run};

    ways_find(run, &bars.ways);
    return picture_draw(write_script, &bars, path);
}
