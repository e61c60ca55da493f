/*
 * The hub's state, shared by its parts: connections (hub.c), joining (hub_join.c), comms
 * (hub_comm.c) and how they are made (hub_birth.c), who is late in them (hub_late.c), and
 * confirmations (hub_confirm.c).
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
    int process; /* pidfd: a forked child may keep the socket open; -1: cannot be watched */
    int rank;    /* -1: none of ours, or not yet */
    bool said;   /* its HELLO was understood */
    bool over;   /* to be closed */
    int64_t since_us;
    size_t unheard; /* bytes to read before the open round of confirmations may end */
    unsigned char device[16];
    bool has_device;
};

enum symm_hub_fate { SYMM_HUB_AWAITED, SYMM_HUB_HERE, SYMM_HUB_LEFT, SYMM_HUB_DIED };

struct symm_hub_rank {
    enum symm_hub_fate fate;
    pid_t pid;
    struct symm_hub_client *client; /* while it is here */
    bool exits;                     /* its process has said so */
    char last_done[160];            /* the last call that it finished */
};

struct symm_hub_comm {
    struct symm_hub_comm *next;
    uint64_t key, parent;
    uint64_t names[SYMM_MAX_RANKS]; /* by place: what the rank called it while it was being made */
    int nranks;
    int ranks[SYMM_MAX_RANKS]; /* world ranks */
    struct symm_rank_set members;
    bool formed;
    symm_status status; /* sticky */
    char reason[SYMM_TEXT_MAX];
    uint64_t seq; /* votes that are over */
    int ncame;
    /* By place in the comm; texts and payload behind the struct. */
    struct symm_message *came[SYMM_MAX_RANKS];
    struct symm_hub_inquiry *inquiry; /* why the vote is late; NULL: nobody wants to know */
    /* By place, the seq of a CONFIRM; 0: none. */
    uint64_t asks[SYMM_MAX_RANKS];    /* for the next round */
    uint64_t answers[SYMM_MAX_RANKS]; /* due at the end of the open round */
    struct symm_rank_set quiet;       /* said that nothing of theirs runs any more */
    struct symm_rank_set gone;        /* closed it, left, died, or never got it */
};

enum symm_hub_phase { SYMM_HUB_JOINING, SYMM_HUB_RUNNING, SYMM_HUB_REFUSED };

struct symm_hub {
    struct symm_hub_config config;
    int nranks;
    enum symm_hub_phase phase;
    int64_t accept_at_us; /* not before: descriptors had run out */
    int nclients, max_clients;
    struct symm_hub_client **clients;
    struct symm_hub_rank ranks[SYMM_MAX_RANKS];
    struct symm_hub_comm *comms;
    uint64_t last_key; /* that a comm was given */
    bool failed;
    atomic_bool exits; /* this process, and the others have been told */
    int ninquiries;    /* open ones */
    uint64_t last_inquiry;
    bool asked;      /* some rank waits for the next round of confirmations */
    bool confirming; /* a round is open */
    /* joining */
    unsigned char token[16];
    char boot_id[40];
    symm_status offence; /* of the first; what they are stands in offences */
    struct symm_text offences, strangers;
    int64_t refuse_at_us;       /* or, once the ranks are refused, until when others are as well */
    struct symm_rank_set heard; /* ranks that came, rightly or not */
    unsigned char buffer[SYMM_MESSAGE_MAX];
};

/* hub.c */
void symm__hub_send(struct symm_hub *hub, struct symm_hub_client *client,
                    const struct symm_message *m);
/* To all members of the comm that are not gone. Takes the frame. */
void symm__hub_send_comm(struct symm_hub *hub, const struct symm_hub_comm *comm,
                         struct symm_frame *frame);
void symm__hub_drop(struct symm_hub *hub, struct symm_hub_client *client, const char *why);

/* hub_join.c */
void symm__hub_hello(struct symm_hub *hub, struct symm_hub_client *client,
                     const struct symm_message *m);
void symm__hub_other_version(struct symm_hub *hub, struct symm_hub_client *client,
                             const struct symm_message *m);
void symm__hub_refuse(struct symm_hub *hub, symm_status status, const char *reason);
/* Refuses this connection alone. */
void symm__hub_turn_away(struct symm_hub *hub, struct symm_hub_client *client, symm_status status,
                         const char *reason);
/* Whether there is room for one more; makes it if need be. */
bool symm__hub_has_room(struct symm_hub *hub);
/* Whether every rank has come, rightly or not. */
bool symm__hub_all_heard(const struct symm_hub *hub);
void symm__hub_join_query(struct symm_hub *hub, struct symm_hub_client *client,
                          const struct symm_message *m);
void symm__hub_join_tick(struct symm_hub *hub);

/* hub_comm.c */
/* The next key is the comm's. */
symm_status symm__hub_comm_add(struct symm_hub *hub, uint64_t parent, int nranks, const int *ranks,
                               struct symm_hub_comm **out);
/* The comm that this rank means; NULL: there is none. */
struct symm_hub_comm *symm__hub_find_comm(struct symm_hub *hub, int rank, uint64_t key);
/* What the rank at this place calls the comm. */
uint64_t symm__hub_key_for(const struct symm_hub_comm *comm, int comm_rank);
/* Takes a rank's part of the comm's next vote; the last one brings the verdict. */
void symm__hub_arrive(struct symm_hub *hub, struct symm_hub_client *client,
                      struct symm_hub_comm *comm, struct symm_message *m);
void symm__hub_comm_message(struct symm_hub *hub, struct symm_hub_client *client,
                            struct symm_message *m);
/* The rank is not here any more: every comm that needs it ends. */
void symm__hub_rank_gone(struct symm_hub *hub, int rank, enum symm_hub_fate fate);
void symm__hub_sweep(struct symm_hub *hub, bool all);
/* Where a world rank stands in the comm; -1: it is not in it. */
int symm__hub_comm_rank(const struct symm_hub_comm *comm, int rank);
/* Ends the comm, and those that are being made of it, on all ranks. The first end wins. */
void symm__hub_end_comm(struct symm_hub *hub, struct symm_hub_comm *comm, symm_status status,
                        const char *reason);
/* Tells one rank that the comm has ended. */
void symm__hub_send_end(struct symm_hub *hub, struct symm_hub_comm *comm,
                        struct symm_hub_client *client);

/* hub_birth.c */
/* Takes a rank's part of the first vote of a new comm. */
void symm__hub_create(struct symm_hub *hub, struct symm_hub_client *client, struct symm_message *m);

/* hub_confirm.c */
/* Takes note of a CONFIRM. */
void symm__hub_ask(struct symm_hub *hub, struct symm_hub_comm *comm, int comm_rank, uint64_t seq);
/* The client's socket has given this many bytes; 0: it was seen empty. */
void symm__hub_heard(struct symm_hub_client *client, size_t nbytes);
/* At the end of each turn: answers the open round if it is over, and opens the next one. */
void symm__hub_confirm(struct symm_hub *hub);

/* hub_late.c */
enum { SYMM_HUB_CALL_SHOWN = 160 }; /* bytes of a call's text in a text about several */
/* At SLOW and EXPIRED: asks the comm's ranks what they do. */
void symm__hub_late(struct symm_hub *hub, struct symm_hub_client *client,
                    struct symm_hub_comm *comm, const struct symm_message *m);
/* Takes note of what a rank says that it does. */
void symm__hub_told(struct symm_hub *hub, struct symm_hub_client *client,
                    const struct symm_message *m);
/* Each turn: where all have told, or should have, answers SLOW and ends the comm that expired. */
void symm__hub_late_tick(struct symm_hub *hub);
void symm__hub_forget_inquiry(struct symm_hub *hub, struct symm_hub_comm *comm);

#endif
