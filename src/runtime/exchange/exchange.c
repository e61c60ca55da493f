/*
 * The exchange: this rank's connection to the hub, and the I/O thread that serves it and, on a
 * domain's lowest rank, the hub.
 */
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include "runtime/base/fd.h"
#include "runtime/base/settings.h"
#include "runtime/base/thread.h"
#include "runtime/comm/boot_id.h"
#include "exit_notice.h"

enum {
    TICK_MS = 50,
    RETRY_MS = 1,        /* for conditions that poll does not report */
    LEAVE_US = 10000000, /* how long rank 0 waits for BYEs if nothing has failed */
    LEAVE_FAILED_US = 2000000,
};

void symm__exchange_wake(struct symm_exchange *x)
{
    uint64_t one = 1;

    while (write(x->wake, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

struct symm_hub_name symm__exchange_hub(const struct symm_exchange *x)
{
    struct symm_hub_name name;

    snprintf(name.text, sizeof name.text, "rank %d (pid %d)", symm__join_name(&x->join, 0),
             (int)x->hub_pid);
    return name;
}

static void drain_wake(struct symm_exchange *x)
{
    uint64_t n;

    while (read(x->wake, &n, sizeof n) < 0 && errno == EINTR)
        ;
}

symm_status symm__exchange_send(struct symm_exchange *x, struct symm_message *m)
{
    struct symm_frame *frame;

    m->rank = x->join.rank;
    frame = symm__frame_make(m);
    if (!frame)
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for a message");
    switch (symm__link_send(&x->link, frame)) {
    case SYMM_SENT_LATER:
        symm__exchange_wake(x);
        break;
    case SYMM_SENT_NOT:
        return SYMM_ERROR_SYSTEM;
    case SYMM_SENT:
        break;
    }
    return SYMM_OK;
}

/* ---- The thread ---- */

/*
 * Rank 0 refuses a rank of another version in frames of its own version. Their first 16 bytes are
 * enough for this text.
 */
static void end_of_other_version(struct symm_exchange *x, uint32_t version)
{
    struct symm_message m = {
        .type = SYMM_MESSAGE_ENDED, .comm = SYMM_COMM_JOIN, .status = SYMM_ERROR_VERSION};
    char reason[96];

    snprintf(reason, sizeof reason, "rank %d has version %u of symm, this rank %d",
             symm__join_name(&x->join, 0), (unsigned)version, SYMM_VERSION);
    m.reason = reason;
    symm__host_comm_message(x, &m);
}

/*
 * Only this rank lacks the descriptors of a result. The other ranks have read success, so this rank
 * ends the comm for all.
 */
static void descriptors_lost(struct symm_exchange *x, uint64_t comm)
{
    struct symm_message m = {.type = SYMM_MESSAGE_ENDED,
                             .comm = comm,
                             .status = SYMM_ERROR_SYSTEM,
                             .reason = symm__failure_text()};

    symm__host_comm_message(x, &m);
    m.type = SYMM_MESSAGE_ABORT;
    symm__exchange_send(x, &m);
}

static void receive(struct symm_exchange *x)
{
    struct symm_message m;

    switch (symm__message_receive(x->link.fd, x->buffer, &m)) {
    case SYMM_RECEIVED_NO_FDS:
        descriptors_lost(x, m.comm);
        break;
    case SYMM_RECEIVED:
        if (m.type == SYMM_MESSAGE_ENDED && m.comm == SYMM_COMM_JOIN)
            x->refused = true; /* other threads read it only after the comm has ended */
        if (m.type == SYMM_MESSAGE_BYE)
            x->hub_left = true;
        else if (m.type == SYMM_MESSAGE_EXIT)
            x->hub_exits = true;
        else
            symm__host_comm_message(x, &m);
        symm__fd_close_all(m.fds, m.nfds);
        break;
    case SYMM_RECEIVED_BAD:
        if (m.version && m.version != SYMM_VERSION)
            end_of_other_version(x, m.version);
        symm__log(x->config.log, SYMM_LOG_ERROR, "%s sent an invalid message: %s",
                  symm__exchange_hub(x).text, symm__failure_text());
        symm__host_comms_lost(x);
        break;
    case SYMM_RECEIVED_END:
        symm__host_comms_lost(x);
        break;
    case SYMM_RECEIVED_NOTHING:
        break;
    }
}

/* Calls the owner's tick, unless the exchange is closing. */
static void tick(struct symm_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->ticking = x->config.tick && !x->stopping;
    bool goes = x->ticking;
    pthread_mutex_unlock(&x->lock);
    if (!goes)
        return;
    x->config.tick(x->config.user);
    pthread_mutex_lock(&x->lock);
    x->ticking = false;
    pthread_cond_signal(&x->quiet);
    pthread_mutex_unlock(&x->lock);
}

/*
 * Whether the thread may end. Rank 0's thread first serves the other ranks, for a bounded time. A
 * refused rank waits until the hub has ended, so that its next attempt does not meet the old hub.
 */
static bool may_stop(struct symm_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool stopping = x->stopping;
    int64_t since = x->stop_at_us;
    pthread_mutex_unlock(&x->lock);
    if (!stopping)
        return false;
    bool failed = !x->hub || symm__hub_failed(x->hub);
    if (symm__now_us() > since + (failed ? LEAVE_FAILED_US : LEAVE_US))
        return true;
    if (x->hub)
        return symm__hub_done(x->hub);
    return x->lost || (!x->refused && symm__link_idle(&x->link));
}

static int next_poll_ms(const struct symm_exchange *x, int64_t next_tick, int64_t next_end,
                        bool retry)
{
    int ms = symm__deadline_poll_ms(next_tick < next_end ? next_tick : next_end, TICK_MS);

    if (x->hub && symm__hub_hurries(x->hub))
        return 0;
    return retry && ms > RETRY_MS ? RETRY_MS : ms;
}

static void *run(void *arg)
{
    struct symm_exchange *x = arg;
    struct pollfd fds[3 + SYMM_HUB_POLL_MAX];
    int64_t next_tick = 0, next_end = SYMM_NEVER;

    while (!may_stop(x)) {
        bool retry = false;
        int n = 3, nhub = 0;
        fds[0] = (struct pollfd){x->wake, POLLIN, 0};
        fds[1] = (struct pollfd){x->lost ? -1 : x->link.fd, symm__link_events(&x->link, &retry), 0};
        fds[2] = (struct pollfd){x->lost ? -1 : x->hub_process, POLLIN, 0};
        if (x->hub)
            nhub = symm__hub_poll(x->hub, fds + n, &retry);
        if (poll(fds, (nfds_t)(n + nhub), next_poll_ms(x, next_tick, next_end, retry)) < 0)
            continue;
        if (fds[0].revents)
            drain_wake(x);
        if (x->hub)
            symm__hub_serve(x->hub, fds + n, nhub);
        symm__link_flush(&x->link);
        if (fds[1].revents & ~POLLOUT)
            receive(x);
        else if (fds[2].revents)
            symm__host_comms_lost(x);
        next_end = symm__host_comms_end_due(x);
        if (symm__now_us() >= next_tick) {
            tick(x);
            next_tick = symm__now_us() + TICK_MS * 1000;
        }
    }
    return NULL;
}

static symm_status start_thread(struct symm_exchange *x)
{
    symm_status st = symm__thread_start(&x->thread, "symm", run, x);

    x->thread_runs = st == SYMM_OK;
    return st;
}

bool symm__exchange_is_here(const struct symm_exchange *x)
{
    return pthread_equal(x->thread, pthread_self());
}

/* ---- Opening and closing ---- */

static symm_status read_settings(struct symm_exchange *x)
{
    int64_t slow_ms = x->config.slow_ms, delay_ms;
    symm_status st;

    if (slow_ms == 0)
        TRY(symm__setting_int(SYMM_SETTING_SLOW_MS, 1, INT32_MAX, &slow_ms));
    TRY(symm__setting_int(SYMM_SETTING_TEST_ABORT_DELAY_MS, 0, INT32_MAX, &delay_ms));
    x->slow_us = slow_ms * 1000;
    x->abort_delay_us = delay_ms * 1000;
out:
    return st;
}

/*
 * Rank 0 needs a connection to every rank, forwards one descriptor of each, and watches their
 * processes if descriptors suffice.
 */
static symm_status reserve_descriptors(struct symm_exchange *x)
{
    const int n = x->join.nranks;

    if (x->join.rank)
        return symm__fd_reserve(8);
    x->watches = symm__fd_reserve(3 * n + 8) == SYMM_OK;
    return x->watches ? SYMM_OK : symm__fd_reserve(2 * n + 8);
}

/* The comm of all domains. */
static symm_status open_span(struct symm_exchange *x, const int *all_ranks)
{
    const struct symm_span *span = x->join.span;
    int most = 0;
    symm_status st;

    for (int d = 0; d < span->ndomains; d++)
        most = symm__span_nmembers(span, d) > most ? symm__span_nmembers(span, d) : most;
    TRY(symm__host_comm_new(x, SYMM_COMM_SPAN, x->join.nranks, all_ranks, &x->span));
    x->span->slots = most * span->ndomains;
out:
    return st;
}

/* Connects to the hub. Rank 0 uses a socket pair, so that the hub treats it like other ranks. */
static symm_status connect_hub(struct symm_exchange *x, symm_deadline deadline)
{
    struct symm_hub_config config = {&x->join,   x->config.log,  x->config.arbiter,
                                     x->watches, &x->rendezvous, x->config.more_devices};
    int ends[2] = {-1, -1};
    symm_status st;

    if (x->join.rank == 0) {
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends)) {
            st = symm__fail_errno(errno, "socketpair");
            goto out;
        }
        for (int i = 0; i < 2; i++)
            ends[i] = symm__fd_above_stdio(ends[i]);
        if (ends[0] < 0 || ends[1] < 0) {
            st = symm__fail_errno(errno, "fcntl(F_DUPFD_CLOEXEC)");
            goto out;
        }
        x->hub_pid = getpid();
        st = symm__hub_open(&config, ends[1], &x->hub);
        ends[1] = -1;
    } else {
        st = symm__rendezvous_connect(x->join.session, deadline, x->config.log, x->slow_us,
                                      &ends[0], &x->hub_pid);
        if (st == SYMM_OK)
            x->hub_process = symm__rendezvous_watch(x->hub_pid);
        else if (x->join.names)
            symm__fail_in(st, "rank %d is rank 0 of this domain: ", symm__join_name(&x->join, 0));
    }
    if (st != SYMM_OK)
        goto out;
    st = symm__link_open(&x->link, ends[0]);
    ends[0] = -1;
    x->link_open = st == SYMM_OK;
out:
    symm__fd_close_all(ends, 2);
    return st;
}

/*
 * Sends HELLO and waits for admission. mine, why: this rank's failure; the hub then refuses all
 * ranks with it.
 */
static symm_status say_hello(struct symm_exchange *x, symm_status mine, const char *why,
                             int64_t began_us, symm_deadline deadline)
{
    struct symm_hello hello = {.token = {0}};
    struct symm_message m = {.type = SYMM_MESSAGE_HELLO,
                             .comm = SYMM_COMM_JOIN,
                             .status = mine,
                             .reason = why,
                             .args = {(uint64_t)x->join.nranks, (uint64_t)getpid()},
                             .payload = &hello,
                             .payload_nbytes = sizeof hello};
    struct symm_vote vote = {.text = "joining"};
    struct symm_wait wait = {.vote = &vote, .began_us = began_us};
    struct symm_host_comm *comm = NULL;
    symm_status st;

    memcpy(hello.token, x->join.token, sizeof hello.token);
    m.args[2] |= x->join.has_token ? SYMM_HELLO_TOKEN : 0;
    if (x->config.device_uuid) {
        memcpy(hello.device, x->config.device_uuid, sizeof hello.device);
        m.args[2] |= SYMM_HELLO_DEVICE;
    }
    TRY(symm__boot_id(hello.boot_id));
    TRY(symm__host_comm_new(x, SYMM_COMM_JOIN, 0, NULL, &comm));
    comm->wait = &wait;
    comm->seq = 1;
    TRY(start_thread(x));
    TRY(symm__exchange_send(x, &m));
    st = symm__host_comm_wait(comm, &wait, deadline);
out:
    if (comm)
        symm__host_comm_free(comm);
    return st;
}

/*
 * Releases everything. If rank 0's thread does not run, this refuses the other ranks with the
 * reason, using the released descriptors.
 */
static symm_status give_up(struct symm_exchange *x, symm_status st)
{
    struct symm_rendezvous rendezvous = x->rendezvous;
    const int nothers = x->join.nranks - 1;
    char why[SYMM_TEXT_MAX], text[SYMM_TEXT_MAX];

    if (x->thread_runs) {
        symm__exchange_close(x);
        return st;
    }
    strcpy(why, symm__failure_text());
    snprintf(text, sizeof text, "%.990s (on rank %d)", why, symm__join_name(&x->join, 0));
    x->rendezvous = (struct symm_rendezvous){.listener = -1};
    symm__exchange_close(x);
    symm__rendezvous_refuse(&rendezvous, st, text, nothers, symm__deadline_in(SYMM_HUB_REFUSES_MS));
    symm__rendezvous_close(&rendezvous, st, text);
    return symm__fail(st, "%s", why);
}

symm_status symm__exchange_open(const struct symm_exchange_config *config,
                                struct symm_exchange **out)
{
    int64_t began_us = symm__now_us();
    symm_deadline deadline = symm__deadline_in(config->timeout_ms);
    struct symm_exchange *x = calloc(1, sizeof *x);
    int all_ranks[SYMM_MAX_RANKS];
    char why[SYMM_TEXT_MAX];
    symm_status st, mine;

    if (!x) {
        symm__root_close(config->root, 0);
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for the exchange");
    }
    x->config = *config;
    x->join = *config->join;
    x->wake = x->hub_process = -1;
    x->rendezvous = (struct symm_rendezvous){.listener = -1};
    pthread_mutex_init(&x->lock, NULL); /* without attributes these cannot fail */
    pthread_mutex_init(&x->freed_lock, NULL);
    pthread_cond_init(&x->quiet, NULL);
    /* First, so that the other ranks can be told of any later failure. */
    if (x->join.rank == 0 && x->join.nranks > 1)
        TRY(symm__rendezvous_open(&x->rendezvous, x->join.session, deadline, x->config.log));
    TRY(read_settings(x));
    mine = reserve_descriptors(x);
    strcpy(why, mine == SYMM_OK ? "" : symm__failure_text());
    x->wake = symm__fd_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (x->wake < 0) {
        st = symm__fail_errno(errno, "eventfd");
        goto out;
    }
    for (int r = 0; r < x->join.nranks; r++)
        all_ranks[r] = r;
    TRY(symm__host_comm_new(x, SYMM_COMM_WORLD, x->join.nranks, all_ranks, &x->world));
    if (x->join.span)
        TRY(open_span(x, all_ranks));
    TRY(connect_hub(x, deadline));
    TRY(say_hello(x, mine, why, began_us, deadline));
    symm__join_done(&x->join);
    symm__exit_notice_add(x);
out:
    if (st != SYMM_OK)
        return give_up(x, st);
    *out = x;
    return SYMM_OK;
}

void symm__exchange_close(struct symm_exchange *x)
{
    struct symm_message bye = {.type = SYMM_MESSAGE_BYE};

    if (!x)
        return;
    symm__exit_notice_remove(x);
    if (x->thread_runs) {
        pthread_mutex_lock(&x->lock);
        x->stopping = true;
        x->stop_at_us = symm__now_us();
        while (x->ticking)
            pthread_cond_wait(&x->quiet, &x->lock);
        pthread_mutex_unlock(&x->lock);
        if (!x->refused) /* a refused rank sends nothing more */
            symm__exchange_send(x, &bye);
        symm__exchange_wake(x);
        pthread_join(x->thread, NULL);
    }
    while (x->comms)
        symm__host_comm_free(x->comms);
    if (x->link_open)
        symm__link_close(&x->link);
    symm__fd_close(&x->wake);
    symm__fd_close(&x->hub_process);
    const bool failed = !x->hub || symm__hub_failed(x->hub);
    symm__hub_close(x->hub); /* it may need a descriptor of the above to refuse others */
    symm__root_close(x->config.root, (failed ? LEAVE_FAILED_US : LEAVE_US) / 1000);
    pthread_cond_destroy(&x->quiet);
    pthread_mutex_destroy(&x->freed_lock);
    pthread_mutex_destroy(&x->lock);
    free(x);
}
