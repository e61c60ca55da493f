/* Ranks that meet below the public interface: an exchange and its world comm, no driver. */
#ifndef TEST_MEET_H
#define TEST_MEET_H

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "exercise.h"
#include "ranks.h"
#include "runtime/exchange/exchange.h"

struct meeting {
    struct symm_join join;
    struct symm_log log;
    struct symm_exchange_config config; /* a test may fill it in before meet() */
    struct symm_exchange *x;
    struct symm_host_comm *world;
    struct symm_host_comm_events events;
    atomic_int ended, ticks; /* how often the callbacks came */
    char log_text[2000];     /* the last report */
};

static inline void meeting_ended(void *user)
{
    ((struct meeting *)user)->ended++;
}

/* Joins with this configuration; on failure there is nothing to leave. */
static inline symm_status meet_as(struct meeting *m, const symm_config *config)
{
    symm_status st;

    m->log.rank = config->rank;
    TRY(symm__join_resolve(config, NULL, &m->join));
    m->config.join = &m->join;
    m->config.log = &m->log;
    if (!m->config.timeout_ms)
        m->config.timeout_ms = 20000;
    TRY(symm__exchange_open(&m->config, &m->x));
    m->events.user = m;
    if (!m->events.ended)
        m->events.ended = meeting_ended;
    TRY(symm__host_comm_world(m->x, &m->events, &m->world));
out:
    return st;
}

static inline symm_status meet(struct rank *self, struct meeting *m)
{
    const symm_config config = rank_config(self);
    return meet_as(m, &config);
}

static inline void part(struct meeting *m)
{
    symm__host_comm_close(m->world);
    symm__exchange_close(m->x);
    m->world = NULL;
    m->x = NULL;
}

static inline symm_status meeting_open(struct rank *self, struct meeting *m)
{
    RANK_TRY(self, meet(self, m));
out:
    return self->report->status;
}

/* A rank's function, and a RANKS_TEST, that has the meeting `m`. */
#define MEETING_RANK(name) RANK_WITH(name, struct meeting, m, meeting_open, part)
#define MEETING_TEST(group, name, ...)                                                             \
    RANKS_TEST_WITH(group, name, struct meeting, m, meeting_open, part, __VA_ARGS__)

static inline symm_status meeting_unmet(struct rank *self, struct meeting *m)
{
    (void)self;
    (void)m;
    return SYMM_OK;
}

/* The same, but the function calls meet() by itself. */
#define UNMET_RANK(name) RANK_WITH(name, struct meeting, m, meeting_unmet, part)
#define UNMET_TEST(group, name, ...)                                                               \
    RANKS_TEST_WITH(group, name, struct meeting, m, meeting_unmet, part, __VA_ARGS__)

/* A vote that has 5 seconds. */
static inline symm_status take_vote(struct symm_host_comm *comm, struct symm_vote *vote)
{
    return symm__host_comm_vote(comm, vote, symm__deadline_in(5000));
}

/* A vote with a word from each rank, all of which must be this rank's `word`. */
static inline symm_status agree(struct symm_host_comm *comm, const char *what, int64_t word,
                                bool *right)
{
    int64_t all[SYMM_MAX_RANKS];
    struct symm_vote step = {.text = what, .mine = &word, .nbytes = sizeof word, .all = all};
    symm_status st = symm__host_comm_vote(comm, &step, symm__deadline_in(20000));

    for (int r = 0; st == SYMM_OK && r < symm__host_comm_nranks(comm); r++)
        *right &= all[r] == word;
    return st;
}

static inline symm_status barrier(struct symm_host_comm *comm, const char *what, int timeout_ms)
{
    struct symm_vote step = {.text = what};
    return symm__host_comm_vote(comm, &step, symm__deadline_in(timeout_ms));
}

/* A comm of these ranks of another one, with the meeting's events. */
static inline symm_status create_comm(struct meeting *m, struct symm_host_comm *of, int n,
                                      const int *ranks, const char *what,
                                      struct symm_host_comm **out)
{
    struct symm_vote step = {.text = what};
    return symm__host_comm_create(of, n, ranks, &m->events, &step, symm__deadline_in(5000), out);
}

#endif
