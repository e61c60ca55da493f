/* What a rank is doing: in messages, and in words. */
#include "doing.h"

#include <stdio.h>

void symm__doing_write(const struct symm_doing *doing, struct symm_message *told)
{
    told->op = doing->kind;
    told->args[1] = (uint64_t)(doing->awaits + 1);
    told->args[2] = doing->since_ms;
    told->text = doing->text;
    told->reason = doing->enqueued;
}

void symm__doing_read(const struct symm_message *told, struct symm_doing *doing)
{
    *doing = (struct symm_doing){
        .kind = told->op < SYMM_DOING_KINDS ? (enum symm_doing_kind)told->op : SYMM_DOING_NOTHING,
        .awaits = told->args[1] <= SYMM_MAX_RANKS ? (int)told->args[1] - 1 : -1,
        .since_ms = told->args[2],
    };
    snprintf(doing->text, sizeof doing->text, "%s", told->text);
    snprintf(doing->enqueued, sizeof doing->enqueued, "%s", told->reason);
}

void symm__doing_add(struct symm_text *text, int rank, const struct symm_doing *doing)
{
    switch (doing->kind) {
    case SYMM_DOING_CALL:
        symm__text_add(text, "rank %d is in %s", rank, doing->text);
        if (*doing->enqueued)
            symm__text_add(text, ", after %s", doing->enqueued);
        break;
    case SYMM_DOING_WAIT:
        symm__text_add(text, "rank %d waits in %s, since %llu ms", rank, doing->text,
                       (unsigned long long)doing->since_ms);
        break;
    case SYMM_DOING_GONE:
        symm__text_add(text, "rank %d has left the group", rank);
        break;
    default:
        if (*doing->text)
            symm__text_add(text, "the last call of rank %d is %s", rank, doing->text);
        else
            symm__text_add(text, "rank %d has made no call yet", rank);
        break;
    }
}
