/* A meeting as the other ranks see it, and the place where rank 0 listens. */
#include "meeting.h"

#include <stdio.h>
#include <string.h>
#include "runtime/base/numbers.h"
#include "runtime/base/text.h"
#include "meeting_host.h"

enum {
    POLL_MS = 100,
    PAUSE_US = 20000, /* between two rounds over the places; longer if rank 0 is long in coming */
    LONG_PAUSE_US = 200000,
    PLACE_US = 1000000, /* for a proof in the first round, if there are other places */
    LOST_US = 2000000,  /* rank 0 has ended if it has not taken this rank back by then */
    ANSWER_US = 2000000,
};

/* "10.0.0.1:4242, 10.0.0.1:4243 (SYMM_ADDRESS)" */
static struct symm_text name_places(const struct symm_meeting *m)
{
    struct symm_text text = {{0}, 0};

    for (int i = 0; i < m->nplaces; i++)
        symm__text_add(&text, "%s%s", i ? ", " : "", symm__address_name(&m->places[i]).text);
    symm__text_add(&text, " (%s)", m->wanted);
    return text;
}

symm_status symm__meeting_listen(const struct symm_meeting *m, struct symm_address *at, int *fd)
{
    symm_status st = SYMM_ERROR_STATE;

    *fd = -1;
    for (int i = 0; i < m->nplaces && st == SYMM_ERROR_STATE; i++)
        st = symm__address_listen(&m->places[i], at, fd);
    if (st == SYMM_ERROR_STATE)
        st = symm__fail(st, "all ports are in use: %s", name_places(m).bytes);
    return st;
}

/* ---- The other ranks ---- */

struct visit {
    const struct symm_meeting *m;
    const void *mine;
    size_t nbytes;
    unsigned char *all;
    symm_deadline deadline;
    int64_t begun_us, slow_us; /* slow_us: time of the next report */

    const struct symm_address *place;
    struct symm_wire *wire;
    size_t got;         /* bytes of the table */
    bool done;          /* there is a result */
    bool busy;          /* the place has another context of rank 0, which may end */
    int64_t expired_us; /* when rank 0 was told that this rank waits no longer; 0: not yet */

    int64_t lost_us;      /* when a connection ended that was proved; 0: none has */
    symm_status obstacle; /* the most telling end of a connection, OK: none */
    char why[SYMM_TEXT_MAX / 2];
};

static void report_slow(struct visit *v)
{
    const bool open = v->wire && symm__wire_state(v->wire) == SYMM_WIRE_OPEN;

    if (v->m->slow_us <= 0 || symm__now_us() < v->slow_us)
        return;
    v->slow_us += v->m->slow_us;
    if (open)
        symm__log(v->m->log, SYMM_LOG_WARNING, "waiting for other ranks; rank 0 is at %s (%s)",
                  symm__address_name(v->place).text, v->m->wanted);
    else
        symm__log(v->m->log, SYMM_LOG_WARNING, "waiting for rank 0 at %s", name_places(v->m).bytes);
}

/*
 * Keeps why a place is not rank 0's. That nobody listens there tells least, unless another context
 * has ended there.
 */
static void note_obstacle(struct visit *v, symm_status status, const char *why)
{
    const bool tells = v->obstacle != SYMM_OK && v->obstacle != SYMM_ERROR_PEER;

    if (status == SYMM_ERROR_PEER && tells && v->obstacle != SYMM_ERROR_STATE)
        return;
    v->obstacle = status;
    snprintf(v->why, sizeof v->why, "%s: %s", symm__address_name(v->place).text, why);
}

/* Sends this rank's bytes; later, that its deadline is over. */
static symm_status send_message(struct visit *v, const struct symm_message *message)
{
    struct symm_frame *frame = symm__frame_make(message);

    if (!frame)
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for a message");
    symm__wire_send(v->wire, frame);
    return SYMM_OK;
}

static symm_status take_piece(struct visit *v, const struct symm_message *x)
{
    const size_t total = (size_t)v->m->nranks * v->nbytes;

    if (x->args[0] != (uint64_t)v->m->nranks || x->args[1] != v->nbytes || x->args[2] != v->got ||
        x->payload_nbytes > total - v->got)
        return symm__fail(SYMM_ERROR_MISMATCH, "rank 0 (%s) sent a table of another shape",
                          symm__address_name(v->place).text);
    memcpy(v->all + v->got, x->payload, x->payload_nbytes);
    v->got += x->payload_nbytes;
    v->done = v->got == total;
    return SYMM_OK;
}

/* By a meeting, for good; or by the root of an earlier context. */
static symm_status be_refused(struct visit *v, const struct symm_message *x)
{
    if (x->status != SYMM_ERROR_STATE)
        return symm__fail(x->status == SYMM_OK ? SYMM_ERROR_PEER : x->status, "%s", x->reason);
    note_obstacle(v, x->status, x->reason);
    v->busy = true;
    return SYMM_OK;
}

static symm_status hear(struct visit *v)
{
    struct symm_message x;
    symm_status st = SYMM_OK;

    while (!v->done && !v->busy && symm__wire_next(v->wire, &x)) {
        if (x.type == SYMM_MESSAGE_MEET)
            TRY(take_piece(v, &x));
        else if (x.type == SYMM_MESSAGE_ENDED)
            TRY(be_refused(v, &x));
    }
out:
    return st;
}

/* Ends the meeting for all ranks if this one's deadline is over, so that all get the same text. */
static symm_status watch_deadline(struct visit *v)
{
    const struct symm_message expired = {.type = SYMM_MESSAGE_EXPIRED, .rank = -1};

    if (!symm__deadline_over(v->deadline))
        return SYMM_OK;
    if (!v->expired_us) {
        v->expired_us = symm__now_us();
        return send_message(v, &expired);
    }
    if (symm__now_us() - v->expired_us < ANSWER_US)
        return SYMM_OK;
    return symm__fail(SYMM_ERROR_TIMEOUT,
                      "other ranks did not come, and rank 0 (%s) does not answer",
                      symm__address_name(v->place).text);
}

/* Returns OK without a result: the connection has ended, was not proved by until_us, or is busy. */
static symm_status stay(struct visit *v, int64_t until_us)
{
    bool proved = false;
    symm_status st = SYMM_OK;

    while (!v->done && !v->busy && symm__wire_state(v->wire) != SYMM_WIRE_ENDED) {
        const bool late = symm__deadline_over(v->deadline);
        struct pollfd p = symm__wire_poll(v->wire);
        if (poll(&p, 1, late ? POLL_MS : symm__deadline_poll_ms(v->deadline, POLL_MS)) < 0)
            p.revents = 0;
        symm__wire_serve(v->wire, p.revents);
        TRY(hear(v));
        report_slow(v);
        proved |= symm__wire_state(v->wire) == SYMM_WIRE_OPEN;
        if (symm__wire_state(v->wire) == SYMM_WIRE_OPEN)
            TRY(watch_deadline(v));
        else if (late || symm__now_us() >= until_us)
            break;
    }
    if (proved && !v->done && !v->busy) { /* what it was before is no obstacle any more */
        v->lost_us = symm__now_us();
        v->obstacle = SYMM_OK;
    }
out:
    return st;
}

static symm_status visit_place(struct visit *v, int64_t until_us)
{
    const struct symm_message meet = {
        .type = SYMM_MESSAGE_MEET,
        .rank = -1,
        .args = {(uint64_t)v->m->nranks, v->nbytes, 0, (uint64_t)v->m->rank},
        .payload = v->mine,
        .payload_nbytes = v->nbytes};
    symm_status st;

    v->got = 0;
    v->expired_us = 0;
    v->busy = false;
    TRY(symm__wire_connect(v->place, &v->m->key, &v->wire));
    TRY(send_message(v, &meet));
    TRY(stay(v, until_us));
    if (v->done || v->busy)
        goto out;
    if (symm__wire_state(v->wire) == SYMM_WIRE_ENDED)
        note_obstacle(v, symm__wire_status(v->wire), symm__wire_why(v->wire));
    else if (v->obstacle == SYMM_OK || !symm__deadline_over(v->deadline))
        note_obstacle(v, SYMM_ERROR_PEER, "has not proved in time that it knows the token");
out:
    symm__wire_close(v->wire);
    v->wire = NULL;
    return st;
}

/* Whether, and why, this rank stops trying. */
static symm_status give_up(const struct visit *v)
{
    const bool late = symm__deadline_over(v->deadline);

    if (late && v->obstacle == SYMM_ERROR_STATE)
        return symm__fail(v->obstacle, "%s", v->why);
    if (v->lost_us && (late || symm__now_us() - v->lost_us >= LOST_US))
        return symm__fail(SYMM_ERROR_PEER, "rank 0 has ended: %s", v->why);
    if (v->obstacle == SYMM_ERROR_VERSION && (late || v->m->nplaces == 1))
        return symm__fail(SYMM_ERROR_VERSION, "%s", v->why);
    if (late)
        return symm__fail(SYMM_ERROR_TIMEOUT, "nobody with this token listens at %s; %s",
                          name_places(v->m).bytes, v->why);
    return SYMM_OK;
}

static symm_status visit(struct visit *v)
{
    const bool alone = v->m->nplaces == 1;
    symm_status st = SYMM_OK;

    for (int64_t round = 1;; round++) {
        for (int i = 0; i < v->m->nplaces; i++) {
            const int64_t now = symm__now_us();
            v->place = &v->m->places[i];
            TRY(visit_place(v, now + (alone ? SYMM_WIRE_PROOF_US : round * PLACE_US)));
            if (v->done) {
                if (v->m->met)
                    *v->m->met = *v->place;
                goto out;
            }
            TRY(give_up(v));
        }
        report_slow(v);
        symm__sleep_us((int64_t)symm__min(
            symm__max(PAUSE_US, (uint64_t)(symm__now_us() - v->begun_us) / 16), LONG_PAUSE_US));
    }
out:
    return st;
}

symm_status symm__meeting_gather(const struct symm_meeting *m, int listener, const void *mine,
                                 size_t nbytes, void *all, symm_deadline deadline)
{
    const int64_t now = symm__now_us();
    struct visit v = {.m = m,
                      .mine = mine,
                      .nbytes = nbytes,
                      .all = all,
                      .deadline = deadline,
                      .begun_us = now,
                      .slow_us = now + m->slow_us};

    if (m->rank)
        return visit(&v);
    if (m->nranks > 1)
        return symm__meeting_host(m, listener, mine, nbytes, all, deadline);
    memcpy(all, mine, nbytes);
    return SYMM_OK;
}
