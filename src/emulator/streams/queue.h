/* The queue of a stream, and the thread that runs it. */
#ifndef SYMM_EMULATOR_QUEUE_H
#define SYMM_EMULATOR_QUEUE_H

#include "execution.h"

/*
 * Finds the stream of a call's argument: a valid handle, or the current context's legacy stream.
 * Fails with CUDA_ERROR_INVALID_HANDLE. `enqueue`: another context's stream is an error, too.
 */
CUresult emu__stream_get(CUstream handle, bool enqueue, struct CUstream_st **out);

/* Takes over the work: adds it to the stream's queue, or to the stream's capture. */
CUresult emu__stream_enqueue(struct CUstream_st *stream, struct emu_work *work);

/* Whether the stream itself runs the work, not a graph in it. On the stream's thread. */
bool emu__stream_runs(const struct CUstream_st *stream, const struct emu_work *work);
/*
 * Takes the next work, if it may begin early. It is released with the current one. NULL: there is
 * none. On the stream's thread.
 */
struct emu_work *emu__stream_take_early(struct CUstream_st *stream);

#endif
