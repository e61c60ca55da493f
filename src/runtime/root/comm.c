/* The root's comms: collects votes of domains, gives verdicts, confirms, and ends comms. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "state.h"

/* ---- Comms ---- */

static symm_status add_comm(struct symm_root *root, int nparties, struct symm_root_comm **out)
{
    struct symm_root_comm *comm =
        calloc(1, sizeof *comm + (size_t)nparties * sizeof comm->parties[0]);

    if (!comm)
        return symm__fail(SYMM_ERROR_MEMORY, "the root has no memory for a group");
    comm->key = ++root->last_key;
    comm->nparties = nparties;
    comm->next = root->comms;
    root->comms = comm;
    *out = comm;
    return SYMM_OK;
}

symm_status symm__root_add_world(struct symm_root *root)
{
    struct symm_root_comm *comm = NULL;
    symm_status st;

    TRY(add_comm(root, root->span->ndomains, &comm));
    comm->formed = true;
    for (int d = 0; d < comm->nparties; d++)
        comm->parties[d] =
            (struct symm_root_party){.domain = d, .known = true, .name = SYMM_COMM_SPAN};
out:
    return st;
}

static struct symm_root_party *party_of(struct symm_root_comm *comm, int domain)
{
    for (int i = 0; i < comm->nparties; i++)
        if (comm->parties[i].domain == domain)
            return &comm->parties[i];
    return NULL;
}

/* The comm that the domain calls by this name; NULL: none. *party: the domain in it. */
static struct symm_root_comm *find(struct symm_root *root, int domain, uint64_t name,
                                   struct symm_root_party **party)
{
    for (struct symm_root_comm *comm = root->comms; comm; comm = comm->next) {
        *party = party_of(comm, domain);
        if (*party && (*party)->known && (*party)->name == name)
            return comm;
    }
    return NULL;
}

static void forget_vote(struct symm_root_comm *comm)
{
    for (int i = 0; i < comm->nparties; i++) {
        free(comm->parties[i].came);
        comm->parties[i].came = NULL;
    }
    comm->ncame = 0;
    symm__root_forget_question(comm);
}

void symm__root_sweep(struct symm_root *root, bool all)
{
    for (struct symm_root_comm **at = &root->comms; *at;) {
        struct symm_root_comm *comm = *at;
        bool gone = true;
        for (int i = 0; i < comm->nparties; i++)
            gone &= comm->parties[i].gone;
        if (!all && !gone) {
            at = &comm->next;
            continue;
        }
        *at = comm->next;
        forget_vote(comm);
        free(comm);
    }
}

/* ---- Confirmations ---- */

/*
 * A hub asks whether the comm is alive. Every hub of it is asked, and answers after it has heard
 * all that its ranks had sent: what is on its way over TCP comes before its answer.
 */
static void ask_all(struct symm_root *root, struct symm_root_comm *comm, struct symm_root_party *by,
                    uint64_t seq)
{
    struct symm_message m = {
        .type = SYMM_MESSAGE_CONFIRM, .seq = seq, .args = {(uint64_t)by->domain, ++by->round}};

    by->confirms = seq;
    by->unconfirmed = 0;
    for (int i = 0; i < comm->nparties; i++) {
        if (comm->parties[i].gone)
            continue;
        by->unconfirmed++;
        m.comm = comm->parties[i].name;
        symm__root_send(root, comm->parties[i].domain, &m);
    }
}

static void confirmed(struct symm_root *root, struct symm_root_comm *comm,
                      const struct symm_message *m)
{
    struct symm_message answer = {.type = SYMM_MESSAGE_CONFIRMED, .seq = m->seq};
    struct symm_root_party *by =
        m->args[0] < (uint64_t)root->span->ndomains ? party_of(comm, (int)m->args[0]) : NULL;

    if (!by || by->confirms != m->seq || by->round != m->args[1] || --by->unconfirmed > 0)
        return;
    by->confirms = 0;
    answer.comm = by->name;
    symm__root_send(root, by->domain, &answer);
}

/* ---- Ends ---- */

static void send_end(struct symm_root *root, const struct symm_root_comm *comm,
                     const struct symm_root_party *party)
{
    const struct symm_message m = {.type = SYMM_MESSAGE_ENDED,
                                   .comm = party->name,
                                   .status = comm->status,
                                   .reason = comm->reason};

    symm__root_send(root, party->domain, &m);
}

void symm__root_end_comm(struct symm_root *root, struct symm_root_comm *comm, symm_status status,
                         const char *reason)
{
    if (comm->status != SYMM_OK)
        return;
    comm->status = status;
    snprintf(comm->reason, sizeof comm->reason, "%s", reason);
    for (int i = 0; i < comm->nparties; i++) {
        struct symm_root_party *party = &comm->parties[i];
        if (party->known && !party->gone)
            send_end(root, comm, party);
        if (!comm->formed) /* no hub keeps it: later ones begin a new attempt */
            party->left = party->gone = true;
    }
    forget_vote(comm);
    for (struct symm_root_comm *child = root->comms; child; child = child->next)
        if (child->parent == comm->key && !child->formed)
            symm__root_end_comm(root, child, status, comm->reason);
}

static void end_for(struct symm_root *root, struct symm_root_comm *comm, int domain)
{
    char text[SYMM_TEXT_MAX];

    if (root->domains[domain].fate == SYMM_ROOT_LOST)
        snprintf(text, sizeof text, "%s", root->domains[domain].lost);
    else
        snprintf(text, sizeof text, "%s has left", symm__span_name(root->span, domain).text);
    symm__root_end_comm(root, comm, SYMM_ERROR_PEER, text);
}

/*
 * A rank of a domain closes a comm; `all`: the last one, or the domain is gone. This ends the comm
 * only if others wait in a vote, or if the domain is lost: in a collective destroy, some ranks
 * finish before others.
 */
static void close_comm(struct symm_root *root, struct symm_root_comm *comm,
                       struct symm_root_party *party, bool all)
{
    if (party->gone)
        return;
    party->left = true;
    party->gone = all;
    if (comm->ncame || root->domains[party->domain].fate == SYMM_ROOT_LOST)
        end_for(root, comm, party->domain);
    for (int i = 0; all && i < comm->nparties; i++) /* this domain will not answer them */
        if (comm->parties[i].confirms && comm->status == SYMM_OK && !comm->parties[i].gone)
            ask_all(root, comm, &comm->parties[i], comm->parties[i].confirms);
    for (struct symm_root_comm *child = root->comms; child; child = child->next)
        if (child->parent == comm->key && !child->formed && party_of(child, party->domain))
            end_for(root, child, party->domain);
}

void symm__root_domain_gone(struct symm_root *root, int domain)
{
    for (struct symm_root_comm *comm = root->comms; comm; comm = comm->next) {
        struct symm_root_party *party = party_of(comm, domain);
        if (party)
            close_comm(root, comm, party, true);
    }
}

/* ---- Votes ---- */

static uint32_t order_of(const struct symm_message *m)
{
    struct symm_span_birth birth = {.order = 0};

    if (m->type == SYMM_MESSAGE_SPAN)
        memcpy(&birth, m->payload, sizeof birth);
    return birth.order;
}

static struct symm_root_said *keep(const struct symm_message *m)
{
    const size_t text = strlen(m->text) + 1, reason = strlen(m->reason) + 1;
    struct symm_root_said *said = malloc(sizeof *said + text + reason + m->payload_nbytes);

    if (!said)
        return NULL;
    char *at = (char *)(said + 1);
    said->status = m->status;
    said->order = order_of(m);
    said->text = memcpy(at, m->text, text);
    said->reason = memcpy(at + text, m->reason, reason);
    said->payload = at + text + reason;
    said->nbytes = m->type == SYMM_MESSAGE_SPAN ? 0 : m->payload_nbytes;
    if (said->nbytes)
        memcpy(at + text + reason, m->payload, said->nbytes);
    return said;
}

/* "domain 0 (ranks 0 to 3): symm_trim(); domain 1 (ranks 4 to 7): symm_exchange(4 bytes)" */
static symm_status different(const struct symm_root *root, const struct symm_root_comm *comm,
                             struct symm_text *text)
{
    symm__text_add(text, "ranks called different things: ");
    for (int i = 0; i < comm->nparties; i++)
        symm__text_add(text, "%s%s: %.160s", i ? "; " : "",
                       symm__span_name(root->span, comm->parties[i].domain).text,
                       comm->parties[i].came->text);
    return SYMM_ERROR_MISMATCH;
}

/* A domain whose own ranks differ brings that as its status. */
static symm_status judge(const struct symm_root *root, const struct symm_root_comm *comm,
                         struct symm_text *text)
{
    const struct symm_root_said *first = comm->parties[0].came, *failed = NULL;
    bool equal = true;

    for (int i = 0; i < comm->nparties; i++) {
        const struct symm_root_said *said = comm->parties[i].came;
        equal &= !strcmp(said->text, first->text) && said->order == first->order;
        if (said->status != SYMM_OK && (!failed || said->status == SYMM_ERROR_MISMATCH))
            failed = said;
    }
    if (!equal && !(failed && failed->status == SYMM_ERROR_MISMATCH))
        return different(root, comm, text);
    if (failed) {
        symm__text_add(text, "%s", failed->reason);
        return failed->status;
    }
    for (int i = 1; i < comm->nparties; i++)
        if (comm->parties[i].came->nbytes != first->nbytes) {
            symm__text_add(text, "%.160s: %s and %s brought different numbers of bytes",
                           first->text, symm__span_name(root->span, comm->parties[0].domain).text,
                           symm__span_name(root->span, comm->parties[i].domain).text);
            return SYMM_ERROR_MISMATCH;
        }
    return SYMM_OK;
}

/* All domains have come: sends the verdict with all contributions, and begins the next vote. */
static void conclude(struct symm_root *root, struct symm_root_comm *comm)
{
    const size_t each = comm->parties[0].came->nbytes;
    struct symm_text text = {.used = 0};
    struct symm_message result = {.type = SYMM_MESSAGE_RESULT, .seq = comm->seq + 1};
    unsigned char all[SYMM_PAYLOAD_MAX];

    result.status = judge(root, comm, &text);
    if (result.status == SYMM_OK && each * (size_t)comm->nparties > sizeof all) {
        result.status = SYMM_ERROR_ARGUMENT;
        symm__text_add(&text, "%zu bytes of each domain are too many for one vote", each);
    }
    if (result.status == SYMM_OK) {
        for (int i = 0; i < comm->nparties; i++)
            memcpy(all + (size_t)i * each, comm->parties[i].came->payload, each);
        result.payload = all;
        result.payload_nbytes = each * (size_t)comm->nparties;
    }
    result.reason = text.bytes;
    for (int i = 0; i < comm->nparties; i++) {
        result.comm = comm->parties[i].name;
        symm__root_send(root, comm->parties[i].domain, &result);
        if (result.status != SYMM_OK && !comm->formed)
            comm->parties[i].left = comm->parties[i].gone = true;
    }
    comm->seq++;
    comm->formed = true;
    forget_vote(comm);
}

static void arrive(struct symm_root *root, struct symm_root_comm *comm,
                   struct symm_root_party *party, const struct symm_message *m)
{
    if (comm->status != SYMM_OK || party->came || m->seq != comm->seq + 1) {
        symm__root_end_comm(root, comm, SYMM_ERROR_MISMATCH, "a domain voted out of order");
        send_end(root, comm, party);
        return;
    }
    party->came = keep(m);
    if (!party->came) {
        symm__root_end_comm(root, comm, SYMM_ERROR_MEMORY, "the root has no memory for a vote");
        return;
    }
    comm->ncame++;
    for (int i = 0; i < comm->nparties; i++)
        if (comm->parties[i].left) {
            end_for(root, comm, comm->parties[i].domain);
            return;
        }
    if (comm->ncame == comm->nparties)
        conclude(root, comm);
}

/* ---- New comms ---- */

/* The oldest attempt at this comm that the domain has not joined; NULL: none. */
static struct symm_root_comm *find_attempt(struct symm_root *root, int domain, uint64_t parent,
                                           const struct symm_span_birth *birth)
{
    struct symm_root_comm *oldest = NULL;
    struct symm_root_party *party;

    for (struct symm_root_comm *comm = root->comms; comm; comm = comm->next)
        if (!comm->formed && comm->status == SYMM_OK && comm->parent == parent &&
            comm->hash == birth->hash && comm->nparties == (int)birth->ndomains &&
            (party = party_of(comm, domain)) && !party->came)
            oldest = comm; /* new comms come first in the list */
    return oldest;
}

static symm_status begin_attempt(struct symm_root *root, struct symm_root_comm *parent,
                                 const struct symm_span_birth *birth, const uint32_t *domains,
                                 struct symm_root_comm **out)
{
    symm_status st;

    TRY(add_comm(root, (int)birth->ndomains, out));
    (*out)->parent = parent->key;
    (*out)->hash = birth->hash;
    for (int i = 0; i < (*out)->nparties; i++) {
        const struct symm_root_party *old = party_of(parent, (int)domains[i]);
        (*out)->parties[i] =
            (struct symm_root_party){.domain = (int)domains[i], .left = !old || old->gone};
    }
    if (parent->status != SYMM_OK)
        symm__root_end_comm(root, *out, parent->status, parent->reason);
out:
    return st;
}

enum { DOMAINS_MAX = SYMM_PAYLOAD_MAX / sizeof(uint32_t) };

/*
 * Whether the payload of a SPAN is right: rising domains, this one among them. It may have any
 * alignment.
 */
static bool read_birth(const struct symm_root *root, int domain, const struct symm_message *m,
                       struct symm_span_birth *birth, uint32_t domains[DOMAINS_MAX])
{
    bool has = false;

    memcpy(birth, m->payload, sizeof *birth);
    if (birth->ndomains < 1 || birth->ndomains > (uint32_t)root->span->ndomains || birth->nranks ||
        m->payload_nbytes != sizeof *birth + birth->ndomains * sizeof(uint32_t))
        return false;
    memcpy(domains, (const char *)m->payload + sizeof *birth, birth->ndomains * sizeof domains[0]);
    for (uint32_t i = 0; i < birth->ndomains; i++) {
        if (domains[i] >= (uint32_t)root->span->ndomains || (i && domains[i] <= domains[i - 1]))
            return false;
        has |= domains[i] == (uint32_t)domain;
    }
    return has;
}

static void create(struct symm_root *root, int domain, const struct symm_message *m)
{
    struct symm_message refusal = {
        .type = SYMM_MESSAGE_ENDED, .comm = m->comm, .status = SYMM_ERROR_PEER};
    struct symm_root_comm *parent, *comm;
    struct symm_root_party *party;
    struct symm_span_birth birth;
    uint32_t domains[DOMAINS_MAX];

    if (!read_birth(root, domain, m, &birth, domains) ||
        !(parent = find(root, domain, birth.parent, &party))) {
        refusal.reason = "the group that the new group was to be made of has ended";
        symm__root_send(root, domain, &refusal);
        return;
    }
    comm = find_attempt(root, domain, parent->key, &birth);
    if (!comm && begin_attempt(root, parent, &birth, domains, &comm) != SYMM_OK) {
        refusal.reason = symm__failure_text();
        symm__root_send(root, domain, &refusal);
        return;
    }
    party = party_of(comm, domain);
    party->known = true;
    party->name = m->comm;
    arrive(root, comm, party, m);
}

/* ---- Messages ---- */

void symm__root_message(struct symm_root *root, int domain, const struct symm_message *m)
{
    struct symm_root_party *party;
    struct symm_root_comm *comm;

    if (m->type == SYMM_MESSAGE_SPAN) {
        create(root, domain, m);
        return;
    }
    comm = find(root, domain, m->comm, &party);
    if (!comm || party->gone) {
        return; /* a late message on a comm that was freed */
    } else if (m->type == SYMM_MESSAGE_CLOSE) {
        close_comm(root, comm, party, m->args[0]);
    } else if (comm->status != SYMM_OK) {
        send_end(root, comm, party);
    } else if (m->type == SYMM_MESSAGE_VOTE) {
        arrive(root, comm, party, m);
    } else if (m->type == SYMM_MESSAGE_ABORT) {
        symm__root_end_comm(root, comm, m->status == SYMM_OK ? SYMM_ERROR_PEER : m->status,
                            m->reason);
    } else if (m->type == SYMM_MESSAGE_CONFIRM) {
        ask_all(root, comm, party, m->seq);
    } else if (m->type == SYMM_MESSAGE_CONFIRMED) {
        confirmed(root, comm, m);
    } else if (m->type == SYMM_MESSAGE_SLOW || m->type == SYMM_MESSAGE_EXPIRED) {
        symm__root_late(root, comm, party, m);
    } else if (m->type == SYMM_MESSAGE_LATE) {
        symm__root_told(comm, party, m);
    }
}
