/* The hub's connections: accepts, receives, dispatches messages, and notices ends. */
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "runtime/base/fd.h"
#include "runtime/comm/boot_id.h"

enum {
    STRANGER_US = 5000000, /* time limit for a HELLO */
    ACCEPT_AGAIN_US = 50000,
    ACCEPTS_PER_PASS = 16,
};

static symm_status add_client(struct symm_hub *hub, int fd)
{
    struct symm_hub_client *client = NULL;
    pid_t pid = 0;
    symm_status st;

    TRY(symm__rendezvous_peer(fd, &pid));
    client = calloc(1, sizeof *client);
    if (!client) {
        st = symm__fail(SYMM_ERROR_MEMORY, "no memory for a connection");
        goto out;
    }
    st = symm__link_open(&client->link, fd);
    fd = -1;
    if (st != SYMM_OK)
        goto out;
    client->pid = pid;
    client->process = hub->config.watches ? symm__rendezvous_watch(pid) : -1;
    client->rank = -1;
    client->since_us = symm__now_us();
    hub->clients[hub->nclients++] = client;
    client = NULL;
out:
    free(client);
    symm__fd_close(&fd);
    return st;
}

symm_status symm__hub_open(const struct symm_hub_config *config, int local, struct symm_hub **out)
{
    struct symm_hub *hub = calloc(1, sizeof *hub);
    struct symm_hub_comm *world;
    int all_ranks[SYMM_MAX_RANKS];
    symm_status st;

    if (!hub) {
        symm__fd_close(&local);
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for the hub");
    }
    hub->config = *config;
    hub->nranks = config->join->nranks;
    hub->max_clients = hub->nranks + SYMM_HUB_STRANGERS;
    memcpy(hub->token, config->join->token, sizeof hub->token);
    hub->clients = calloc((size_t)hub->max_clients, sizeof hub->clients[0]);
    if (!hub->clients) {
        st = symm__fail(SYMM_ERROR_MEMORY, "no memory for the hub");
        goto out;
    }
    TRY(symm__boot_id(hub->boot_id));
    for (int r = 0; r < hub->nranks; r++)
        all_ranks[r] = r;
    TRY(symm__hub_comm_add(hub, SYMM_COMM_JOIN, hub->nranks, all_ranks, &world));
    world->formed = true; /* its key is the first, SYMM_COMM_WORLD */
    if (config->join->span)
        TRY(symm__hub_relay_open(hub));
    st = add_client(hub, local);
    local = -1;
out:
    symm__fd_close(&local);
    if (st == SYMM_OK) {
        *out = hub;
    } else {
        hub->config.rendezvous = NULL;
        symm__hub_close(hub);
    }
    return st;
}

static void free_client(struct symm_hub_client *client)
{
    symm__link_close(&client->link);
    symm__fd_close(&client->process);
    free(client);
}

void symm__hub_close(struct symm_hub *hub)
{
    struct symm_message bye = {.type = SYMM_MESSAGE_BYE};

    if (!hub)
        return;
    if (hub->phase == SYMM_HUB_JOINING)
        symm__hub_refuse(hub, SYMM_ERROR_PEER, "rank 0 has failed to join");
    /* Before the connections, since a refused rank tries again when its connection ends. */
    symm__rendezvous_close(hub->config.rendezvous, hub->refusal, hub->refusals.bytes);
    for (int i = 0; i < hub->nclients; i++) {
        if (hub->phase == SYMM_HUB_REFUSED && !hub->clients[i]->said)
            symm__hub_turn_away(hub, hub->clients[i], hub->refusal, hub->refusals.bytes);
        symm__hub_send(hub, hub->clients[i], &bye);
        free_client(hub->clients[i]);
    }
    symm__hub_sweep(hub, true);
    symm__hub_relay_close(hub);
    free(hub->clients);
    free(hub);
}

void symm__hub_send(struct symm_hub *hub, struct symm_hub_client *client,
                    const struct symm_message *m)
{
    struct symm_frame *frame = symm__frame_make(m);

    if (!frame || symm__link_send(&client->link, frame) == SYMM_SENT_NOT)
        symm__hub_drop(hub, client, "rank 0 has no memory to answer it");
}

void symm__hub_send_comm(struct symm_hub *hub, const struct symm_hub_comm *comm,
                         struct symm_frame *frame)
{
    for (int i = 0; i < comm->nranks; i++) {
        struct symm_hub_client *client = hub->ranks[comm->ranks[i]].client;
        if (!client || client->over || symm__rank_set_has(comm->gone, comm->ranks[i]))
            continue;
        frame->refs++;
        if (symm__link_send(&client->link, frame) == SYMM_SENT_NOT)
            symm__hub_drop(hub, client, "rank 0 has no memory to answer it");
    }
    symm__frame_put(frame);
}

/* Only marks the client, because callers may be iterating over clients or comms. */
void symm__hub_drop(struct symm_hub *hub, struct symm_hub_client *client, const char *why)
{
    if (client->over)
        return;
    client->over = true;
    if (client->rank >= 0)
        symm__log(hub->config.log, SYMM_LOG_WARNING, "rank %d (pid %d): %s",
                  symm__hub_name(hub, client->rank), (int)client->pid, why);
    else
        symm__log(hub->config.log, SYMM_LOG_INFO, "pid %d at the rendezvous: %s", (int)client->pid,
                  why);
}

/* Removes ended connections and handles the deaths of their ranks. */
static void remove_ended(struct symm_hub *hub)
{
    for (int i = 0; i < hub->nclients; i++) {
        struct symm_hub_client *client = hub->clients[i];
        if (!client->over)
            continue;
        hub->clients[i--] = hub->clients[--hub->nclients];
        struct symm_hub_rank *rank = client->rank >= 0 ? &hub->ranks[client->rank] : NULL;
        if (rank && rank->client == client) {
            rank->client = NULL;
            if (rank->fate == SYMM_HUB_HERE)
                symm__hub_rank_gone(hub, client->rank, SYMM_HUB_DIED);
            i = -1; /* this may have dropped other clients */
        }
        free_client(client);
    }
    symm__hub_sweep(hub, false);
}

/*
 * The process of this rank exits. If it is rank 0, the other ranks are told now; else the hub's
 * texts say so.
 */
static void take_notice(struct symm_hub *hub, int rank)
{
    struct symm_message m = {.type = SYMM_MESSAGE_EXIT};

    hub->ranks[rank].exits = true;
    for (int r = 1; r < hub->nranks && rank == 0; r++)
        if (hub->ranks[r].client)
            symm__hub_send(hub, hub->ranks[r].client, &m);
    if (rank == 0)
        atomic_store(&hub->exits, true);
}

/* Whether ranks send such messages. */
static bool is_of_ranks(uint32_t type)
{
    return type < SYMM_MESSAGE_DOMAIN || type == SYMM_MESSAGE_EXIT || type == SYMM_MESSAGE_QUIET ||
           type == SYMM_MESSAGE_TOLD;
}

static void dispatch(struct symm_hub *hub, struct symm_hub_client *client, struct symm_message *m)
{
    if (client->rank < 0 && m->type == SYMM_MESSAGE_HELLO)
        symm__hub_hello(hub, client, m);
    else if (client->rank < 0 || m->rank != client->rank || m->type == SYMM_MESSAGE_HELLO ||
             !is_of_ranks(m->type))
        symm__hub_drop(hub, client, "sent an unexpected message");
    else if (m->type == SYMM_MESSAGE_BYE)
        symm__hub_rank_gone(hub, client->rank, SYMM_HUB_LEFT);
    else if (m->type == SYMM_MESSAGE_EXIT)
        take_notice(hub, client->rank);
    else if (m->comm == SYMM_COMM_JOIN)
        symm__hub_join_query(hub, client, m);
    else if (hub->phase == SYMM_HUB_RUNNING)
        symm__hub_comm_message(hub, client, m);
}

/* The connection or the process has ended, with or without a BYE. */
static void gone(struct symm_hub *hub, struct symm_hub_client *client)
{
    if (client->rank >= 0 && hub->ranks[client->rank].fate == SYMM_HUB_LEFT)
        client->over = true;
    else
        symm__hub_drop(hub, client, "ended without BYE");
}

/* Receives one message in each pass, so that no client keeps the hub from the others. */
static void receive(struct symm_hub *hub, struct symm_hub_client *client)
{
    struct symm_message m;

    switch (symm__message_receive(client->link.fd, hub->buffer, &m)) {
    case SYMM_RECEIVED_NO_FDS:
        if (m.status == SYMM_OK) {
            m.status = SYMM_ERROR_SYSTEM;
            m.reason = "rank 0 could not take a descriptor: its RLIMIT_NOFILE is reached";
        }
        /* fall through */
    case SYMM_RECEIVED:
        symm__hub_heard(client, m.nbytes);
        dispatch(hub, client, &m);
        symm__fd_close_all(m.fds, m.nfds);
        break;
    case SYMM_RECEIVED_END:
        gone(hub, client);
        break;
    case SYMM_RECEIVED_BAD:
        if (client->rank < 0 && m.version && m.version != SYMM_VERSION)
            symm__hub_other_version(hub, client, &m);
        else
            symm__hub_drop(hub, client, symm__failure_text());
        break;
    case SYMM_RECEIVED_NOTHING:
        break;
    }
}

/* Accepts one connection. Returns false if none waits or there is no room now. */
static bool accept_one(struct symm_hub *hub)
{
    int fd;

    if (!symm__hub_has_room(hub)) {
        hub->accept_at_us = symm__now_us() + ACCEPT_AGAIN_US;
        return false;
    }
    fd = symm__fd_above_stdio(
        accept4(hub->config.rendezvous->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd >= 0 && add_client(hub, fd) != SYMM_OK)
        symm__log(hub->config.log, SYMM_LOG_WARNING, "refused at the rendezvous: %s",
                  symm__failure_text());
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
        symm__fail_errno(errno, "accept");
        symm__log(hub->config.log, SYMM_LOG_WARNING, "%s", symm__failure_text());
        hub->accept_at_us = symm__now_us() + ACCEPT_AGAIN_US;
    }
    return fd >= 0;
}

/* Accepts a bounded number in each pass: a refused user may connect again and again. */
static void accept_some(struct symm_hub *hub)
{
    for (int i = 0; i < ACCEPTS_PER_PASS && accept_one(hub); i++)
        ;
}

/* Two entries for each client, its connection and its process; the root; then the listener. */
int symm__hub_poll(struct symm_hub *hub, struct pollfd fds[SYMM_HUB_POLL_MAX], bool *retry)
{
    int n = 0;

    for (int i = 0; i < hub->nclients; i++) {
        struct symm_link *link = &hub->clients[i]->link;
        fds[n++] = (struct pollfd){link->fd, symm__link_events(link, retry), 0};
        fds[n++] = (struct pollfd){hub->clients[i]->process, POLLIN, 0};
    }
    fds[n++] = hub->up && !hub->cut ? symm__wire_poll(hub->up) : (struct pollfd){.fd = -1};
    if (hub->config.rendezvous->listener >= 0 && symm__now_us() >= hub->accept_at_us)
        fds[n++] = (struct pollfd){hub->config.rendezvous->listener, POLLIN, 0};
    return n;
}

bool symm__hub_hurries(const struct symm_hub *hub)
{
    return hub->confirming;
}

void symm__hub_serve(struct symm_hub *hub, const struct pollfd *fds, int nfds)
{
    int n = hub->nclients;

    for (int i = 0; i < n; i++) {
        struct symm_hub_client *client = hub->clients[i];
        symm__link_flush(&client->link);
        if (fds[2 * i].revents & ~POLLOUT && !client->over) {
            receive(hub, client);
        } else {
            symm__hub_heard(client, 0);
            if (fds[2 * i + 1].revents)
                gone(hub, client); /* the process has ended and its socket is empty */
        }
        if (client->rank < 0 && symm__now_us() > client->since_us + STRANGER_US)
            symm__hub_turn_away(hub, client, SYMM_ERROR_TIMEOUT, "this rank has sent no HELLO");
    }
    if (hub->up)
        symm__hub_relay_serve(hub, fds[2 * n].revents);
    if (nfds > 2 * n + 1 && fds[2 * n + 1].revents && hub->config.rendezvous->listener >= 0)
        accept_some(hub);
    if (hub->phase == SYMM_HUB_JOINING)
        symm__hub_join_tick(hub);
    symm__hub_late_tick(hub);
    remove_ended(hub);
    symm__hub_confirm(hub);
}

bool symm__hub_done(struct symm_hub *hub)
{
    if (hub->phase == SYMM_HUB_REFUSED && !symm__hub_all_heard(hub) &&
        symm__now_us() < hub->refuse_at_us)
        return false;
    for (int r = 0; r < hub->nranks; r++)
        if (hub->ranks[r].fate == SYMM_HUB_HERE && hub->phase == SYMM_HUB_RUNNING)
            return false;
    for (int i = 0; i < hub->nclients; i++)
        if (!symm__link_idle(&hub->clients[i]->link))
            return false;
    return !hub->up || symm__wire_idle(hub->up);
}

bool symm__hub_exits(const struct symm_hub *hub)
{
    return atomic_load(&hub->exits);
}

bool symm__hub_failed(const struct symm_hub *hub)
{
    return hub->failed;
}
