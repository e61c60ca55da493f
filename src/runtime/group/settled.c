/* One record, under a lock that is held for a few loads and stores. */
#include "settled.h"

void symm__settled_note(struct symm_settled *settled, const struct symm_group *group,
                        CUstream stream, bool in_capture)
{
    pthread_mutex_lock(&settled->lock);
    settled->group = group;
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
