/*
 * The control lines of a context's groups: in pinned host memory the abort word and the record of a
 * long wait, in device memory the poison and the claim. They come from slabs, so that making a
 * group allocates nothing.
 */
#ifndef SYMM_CONTROL_H
#define SYMM_CONTROL_H

#include <symm/detail/wait_record.h>
#include "runtime/driver/driver.h"

struct symm_control;

struct symm_control_line {
    struct symm_host_line *host;
    CUdeviceptr host_address;   /* of the same line, for kernels */
    CUdeviceptr device_address; /* of its struct symm_device_line */
    struct symm_control_line *next_free;
};

/* Local; the device's context is current in all of these. */
symm_status symm__control_create(const struct symm_driver *drv, struct symm_control **out);
/* Keeps going; returns the first failure. NULL is fine. */
symm_status symm__control_destroy(struct symm_control *control);

/*
 * Takes a line. Its host side is zero; the device side is the caller's to zero, on a stream of its
 * choice.
 */
symm_status symm__control_take(struct symm_control *control, struct symm_control_line **out);
void symm__control_put_back(struct symm_control *control, struct symm_control_line *line);

/* Ends every wait of this group's kernels on this rank. Any thread. */
void symm__control_abort(struct symm_control_line *line);

/* Copies the record of a long wait; false when there is none. Any thread. */
bool symm__control_record(const struct symm_control_line *line, struct symm_wait_record *out);

#endif
