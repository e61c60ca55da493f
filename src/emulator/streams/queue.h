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

#endif
