/*
 * The hub's state, shared by its parts: connections (hub.c), joining (join.c), comms and votes
 * (comm.c), new comms (comm_create.c), slow and expired votes (late.c), confirmations (confirm.c).
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

struct symm_hub_comm {
    struct symm_hub_comm *next;
    uint64_t key, parent;
    uint64_t names[SYMM_MAX_RANKS]; /* by comm rank: provisional key */
    int nranks;
    int ranks[SYMM_MAX_RANKS]; /* world ranks */
    struct symm_rank_set members;
    bool formed;
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
    uint64_t last_key; /* last key given to a comm */
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
/* Takes a rank's contribution to the comm's next vote. The last one triggers the verdict. */
void symm__hub_arrive(struct symm_hub *hub, struct symm_hub_client *client,
                      struct symm_hub_comm *comm, struct symm_message *m);
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

/* late.c */
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
