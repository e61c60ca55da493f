/*
 * Signal pads: arrays of cells, [channel][rank], in symmetric memory. Kernels count in them. The
 * host only clears them and keeps the list of the user's pads.
 */
#ifndef SYMM_PAD_H
#define SYMM_PAD_H

#include "context.h"

/* Bytes of a pad, with the cell that marks its end. */
size_t symm__pad_nbytes(int nchannels, int nranks);

/*
 * Sets this rank's pad for nranks ranks to the first epoch on the context's own stream, and waits
 * for it. Local.
 */
symm_status symm__pad_clear(const struct symm_context *ctx, symm_signal_pad *pad, int nchannels,
                            int nranks);

/*
 * Clears a state of `nbytes` in this rank's memory, on the context's own stream. Its first word
 * counts runs, each with one signal on each channel, from where a pad's signals are counted. Local.
 */
symm_status symm__pad_clear_runs(const struct symm_group *group, void *state, size_t nbytes);

/* The rank as which rank `to` hears this one: see heard_as() in symm/detail/device_sync.cuh. */
int symm__pad_heard_as(const symm_view *view, int to);

/* The address, on rank `to`, of the counter of this rank's signals on a channel. */
CUdeviceptr symm__pad_arrived(const symm_view *view, const symm_signal_pad *pad, int channel,
                              int to);

/*
 * Finds the number of channels of a user's pad. The group may use it if all its ranks have the pad
 * and the pad was made for as many ranks. Errors: ERROR_ARGUMENT, without the name of the call
 */
symm_status symm__pad_find(const struct symm_group *group, const symm_signal_pad *pad,
                           int *nchannels);

/*
 * Removes a freed pad from the list, or with NULL all pads of this owner. Does nothing if it is not
 * in the list.
 */
void symm__pads_forget(struct symm_context *ctx, const struct symm_group *owner, const void *pad);

#endif
