/*
 * What ranks tell each other in the votes that make and bind multicast objects. A rank's failure is
 * in its report, not in the vote: all ranks read the same reports and come to the same verdict.
 */
#ifndef SYMM_MULTICAST_REPORT_H
#define SYMM_MULTICAST_REPORT_H

#include "runtime/driver/driver.h"
#include "runtime/memory/state.h"

enum { SYMM_MULTICAST_RETRIES = 6 }; /* of SYSTEM_NOT_READY, 3 s in all */

/* st, with this thread's failure text; result: of the driver call, if it was one. */
void symm__multicast_report(struct symm_multicast_report *out, symm_status st, CUresult result);
/* Writes the reason of the first rank that failed; an empty one when none did. */
void symm__multicast_first_failure(const struct symm_multicast_report *all, int n, char *why,
                                   size_t nbytes);
/* Whether trying again, on all ranks alike, may help: nothing failed but for SYSTEM_NOT_READY. */
bool symm__multicast_transient(const struct symm_multicast_report *all, int n);
/* Waits before the i-th repetition, counted from 0. */
void symm__multicast_back_off(int i);

#endif
