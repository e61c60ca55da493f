/*
 * The exchange's state, shared by its parts: the connection and its thread (exchange.c), host
 * communicators (host_comm.c), votes (vote.c), and the exit notice (exit_notice.c).
 */
#ifndef SYMM_EXCHANGE_STATE_H
#define SYMM_EXCHANGE_STATE_H

#include <pthread.h>
#include <sys/types.h>
#include "runtime/comm/link.h"
#include "runtime/comm/rendezvous.h"
#include "runtime/hub/hub.h"
#include "exchange.h"

enum { SYMM_FREED_MAX = 1000 }; /* most offsets in one message */

struct symm_exchange {
    struct symm_exchange *next_notice; /* exit_notice.c */
    struct symm_exchange_config config;
    struct symm_join join;
    pid_t hub_pid;
    bool watches;    /* rank 0 watches the other ranks' processes */
    int hub_process; /* of symm__rendezvous_watch() */
    int64_t slow_us, abort_delay_us;
    struct symm_rendezvous rendezvous; /* on rank 0; the hub owns it once it is open */
    struct symm_hub *hub;              /* on rank 0; the thread owns it once it runs */
    struct symm_link link;
    bool link_open;
    int wake; /* eventfd */
    pthread_t thread;
    bool thread_runs;

    pthread_mutex_t lock; /* guards the members below and the comms */
    pthread_cond_t quiet; /* signalled when ticking becomes false */
    struct symm_host_comm *comms, *world, *span;
    uint64_t attempts; /* attempts to create a comm */
    bool lost;         /* the connection has ended */
    char lost_reason[96];
    bool hub_left; /* the hub has sent BYE */
    bool hub_deaf; /* the hub did not take an ABORT */
    bool refused;  /* the hub has refused this rank; it closes the connection when it ends */
    bool hub_exits;
    bool ticking, stopping;
    int64_t stop_at_us; /* start of stopping */

    pthread_mutex_t freed_lock; /* held while sending, so that no vote overtakes a FREED */
    size_t nfreed;
    uint64_t freed[SYMM_FREED_MAX];
    uint64_t frees;           /* number of frees so far */
    _Atomic uint64_t settled; /* frees that are settled; written under `lock` */

    unsigned char buffer[SYMM_MESSAGE_MAX];
};

/* A vote in progress, on its caller's stack. */
struct symm_wait {
    struct symm_vote *vote;
    int64_t began_us; /* start of the call; 0: now */
    size_t nbytes;    /* of a valid result */
    uint64_t frees;   /* frees that the hub received before this vote */
    bool makes;       /* creates the comm: the result is its key */
    bool done;
    symm_status verdict;
    char text[SYMM_TEXT_MAX];
};

struct symm_host_comm {
    struct symm_host_comm *next;
    struct symm_exchange *x;
    uint64_t key, seq;
    int rank, nranks; /* of several domains: in this one */
    int slots; /* contributions in the result of a vote: nranks, or of several domains more */
    int ranks[SYMM_MAX_RANKS]; /* numbers in the domain */
    int names[SYMM_MAX_RANKS]; /* world ranks */
    struct symm_rank_set members;
    struct symm_host_comm_events events;
    bool live; /* created: the hub knows it, and its owner gets events */
    int busy;  /* running callbacks */
    pthread_cond_t changed;
    struct symm_wait *wait;
    bool quiet; /* all ranks are quiet */
    /* asked and answered; a later answer also serves earlier questions */
    uint64_t confirms, confirmed;
    _Atomic symm_status status; /* sticky; reason is written before it */
    char reason[SYMM_TEXT_MAX];
    /* the rank whose exit ended it, by its number in the domain; -1: none. Written before status */
    int exited;
    int64_t end_at_us; /* when to act on a received end; 0: none */
    symm_status end_status;
    int end_exited;
    char end_reason[SYMM_TEXT_MAX];
    /* limit for sending the ABORT before the owner is told; 0: the owner was told */
    int64_t tell_by_us;
};

enum { SYMM_HUB_ANSWER_US = 2000000 }; /* time limit for the hub to answer or to take an ABORT */

/* exchange.c */
void symm__exchange_wake(struct symm_exchange *x);
/* Sends to the hub; fills in rank. */
symm_status symm__exchange_send(struct symm_exchange *x, struct symm_message *m);

/* "rank 0 (pid 123)", or the rank that has the hub of this domain */
struct symm_hub_name {
    char text[48];
};
struct symm_hub_name symm__exchange_hub(const struct symm_exchange *x);

/* host_comm.c */
symm_status symm__host_comm_new(struct symm_exchange *x, uint64_t key, int nranks, const int *ranks,
                                struct symm_host_comm **out);
void symm__host_comm_free(struct symm_host_comm *comm);
/* Waits for the result of a sent vote. Sends SLOW and EXPIRED when they are due. */
symm_status symm__host_comm_wait(struct symm_host_comm *comm, struct symm_wait *wait,
                                 symm_deadline deadline);
/* Handles a message of the hub on a comm. I/O thread only. */
void symm__host_comm_message(struct symm_exchange *x, struct symm_message *m);
/* Ends all comms because the connection has ended. I/O thread only. */
void symm__host_comms_lost(struct symm_exchange *x);
/* Acts on due ends. Returns the time of the next one, or SYMM_NEVER. I/O thread only. */
int64_t symm__host_comms_end_due(struct symm_exchange *x);

#endif
