/*
 * The list of streams being captured through symm_graph_begin(). Collective calls are refused
 * during captures. The driver answers only for existing streams, and a group does not own the
 * streams it has used, so symm keeps its own list.
 */
#ifndef SYMM_CAPTURE_H
#define SYMM_CAPTURE_H

#include "context.h"

void symm__capture_began(CUstream stream);
void symm__capture_ended(CUstream stream);
bool symm__capture_is_listed(CUstream stream);

/*
 * Returns ERROR_STATE if this thread captures a stream, if a stream that the group has used is
 * being captured, or if the driver reports a capture for the legacy stream. The group's device
 * context must be current.
 */
symm_status symm__capture_forbids(const struct symm_group *group);

#endif
