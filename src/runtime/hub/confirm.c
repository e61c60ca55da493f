/*
 * Confirmations: a rank asks whether a lane is alive, by all that any rank had sent before. The hub
 * answers when it has read from every connection what lay in the socket when it read the question.
 *
 * Questions are answered in rounds. A question that comes during a round waits for the next one, so
 * that a rank that never stops sending delays an answer by one full socket at most.
 */
#include "state.h"

void symm__hub_ask(struct symm_hub *hub, struct symm_hub_lane *lane, int place, uint64_t seq)
{
    lane->asks[place] = seq;
    hub->asked = true;
}

void symm__hub_heard(struct symm_hub_client *client, size_t nbytes)
{
    client->unheard -= nbytes && nbytes < client->unheard ? nbytes : client->unheard;
}

/* One byte more stands for one more look at the socket: behind the last message lies its end. */
static void open_round(struct symm_hub *hub)
{
    for (int i = 0; i < hub->nclients; i++)
        hub->clients[i]->unheard = symm__link_unread(&hub->clients[i]->link) + 1;
    for (struct symm_hub_lane *lane = hub->lanes; lane; lane = lane->next)
        for (int i = 0; i < lane->nranks; i++) {
            lane->answers[i] = lane->asks[i];
            lane->asks[i] = 0;
        }
    hub->asked = false;
    hub->confirming = true;
}

static bool all_heard(const struct symm_hub *hub)
{
    for (int i = 0; i < hub->nclients; i++)
        if (hub->clients[i]->unheard && !hub->clients[i]->over)
            return false;
    return true;
}

static void answer(struct symm_hub *hub, struct symm_hub_lane *lane)
{
    struct symm_message m = {.type = SYMM_MESSAGE_CONFIRMED, .lane = lane->key};

    for (int i = 0; i < lane->nranks; i++) {
        struct symm_hub_client *client = hub->ranks[lane->ranks[i]].client;
        m.seq = lane->answers[i];
        lane->answers[i] = 0;
        if (!m.seq || !client || client->over)
            continue;
        if (lane->status != SYMM_OK)
            symm__hub_send_end(hub, lane, client);
        else
            symm__hub_send(hub, client, &m);
    }
}

void symm__hub_confirm(struct symm_hub *hub)
{
    if (hub->confirming && all_heard(hub)) {
        for (struct symm_hub_lane *lane = hub->lanes; lane; lane = lane->next)
            answer(hub, lane);
        hub->confirming = false;
    }
    if (hub->asked && !hub->confirming)
        open_round(hub);
}
