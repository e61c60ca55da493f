/* Draws the results of an operation: latency and bus bandwidth against size, in one picture. */
#ifndef SYMM_BENCH_PLOT_H
#define SYMM_BENCH_PLOT_H

#include <jansson.h>
#include <stdbool.h>
#include "options.h"

/*
 * Draws the JSON of a run into an SVG file, by gnuplot: a line a variant, and the floor of a link
 * of so many GB/s. Says what went wrong on the standard error.
 */
bool plot_draw(const json_t *run, const char *path, double floor_gbs);

/* symm-bench plot. Returns the exit code. */
int plot_run(const struct bench_options *options);

#endif
