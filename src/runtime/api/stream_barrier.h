/* The kernel of a barrier on streams, for a group of one domain. */
#ifndef SYMM_STREAM_BARRIER_H
#define SYMM_STREAM_BARRIER_H

#include "runtime/group/call.h"

/* Enqueues it within the call. */
symm_status symm__stream_barrier(struct symm_call *call);

#endif
