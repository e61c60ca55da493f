/* Sets of side streams: one for calls outside of captures, and one for each capture at a time. */
#include "side.h"

#include <stdlib.h>

struct side {
    CUstream stream;
    CUevent event; /* recorded anew at each join; a wait means the record before it */
    bool forked;
};

struct symm_sides {
    struct symm_sides *next;
    struct symm_group *group;
    CUstream main; /* of the last call that took them */
    CUevent mark;
    int n; /* that there are */
    struct side sides[SYMM_SIDES_MAX];
};

/* ---------------------------------------------------------------------------------- their lives */

/* What has been made stays for the next time if the rest could not be. */
static symm_status make(struct symm_sides *sides, int n)
{
    const struct symm_driver *drv = sides->group->ctx->drv;
    int least, greatest;
    symm_status st = SYMM_OK;

    TRY_CU(drv, cuCtxGetStreamPriorityRange, &least, &greatest);
    if (!sides->mark)
        TRY_CU(drv, cuEventCreate, &sides->mark, CU_EVENT_DISABLE_TIMING);
    for (; sides->n < n; sides->n++) {
        struct side *side = &sides->sides[sides->n];
        if (!side->event)
            TRY_CU(drv, cuEventCreate, &side->event, CU_EVENT_DISABLE_TIMING);
        TRY_CU(drv, cuStreamCreateWithPriority, &side->stream, CU_STREAM_NON_BLOCKING, greatest);
    }
out:
    return st;
}

/* A capture of this thread's need not like that, though it does not touch its streams. */
static symm_status make_relaxed(struct symm_sides *sides, int n)
{
    const struct symm_driver *drv = sides->group->ctx->drv;
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    symm_status st = SYMM_OK;

    if (n <= sides->n)
        return SYMM_OK;
    TRY_CU(drv, cuThreadExchangeStreamCaptureMode, &mode);
    st = make(sides, n);
    drv->cuThreadExchangeStreamCaptureMode(&mode);
out:
    return st;
}

/* Whether this call may have them: they are in no capture, or in that of its own stream. */
static symm_status ask_free(const struct symm_sides *sides, const struct symm_enqueue *e,
                            bool *is_free)
{
    symm_status st = SYMM_OK;

    *is_free = true;
    for (int i = 0; i < sides->n && *is_free; i++) {
        int status = CU_STREAM_CAPTURE_STATUS_NONE;
        TRY_CU(e->group->ctx->drv, cuStreamIsCapturing, sides->sides[i].stream, &status);
        *is_free =
            status == CU_STREAM_CAPTURE_STATUS_NONE ||
            (status == CU_STREAM_CAPTURE_STATUS_ACTIVE && e->capturing && sides->main == e->stream);
    }
out:
    return st;
}

symm_status symm__sides_take(struct symm_enqueue *e, int n, struct symm_sides **out)
{
    struct symm_group *group = e->group;
    struct symm_sides *sides;
    bool is_free = false;
    symm_status st = SYMM_OK;

    for (sides = group->sides; sides; sides = sides->next) {
        TRY(ask_free(sides, e, &is_free));
        if (is_free)
            break;
    }
    if (!sides) {
        sides = calloc(1, sizeof *sides);
        if (!sides)
            return symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
        sides->group = group;
        sides->next = group->sides;
        group->sides = sides;
    }
    TRY(make_relaxed(sides, n));
    sides->main = e->stream;
    *out = sides;
out:
    return st;
}

void symm__sides_release(struct symm_group *group, symm_status *st)
{
    const struct symm_driver *drv = group->ctx->drv;

    while (group->sides) {
        struct symm_sides *sides = group->sides;
        group->sides = sides->next;
        for (int i = 0; i < SYMM_SIDES_MAX; i++) {
            if (sides->sides[i].event)
                symm__driver_note(drv, drv->cuEventDestroy(sides->sides[i].event), "cuEventDestroy",
                                  st);
            if (i < sides->n)
                symm__driver_note(drv, drv->cuStreamDestroy(sides->sides[i].stream),
                                  "cuStreamDestroy", st);
        }
        if (sides->mark)
            symm__driver_note(drv, drv->cuEventDestroy(sides->mark), "cuEventDestroy", st);
        free(sides);
    }
}

/* -------------------------------------------------------------------------------- fork and join */

CUstream symm__side_stream(const struct symm_sides *sides, int i)
{
    return sides->sides[i].stream;
}

symm_status symm__sides_mark(struct symm_sides *sides)
{
    symm_status st = SYMM_OK;

    TRY_CU(sides->group->ctx->drv, cuEventRecord, sides->mark, sides->main);
out:
    return st;
}

symm_status symm__side_follow(struct symm_sides *sides, int i)
{
    struct side *side = &sides->sides[i];
    symm_status st = SYMM_OK;

    TRY_CU(sides->group->ctx->drv, cuStreamWaitEvent, side->stream, sides->mark, 0);
    side->forked = true;
out:
    return st;
}

static void join(struct symm_sides *sides, struct side *side, symm_status *st)
{
    const struct symm_driver *drv = sides->group->ctx->drv;
    CUresult cu;

    if (!side->forked)
        return;
    side->forked = false;
    cu = drv->cuEventRecord(side->event, side->stream);
    symm__driver_note(drv, cu, "cuEventRecord", st);
    if (cu == CUDA_SUCCESS)
        symm__driver_note(drv, drv->cuStreamWaitEvent(sides->main, side->event, 0),
                          "cuStreamWaitEvent", st);
}

symm_status symm__side_join(struct symm_sides *sides, int i)
{
    symm_status st = SYMM_OK;

    join(sides, &sides->sides[i], &st);
    return st;
}

symm_status symm__sides_finish(struct symm_sides *sides, symm_status st)
{
    for (int i = 0; i < sides->n; i++)
        join(sides, &sides->sides[i], &st);
    if (st != SYMM_OK)
        sides->group->has_unrecorded = true;
    return st;
}
