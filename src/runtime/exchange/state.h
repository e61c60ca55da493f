/*
 * The exchange's state, shared by its two parts: the connection and its thread (exchange.c), and
 * comms (comm.c).
 */
#ifndef SYMM_EXCHANGE_STATE_H
#define SYMM_EXCHANGE_STATE_H

#include <pthread.h>
#include <sys/types.h>
#include "runtime/comm/link.h"
#include "runtime/comm/rendezvous.h"
#include "runtime/hub/hub.h"
#include "exchange.h"

enum { SYMM_FREED_MAX = 1000 }; /* offsets in one message */

struct symm_exchange {
    struct symm_exchange *next_notice; /* exit_notice.c */
    struct symm_exchange_config config;
    struct symm_join join;
    pid_t hub_pid;
    bool watches;    /* rank 0: the other ranks' processes */
    int hub_process; /* to be watched, as symm__rendezvous_watch() gives it */
    int64_t slow_us, abort_delay_us;
    struct symm_rendezvous rendezvous; /* rank 0's; belongs to the hub once there is one */
    struct symm_hub *hub;              /* rank 0's; belongs to the thread once that runs */
    struct symm_link link;
    bool link_open;
    int wake; /* eventfd */
    pthread_t thread;
    bool thread_runs;

    pthread_mutex_t lock; /* guards what follows, and the comms */
    pthread_cond_t quiet; /* ticking has become false */
    struct symm_host_comm *comms, *world;
    uint64_t attempts; /* at making a comm */
    bool lost;         /* the connection is gone */
    char lost_reason[96];
    bool hub_left; /* and the hub had said goodbye */
    bool hub_deaf; /* or did not take an ABORT */
    bool refused;  /* the hub has ended the joining; it closes the connection when it ends */
    bool hub_exits;
    bool ticking, stopping;
    int64_t stop_at_us; /* when stopping began */

    pthread_mutex_t freed_lock; /* held while sending, so that no vote overtakes */
    size_t nfreed;
    uint64_t freed[SYMM_FREED_MAX];
    uint64_t frees;           /* ever */
    _Atomic uint64_t settled; /* of them; written under `lock` */

    unsigned char buffer[SYMM_MESSAGE_MAX];
};

/* A vote under way, on its caller's stack. */
struct symm_wait {
    struct symm_vote *vote;
    int64_t began_us; /* the call that takes part; 0: now */
    size_t nbytes;    /* that the result must have */
    uint64_t frees;   /* that the hub had heard of before this vote */
    bool makes;       /* the comm: the result is its key */
    bool done;
    symm_status verdict;
    char text[SYMM_TEXT_MAX];
};

struct symm_host_comm {
    struct symm_host_comm *next;
    struct symm_exchange *x;
    uint64_t key, seq;
    int rank, nranks;
    int ranks[SYMM_MAX_RANKS];
    struct symm_rank_set members;
    struct symm_host_comm_events events;
    bool live; /* made: its owner gets events, the hub knows it */
    int busy;  /* callbacks under way */
    pthread_cond_t changed;
    struct symm_wait *wait;
    bool quiet;                   /* on all ranks */
    uint64_t confirms, confirmed; /* asked for, and answered: a later answer serves earlier ones */
    _Atomic symm_status status;   /* sticky; reason is written before */
    char reason[SYMM_TEXT_MAX];
    int64_t end_at_us; /* when the abort that came is acted on; 0: none came */
    symm_status end_status;
    char end_reason[SYMM_TEXT_MAX];
    int64_t tell_by_us; /* the owner hears of the end once the ABORT is sent; 0: it has heard */
};

enum { SYMM_HUB_ANSWER_US = 2000000 }; /* how long the hub may take to answer, or to listen */

/* exchange.c */
void symm__exchange_wake(struct symm_exchange *x);
/* Sends to the hub; rank is filled in. */
symm_status symm__exchange_send(struct symm_exchange *x, struct symm_message *m);

/* comm.c */
symm_status symm__host_comm_new(struct symm_exchange *x, uint64_t key, int nranks, const int *ranks,
                                struct symm_host_comm **out);
void symm__host_comm_free(struct symm_host_comm *comm);
/* Waits for the result of a vote that was sent, asking for it when it is slow or late. */
symm_status symm__host_comm_wait(struct symm_host_comm *comm, struct symm_wait *wait,
                                 symm_deadline deadline);
/* What the hub says about a comm. In the thread. */
void symm__host_comm_message(struct symm_exchange *x, struct symm_message *m);
/* The connection is gone: all comms end. In the thread. */
void symm__host_comms_lost(struct symm_exchange *x);
/* Acts on the ends that are due. Returns when the next one is, or SYMM_NEVER. In the thread. */
int64_t symm__host_comms_end_due(struct symm_exchange *x);

#endif
