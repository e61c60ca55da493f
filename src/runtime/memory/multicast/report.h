/*
 * Reports of ranks in votes that create and bind multicast objects. A rank's failure is in its
 * report, not in the vote's status. All ranks read the same reports and reach the same result.
 */
#ifndef SYMM_MULTICAST_REPORT_H
#define SYMM_MULTICAST_REPORT_H

#include "runtime/driver/driver.h"
#include "runtime/memory/state.h"

enum { SYMM_MULTICAST_RETRIES = 6 }; /* repetitions after SYSTEM_NOT_READY, about 3 s in all */

/*
 * Fills in a report from st and this thread's failure text. result: of the failed driver call, else
 * 0.
 */
void symm__multicast_report(struct symm_multicast_report *out, symm_status st, CUresult result);
/*
 * Writes the reason of the first failed rank; an empty text if none failed. world: the ranks'
 * numbers in the world.
 */
void symm__multicast_first_failure(const struct symm_multicast_report *all, int n, const int *world,
                                   char *why, size_t nbytes);
/* Whether all ranks should try again: all failures are SYSTEM_NOT_READY. */
bool symm__multicast_transient(const struct symm_multicast_report *all, int n);
/* Waits before the i-th repetition, counted from 0. */
void symm__multicast_back_off(int i);

#endif
