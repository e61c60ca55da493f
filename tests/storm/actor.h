/* A rank in one life: its context, and the clock and the verdict of each of its calls. */
#ifndef STORM_ACTOR_H
#define STORM_ACTOR_H

#include "board.h"
#include "ranks.h"

enum { ACTOR_TEXT = 1200 };

struct actor {
    const struct storm_life *life;
    struct storm_post *post;
    symm_context *ctx;
    struct rank helper; /* for the helpers of the tests */
    struct rank_report helped;
    symm_status status;
    bool gave_up;            /* on a driver call: its objects stay until the process ends */
    char failed[ACTOR_TEXT]; /* the first call that failed, with its text; empty: none */
};

void actor_init(struct actor *a, const struct storm_life *life, struct storm_post *post);

/* A call with its clock. The first one that fails is noted, until actor_forget(). */
#define CALL_FOR(actor, limit_ms, call)                                                            \
    (board_begin((actor)->post, #call, (limit_ms)), actor_end((actor), (call)))
#define CALL(actor, call) CALL_FOR(actor, actor_limit_ms(actor), call)
/* The same of `a`, in a function with a status `st` and an `out:` label: left for it on failure. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        st = CALL(a, call);                                                                        \
        if (st != SYMM_OK)                                                                         \
            goto out;                                                                              \
    } while (0)

symm_status actor_end(struct actor *a, symm_status status);
void actor_forget(struct actor *a);

/* Waits for the moment of an abort, at which the hub may be stopped. */
void actor_await_moment(struct actor *a, const struct storm_event *abort);

/* How long a call may last after something happened: the timeout, and the wait for an answer. */
int actor_limit_ms(const struct actor *a);
/* The same for a destroy, which also waits until the others are quiet, and serves them. */
int actor_destroy_limit_ms(const struct actor *a);

/* Reports and forgets a failed call that needed these ranks (bits), if the plan gives no reason. */
void actor_judge(struct actor *a, uint32_t ranks);

#endif
