/* The results of symm-bench: a table on the standard output, and if wished a JSON and a CSV file.
 */
#ifndef SYMM_BENCH_REPORT_H
#define SYMM_BENCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include "options.h"

struct report;

struct report_about {
    const struct bench_options *options;
    const char *driver, *why_driver, *device;
    const char *nccl; /* its version; NULL: not there */
    bool emulated;
    int nranks, nops; /* nops: operations of one repetition */
    uint64_t seed;
};

struct report_row {
    uint64_t nbytes, count;
    const char *algo;
    bool in_place;
    double time_us, p95_us, algbw, busbw;
    int64_t wrong; /* -1: not checked */
};

/*
 * Opens the files. With `speaks` false (every rank but the first) nothing is written or opened.
 * Returns NULL when a file cannot be opened or memory is short, with the reason in why.
 */
struct report *report_open(const struct bench_options *o, bool speaks, char why[512]);
void report_about(struct report *r, const struct report_about *about);
void report_unavailable(struct report *r, const char *algo, const char *reason);
void report_columns(struct report *r);
void report_row(struct report *r, const struct report_row *row);

/* Writes the JSON; error NULL: the run was complete. Returns false when a file could not be
 * written. NULL is fine. */
bool report_close(struct report *r, const char *error);

#endif
