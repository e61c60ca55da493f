/* Writes timelines in Chrome's trace format, which Perfetto opens. */
#ifndef SYMM_BENCH_TIMELINE_FILE_H
#define SYMM_BENCH_TIMELINE_FILE_H

#include <stdbool.h>
#include <symm/matmul.h>

struct timeline {
    const char *title, *driver;
    bool one_clock; /* of all ranks */
    int nranks;
    struct timeline_rank {
        symm_matmul_event *events; /* in the order in which they began */
        size_t n, dropped;
    } ranks[SYMM_MAX_RANKS];
};

/* Returns false if the file cannot be written, with errno, or if memory is short. */
bool timeline_file_write(const struct timeline *t, const char *path);

#endif
