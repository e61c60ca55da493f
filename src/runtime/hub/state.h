/*
 * The hub's state, shared by its parts: connections (hub.c), joining (join.c), comms and votes
 * (comm.c, vote.c), new comms (comm_create.c), slow and expired votes (late.c), confirmations
 * (confirm.c), comms of several domains (relay.c).
 */
#ifndef SYMM_HUB_STATE_H
#define SYMM_HUB_STATE_H

#include "runtime/base/text.h"
#include "runtime/comm/link.h"
#include "runtime/comm/rendezvous.h"
#include "hub.h"

struct symm_hub_client {
    struct symm_link link;
    pid_t pid;
    int process; /* pidfd, since a forked child may keep the socket open; -1: not watched */
    int rank;    /* -1: none, or no HELLO yet */
    bool said;   /* its HELLO was parsed */
    bool over;   /* to be closed and removed */
    int64_t since_us;
    size_t unheard; /* bytes to read before the open round of confirmations ends */
    unsigned char device[16];
    bool has_device;
};

enum symm_hub_fate { SYMM_HUB_AWAITED, SYMM_HUB_HERE, SYMM_HUB_LEFT, SYMM_HUB_DIED };

struct symm_hub_rank {
    enum symm_hub_fate fate;
    pid_t pid;
    struct symm_hub_client *client; /* while it is connected */
    bool exits;                     /* its process has sent EXIT */
    char last_done[160];            /* its last finished call */
};

/* A question of the root: is the comm alive? */
struct symm_hub_check {
    uint64_t seq, args[2];
};

/* Of a comm that spans several domains; its ranks here are those of this domain. */
struct symm_hub_arm {
    struct symm_span_birth birth; /* its numbers; nranks is 0 */
    uint32_t *domains;
    bool sent;                 /* this domain's contribution to the next vote is on its way */
    bool ended;                /* the root knows the end */
    bool closed;               /* the root knows that a rank of this domain has closed it */
    struct symm_rank_set slow; /* world ranks that sent SLOW meanwhile */
    /* By comm rank, the seq of a CONFIRM: to be sent to the root; sent, with `confirms`. */
    uint64_t asks[SYMM_MAX_RANKS], asked[SYMM_MAX_RANKS];
    uint64_t confirms;
    bool confirming;
    int nchecks, ndue; /* questions of the root; those that the open round answers come first */
    struct symm_hub_check checks[];
};

struct symm_hub_comm {
    struct symm_hub_comm *next;
    uint64_t key, parent;
    uint64_t names[SYMM_MAX_RANKS]; /* by comm rank: provisional key */
    int nranks;
    int ranks[SYMM_MAX_RANKS]; /* world ranks */
    struct symm_rank_set members;
    bool formed;
    bool inner;         /* ends with its parent, and its parent with it */
    symm_status status; /* sticky */
    char reason[SYMM_TEXT_MAX];
    uint64_t exited; /* 1 + the rank whose process exited and so ended the comm; 0: none */
    uint64_t seq;    /* number of finished votes */
    int ncame;
    /* By comm rank; texts and payload follow the struct. */
    struct symm_message *came[SYMM_MAX_RANKS];
    struct symm_hub_inquiry *inquiry; /* on the late vote; NULL: none asked for */
    /* By comm rank: the seq of a CONFIRM; 0: none. */
    uint64_t asks[SYMM_MAX_RANKS];    /* for the next round */
    uint64_t answers[SYMM_MAX_RANKS]; /* due at the end of the open round */
    struct symm_rank_set quiet;       /* ranks that sent QUIET */
    struct symm_rank_set gone;        /* ranks that closed it, left, died, or never got it */
    struct symm_hub_arm *arm;         /* NULL: all its ranks are in this domain */
};

enum symm_hub_phase { SYMM_HUB_JOINING, SYMM_HUB_RUNNING, SYMM_HUB_REFUSED };

struct symm_hub {
    struct symm_hub_config config;
    int nranks;
    enum symm_hub_phase phase;
    int64_t accept_at_us; /* no accept before this time, since descriptors were out */
    int nclients, max_clients;
    struct symm_hub_client **clients;
    struct symm_hub_rank ranks[SYMM_MAX_RANKS];
    struct symm_hub_comm *comms;
    uint64_t last_key;    /* last key given to a comm */
    struct symm_wire *up; /* to the root; NULL: the job has one domain */
    bool mute;            /* a message to the root was lost */
    bool cut;             /* the connection has ended, or counts as ended, and its comms with it */
    bool failed;
    atomic_bool exits; /* this process exits and the other ranks were told */
    int ninquiries;    /* number of open inquiries */
    uint64_t last_inquiry;
    bool asked;      /* a rank waits for the next round of confirmations */
    bool confirming; /* a round is open */
    /* joining */
    unsigned char token[16];
    char boot_id[40];
    symm_status refusal; /* status of the first error; texts in refusals */
    struct symm_text refusals, strangers;
    int nshared;                /* ranks refused because another one has their device */
    int64_t refuse_at_us;       /* end of the wait for other ranks, before and after the refusal */
    struct symm_rank_set heard; /* ranks that sent a HELLO, valid or not */
    unsigned char buffer[SYMM_MESSAGE_MAX];
};

/* The world rank of a rank of this domain, for texts. */
static inline int symm__hub_name(const struct symm_hub *hub, int rank)
{
    return symm__join_name(hub->config.join, rank);
}

/* hub.c */
void symm__hub_send(struct symm_hub *hub, struct symm_hub_client *client,
                    const struct symm_message *m);
/* Sends to all members of the comm that are not gone. Takes the frame. */
void symm__hub_send_comm(struct symm_hub *hub, const struct symm_hub_comm *comm,
                         struct symm_frame *frame);
void symm__hub_drop(struct symm_hub *hub, struct symm_hub_client *client, const char *why);

/* join.c */
void symm__hub_hello(struct symm_hub *hub, struct symm_hub_client *client,
                     const struct symm_message *m);
void symm__hub_other_version(struct symm_hub *hub, struct symm_hub_client *client,
                             const struct symm_message *m);
void symm__hub_refuse(struct symm_hub *hub, symm_status status, const char *reason);
/* Refuses this connection alone. */
void symm__hub_turn_away(struct symm_hub *hub, struct symm_hub_client *client, symm_status status,
                         const char *reason);
/* Whether there is room for one more client. Turns a silent one away if needed. */
bool symm__hub_has_room(struct symm_hub *hub);
/* Whether every rank has sent a HELLO, valid or not. */
bool symm__hub_all_heard(const struct symm_hub *hub);
void symm__hub_join_query(struct symm_hub *hub, struct symm_hub_client *client,
                          const struct symm_message *m);
void symm__hub_join_tick(struct symm_hub *hub);

/* comm.c */
/* Adds a comm with the next key. */
symm_status symm__hub_comm_add(struct symm_hub *hub, uint64_t parent, int nranks, const int *ranks,
                               struct symm_hub_comm **out);
/* The comm with this key, or with this provisional key of the rank; NULL: none. */
struct symm_hub_comm *symm__hub_find_comm(struct symm_hub *hub, int rank, uint64_t key);
/* The key by which this comm rank knows the comm. */
uint64_t symm__hub_key_for(const struct symm_hub_comm *comm, int comm_rank);
void symm__hub_comm_message(struct symm_hub *hub, struct symm_hub_client *client,
                            struct symm_message *m);
/* The rank has left or died: ends every comm that needs it. */
void symm__hub_rank_gone(struct symm_hub *hub, int rank, enum symm_hub_fate fate);
void symm__hub_sweep(struct symm_hub *hub, bool all);
/* The comm rank of a world rank; -1: not a member. */
int symm__hub_comm_rank(const struct symm_hub_comm *comm, int rank);
/* Ends the comm, and comms being made from it, on all ranks. The first end wins. */
void symm__hub_end_comm(struct symm_hub *hub, struct symm_hub_comm *comm, symm_status status,
                        const char *reason);
/* Tells one rank that the comm has ended. */
void symm__hub_send_end(struct symm_hub *hub, struct symm_hub_comm *comm,
                        struct symm_hub_client *client);

/* The rank is gone: ends the comm with a text that says why. */
void symm__hub_end_for(struct symm_hub *hub, struct symm_hub_comm *comm, int rank);

/* vote.c */
/* Takes a rank's contribution to the comm's next vote. The last one triggers the verdict. */
void symm__hub_arrive(struct symm_hub *hub, struct symm_hub_client *client,
                      struct symm_hub_comm *comm, struct symm_message *m);
/* Frees the contributions to a vote that is over, or will not come to its end. */
void symm__hub_forget_vote(struct symm_hub *hub, struct symm_hub_comm *comm);
/* Compares the contributions. Returns the verdict before the arbiter decides, with its text. */
symm_status symm__hub_judge(const struct symm_hub *hub, const struct symm_hub_comm *comm,
                            struct symm_text *text);
/*
 * Sends a verdict to the comm's ranks, and begins its next vote. result: status, reason and
 * payload; the rest is filled in.
 */
void symm__hub_publish(struct symm_hub *hub, struct symm_hub_comm *comm,
                       struct symm_message *result);

/* comm_create.c */
/* Takes a rank's contribution to the first vote of a new comm. */
void symm__hub_create(struct symm_hub *hub, struct symm_hub_client *client, struct symm_message *m);

/* confirm.c */
/* Takes note of a CONFIRM. */
void symm__hub_ask(struct symm_hub *hub, struct symm_hub_comm *comm, int comm_rank, uint64_t seq);
/* Counts bytes read from the client's socket; 0: it was empty. */
void symm__hub_heard(struct symm_hub_client *client, size_t nbytes);
/* At the end of each pass: answers a finished round and opens the next one. */
void symm__hub_confirm(struct symm_hub *hub);

/* relay.c */
/* Connects to the root, and adds the comm of all domains. */
symm_status symm__hub_relay_open(struct symm_hub *hub);
void symm__hub_relay_close(struct symm_hub *hub);
/* Serves the connection to the root. */
void symm__hub_relay_serve(struct symm_hub *hub, short revents);
/* Makes a comm one of several domains. domains: birth->ndomains words of 32 bits, any alignment. */
symm_status symm__hub_relay_add(struct symm_hub_comm *comm, const struct symm_span_birth *birth,
                                const void *domains);
void symm__hub_relay_forget(struct symm_hub_comm *comm);
/* All ranks of this domain have come to a vote. */
void symm__hub_relay_vote(struct symm_hub *hub, struct symm_hub_comm *comm);
/* The comm has ended here, or a rank of this domain has closed it. */
void symm__hub_relay_end(struct symm_hub *hub, struct symm_hub_comm *comm);
/* This domain's ranks were refused: nor can the job begin. */
void symm__hub_relay_refuse(struct symm_hub *hub);
void symm__hub_relay_closed(struct symm_hub *hub, struct symm_hub_comm *comm);
/* A rank asks whether the comm is alive. */
void symm__hub_relay_ask(struct symm_hub *hub, struct symm_hub_comm *comm, int comm_rank,
                         uint64_t seq);
/* A round begins or has ended: the root's questions. */
void symm__hub_relay_round(struct symm_hub_comm *comm);
void symm__hub_relay_answer(struct symm_hub *hub, struct symm_hub_comm *comm);
/* SLOW and EXPIRED of a rank whose domain has sent its contribution. */
void symm__hub_relay_late(struct symm_hub *hub, struct symm_hub_comm *comm, int rank,
                          const struct symm_message *m);
/* Tells the root which ranks of this domain are missing. */
void symm__hub_relay_missing(struct symm_hub *hub, struct symm_hub_comm *comm, const char *text);

/* late.c */
/* The root asks which ranks of this domain have not come. */
void symm__hub_late_for_root(struct symm_hub *hub, struct symm_hub_comm *comm);
enum { SYMM_HUB_CALL_SHOWN = 160 }; /* bytes of a call's text within a longer text */
/* At SLOW and EXPIRED: asks the comm's ranks for their activity. */
void symm__hub_late(struct symm_hub *hub, struct symm_hub_client *client,
                    struct symm_hub_comm *comm, const struct symm_message *m);
/* Notes a rank's answer. */
void symm__hub_told(struct symm_hub *hub, struct symm_hub_client *client,
                    const struct symm_message *m);
/*
 * In each pass: closes inquiries whose ranks have all answered or whose time is over. Answers SLOW;
 * ends an expired comm.
 */
void symm__hub_late_tick(struct symm_hub *hub);
void symm__hub_forget_inquiry(struct symm_hub *hub, struct symm_hub_comm *comm);

#endif
