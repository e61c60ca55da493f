/*
 * The fuzz target's end of a connection to the hub: frames sent, answers owed for them, and answers
 * received. A client that breaks the protocol is crooked: the hub owes it nothing any more.
 */
#ifndef FUZZ_CLIENT_H
#define FUZZ_CLIENT_H

#include "runtime/hub/hub.h"
#include "runtime/comm/message.h"

enum { CLIENT_LANES = 6, CLIENT_RANKS = 4 };

enum comm_stage { COMM_NONE, COMM_CREATING, COMM_OPEN, COMM_ENDED, COMM_CLOSED };

/* A comm as the client knows it. Lane 0 of a client is the world. */
struct client_comm {
    enum comm_stage stage;
    uint64_t key;                /* the hub's, or while it is being made this rank's name */
    uint64_t seq;                /* of the last vote that it took part in */
    bool waits;                  /* for that vote's result */
    size_t nbytes;               /* that each rank brings to it */
    uint64_t confirm, confirmed; /* the last question, and the last answer */
    bool quiet, all_quiet;       /* said, and heard */
    uint32_t asked, told;        /* ranks, a bit each */
};

struct client {
    int fd; /* -1: closed here */
    int rank, nranks;
    uint64_t attempts;                                     /* to make a comm */
    bool said_hello, joined, refused, crooked, left, lost; /* lost: the hub closed it */
    struct client_comm comms[CLIENT_LANES];
};

/*
 * The members of a client's comm, by world rank, a bit each. 0: there is no such comm, since the
 * ranks have another one of the same members.
 */
uint32_t client_members(int comm, int nranks);

void client_init(struct client *c, int fd, int rank, int nranks);

/* Sends a frame with these descriptors. If the socket does not take all of it, the rest is lost and
 * the client is crooked. */
void client_send(struct client *c, const struct symm_message *m);

/* Messages of an honest client. Each does nothing if the protocol does not allow it now. */
void client_hello(struct client *c, const char *boot_id);
void client_step(struct client *c, int comm, int call, bool gives_fd);
void client_create(struct client *c, int comm);
void client_say(struct client *c, uint32_t type, int comm);
void client_ask(struct client *c, int comm, int rank);
void client_leave(struct client *c); /* BYE */
void client_close(struct client *c);

/* Reads all frames that have arrived. Fails the target if they break the protocol. */
void client_drain(struct client *c);

/* Whether it is connected and has kept to the protocol so far. */
bool client_is_there(const struct client *c);
/* Whether the hub owes it an answer. *what: the name of the answer. */
bool client_is_owed(const struct client *c, const char **what);

/* One turn of the hub that they talk to. Returns whether it found anything. */
bool client_serve(struct symm_hub *hub);
/* A log that keeps its lines to itself. */
void client_be_silent(void *user, int level, const char *line);

/* Ends the target: the input shows a bug. */
__attribute__((noreturn, format(printf, 1, 2))) void fuzz_fail(const char *fmt, ...);

#endif
