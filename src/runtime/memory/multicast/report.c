/* Fills in and evaluates reports on multicast. */
#include "report.h"

#if SYMM_MULTICAST

#include <stdio.h>

#include "runtime/base/deadline.h"

enum { RETRY_MS = 50 }; /* before the first repetition; doubles each time */

static const char *hint(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return ": no multicast slots left in the switch";
    case CUDA_ERROR_ILLEGAL_STATE:
        return ": is the fabric manager running?";
    case CUDA_ERROR_SYSTEM_NOT_READY:
        return ": the fabric is not ready";
    default:
        return "";
    }
}

void symm__multicast_report(struct symm_multicast_report *out, symm_status st, CUresult result)
{
    out->result = 0;
    out->text[0] = '\0';
    if (st == SYMM_OK)
        return;
    out->result = result != CUDA_SUCCESS ? result : -1;
    snprintf(out->text, sizeof out->text, "%s%s", symm__failure_text(), hint(result));
}

void symm__multicast_first_failure(const struct symm_multicast_report *all, int n, const int *world,
                                   char *why, size_t nbytes)
{
    why[0] = '\0';
    for (int r = 0; r < n && !why[0]; r++)
        if (all[r].result != 0)
            snprintf(why, nbytes, "%.*s%s", (int)sizeof all[r].text, all[r].text,
                     symm__on_rank(r, world[r]).text);
}

bool symm__multicast_transient(const struct symm_multicast_report *all, int n)
{
    bool any = false;

    for (int r = 0; r < n; r++) {
        if (all[r].result == CUDA_ERROR_SYSTEM_NOT_READY)
            any = true;
        else if (all[r].result != 0)
            return false;
    }
    return any;
}

void symm__multicast_back_off(int i)
{
    symm__sleep_us((int64_t)RETRY_MS * 1000 << i);
}

#else

typedef int symm_multicast_report_is_not_in_this_build; /* ISO C wants a declaration */

#endif
