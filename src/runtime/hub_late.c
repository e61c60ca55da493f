/* Whom a step waits for, and what they are doing instead. */
#include "hub_state.h"

/* "; rank 2 is in symm_alloc(4096), of another group" */
static void add_doing(struct symm_text *text, const struct symm_hub *hub, int rank)
{
    for (const struct symm_hub_lane *lane = hub->lanes; lane; lane = lane->next) {
        int place = symm__hub_place_of(lane, rank);
        if (place >= 0 && lane->came[place]) {
            symm__text_add(text, "; rank %d waits in %.*s, on another group", rank,
                           SYMM_HUB_CALL_SHOWN, lane->came[place]->text);
            return;
        }
    }
    if (*hub->ranks[rank].last_done)
        symm__text_add(text, "; the last call that rank %d finished is %.*s", rank,
                       SYMM_HUB_CALL_SHOWN, hub->ranks[rank].last_done);
    else
        symm__text_add(text, "; rank %d has finished no call yet", rank);
}

void symm__hub_late(struct symm_hub *hub, struct symm_hub_client *client,
                    struct symm_hub_lane *lane, const struct symm_message *m)
{
    int place = symm__hub_place_of(lane, client->rank);
    struct symm_text text = {.used = 0};
    struct symm_message late = {.type = SYMM_MESSAGE_LATE, .lane = m->lane, .seq = m->seq};

    if (place < 0 || !lane->came[place] || m->seq != lane->seq + 1)
        return; /* the result is on its way */
    for (int i = 0; i < lane->nranks; i++)
        if (!lane->came[i])
            symm__rank_set_add(&late.set, lane->ranks[i]);
    symm__text_add_ranks(&text, late.set);
    if (m->type == SYMM_MESSAGE_EXPIRED)
        symm__text_add(&text, " did not come to %.*s within %llu ms", SYMM_HUB_CALL_SHOWN,
                       lane->came[place]->text, (unsigned long long)m->args[0]);
    else
        symm__text_add(&text, " in %.*s", SYMM_HUB_CALL_SHOWN, lane->came[place]->text);
    for (int i = 0; i < lane->nranks; i++)
        if (!lane->came[i])
            add_doing(&text, hub, lane->ranks[i]);
    if (m->type == SYMM_MESSAGE_EXPIRED) {
        symm__hub_end_lane(hub, lane, SYMM_ERROR_TIMEOUT, text.bytes);
    } else {
        late.reason = text.bytes;
        symm__hub_send(hub, client, &late);
    }
}
