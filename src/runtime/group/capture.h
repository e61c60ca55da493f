/*
 * Which streams are being captured through symm_graph_begin(): collective calls are refused
 * meanwhile. The driver can be asked about a stream only while the stream exists, and a group does
 * not own the streams it has seen.
 */
#ifndef SYMM_CAPTURE_H
#define SYMM_CAPTURE_H

#include "context.h"

void symm__capture_began(CUstream stream);
void symm__capture_ended(CUstream stream);

/*
 * ERROR_STATE if this thread is capturing, if a stream that the group has used is being captured,
 * or if the driver says so of the legacy stream. The group's device context is current.
 */
symm_status symm__capture_forbids(const struct symm_group *group);

#endif
