/* Draws results of products: TFLOP/s of every way at every shape, in bars. */
#ifndef SYMM_BENCH_BARS_H
#define SYMM_BENCH_BARS_H

#include <jansson.h>
#include <stdbool.h>

/* Whether a run is one of products. */
bool bars_are_for(const json_t *run);

/* Draws a run into an SVG file. Says what went wrong on the standard error. */
bool bars_draw(const json_t *run, const char *path);

#endif
