/* Groups, with their memory, streams and pads. */
#include "slot.h"

#include <stdlib.h>
#include "actor.h"

symm_status slot_open(struct actor *a, struct slot *slot)
{
    struct trial_buffers *b = &slot->b;
    symm_status st;

    b->nbytes = SLOT_MOST + 2 * TRIAL_MARGIN;
    b->got = malloc(b->nbytes);
    for (int i = 0; i < 2; i++)
        b->sent[i] = malloc(b->nbytes);
    for (int i = 0; i < 2; i++) {
        TRY(symm_alloc(slot->group, b->nbytes, (void **)&b->symmetric[i]));
        TRY(symm_device_alloc(a->ctx, b->nbytes, (void **)&b->foreign[i]));
    }
    TRY(symm_signal_pad_alloc(slot->group, SLOT_CHANNELS, &slot->pad));
    TRY(symm_stream_create(a->ctx, &b->stream));
out:
    return st;
}

void slot_abandon(struct actor *a, struct slot *slot)
{
    symm_abort(slot->group, "the storm gives it up");
    if (slot->b.stream && CALL(a, symm_synchronize(slot->group, slot->b.stream)) == SYMM_OK)
        board_report(a->post, STORM_WRONG, "symm_synchronize is OK after symm_abort");
}

void slot_close(struct actor *a, struct slot *slot, bool destroys)
{
    struct trial_buffers *b = &slot->b;

    if (slot->group && b->stream && symm_check(slot->group) != SYMM_OK)
        CALL(a, symm_synchronize(slot->group, b->stream)); /* so that nothing runs any more */
    for (int i = 0; i < 2; i++) {
        if (b->foreign[i])
            symm_device_free(a->ctx, b->foreign[i]);
        free(b->sent[i]);
    }
    free(b->got);
    symm_stream_destroy(b->stream);
    if (slot->group && destroys)
        CALL_FOR(a, actor_destroy_limit_ms(a), symm_group_destroy(slot->group));
    *slot = (struct slot){.roster = slot->roster};
}
