/* Products of two ranks that run as if they were more. */
#include "as_if.h"

#include "runtime/base/settings.h"
#include "runtime/group/pad.h"

enum { LEAST_RANKS = 3, MOST_RANKS = 8 };

static bool is_played(const symm_view *view)
{
    return view->flags & SYMM_VIEW_PLAYED;
}

/* This rank becomes rank 0. */
static void play(symm_view *view, int nranks)
{
    const uint32_t other = (uint32_t)(1 - view->rank);
    const int64_t peer = view->peer[other];

    view->flags = SYMM_VIEW_PLAYED | other << SYMM_VIEW_PLAYER;
    view->multicast = 0;
    view->rank = 0;
    view->nranks = nranks;
    view->peer[0] = 0;
    for (int r = 1; r < nranks; r++)
        view->peer[r] = peer;
}

symm_status symm__as_if(const struct symm_group *group, symm_matmul_kind kind, symm_view *view)
{
    int64_t nranks;
    symm_status st;

    *view = group->view;
    TRY(symm__setting_int(SYMM_SETTING_MATMUL_AS_IF, 0, MOST_RANKS, &nranks));
    if (nranks == 0 || kind == SYMM_MATMUL)
        return SYMM_OK;
    if (nranks < LEAST_RANKS)
        return symm__fail(SYMM_ERROR_ARGUMENT, "SYMM_MATMUL_AS_IF is %d, not 0 or %d to %d",
                          (int)nranks, LEAST_RANKS, MOST_RANKS);
    if (group->nranks != 2)
        return symm__fail(SYMM_ERROR_UNSUPPORTED,
                          "SYMM_MATMUL_AS_IF is %d: it needs 2 ranks, the group has %d",
                          (int)nranks, group->nranks);
    play(view, (int)nranks);
out:
    return st;
}

symm_status symm__as_if_check(const symm_view *view, const struct symm_problem *p)
{
    const char *why = NULL;

    if (!is_played(view))
        return SYMM_OK;
    if (p->strategy != SYMM_STRATEGY_FUSED && p->strategy != SYMM_STRATEGY_PIPELINED)
        why = "the strategy must be fused or pipelined";
    else if (symm__kind_collects(p->kind) && p->nb > 1)
        why = "a product whose results are sent must have one b";
    else if ((symm__kind_reduces(p->kind) || p->l > 1) && p->m % view->nranks != 0)
        why = "m must be a multiple of the ranks, in sums and in batches";
    if (why)
        return symm__fail(SYMM_ERROR_UNSUPPORTED, "SYMM_MATMUL_AS_IF is %d: %s", view->nranks, why);
    return SYMM_OK;
}

void symm__as_if_slots(symm_view *view, uint64_t slot_nbytes)
{
    for (int r = 1; r < view->nranks; r++)
        view->peer[r] += symm__pad_heard_as(view, r) * (int64_t)slot_nbytes;
}
