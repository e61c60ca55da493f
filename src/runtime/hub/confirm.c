/*
 * Confirmations. A rank asks whether a comm is alive after all messages that any rank has sent so
 * far. The hub answers when it has read from every connection the bytes that lay in the socket when
 * it read the question.
 *
 * Questions are answered in rounds. A question that arrives during a round waits for the next
 * round. So a rank that never stops sending delays an answer by at most one full socket.
 */
#include "state.h"

void symm__hub_ask(struct symm_hub *hub, struct symm_hub_comm *comm, int comm_rank, uint64_t seq)
{
    comm->asks[comm_rank] = seq;
    hub->asked = true;
}

void symm__hub_heard(struct symm_hub_client *client, size_t nbytes)
{
    client->unheard -= nbytes && nbytes < client->unheard ? nbytes : client->unheard;
}

/*
 * Opens a round. One extra byte makes the hub look at each socket once more: the end of the
 * connection comes after the last message.
 */
static void open_round(struct symm_hub *hub)
{
    for (int i = 0; i < hub->nclients; i++)
        hub->clients[i]->unheard = symm__link_unread(&hub->clients[i]->link) + 1;
    for (struct symm_hub_comm *comm = hub->comms; comm; comm = comm->next)
        for (int i = 0; i < comm->nranks; i++) {
            comm->answers[i] = comm->asks[i];
            comm->asks[i] = 0;
        }
    for (struct symm_hub_comm *comm = hub->comms; comm; comm = comm->next)
        if (comm->arm)
            symm__hub_relay_round(comm);
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

static void answer(struct symm_hub *hub, struct symm_hub_comm *comm)
{
    struct symm_message m = {.type = SYMM_MESSAGE_CONFIRMED, .comm = comm->key};

    for (int i = 0; i < comm->nranks; i++) {
        struct symm_hub_client *client = hub->ranks[comm->ranks[i]].client;
        m.seq = comm->answers[i];
        comm->answers[i] = 0;
        if (!m.seq || !client || client->over)
            continue;
        if (comm->status != SYMM_OK)
            symm__hub_send_end(hub, comm, client);
        else
            symm__hub_send(hub, client, &m);
    }
}

void symm__hub_confirm(struct symm_hub *hub)
{
    if (hub->confirming && all_heard(hub)) {
        for (struct symm_hub_comm *comm = hub->comms; comm; comm = comm->next) {
            answer(hub, comm);
            if (comm->arm)
                symm__hub_relay_answer(hub, comm);
        }
        hub->confirming = false;
    }
    if (hub->asked && !hub->confirming)
        open_round(hub);
}
