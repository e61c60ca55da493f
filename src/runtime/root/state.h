/* The root's state, shared by its parts. */
#ifndef SYMM_ROOT_STATE_H
#define SYMM_ROOT_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include "runtime/base/text.h"
#include "root.h"

/* A domain's contribution to a vote. Texts and payload follow the struct. */
struct symm_root_said {
    symm_status status;
    uint32_t order; /* of a new comm's ranks */
    const char *text, *reason;
    const void *payload;
    size_t nbytes;
};

/* A domain in a comm. */
struct symm_root_party {
    int domain;
    bool known;    /* it has named the comm */
    uint64_t name; /* its name of the comm */
    struct symm_root_said *came;
    bool left;                 /* a rank of it has closed the comm: a vote cannot be complete */
    bool gone;                 /* all of them have, or it is lost: nothing more comes */
    uint64_t confirms;         /* the seq of its CONFIRM; 0: none */
    uint64_t round;            /* of questions for it; answers of earlier rounds do not count */
    int unconfirmed;           /* domains that have not answered */
    bool slow, unheard;        /* it wants to know who is late; it has not told its missing ranks */
    struct symm_text *missing; /* its answer; NULL: none */
};

struct symm_root_comm {
    struct symm_root_comm *next;
    uint64_t key, parent, hash;
    bool formed;
    symm_status status; /* sticky */
    char reason[SYMM_TEXT_MAX];
    uint64_t seq; /* finished votes */
    int ncame;
    int64_t ask_until_us; /* of the open question about a late vote; 0: none */
    bool expired;
    uint64_t expired_ms;
    int nparties;
    struct symm_root_party parties[];
};

enum symm_root_fate { SYMM_ROOT_AWAITED, SYMM_ROOT_HERE, SYMM_ROOT_LEFT, SYMM_ROOT_LOST };

struct symm_root_domain {
    enum symm_root_fate fate;
    struct symm_wire *wire;   /* NULL: none */
    char lost[SYMM_TEXT_MAX]; /* why */
};

struct symm_root {
    const struct symm_span *span;
    const struct symm_log *log;
    int listener, wake;
    pthread_t thread;
    bool runs;
    atomic_bool stopping;
    _Atomic int64_t stop_at_us; /* the latest end */
    int nstrangers;
    struct symm_wire **strangers; /* connections that have not said which domain they are */
    struct symm_root_domain *domains;
    struct symm_root_comm *comms;
    uint64_t last_key;
};

/* root.c */
void symm__root_send(struct symm_root *root, int domain, const struct symm_message *m);

/* comm.c */
/* The comm of all domains, which every hub calls SYMM_COMM_SPAN. */
symm_status symm__root_add_world(struct symm_root *root);
void symm__root_message(struct symm_root *root, int domain, const struct symm_message *m);
/* The domain has left or is lost: ends every comm that needs it. */
void symm__root_domain_gone(struct symm_root *root, int domain);
void symm__root_end_comm(struct symm_root *root, struct symm_root_comm *comm, symm_status status,
                         const char *reason);
void symm__root_sweep(struct symm_root *root, bool all);

/* late.c */
void symm__root_late(struct symm_root *root, struct symm_root_comm *comm,
                     struct symm_root_party *party, const struct symm_message *m);
void symm__root_told(struct symm_root_comm *comm, struct symm_root_party *party,
                     const struct symm_message *m);
/* Closes questions that all have answered, or whose time is over. */
void symm__root_late_tick(struct symm_root *root);
void symm__root_forget_question(struct symm_root_comm *comm);

#endif
