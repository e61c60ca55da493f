/* Draws results of an operation: latency and bus bandwidth against size, in one picture. */
#ifndef SYMM_BENCH_PLOT_H
#define SYMM_BENCH_PLOT_H

#include <jansson.h>
#include <stdbool.h>
#include "bench/cli/options.h"

struct plot_run {
    const char *name; /* tells its variants from those of the same name of another run */
    json_t *json;
};

/*
 * Draws runs of the same operation on as many ranks into an SVG file, by gnuplot: a line a variant,
 * and the floor of a link of so many GB/s. With 0 that is the speed of the first run's device;
 * where it is not known, no floor is drawn. Says what went wrong on the standard error.
 */
bool plot_draw(const struct plot_run *runs, int nruns, const char *path, double floor_gbs);

/* symm-bench plot. Returns the exit code. */
int plot_files(const struct bench_options *options);

#endif
