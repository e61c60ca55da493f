/* The root's thread and its connections. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "runtime/base/fd.h"
#include "runtime/base/thread.h"
#include "state.h"

enum { POLL_MS = 100, STRANGERS = 16, ACCEPTS_PER_PASS = 16 };

void symm__root_send(struct symm_root *root, int domain, const struct symm_message *m)
{
    struct symm_root_domain *d = &root->domains[domain];
    struct symm_message numbered = *m;
    struct symm_frame *frame;

    if (!d->wire)
        return;
    numbered.rank = -1;
    frame = symm__frame_make(&numbered);
    if (frame)
        symm__wire_send(d->wire, frame);
    else /* without this message it would wait for ever */
        d->fate = SYMM_ROOT_LOST;
}

/* ---- Strangers ---- */

static void drop_stranger(struct symm_root *root, int i, const char *why)
{
    symm__log(root->log, SYMM_LOG_INFO, "a connection to the root: %s", why);
    symm__wire_close(root->strangers[i]);
    root->strangers[i] = root->strangers[--root->nstrangers];
}

static void accept_some(struct symm_root *root)
{
    for (int i = 0; i < ACCEPTS_PER_PASS; i++) {
        int fd =
            symm__fd_above_stdio(accept4(root->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (fd < 0)
            return;
        if (root->nstrangers == STRANGERS + root->span->ndomains)
            drop_stranger(root, 0, "makes room for others");
        struct symm_wire **slot = &root->strangers[root->nstrangers];
        if (symm__wire_accept(fd, &root->span->key, slot) == SYMM_OK)
            root->nstrangers++;
        else
            symm__log(root->log, SYMM_LOG_WARNING, "%s", symm__failure_text());
    }
}

/* A rank comes to the next context, which rank 0 may make here once this one has ended. */
static void put_off(struct symm_root *root, int i)
{
    const struct symm_message m = {
        .type = SYMM_MESSAGE_ENDED,
        .rank = -1,
        .status = SYMM_ERROR_STATE,
        .reason = "another context of rank 0 is still there; an address serves one at a time"};
    struct symm_frame *frame = symm__frame_make(&m);

    if (frame)
        symm__wire_send(root->strangers[i], frame);
    drop_stranger(root, i, "came to meet for another context");
}

/* A connection has said which domain it is. */
static void adopt(struct symm_root *root, int i, const struct symm_message *m)
{
    const uint64_t domain = m->args[0];

    if (m->type != SYMM_MESSAGE_DOMAIN || domain >= (uint64_t)root->span->ndomains ||
        m->args[1] != (uint64_t)root->span->ndomains ||
        root->domains[domain].fate != SYMM_ROOT_AWAITED) {
        drop_stranger(root, i, "sent an unexpected message");
        return;
    }
    root->domains[domain].wire = root->strangers[i];
    root->domains[domain].fate = SYMM_ROOT_HERE;
    root->strangers[i] = root->strangers[--root->nstrangers];
}

static void serve_strangers(struct symm_root *root, const struct pollfd *fds)
{
    struct symm_message m;

    for (int i = root->nstrangers - 1; i >= 0; i--) {
        symm__wire_serve(root->strangers[i], fds[i].revents);
        const bool speaks = symm__wire_next(root->strangers[i], &m);
        if (speaks && m.type == SYMM_MESSAGE_MEET)
            put_off(root, i);
        else if (speaks)
            adopt(root, i, &m);
        else if (symm__wire_state(root->strangers[i]) == SYMM_WIRE_ENDED)
            drop_stranger(root, i, symm__wire_why(root->strangers[i]));
    }
}

/* ---- Domains ---- */

static void lose(struct symm_root *root, int domain, const char *why)
{
    struct symm_root_domain *d = &root->domains[domain];
    const int leader = symm__span_members(root->span, domain)[0];
    struct symm_text text = {.used = 0};

    symm__text_add(&text, "%s is lost: rank %d, which has its connection: %s",
                   symm__span_name(root->span, domain).text, leader, why);
    strcpy(d->lost, text.bytes);
    d->fate = SYMM_ROOT_LOST;
    symm__log(root->log, SYMM_LOG_WARNING, "%s", d->lost);
    symm__wire_close(d->wire);
    d->wire = NULL;
    symm__root_domain_gone(root, domain);
}

static void serve_domain(struct symm_root *root, int domain, short revents)
{
    struct symm_root_domain *d = &root->domains[domain];
    struct symm_message m;

    symm__wire_serve(d->wire, revents);
    while (d->wire && d->fate != SYMM_ROOT_LOST && symm__wire_next(d->wire, &m)) {
        if (m.type == SYMM_MESSAGE_BYE) {
            d->fate = SYMM_ROOT_LEFT;
            symm__root_domain_gone(root, domain);
        } else {
            symm__root_message(root, domain, &m);
        }
    }
    if (d->fate == SYMM_ROOT_LOST) {
        lose(root, domain, "the root has no memory to answer it");
    } else if (symm__wire_state(d->wire) == SYMM_WIRE_ENDED && d->fate == SYMM_ROOT_HERE) {
        lose(root, domain, symm__wire_why(d->wire));
    } else if (symm__wire_state(d->wire) == SYMM_WIRE_ENDED) {
        symm__wire_close(d->wire);
        d->wire = NULL;
    }
}

/* ---- The thread ---- */

static bool may_stop(const struct symm_root *root)
{
    bool all = true;

    if (!atomic_load(&root->stopping))
        return false;
    for (int d = 0; d < root->span->ndomains; d++)
        all &= root->domains[d].fate == SYMM_ROOT_LEFT || root->domains[d].fate == SYMM_ROOT_LOST;
    return all || symm__now_us() > atomic_load(&root->stop_at_us);
}

/* The listener, the wake-up, then strangers, then domains. */
static int list_fds(const struct symm_root *root, struct pollfd *fds)
{
    int n = 0;

    fds[n++] = (struct pollfd){root->listener, POLLIN, 0};
    fds[n++] = (struct pollfd){root->wake, POLLIN, 0};
    for (int i = 0; i < root->nstrangers; i++)
        fds[n++] = symm__wire_poll(root->strangers[i]);
    for (int d = 0; d < root->span->ndomains; d++)
        fds[n++] = root->domains[d].wire ? symm__wire_poll(root->domains[d].wire)
                                         : (struct pollfd){.fd = -1};
    return n;
}

/* The number of descriptors of list_fds() at most. */
static size_t nfds_max(const struct symm_span *span)
{
    return (size_t)(2 + STRANGERS + 2 * span->ndomains);
}

static void *run(void *arg)
{
    struct symm_root *root = arg;
    struct pollfd *fds = (struct pollfd *)(root->strangers + STRANGERS + root->span->ndomains);

    while (!may_stop(root)) {
        const int n = list_fds(root, fds), nstrangers = root->nstrangers;
        const struct pollfd *domains = fds + 2 + nstrangers;
        if (poll(fds, (nfds_t)n, POLL_MS) < 0)
            continue;
        for (int d = 0; d < root->span->ndomains; d++)
            if (root->domains[d].wire)
                serve_domain(root, d, domains[d].revents);
        serve_strangers(root, fds + 2);
        if (fds[0].revents)
            accept_some(root);
        symm__root_late_tick(root);
        symm__root_sweep(root, false);
    }
    return NULL;
}

static symm_status start(struct symm_root *root)
{
    symm_status st = symm__thread_start(&root->thread, "symm root", run, root);

    root->runs = st == SYMM_OK;
    return st;
}

symm_status symm__root_open(const struct symm_span *span, int listener, const struct symm_log *log,
                            struct symm_root **out)
{
    const size_t ndomains = (size_t)span->ndomains;
    struct symm_root *root = calloc(1, sizeof *root);
    symm_status st;

    if (!root) {
        symm__address_unlisten(&listener);
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for the root");
    }
    root->span = span;
    root->log = log;
    root->listener = listener;
    root->wake = symm__fd_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (root->wake < 0) {
        st = symm__fail_errno(errno, "eventfd");
        goto out;
    }
    root->domains = calloc(ndomains, sizeof root->domains[0]);
    root->strangers = calloc(1, (STRANGERS + ndomains) * sizeof root->strangers[0] +
                                    nfds_max(span) * sizeof(struct pollfd));
    if (!root->domains || !root->strangers) {
        st = symm__fail(SYMM_ERROR_MEMORY, "no memory for the root of %d domains", span->ndomains);
        goto out;
    }
    TRY(symm__fd_reserve(span->ndomains + STRANGERS));
    TRY(symm__root_add_world(root));
    TRY(start(root));
    *out = root;
    root = NULL;
out:
    symm__root_close(root, 0);
    return st;
}

void symm__root_close(struct symm_root *root, int64_t wait_ms)
{
    const uint64_t one = 1;

    if (!root)
        return;
    atomic_store(&root->stop_at_us, symm__deadline_in(wait_ms));
    atomic_store(&root->stopping, true);
    if (root->runs) {
        while (write(root->wake, &one, sizeof one) < 0 && errno == EINTR)
            ;
        pthread_join(root->thread, NULL);
    }
    symm__root_sweep(root, true);
    for (int i = 0; i < root->nstrangers; i++)
        symm__wire_close(root->strangers[i]);
    for (int d = 0; root->domains && d < root->span->ndomains; d++)
        symm__wire_close(root->domains[d].wire);
    free(root->strangers);
    free(root->domains);
    symm__address_unlisten(&root->listener);
    symm__fd_close(&root->wake);
    free(root);
}
