/*
 * Draws results of products against how much they compute a byte: TFLOP/s of every way, and the
 * roof of what moves the bytes and of what multiplies.
 */
#ifndef SYMM_BENCH_ROOFLINE_H
#define SYMM_BENCH_ROOFLINE_H

#include <jansson.h>
#include <stdbool.h>

/*
 * Draws a run into an SVG file. The bytes are those of A that come to a rank over its link, or of a
 * run that gathers nothing, those that the memory moves at least. gbs: how many GB/s; 0: the speed
 * of the run's device, where that is known. peak: how many TFLOP/s; 0: of the fastest product
 * alone, of cuBLAS if it is there. Says what went wrong on the standard error.
 */
bool roofline_draw(const json_t *run, const char *path, double gbs, double peak);

#endif
