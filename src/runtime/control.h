/*
 * The control lines of a context's groups: in pinned host memory the abort word and the record of a
 * long wait, in device memory the poison and the claim. They come from slabs, so that making a
 * group allocates nothing.
 */
#ifndef SYMM_CONTROL_H
#define SYMM_CONTROL_H

#include <symm/detail/signal_pad.h>
#include "driver.h"

struct symm_control;

/* The host side of a line: what view.abort points at and, in a sector of its own, what view.record
 * does. */
struct symm_host_line {
    uint32_t abort;
    uint32_t unused[15];
    symm_wait_record record;
    char fill[64 - sizeof(symm_wait_record)];
};

enum { SYMM_DEVICE_LINE_NBYTES = 128 }; /* holds a symm_signal_state, alone in its cache line */

struct symm_control_line {
    struct symm_host_line *host;
    CUdeviceptr host_address;   /* of the same line, for kernels */
    CUdeviceptr device_address; /* of its symm_signal_state */
    struct symm_control_line *next_free;
};

/* Local; the device's context is current in all of these. */
symm_status symm__control_create(const struct symm_driver *drv, struct symm_control **out);
void symm__control_destroy(struct symm_control *control); /* NULL is fine */

/* Takes a line. Its host side is zero; the device side is the caller's to zero, on a stream of its
 * choice. */
symm_status symm__control_take(struct symm_control *control, struct symm_control_line **out);
void symm__control_put_back(struct symm_control *control, struct symm_control_line *line);

/* Ends every wait of this group's kernels on this rank. Any thread. */
void symm__control_abort(struct symm_control_line *line);

/* Copies the record of a long wait; false when there is none. Any thread. */
bool symm__control_record(const struct symm_control_line *line, symm_wait_record *out);

/* Whether a kernel has found that ranks called different things. Any thread. */
bool symm__control_mismatch(const struct symm_control_line *line);

#endif
