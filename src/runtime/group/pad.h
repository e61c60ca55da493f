/*
 * Signal pads: an array of cells, [channel][rank], in symmetric memory. Kernels count in them; the
 * host only clears them and knows which there are.
 */
#ifndef SYMM_PAD_H
#define SYMM_PAD_H

#include "context.h"

/* With the cell that marks its end. */
size_t symm__pad_nbytes(int nchannels, int nranks);

/*
 * Sets this rank's pad to the first epoch, on the context's own stream, and waits for that. Local.
 */
symm_status symm__pad_clear(const struct symm_group *group, symm_signal_pad *pad, int nchannels);

/*
 * How many channels a user's pad has that this group may use: any pad of the context that all of
 * the group's ranks have and that was made for as many. Errors: ERROR_ARGUMENT, without the name of
 * the call
 */
symm_status symm__pad_find(const struct symm_group *group, const symm_signal_pad *pad,
                           int *nchannels);

/*
 * Forgets a user's pad that has been freed, or with NULL all of this owner's. Nothing happens if it
 * is none.
 */
void symm__pads_forget(struct symm_context *ctx, const struct symm_group *owner, const void *pad);

#endif
