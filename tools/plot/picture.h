/* Pictures of results, by gnuplot. */
#ifndef SYMM_BENCH_PICTURE_H
#define SYMM_BENCH_PICTURE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Says on the standard error what of the picture went wrong, and why. Returns false. */
bool picture_complain(const char *what, const char *why);

/* Members of a JSON object: 0 or "" where there is none. */
double picture_number(const json_t *object, const char *key);
const char *picture_text(const json_t *object, const char *key);

/* Whether the times of a run are those of an emulation. */
bool picture_is_emulated(const json_t *run);

/* The end of the title of such a run. */
#define PICTURE_EMULATED " (emulated on CPUs: no performance)"

/* Writes a text in quotes between which gnuplot takes every character as it is. */
void picture_quote(FILE *to, const char *text);

typedef void (*picture_script)(FILE *to, const void *what);

/* Runs the script that write_script(what) writes and puts what it prints into the file. */
bool picture_draw(picture_script write_script, const void *what, const char *path);

#endif
