/*
 * The abort lines of a context's groups. The host part, in pinned memory, has the abort word and
 * the record of a long wait. The device part has the poison word and the claim. Lines come from
 * slabs, so that creating a group rarely allocates.
 */
#ifndef SYMM_ABORT_LINE_H
#define SYMM_ABORT_LINE_H

#include <symm/detail/wait_record.h>
#include "runtime/driver/driver.h"

struct symm_abort_lines;

struct symm_abort_line {
    struct symm_host_line *host;
    CUdeviceptr host_address;   /* device address of *host */
    CUdeviceptr device_address; /* address of its struct symm_device_line */
    struct symm_abort_line *next_free;
};

/* All functions are Local. The device's context must be current to create, destroy and take. */
symm_status symm__abort_lines_create(const struct symm_driver *drv, struct symm_abort_lines **out);
/* Continues after failures; returns the first. NULL is fine. */
symm_status symm__abort_lines_destroy(struct symm_abort_lines *lines);

/*
 * Takes a line. Its host part is zero. The caller zeroes the device part on a stream of its choice.
 */
symm_status symm__abort_line_take(struct symm_abort_lines *lines, struct symm_abort_line **out);
void symm__abort_line_put_back(struct symm_abort_lines *lines, struct symm_abort_line *line);

/* Sets the abort word: every wait of this group's kernels on this rank ends. Any thread. */
void symm__abort_line_abort(struct symm_abort_line *line);

/* Copies the record of a long wait. Returns false if there is none. Any thread. */
bool symm__abort_line_record(const struct symm_abort_line *line, struct symm_wait_record *out);

#endif
