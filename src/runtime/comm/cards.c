/* Gathers a card of each rank, and learns from them which ranks share a host. */
#include "cards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "runtime/base/settings.h"
#include "boot_id.h"
#include "meeting.h"

enum { PORT_FIRST = 20000, PORTS = 12000 /* below those that Linux gives out by itself */ };

enum { NO_RANDOM = 1, CANNOT_LISTEN };

/* Rank 0's secret becomes session and token. */
struct card {
    int32_t rank, nranks, failed;
    char boot_id[40];
    uint64_t host[2]; /* of SYMM_HOSTID, else of the boot id */
    uint8_t secret[32];
    struct symm_address root; /* of rank 0: where it listens */
};

static void fill_in(struct card *card, const struct symm_join *join)
{
    *card = (struct card){.rank = join->rank, .nranks = join->nranks};
    if (symm__boot_id(card->boot_id) != SYMM_OK)
        card->failed = NO_RANDOM;
    symm__join_mix(card->host, symm__setting_is_set(SYMM_SETTING_HOSTID)
                                   ? symm__setting(SYMM_SETTING_HOSTID)
                                   : card->boot_id);
    if (join->rank == 0 && getrandom(card->secret, sizeof card->secret, 0) != sizeof card->secret)
        card->failed = NO_RANDOM;
}

static symm_status check(const struct symm_join *join, const struct card *cards)
{
    for (int r = 0; r < join->nranks; r++)
        if (cards[r].rank != r || cards[r].nranks != join->nranks)
            return symm__fail(SYMM_ERROR_MISMATCH,
                              "all_gather gave at position %d the record of rank %d of %d (this is "
                              "rank %d of %d)",
                              r, cards[r].rank, cards[r].nranks, join->rank, join->nranks);
    for (int r = 0; r < join->nranks; r++)
        if (cards[r].failed)
            return symm__fail(SYMM_ERROR_SYSTEM, "rank %d %s", r,
                              cards[r].failed == CANNOT_LISTEN
                                  ? "cannot listen for ranks of other hosts"
                                  : "has no random bytes or no boot id");
    return SYMM_OK;
}

static symm_status refuse_hosts(const struct symm_join *join, const struct card *cards)
{
    for (int r = 1; r < join->nranks; r++)
        if (memcmp(cards[r].host, cards[0].host, sizeof cards[0].host))
            return symm__fail(SYMM_ERROR_UNSUPPORTED,
                              "rank %d is on another host than rank 0, and symm_config.span is 0",
                              r);
    return SYMM_OK;
}

/* Whether nothing but the cards tells this rank's number on its machine. */
static bool lacks_local_rank(const struct symm_join *join)
{
    return !strcmp(join->launcher, "configuration") || !strcmp(join->launcher, "symm-run");
}

/* This rank's number among those of its machine. */
static int number_on_machine(const struct card *cards, int rank)
{
    int n = 0;

    for (int r = 0; r < rank; r++)
        n += !memcmp(cards[r].boot_id, cards[rank].boot_id, sizeof cards[rank].boot_id);
    return n;
}

/* Sorts the ranks into domains. join then tells this rank's place in its own. */
static symm_status find_domains(const struct card *cards, struct symm_join *join)
{
    uint64_t(*hosts)[2] = calloc((size_t)join->nranks, sizeof *hosts);
    struct symm_span *span = NULL;
    symm_status st;

    if (!hosts)
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for %d ranks", join->nranks);
    for (int r = 0; r < join->nranks; r++)
        memcpy(hosts[r], cards[r].host, sizeof hosts[r]);
    TRY(symm__span_create(join->rank, join->nranks, (const uint64_t(*)[2])hosts, &span));
    if (lacks_local_rank(join))
        join->local_rank = number_on_machine(cards, join->rank);
    if (span->ndomains > 1) {
        span->root = cards[0].root;
        join->nranks = symm__span_nmembers(span, span->domain);
        join->rank = span->number[span->rank];
        join->names = symm__span_members(span, span->domain);
        join->span = span;
        span = NULL;
    }
out:
    symm__span_destroy(span);
    free(hosts);
    return st;
}

/* ---- Where rank 0 listens ---- */

/* The configuration's address, else SYMM_ADDRESS; NULL: none. */
static const char *given_address(const symm_config *config, const char **name)
{
    *name = config->address ? "config.address" : "SYMM_ADDRESS";
    if (config->address)
        return config->address;
    return symm__setting_is_set(SYMM_SETTING_ADDRESS) ? symm__setting(SYMM_SETTING_ADDRESS) : NULL;
}

/*
 * torchrun's MASTER_PORT belongs to torch's store, so the session tells other ports of that host.
 */
static symm_status places_of_torchrun(const struct symm_join *join, struct symm_meeting *m)
{
    const char *host = getenv("MASTER_ADDR");
    symm_status st = SYMM_OK;

    m->wanted = "MASTER_ADDR";
    m->nplaces = SYMM_MEETING_PLACES;
    TRY(symm__address_read(m->wanted, host, PORT_FIRST, &m->places[0]));
    for (int i = 0; i < m->nplaces; i++) {
        int port = PORT_FIRST + (int)((join->id[0] + (uint64_t)i * 769) % PORTS);
        m->places[i] = symm__address_with_port(&m->places[0], port);
    }
out:
    return st;
}

static symm_status find_places(const symm_config *config, const struct symm_join *join,
                               struct symm_meeting *m)
{
    const char *text = given_address(config, &m->wanted);

    m->nplaces = 1;
    if (text)
        return symm__address_read(m->wanted, text, -1, &m->places[0]);
    if (config->all_gather)
        return symm__address_own(&m->places[0]);
    if (!strcmp(join->launcher, "torchrun"))
        return places_of_torchrun(join, m);
    return symm__fail(
        SYMM_ERROR_ARGUMENT,
        "ranks may be on several hosts (symm_config.span), and nothing tells where "
        "rank 0 listens: set SYMM_ADDRESS or symm_config.address to HOST:PORT of rank "
        "0's host on all ranks, or give symm_config.all_gather");
}

/* Rank 0 listens before the cards are gathered. Its failure travels with its card. */
static symm_status listen_early(const symm_config *config, const struct symm_join *join,
                                struct card *mine, int *listener)
{
    struct symm_meeting m = {.rank = join->rank, .nranks = join->nranks};
    symm_status st = SYMM_OK;

    if (!config->span || join->rank)
        return SYMM_OK;
    TRY(find_places(config, join, &m));
    TRY(symm__meeting_listen(&m, &mine->root, listener));
out:
    if (st != SYMM_OK)
        mine->failed = CANNOT_LISTEN;
    return st;
}

/* Keeps the listener for the control link, or closes it where nobody will come. */
static void keep_listener(struct symm_join *join, int *listener)
{
    if (!join->span)
        return;
    join->span->listener = *listener;
    *listener = -1;
}

/* ---- The ways to gather ---- */

symm_status symm__cards_gather(const symm_config *config, struct symm_join *join)
{
    struct card mine, *cards = calloc((size_t)join->nranks, sizeof *cards);
    int listener = -1, err;
    char why[SYMM_TEXT_MAX];
    symm_status st, listening;

    if (!cards)
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for %d ranks", join->nranks);
    fill_in(&mine, join);
    listening = listen_early(config, join, &mine, &listener);
    strcpy(why, symm__failure_text());
    /* All ranks call all_gather once, also after a failure. */
    err = config->all_gather(config->user, &mine, cards, sizeof mine);
    st = err ? symm__fail(SYMM_ERROR_SYSTEM, "the configuration's all_gather returned %d", err)
             : SYMM_OK;
    if (listening != SYMM_OK)
        st = symm__fail(listening, "%s", why);
    if (st != SYMM_OK)
        goto out;
    TRY(check(join, cards));
    memcpy(join->id, cards[0].secret, sizeof join->id);
    memcpy(join->token, cards[0].secret + 16, sizeof join->token);
    join->has_token = true;
    TRY(config->span ? find_domains(cards, join) : refuse_hosts(join, cards));
    keep_listener(join, &listener);
    if (join->span)
        memcpy(join->span->key.bytes, join->token, sizeof join->token);
out:
    symm__address_unlisten(&listener);
    free(cards);
    return st;
}

symm_status symm__cards_meet(const symm_config *config, const struct symm_join_wait *wait,
                             struct symm_join *join)
{
    struct card mine, *cards = NULL;
    struct symm_meeting m = {.rank = join->rank,
                             .nranks = join->nranks,
                             .log = wait->log,
                             .slow_us = wait->slow_us,
                             .met = &mine.root};
    const char *name;
    int listener = -1;
    symm_status st = SYMM_OK;

    if (join->nranks == 1 || (join->one_host && !given_address(config, &name))) {
        /* These variables are set by hand, too, and tell of no hosts. */
        join->met_nobody = !strcmp(join->launcher, "symm-run");
        return SYMM_OK;
    }
    /* Without a token the link trusts all that know the session. */
    memcpy(m.key.bytes, join->has_token ? (const void *)join->token : (const void *)join->id,
           sizeof m.key.bytes);
    TRY(find_places(config, join, &m));
    cards = calloc((size_t)join->nranks, sizeof *cards);
    if (!cards)
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for %d ranks", join->nranks);
    fill_in(&mine, join);
    if (join->rank == 0)
        TRY(symm__meeting_listen(&m, &mine.root, &listener));
    TRY(symm__meeting_gather(&m, listener, &mine, sizeof mine, cards, wait->deadline));
    TRY(check(join, cards));
    TRY(find_domains(cards, join));
    keep_listener(join, &listener);
    if (join->span) {
        join->span->key = m.key;
        join->span->root = mine.root; /* as this rank has met it: there may be several ways */
    }
out:
    symm__address_unlisten(&listener);
    free(cards);
    return st;
}
