/* Converts an activity to and from messages, and to text. */
#include "activity.h"

#include <stdio.h>

void symm__activity_write(const struct symm_activity *activity, struct symm_message *told)
{
    told->op = activity->kind;
    told->args[1] = (uint64_t)(activity->awaits + 1);
    told->args[2] = activity->since_ms;
    told->text = activity->text;
    told->reason = activity->enqueued;
}

void symm__activity_read(const struct symm_message *told, struct symm_activity *activity)
{
    *activity = (struct symm_activity){
        .kind = told->op < SYMM_ACTIVITY_KINDS ? (enum symm_activity_kind)told->op
                                               : SYMM_ACTIVITY_NOTHING,
        .awaits = told->args[1] <= SYMM_MAX_RANKS ? (int)told->args[1] - 1 : -1,
        .since_ms = told->args[2],
    };
    snprintf(activity->text, sizeof activity->text, "%s", told->text);
    snprintf(activity->enqueued, sizeof activity->enqueued, "%s", told->reason);
}

void symm__activity_add(struct symm_text *text, int rank, const struct symm_activity *activity)
{
    switch (activity->kind) {
    case SYMM_ACTIVITY_CALL:
        symm__text_add(text, "rank %d is in %s", rank, activity->text);
        if (*activity->enqueued)
            symm__text_add(text, ", after %s", activity->enqueued);
        break;
    case SYMM_ACTIVITY_WAIT:
        symm__text_add(text, "rank %d waits in %s, since %llu ms", rank, activity->text,
                       (unsigned long long)activity->since_ms);
        break;
    case SYMM_ACTIVITY_GONE:
        symm__text_add(text, "rank %d has left the group", rank);
        break;
    default:
        if (*activity->text)
            symm__text_add(text, "the last call of rank %d is %s", rank, activity->text);
        else
            symm__text_add(text, "rank %d has made no call yet", rank);
        break;
    }
}
