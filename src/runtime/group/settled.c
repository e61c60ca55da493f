/* One record, under a lock that is held for a few loads and stores. */
#include "settled.h"

#include <stdint.h>

/*
 * Whether it is one of the driver's own handles: NULL and 1 are the same stream, and 2 is a stream
 * of the thread.
 */
static bool is_drivers_own(CUstream stream)
{
    return (uintptr_t)stream <= 2;
}

void symm__settled_note(struct symm_settled *settled, const struct symm_group *group,
                        CUstream stream, bool in_capture)
{
    pthread_mutex_lock(&settled->lock);
    settled->group = is_drivers_own(stream) ? NULL : group;
    settled->stream = stream;
    settled->in_capture = in_capture;
    pthread_mutex_unlock(&settled->lock);
}

bool symm__settled_take(struct symm_settled *settled, const struct symm_group *group,
                        CUstream stream, bool in_capture)
{
    bool behind;

    pthread_mutex_lock(&settled->lock);
    behind =
        settled->group == group && settled->stream == stream && settled->in_capture == in_capture;
    if (settled->group == group || settled->stream == stream)
        settled->group = NULL;
    pthread_mutex_unlock(&settled->lock);
    return behind;
}
