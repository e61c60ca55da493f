#include "runtime/group/areas.h"
#include "spanning.h"

/* A group of one domain has areas, one of several has links. */
static symm_status make(struct symm_call *call, size_t staging_nbytes)
{
    struct symm_group *group = call->group;
    const struct symm_agreed *agreed = &group->ctx->agreed;

    if (group->domains)
        return symm__links_make(group, call->text);
    return symm__group_make_areas(group, staging_nbytes ? staging_nbytes : agreed->staging_nbytes,
                                  call->text);
}

symm_status symm_group_reserve(symm_group *group, size_t staging_nbytes)
{
    const struct symm_agreed *agreed;
    struct symm_call call;
    symm_status st;

    TRY(symm__collective_begin_spanning(&call, group, true, "symm_group_reserve(%zu bytes)",
                                        staging_nbytes));
    agreed = &group->ctx->agreed;
    if (staging_nbytes > agreed->window_nbytes)
        return symm__collective_refuse(&call, "staging_nbytes is %zu; the window has %llu",
                                       staging_nbytes, (unsigned long long)agreed->window_nbytes);
    st = symm__collective_end(&call, make(&call, staging_nbytes));
out:
    return st;
}
