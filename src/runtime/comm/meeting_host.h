/* Rank 0's side of a meeting. */
#ifndef SYMM_MEETING_HOST_H
#define SYMM_MEETING_HOST_H

#include "meeting.h"

/* symm__meeting_gather() of rank 0 with at least one other rank. */
symm_status symm__meeting_host(const struct symm_meeting *m, int listener, const void *mine,
                               size_t nbytes, void *all, symm_deadline deadline);

#endif
