/* A roof of two slopes, and a point for each shape and way. */
#include "roofline.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "picture.h"
#include "series.h"
#include "speed.h"

enum { ELEMENT_NBYTES = 2 /* of products */ };

struct roofline {
    const json_t *run;
    struct ways ways;
    bool over_link;
    double gbs, peak;
    const char *peak_of;    /* the way that it was measured with, or NULL */
    double least, greatest; /* operations a byte, of all shapes */
    double slowest;         /* in TFLOP/s */
};

/* Operations of a rank by the bytes that cannot stay where they are. */
static double intensity(const struct roofline *r, const json_t *row)
{
    const double m = picture_number(row, "m"), n = picture_number(row, "n"),
                 k = picture_number(row, "k"), ranks = picture_number(r->run, "ranks");
    const bool adds = picture_number(json_object_get(r->run, "options"), "beta") != 0;
    const double elements =
        r->over_link ? m * k * (ranks - 1) / ranks : m * k + k * n + m * n * (adds ? 2 : 1);

    return 2 * m * n * k / (elements * ELEMENT_NBYTES);
}

/* The fastest product of a way, in TFLOP/s; 0: there is none. */
static double fastest(const json_t *run, const char *way)
{
    double most = 0;
    size_t i;
    json_t *row;

    json_array_foreach(json_object_get(run, "rows"), i, row)
    {
        if (strcmp(picture_text(row, "algo"), way) == 0)
            most = fmax(most, picture_number(row, "tflops"));
    }
    return most;
}

static void find_peak(struct roofline *r)
{
    static const char *const alone[] = {"cublas", "product"};

    for (size_t i = 0; i < sizeof alone / sizeof alone[0] && r->peak <= 0; i++) {
        r->peak = fastest(r->run, alone[i]);
        r->peak_of = alone[i];
    }
}

/* A block of data for each way: operations a byte, and TFLOP/s. */
static void write_data(FILE *to, const struct roofline *r)
{
    size_t i;
    json_t *row;

    for (int w = 0; w < r->ways.n; w++) {
        fprintf(to, "$way%d << EOD\n", w);
        json_array_foreach(json_object_get(r->run, "rows"), i, row)
        {
            if (strcmp(picture_text(row, "algo"), r->ways.names[w]) == 0)
                fprintf(to, "%.6g %.6g\n", intensity(r, row), picture_number(row, "tflops"));
        }
        fprintf(to, "EOD\n");
    }
}

static void write_script(FILE *to, const void *what)
{
    const struct roofline *r = what;
    const double ridge = r->peak * 1e3 / r->gbs, left = fmin(ridge, r->least) / 2;
    char title[256];

    ways_title(r->run, title);
    write_data(to, r);
    fprintf(to, "set terminal svg size 1000,540 dynamic background 'white' font 'sans-serif,12'\n");
    fprintf(to, "set title ");
    picture_quote(to, title);
    fprintf(to,
            " noenhanced\nset key below center noenhanced\nset grid\nset samples 1000\n"
            "set logscale x 2\nset logscale y 10\nset ytics ()\n"
            "do for [e = -6:4] { do for [i in '1 2 3 4 5 7'] { set ytics add (i * 10.0 ** e) } }\n"
            "set xrange [%.6g:%.6g]\nset yrange [%.6g:%.6g]\n"
            "set ylabel 'TFLOP/s of one rank'\nset xlabel 'operations a byte %s'\nplot ",
            left, fmax(ridge, r->greatest) * 2, fmin(r->slowest, left * r->gbs / 1e3) / 1.2,
            r->peak * 1.5,
            r->over_link ? "of A that comes over the link" : "of A, B, C and D in memory");
    fprintf(to,
            "(x < %.9g ? x * %.9g : %.9g) with lines linewidth 1.5 linecolor 'gray40' title "
            "'roof: %g GB/s, %.4g TFLOP/s%s%s'",
            ridge, r->gbs / 1e3, r->peak, r->gbs, r->peak, r->peak_of ? " of " : "",
            r->peak_of ? r->peak_of : "");
    for (int w = 0; w < r->ways.n; w++) {
        fprintf(to, ", \\\n  $way%d with points linewidth 1.5 title ", w);
        picture_quote(to, r->ways.names[w]);
    }
    fprintf(to, "\n");
}

bool roofline_draw(const json_t *run, const char *path, double gbs, double peak)
{
    struct roofline r = {
        .run = run, .gbs = gbs, .peak = peak, .least = INFINITY, .slowest = INFINITY};
    size_t i;
    json_t *row;

    r.over_link = strcmp(picture_text(run, "operation"), "all-gather-matmul") == 0 &&
                  picture_number(run, "ranks") > 1;
    if (r.gbs <= 0)
        r.gbs = r.over_link ? speed_of(run).link : speed_of(run).memory;
    ways_find(run, &r.ways);
    find_peak(&r);
    if (r.peak <= 0)
        return picture_complain(path, "there is no product alone whose speed could be the roof");
    if (r.gbs <= 0)
        return picture_complain(path, "the speed of this device is not known: give --floor GB/s");
    json_array_foreach(json_object_get(run, "rows"), i, row)
    {
        r.least = fmin(r.least, intensity(&r, row));
        r.greatest = fmax(r.greatest, intensity(&r, row));
        if (json_is_number(json_object_get(row, "tflops")))
            r.slowest = fmin(r.slowest, picture_number(row, "tflops"));
    }
    return picture_draw(write_script, &r, path);
}
