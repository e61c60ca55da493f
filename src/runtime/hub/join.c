/*
 * Joining. Every rank sends a HELLO. The hub admits all ranks, or refuses all with one text that
 * names the wrong ones.
 */
#include "state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/*
 * After the first error, the hub waits this long for the other ranks, so that they are told too and
 * the text is complete.
 */
enum { REFUSE_US = 500000 };

/* How long a connection may be silent while other connections wait. */
enum { SILENT_US = 1000000 };

static pid_t pid_of(const struct symm_hub_client *client, const struct symm_message *m)
{
    return client->pid ? client->pid : (pid_t)m->args[1]; /* 0: another pid namespace */
}

/* The world rank of the sender, which may be none of this hub's. */
static int named(const struct symm_hub *hub, const struct symm_message *m)
{
    return m->rank >= 0 && m->rank < hub->nranks ? symm__hub_name(hub, m->rank) : m->rank;
}

/* Compares in constant time. */
static bool same_token(const unsigned char *a, const unsigned char *b)
{
    unsigned differ = 0;

    for (int i = 0; i < 16; i++)
        differ |= (unsigned)(a[i] ^ b[i]);
    return !differ;
}

static void send_refusal(struct symm_hub *hub, struct symm_hub_client *client, symm_status status,
                         const char *reason)
{
    struct symm_message m = {
        .type = SYMM_MESSAGE_ENDED, .comm = SYMM_COMM_JOIN, .status = status, .reason = reason};

    symm__hub_send(hub, client, &m);
}

void symm__hub_turn_away(struct symm_hub *hub, struct symm_hub_client *client, symm_status status,
                         const char *reason)
{
    if (client->over)
        return;
    send_refusal(hub, client, status, reason);
    symm__hub_drop(hub, client, reason);
}

bool symm__hub_has_room(struct symm_hub *hub)
{
    struct symm_hub_client *oldest = NULL;

    if (hub->nclients < hub->max_clients)
        return true;
    for (int i = 0; i < hub->nclients; i++) {
        struct symm_hub_client *client = hub->clients[i];
        if (!client->said && (!oldest || client->since_us < oldest->since_us))
            oldest = client;
    }
    if (oldest && symm__now_us() >= oldest->since_us + SILENT_US)
        symm__hub_turn_away(hub, oldest, SYMM_ERROR_TIMEOUT,
                            "this rank has sent no HELLO, and other connections wait");
    return false; /* there is room once the ended connection is removed */
}

bool symm__hub_all_heard(const struct symm_hub *hub)
{
    bool all = true;

    for (int r = 0; r < hub->nranks; r++)
        all &= symm__rank_set_has(hub->heard, r);
    return all;
}

/* The rendezvous stays open for a while, so that late ranks are told too. */
void symm__hub_refuse(struct symm_hub *hub, symm_status status, const char *reason)
{
    struct symm_text text = {.used = 0};

    symm__text_add(&text, "%s", reason); /* `reason` may point into hub->refusals */
    hub->phase = SYMM_HUB_REFUSED;
    hub->failed = true;
    hub->refusal = status;
    hub->refusals = text;
    hub->refuse_at_us = symm__now_us() + SYMM_HUB_REFUSES_MS * INT64_C(1000);
    for (int i = 0; i < hub->nclients; i++)
        if (hub->clients[i]->said && !hub->clients[i]->over)
            send_refusal(hub, hub->clients[i], status, text.bytes);
    if (hub->up)
        symm__hub_relay_refuse(hub);
}

__attribute__((format(printf, 3, 4))) static void
record_refusal(struct symm_hub *hub, symm_status status, const char *fmt, ...)
{
    char one[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(one, sizeof one, fmt, args);
    va_end(args);
    symm__text_add(&hub->refusals, "%s%s", hub->refusal ? "; " : "", one);
    if (hub->refusal == SYMM_OK) {
        hub->refusal = status;
        hub->refuse_at_us = symm__now_us() + REFUSE_US;
    }
}

/* Appends a GPU's UUID in the format of the driver's tools. */
static void add_device(struct symm_text *text, const unsigned char *uuid)
{
    symm__text_add(text, "GPU-");
    for (int i = 0; i < 16; i++)
        symm__text_add(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static struct symm_hub_client *find_device(struct symm_hub *hub, const unsigned char *uuid)
{
    for (int i = 0; i < hub->nclients; i++)
        if (hub->clients[i]->has_device && !memcmp(hub->clients[i]->device, uuid, 16))
            return hub->clients[i];
    return NULL;
}

/* Whether this HELLO fits rank 0's. Records the differences. */
static bool fits(struct symm_hub *hub, struct symm_hub_client *client, const struct symm_message *m,
                 const struct symm_hello *hello)
{
    int pid = (int)pid_of(client, m), nranks = (int)m->args[0];
    bool has_device = m->args[2] & SYMM_HELLO_DEVICE;
    const struct symm_hub_client *twin = has_device ? find_device(hub, hello->device) : NULL;
    struct symm_text device = {.used = 0};

    if (m->status != SYMM_OK)
        record_refusal(hub, m->status, "%s (on rank %d)", m->reason, named(hub, m));
    else if (nranks != hub->nranks)
        record_refusal(hub, SYMM_ERROR_MISMATCH, "rank %d (pid %d) has nranks %d, rank 0 has %d",
                       named(hub, m), pid, nranks, hub->nranks);
    else if (m->rank < 0 || m->rank >= hub->nranks)
        record_refusal(hub, SYMM_ERROR_MISMATCH, "rank %d (pid %d) is not within 0 to %d", m->rank,
                       pid, hub->nranks - 1);
    else if (memcmp(hello->boot_id, hub->boot_id, sizeof hub->boot_id))
        record_refusal(hub, SYMM_ERROR_UNSUPPORTED, "rank %d is on another host than rank 0",
                       named(hub, m));
    else if (hub->ranks[m->rank].fate != SYMM_HUB_AWAITED)
        record_refusal(hub, SYMM_ERROR_MISMATCH, "rank %d came twice: pid %d and pid %d",
                       named(hub, m), (int)hub->ranks[m->rank].pid, pid);
    else if (twin) {
        const int first = symm__hub_name(hub, twin->rank), mine = named(hub, m);
        hub->nshared++;
        add_device(&device, hello->device);
        record_refusal(hub, SYMM_ERROR_MISMATCH, "rank %d and rank %d use the same device, %s",
                       first < mine ? first : mine, first < mine ? mine : first, device.bytes);
    } else
        return true;
    return false;
}

void symm__hub_hello(struct symm_hub *hub, struct symm_hub_client *client,
                     const struct symm_message *m)
{
    const struct symm_join *join = hub->config.join;
    struct symm_hello hello;
    struct symm_text text = {.used = 0};

    memcpy(&hello, m->payload, sizeof hello);
    if (join->has_token != !!(m->args[2] & SYMM_HELLO_TOKEN) ||
        !same_token(hub->token, hello.token)) {
        symm__text_add(&text, "the token (SYMM_TOKEN) of rank %d (pid %d) is not rank 0's",
                       named(hub, m), (int)pid_of(client, m));
        symm__text_add(&hub->strangers, "; %s", text.bytes);
        symm__hub_turn_away(hub, client, SYMM_ERROR_MISMATCH, text.bytes);
        return;
    }
    client->said = true;
    if (m->rank >= 0)
        symm__rank_set_add(&hub->heard, m->rank);
    if (hub->phase == SYMM_HUB_REFUSED) {
        send_refusal(hub, client, hub->refusal, hub->refusals.bytes);
        return;
    }
    if (fits(hub, client, m, &hello)) {
        client->rank = m->rank;
        client->has_device = m->args[2] & SYMM_HELLO_DEVICE;
        memcpy(client->device, hello.device, sizeof client->device);
        hub->ranks[m->rank].fate = SYMM_HUB_HERE;
        hub->ranks[m->rank].pid = pid_of(client, m);
        hub->ranks[m->rank].client = client;
    }
}

/*
 * Handles a HELLO of another version of symm. Both sides can only read the first 16 bytes and the
 * token. Without the right token the connection may be any program's, so it does not end the
 * joining.
 */
void symm__hub_other_version(struct symm_hub *hub, struct symm_hub_client *client,
                             const struct symm_message *m)
{
    const bool knows_token =
        m->payload_nbytes >= sizeof hub->token && same_token(hub->token, m->payload);
    struct symm_text text = {.used = 0};

    symm__text_add(&text, "rank %d (pid %d) has symm %u, rank 0 has %d", named(hub, m),
                   (int)client->pid, m->version, SYMM_VERSION);
    if (hub->config.join->has_token && !knows_token) {
        symm__text_add(&hub->strangers, "; %s, and not its token (SYMM_TOKEN)", text.bytes);
        symm__hub_turn_away(hub, client, SYMM_ERROR_VERSION, text.bytes);
        return;
    }
    client->said = true;
    if (m->rank >= 0 && m->rank < SYMM_MAX_RANKS)
        symm__rank_set_add(&hub->heard, m->rank);
    if (hub->phase == SYMM_HUB_JOINING)
        record_refusal(hub, SYMM_ERROR_VERSION, "%s", text.bytes);
    else
        send_refusal(hub, client, SYMM_ERROR_VERSION, text.bytes);
}

/* The number of ranks of the job, for texts that name ranks by their numbers in it. */
static int job_nranks(const struct symm_hub *hub)
{
    const struct symm_span *span = hub->config.join->span;

    return span ? span->nranks : hub->nranks;
}

static struct symm_rank_set missing(const struct symm_hub *hub)
{
    struct symm_rank_set set = {{0}};

    for (int r = 0; r < hub->nranks; r++)
        if (hub->ranks[r].fate == SYMM_HUB_AWAITED)
            symm__rank_set_add(&set, r);
    return set;
}

void symm__hub_join_query(struct symm_hub *hub, struct symm_hub_client *client,
                          const struct symm_message *m)
{
    struct symm_text text = {.used = 0};
    struct symm_message late = {.type = SYMM_MESSAGE_LATE, .comm = SYMM_COMM_JOIN, .seq = m->seq};

    if (hub->phase != SYMM_HUB_JOINING)
        return;
    symm__text_add_ranks(&text, missing(hub), hub->config.join->names);
    if (m->type == SYMM_MESSAGE_EXPIRED && hub->refusal != SYMM_OK) {
        symm__hub_refuse(hub, hub->refusal, hub->refusals.bytes);
    } else if (m->type == SYMM_MESSAGE_EXPIRED) {
        symm__text_add(&text, " of %d did not join within %llu ms%s", job_nranks(hub),
                       (unsigned long long)m->args[0], hub->strangers.bytes);
        symm__hub_refuse(hub, SYMM_ERROR_TIMEOUT, text.bytes);
    } else if (m->type == SYMM_MESSAGE_SLOW) {
        symm__text_add(&text, " of %d to join%s", job_nranks(hub), hub->strangers.bytes);
        late.reason = text.bytes;
        symm__hub_send(hub, client, &late);
    }
}

static void welcome(struct symm_hub *hub)
{
    static const char late[] = "all ranks of this session have joined without this one";
    struct symm_message m = {.type = SYMM_MESSAGE_RESULT, .comm = SYMM_COMM_JOIN, .seq = 1};

    hub->phase = SYMM_HUB_RUNNING;
    for (int i = 0; i < hub->nclients; i++)
        if (hub->clients[i]->rank >= 0)
            symm__hub_send(hub, hub->clients[i], &m);
        else
            symm__hub_turn_away(hub, hub->clients[i], SYMM_ERROR_MISMATCH, late);
    symm__rendezvous_close(hub->config.rendezvous, SYMM_ERROR_MISMATCH, late);
}

/* If all ranks have come and some share devices, says how many devices there are. */
static void refuse(struct symm_hub *hub)
{
    struct symm_text text = {.used = 0};
    int ndevices = 0;

    for (int i = 0; i < hub->nclients; i++)
        ndevices += hub->clients[i]->has_device;
    if (hub->nshared > 0 && ndevices + hub->nshared == hub->nranks)
        symm__text_add(&text, "%d ranks, %d device%s%s: ", hub->nranks, ndevices,
                       ndevices == 1 ? "" : "s",
                       hub->config.more_devices ? hub->config.more_devices : "");
    symm__text_add(&text, "%s", hub->refusals.bytes);
    symm__hub_refuse(hub, hub->refusal, text.bytes);
}

void symm__hub_join_tick(struct symm_hub *hub)
{
    struct symm_rank_set none = {{0}};

    if (hub->refusal != SYMM_OK &&
        (symm__hub_all_heard(hub) || symm__now_us() >= hub->refuse_at_us))
        refuse(hub);
    else if (hub->refusal == SYMM_OK && symm__rank_set_equal(missing(hub), none))
        welcome(hub);
}
