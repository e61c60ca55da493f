/* The kept plan of a group is an attachment, made by its first call. */
#include "planned.h"

#include <stdlib.h>
#include "runtime/group/group.h"
#include "choice.h"

struct symm_last_planned {
    struct symm_attachment attachment;
    struct symm_planned planned;
    const char *staging; /* of the areas that it is for */
};

void symm__planned_make(const struct symm_limits *limits, const struct symm_areas_size *full,
                        const struct symm_collective_call *call, struct symm_planned *out)
{
    struct symm_limits wide = *limits;
    struct symm_plan best;

    *out = (struct symm_planned){.call = *call};
    if (call->count == 0 || limits->nranks == 1)
        return;
    wide.areas = *full;
    out->algorithm = symm__choose(limits, call);
    if (out->algorithm->transfer == SYMM_TRANSFER_COPIES) {
        out->slower = symm__operation_reduces(call->operation) &&
                      limits->areas.staging_nbytes < full->staging_nbytes;
        return;
    }
    out->plan = symm__plan(limits, call, out->algorithm);
    best = symm__plan(&wide, call, out->algorithm);
    out->slower = symm__plan_is_slower(&out->plan, &best);
}

static void release(struct symm_attachment *attachment)
{
    free(attachment);
}

void symm__planned_keep(struct symm_group *group, const struct symm_planned *planned)
{
    struct symm_last_planned *last = group->last_planned;

    if (!last) {
        last = malloc(sizeof *last);
        if (!last)
            return;
        last->attachment.release = release;
        symm__group_attach(group, &last->attachment);
        group->last_planned = last;
    }
    last->planned = *planned;
    last->staging = symm__group_areas(group)->staging;
}

static bool same(const struct symm_collective_call *a, const struct symm_collective_call *b)
{
    return a->operation == b->operation && a->algo == b->algo && a->flags == b->flags &&
           a->max_blocks == b->max_blocks && a->dtype == b->dtype && a->op == b->op &&
           a->scaled == b->scaled && a->count == b->count && a->row == b->row && a->root == b->root;
}

bool symm__planned_find(const struct symm_group *group, const struct symm_collective_call *call,
                        struct symm_planned *out)
{
    const struct symm_last_planned *last = group->last_planned;

    if (!last || last->staging != symm__group_areas(group)->staging ||
        !same(&last->planned.call, call))
        return false;
    *out = last->planned;
    return true;
}
