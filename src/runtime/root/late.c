/*
 * Late votes. When a domain reports that a vote is slow or has expired, the root asks the hubs of
 * the missing domains which of their ranks are missing, and answers when all have told, or after a
 * time limit.
 */
#include <stdlib.h>
#include <string.h>
#include "state.h"

/* A hub needs up to one second to ask its ranks. */
enum { TELL_US = 2000000 };

void symm__root_forget_question(struct symm_root_comm *comm)
{
    comm->ask_until_us = 0;
    comm->expired = false;
    for (int i = 0; i < comm->nparties; i++) {
        comm->parties[i].slow = comm->parties[i].unheard = false;
        free(comm->parties[i].missing);
        comm->parties[i].missing = NULL;
    }
}

static void ask_missing(struct symm_root *root, struct symm_root_comm *comm)
{
    struct symm_message m = {.type = SYMM_MESSAGE_SLOW, .seq = comm->seq + 1};

    comm->ask_until_us = symm__now_us() + TELL_US;
    for (int i = 0; i < comm->nparties; i++) {
        struct symm_root_party *party = &comm->parties[i];
        if (party->came || !party->known || !root->domains[party->domain].wire)
            continue;
        party->unheard = true;
        m.comm = party->name;
        symm__root_send(root, party->domain, &m);
    }
}

void symm__root_late(struct symm_root *root, struct symm_root_comm *comm,
                     struct symm_root_party *party, const struct symm_message *m)
{
    if (m->seq != comm->seq + 1 || !party->came)
        return; /* the result has been sent */
    if (!comm->ask_until_us)
        ask_missing(root, comm);
    party->slow = true;
    if (m->type == SYMM_MESSAGE_EXPIRED && !comm->expired) {
        comm->expired = true;
        comm->expired_ms = m->args[0];
    }
}

void symm__root_told(struct symm_root_comm *comm, struct symm_root_party *party,
                     const struct symm_message *m)
{
    if (!comm->ask_until_us || m->seq != comm->seq + 1 || party->missing)
        return;
    party->unheard = false;
    party->missing = calloc(1, sizeof *party->missing);
    if (party->missing)
        symm__text_add(party->missing, "%s", m->reason);
}

/* The call of a domain that waits. */
static const char *call_of(const struct symm_root_comm *comm)
{
    for (int i = 0; i < comm->nparties; i++)
        if (comm->parties[i].came)
            return comm->parties[i].came->text;
    return "";
}

static void add_missing(const struct symm_root *root, const struct symm_root_comm *comm,
                        struct symm_text *text)
{
    for (int i = 0; i < comm->nparties; i++) {
        const struct symm_root_party *party = &comm->parties[i];
        if (party->came)
            continue;
        symm__text_add(text, "%s%s", text->used ? "; " : "",
                       symm__span_name(root->span, party->domain).text);
        if (root->domains[party->domain].fate == SYMM_ROOT_AWAITED)
            symm__text_add(text, " has not joined");
        else if (party->missing)
            symm__text_add(text, ": %s", party->missing->bytes);
        else
            symm__text_add(text, party->unheard ? " does not answer" : " has not come");
    }
}

static void finish(struct symm_root *root, struct symm_root_comm *comm)
{
    struct symm_message late = {.type = SYMM_MESSAGE_LATE, .seq = comm->seq + 1};
    struct symm_text text = {.used = 0};

    add_missing(root, comm, &text);
    symm__text_add(&text, comm->expired ? ", in %.160s, within %llu ms" : ", in %.160s",
                   call_of(comm), (unsigned long long)comm->expired_ms);
    if (comm->expired) {
        symm__root_end_comm(root, comm, SYMM_ERROR_TIMEOUT, text.bytes);
        return;
    }
    late.reason = text.bytes;
    for (int i = 0; i < comm->nparties; i++) {
        late.comm = comm->parties[i].name;
        if (comm->parties[i].slow)
            symm__root_send(root, comm->parties[i].domain, &late);
    }
    symm__root_forget_question(comm);
}

void symm__root_late_tick(struct symm_root *root)
{
    for (struct symm_root_comm *comm = root->comms; comm; comm = comm->next) {
        bool heard = true;
        for (int i = 0; i < comm->nparties; i++)
            heard &= !comm->parties[i].unheard;
        if (comm->ask_until_us && (heard || symm__now_us() >= comm->ask_until_us))
            finish(root, comm);
    }
}
