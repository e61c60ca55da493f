/*
 * The control lines of a context's groups: in pinned host memory the abort word and the record of a
 * long wait, in device memory the poison and the claim. They come from slabs, so that making a
 * group allocates nothing.
 */
#ifndef SYMM_ABORT_LINE_H
#define SYMM_ABORT_LINE_H

#include <symm/detail/wait_record.h>
#include "runtime/driver/driver.h"

struct symm_abort_lines;

struct symm_abort_line {
    struct symm_host_line *host;
    CUdeviceptr host_address;   /* of the same line, for kernels */
    CUdeviceptr device_address; /* of its struct symm_device_line */
    struct symm_abort_line *next_free;
};

/* Local; the device's context is current in all of these. */
symm_status symm__abort_lines_create(const struct symm_driver *drv, struct symm_abort_lines **out);
/* Keeps going; returns the first failure. NULL is fine. */
symm_status symm__abort_lines_destroy(struct symm_abort_lines *lines);

/*
 * Takes a line. Its host side is zero; the device side is the caller's to zero, on a stream of its
 * choice.
 */
symm_status symm__abort_line_take(struct symm_abort_lines *lines, struct symm_abort_line **out);
void symm__abort_line_put_back(struct symm_abort_lines *lines, struct symm_abort_line *line);

/* Ends every wait of this group's kernels on this rank. Any thread. */
void symm__abort_line_abort(struct symm_abort_line *line);

/* Copies the record of a long wait; false when there is none. Any thread. */
bool symm__abort_line_record(const struct symm_abort_line *line, struct symm_wait_record *out);

#endif
