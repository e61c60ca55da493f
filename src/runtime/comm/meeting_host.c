/*
 * Rank 0's side of a meeting: a loop over its listener and the connections. It collects the bytes
 * of all ranks, concludes by the table or by a refusal, and tells every rank that has come.
 */
#include "meeting_host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "runtime/base/fd.h"
#include "runtime/base/numbers.h"
#include "runtime/base/text.h"

enum {
    STRANGERS = 16, /* connections beyond the number of ranks */
    ACCEPTS = 16,   /* new connections in a pass, so that older ones are served between */
    POLL_MS = 100,
    FULL_US = 10000,     /* pause while no descriptor is left */
    TWIN_US = 500000,    /* the end of a rank's earlier connection may come after its next one */
    COLLECT_US = 500000, /* more ranks may be wrong: the text is to be complete */
    TELL_US = 1000000,   /* a refusal waits this long for the ranks to read it */
    MISSING_TEXT = 600,  /* bytes of a text before the missing ranks are cut */
};

/* A connection. */
struct guest {
    struct symm_wire *wire;
    struct symm_address from;
    int64_t since_us;
    bool met;        /* its MEET has come */
    bool told;       /* the conclusion was sent to it */
    bool unwanted;   /* to be dropped */
    int rank;        /* -1 until its bytes were taken */
    int64_t twin_us; /* since then a later connection has its rank; 0: none has */
};

enum conclusion { NONE, TABLE, REFUSAL };

struct host {
    const struct symm_meeting *m;
    int listener;
    struct symm_address_name at;
    size_t nbytes;
    unsigned char *all;
    symm_deadline deadline;
    int64_t slow_us; /* time of the next report */

    struct guest *guests;
    struct pollfd *polled; /* the guests and the listener */
    int nguests, most;
    int *guest_of; /* by rank; -1: has not come, or its connection has ended */
    int ncome;     /* with rank 0 */
    bool expired;  /* the deadline of another rank is over */

    symm_status refused; /* OK, or why there will be no table */
    struct symm_text why;
    int64_t refused_us;

    enum conclusion conclusion;
    int64_t concluded_us;
    struct symm_frame **frames; /* of the conclusion */
    int nframes, ntold;

    int nstrangers;                   /* connections that ended before the proof */
    char stranger[SYMM_TEXT_MAX / 3]; /* the last one */
};

/* ---- Conclusion ---- */

static void refuse(struct host *h, symm_status status)
{
    if (h->refused == SYMM_OK)
        h->refused_us = symm__now_us();
    h->refused = status;
}

/* Separates it from the text before. */
static const char *next_objection(struct host *h)
{
    const bool first = h->refused == SYMM_OK;

    refuse(h, SYMM_ERROR_MISMATCH);
    return first ? "" : "; ";
}

static void tell(struct host *h, struct guest *g)
{
    g->told = true;
    h->ntold++;
    for (int i = 0; i < h->nframes; i++) {
        h->frames[i]->refs++;
        symm__wire_send(g->wire, h->frames[i]);
    }
}

static symm_status add_frame(struct host *h, const struct symm_message *message)
{
    h->frames[h->nframes] = symm__frame_make(message);
    if (!h->frames[h->nframes])
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for a message");
    h->nframes++;
    return SYMM_OK;
}

static symm_status make_table(struct host *h)
{
    const size_t total = (size_t)h->m->nranks * h->nbytes;
    size_t at = 0;
    symm_status st;

    do { /* also if there are no bytes */
        const size_t nbytes = symm__min(total - at, SYMM_PAYLOAD_MAX);
        const struct symm_message piece = {.type = SYMM_MESSAGE_MEET,
                                           .rank = -1,
                                           .args = {(uint64_t)h->m->nranks, h->nbytes, at},
                                           .payload = h->all + at,
                                           .payload_nbytes = nbytes};
        TRY(add_frame(h, &piece));
        at += nbytes;
    } while (at < total);
out:
    return st;
}

static symm_status conclude(struct host *h, enum conclusion conclusion)
{
    const struct symm_message ended = {
        .type = SYMM_MESSAGE_ENDED, .rank = -1, .status = h->refused, .reason = h->why.bytes};
    symm_status st;

    TRY(conclusion == TABLE ? make_table(h) : add_frame(h, &ended));
    h->conclusion = conclusion;
    h->concluded_us = symm__now_us();
    for (int i = 0; i < h->nguests; i++)
        if (h->guests[i].met)
            tell(h, &h->guests[i]);
out:
    return st;
}

/* "rank 1, 3 to 7" */
static void add_missing(const struct host *h, struct symm_text *text)
{
    const int *of = h->guest_of, n = h->m->nranks;
    const char *before = "rank ";

    for (int r = 1; r < n; r++) {
        const int first = r;
        if (of[r] >= 0)
            continue;
        if (text->used > MISSING_TEXT) {
            symm__text_add(text, ", ...");
            return;
        }
        while (r + 1 < n && of[r + 1] < 0)
            r++;
        symm__text_add(text, "%s%d", before, first);
        before = ", ";
        if (r > first)
            symm__text_add(text, r > first + 1 ? " to %d" : ", %d", r);
    }
}

static void refuse_late(struct host *h)
{
    refuse(h, SYMM_ERROR_TIMEOUT);
    add_missing(h, &h->why);
    symm__text_add(&h->why, " of %d did not come to %s (%s)", h->m->nranks, h->at.text,
                   h->m->wanted);
    if (h->nstrangers)
        symm__text_add(&h->why, "; refused connections: %d, the last one from %s", h->nstrangers,
                       h->stranger);
}

static symm_status decide(struct host *h)
{
    const bool late = h->expired || symm__deadline_over(h->deadline);
    int nmet = 0, ntwins = 0;

    for (int i = 0; i < h->nguests; i++) {
        nmet += h->guests[i].met;
        ntwins += h->guests[i].twin_us != 0;
    }
    if (h->conclusion != NONE)
        return SYMM_OK;
    if (h->refused == SYMM_OK && h->ncome == h->m->nranks)
        return ntwins ? SYMM_OK : conclude(h, TABLE); /* judge_twin() decides soon */
    if (h->refused == SYMM_OK && !late)
        return SYMM_OK;
    if (h->refused == SYMM_OK)
        refuse_late(h);
    else if (!late && nmet < h->m->nranks - 1 && symm__now_us() - h->refused_us < COLLECT_US)
        return SYMM_OK;
    return conclude(h, REFUSAL);
}

/* Whether all ranks know the conclusion, or have had the time to read it. */
static bool is_over(const struct host *h)
{
    const int64_t now = symm__now_us();
    bool waits = h->conclusion == REFUSAL && h->refused == SYMM_ERROR_MISMATCH &&
                 h->ntold < h->m->nranks - 1;

    if (h->conclusion == NONE)
        return false;
    for (int i = 0; i < h->nguests; i++)
        waits |= h->guests[i].told; /* a rank that has read all of it closes */
    if (!waits)
        return true;
    return now - h->concluded_us >= TELL_US && (h->conclusion == REFUSAL || now >= h->deadline);
}

/* ---- Guests ---- */

static void drop(struct host *h, int i)
{
    struct guest *g = &h->guests[i], *last = &h->guests[h->nguests - 1];

    if (g->rank >= 0 && h->guest_of[g->rank] == i) {
        h->guest_of[g->rank] = -1;
        h->ncome--;
    }
    symm__wire_close(g->wire);
    h->nguests--;
    if (g == last)
        return;
    *g = *last;
    if (g->rank >= 0 && h->guest_of[g->rank] == h->nguests)
        h->guest_of[g->rank] = i;
}

/* Remembers a connection that was none of a rank. Only the first one is reported. */
static void note_stranger(struct host *h, const struct guest *g, const char *why)
{
    snprintf(h->stranger, sizeof h->stranger, "%s: %s", symm__address_name(&g->from).text, why);
    if (!h->nstrangers++)
        symm__log(h->m->log, SYMM_LOG_INFO,
                  "refused a connection from %s; further ones are not reported", h->stranger);
}

/* The latest connection of a rank has its place: an earlier one is expected to end. */
static void admit(struct host *h, struct guest *g, int rank, const void *bytes)
{
    if (h->guest_of[rank] >= 0)
        h->guests[h->guest_of[rank]].twin_us = symm__now_us();
    else
        h->ncome++;
    h->guest_of[rank] = (int)(g - h->guests);
    g->rank = rank;
    memcpy(h->all + (size_t)rank * h->nbytes, bytes, h->nbytes);
}

static void meet(struct host *h, struct guest *g, const struct symm_message *x)
{
    const unsigned long long nranks = x->args[0], nbytes = x->args[1], rank = x->args[3];
    const struct symm_address_name from = symm__address_name(&g->from);

    g->met = true;
    if (h->conclusion != NONE)
        tell(h, g);
    else if (nranks != (unsigned long long)h->m->nranks)
        symm__text_add(&h->why, "%srank %llu (%s) has nranks %llu, rank 0 has %d",
                       next_objection(h), rank, from.text, nranks, h->m->nranks);
    else if (rank >= nranks)
        symm__text_add(&h->why, "%srank %llu (%s) is not within 0 to %d", next_objection(h), rank,
                       from.text, h->m->nranks - 1);
    else if (nbytes != h->nbytes)
        symm__text_add(&h->why, "%srank %llu (%s) brings %llu bytes, rank 0 brings %zu",
                       next_objection(h), rank, from.text, nbytes, h->nbytes);
    else if (!rank)
        symm__text_add(&h->why, "%srank 0 came twice: it listens at %s and came from %s",
                       next_objection(h), h->at.text, from.text);
    else if (x->payload_nbytes != h->nbytes || x->args[2])
        g->unwanted = true;
    else
        admit(h, g, (int)rank, x->payload);
}

static void hear(struct host *h, struct guest *g)
{
    struct symm_message x;

    while (!g->unwanted && symm__wire_next(g->wire, &x)) {
        if (!g->met && x.type == SYMM_MESSAGE_MEET)
            meet(h, g, &x);
        else if (g->met && x.type == SYMM_MESSAGE_EXPIRED)
            h->expired = true;
        else
            g->unwanted = true;
    }
    if (symm__wire_state(g->wire) != SYMM_WIRE_ENDED)
        return;
    g->unwanted = true;
    if (!g->met)
        note_stranger(h, g, symm__wire_why(g->wire));
    else if (g->rank >= 0 && !g->told)
        symm__log(h->m->log, SYMM_LOG_INFO, "rank %d at %s may come again: %s", g->rank,
                  symm__address_name(&g->from).text, symm__wire_why(g->wire));
}

/* A rank came twice if both of its connections stay. If the later one ended, neither counts. */
static void judge_twin(struct host *h, struct guest *g)
{
    const int other = h->guest_of[g->rank];

    if (other < 0) {
        g->unwanted = true;
    } else if (symm__now_us() - g->twin_us >= TWIN_US) {
        symm__text_add(&h->why, "%srank %d came twice, from %s and from %s", next_objection(h),
                       g->rank, symm__address_name(&g->from).text,
                       symm__address_name(&h->guests[other].from).text);
        g->twin_us = 0;
    }
}

static void serve_guests(struct host *h)
{
    for (int i = 0; i < h->nguests; i++) {
        symm__wire_serve(h->guests[i].wire, h->polled[i].revents);
        hear(h, &h->guests[i]);
    }
    for (int i = h->nguests - 1; i >= 0; i--)
        if (h->guests[i].unwanted)
            drop(h, i);
    for (int i = h->nguests - 1; i >= 0 && h->conclusion == NONE; i--) {
        if (h->guests[i].twin_us)
            judge_twin(h, &h->guests[i]);
        if (h->guests[i].unwanted)
            drop(h, i);
    }
}

/* ---- New connections ---- */

/* Whether a makes way before b: those without a proof first, of these the oldest. */
static bool goes_before(const struct guest *a, const struct guest *b)
{
    const bool a_proved = symm__wire_state(a->wire) == SYMM_WIRE_OPEN;
    const bool b_proved = symm__wire_state(b->wire) == SYMM_WIRE_OPEN;

    return a_proved == b_proved ? a->since_us < b->since_us : b_proved;
}

/* Drops a connection that has not sent its MEET. Returns false if all have. */
static bool make_way(struct host *h)
{
    int first = -1;

    for (int i = 0; i < h->nguests; i++)
        if (!h->guests[i].met && (first < 0 || goes_before(&h->guests[i], &h->guests[first])))
            first = i;
    if (first < 0)
        return false;
    note_stranger(h, &h->guests[first], "made way for others");
    drop(h, first);
    return true;
}

static symm_status accept_failed(struct host *h, int err)
{
    if (err == EBADF || err == EINVAL || err == ENOTSOCK)
        return symm__fail_errno(err, "accept at %s", h->at.text);
    if ((err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM) && !make_way(h))
        symm__sleep_us(FULL_US);
    return SYMM_OK; /* nobody waits, or the connection has ended meanwhile */
}

static symm_status accept_new(struct host *h)
{
    for (int i = 0; i < ACCEPTS; i++) {
        struct guest g = {
            .rank = -1, .since_us = symm__now_us(), .from = {.nbytes = sizeof g.from.sock}};
        int fd = accept4(h->listener, (struct sockaddr *)&g.from.sock, &g.from.nbytes,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return accept_failed(h, errno);
        if (h->nguests == h->most && !make_way(h))
            symm__fd_close(&fd);
        else if (symm__wire_accept(fd, &h->m->key, &g.wire) != SYMM_OK)
            note_stranger(h, &g, symm__failure_text());
        else
            h->guests[h->nguests++] = g;
    }
    return SYMM_OK;
}

/* ---- The loop ---- */

static void report_slow(struct host *h)
{
    struct symm_text text = {{0}, 0};

    if (h->m->slow_us <= 0 || h->conclusion != NONE || symm__now_us() < h->slow_us)
        return;
    h->slow_us += h->m->slow_us;
    add_missing(h, &text);
    symm__log(h->m->log, SYMM_LOG_WARNING, "waiting for %s of %d at %s (%s)", text.bytes,
              h->m->nranks, h->at.text, h->m->wanted);
}

static symm_status pass(struct host *h)
{
    symm_status st;

    for (int i = 0; i < h->nguests; i++)
        h->polled[i] = symm__wire_poll(h->guests[i].wire);
    /* Once the table is out, those that connect want the listener's next user: they wait for it. */
    h->polled[h->nguests] = (struct pollfd){h->conclusion == TABLE ? -1 : h->listener, POLLIN, 0};
    if (poll(h->polled, (nfds_t)h->nguests + 1,
             h->conclusion == NONE ? symm__deadline_poll_ms(h->deadline, POLL_MS) : POLL_MS) < 0)
        for (int i = 0; i <= h->nguests; i++)
            h->polled[i].revents = 0;
    const bool knocks = h->polled[h->nguests].revents;
    serve_guests(h);
    if (knocks)
        TRY(accept_new(h));
    TRY(decide(h));
    report_slow(h);
out:
    return st;
}

static symm_status open_host(struct host *h)
{
    const size_t nranks = (size_t)h->m->nranks;
    const size_t npieces = symm__ceil_div(nranks * h->nbytes, SYMM_PAYLOAD_MAX) + 1;
    struct symm_address at = {.nbytes = sizeof at.sock};

    if (getsockname(h->listener, (struct sockaddr *)&at.sock, &at.nbytes))
        return symm__fail_errno(errno, "getsockname of the meeting's listener");
    h->at = symm__address_name(&at);
    h->most = h->m->nranks + STRANGERS;
    h->guests = calloc((size_t)h->most, sizeof *h->guests);
    h->polled = calloc((size_t)h->most + 1, sizeof *h->polled);
    h->guest_of = malloc(nranks * sizeof *h->guest_of);
    h->frames = calloc(npieces, sizeof(struct symm_frame *));
    if (!h->guests || !h->polled || !h->guest_of || !h->frames)
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for a meeting of %d ranks", h->m->nranks);
    for (int r = 0; r < h->m->nranks; r++)
        h->guest_of[r] = -1;
    return symm__fd_reserve(h->most + 1);
}

static void close_host(struct host *h)
{
    while (h->nguests)
        drop(h, h->nguests - 1);
    for (int i = 0; i < h->nframes; i++)
        symm__frame_put(h->frames[i]);
    free(h->guests);
    free(h->polled);
    free(h->guest_of);
    free(h->frames);
}

symm_status symm__meeting_host(const struct symm_meeting *m, int listener, const void *mine,
                               size_t nbytes, void *all, symm_deadline deadline)
{
    struct host h = {.m = m,
                     .listener = listener,
                     .nbytes = nbytes,
                     .all = all,
                     .deadline = deadline,
                     .slow_us = symm__now_us() + m->slow_us,
                     .ncome = 1};
    symm_status st;

    TRY(open_host(&h));
    memcpy(all, mine, nbytes);
    while (!is_over(&h))
        TRY(pass(&h));
    if (h.conclusion == REFUSAL)
        st = symm__fail(h.refused, "%s", h.why.bytes);
out:
    close_host(&h);
    return st;
}
