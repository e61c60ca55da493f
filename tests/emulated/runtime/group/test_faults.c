/*
 * Everything fails once. The k-th call of the driver on each rank, for every k, and the k-th call
 * of the operating system for a socket, a memfd or a mapping: from create to destroy. Whatever
 * happens, all ranks say the same, nothing is left behind, and a second attempt works.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "emulated.h"
#include "exercise.h"
#include "leaks.h"
#include "ranks.h"
#include "test.h"
#include "their_memory.h"

enum { NRANKS = 4 };

/* ---- The operating system, with faults ---- */

static _Thread_local int my_rank = -1; /* whose work this thread does */
static struct {
    int rank;       /* on which calls fail; -1: none */
    long at, calls; /* the at-th fails; how many there were */
    const char *last;
} os = {.rank = -1};
static pthread_mutex_t os_lock = PTHREAD_MUTEX_INITIALIZER;

static bool os_fails(const char *call)
{
    if (my_rank < 0)
        return false;
    pthread_mutex_lock(&os_lock);
    const bool fails = my_rank == os.rank && ++os.calls == os.at;
    if (fails)
        os.last = call;
    pthread_mutex_unlock(&os_lock);
    return fails;
}

/*
 * These stand before the C library's, for libsymm and for the emulated driver. Declared here, since
 * <sys/socket.h> gives addresses a type that has no name of its own.
 */
#define STANDS_BEFORE __attribute__((visibility("default")))
STANDS_BEFORE int socket(int domain, int type, int protocol);
STANDS_BEFORE int socketpair(int domain, int type, int protocol, int fds[2]);
STANDS_BEFORE int bind(int fd, const void *address, unsigned nbytes);
STANDS_BEFORE int listen(int fd, int backlog);
STANDS_BEFORE int accept4(int fd, void *address, unsigned *nbytes, int flags);

#define FAIL_OR(call, error, failed)                                                               \
    if (os_fails(#call)) {                                                                         \
        errno = (error);                                                                           \
        return failed;                                                                             \
    }

STANDS_BEFORE int socket(int domain, int type, int protocol)
{
    FAIL_OR(socket, EMFILE, -1)
    return (int)syscall(SYS_socket, domain, type, protocol);
}

STANDS_BEFORE int socketpair(int domain, int type, int protocol, int fds[2])
{
    FAIL_OR(socketpair, EMFILE, -1)
    return (int)syscall(SYS_socketpair, domain, type, protocol, fds);
}

STANDS_BEFORE int bind(int fd, const void *address, unsigned nbytes)
{
    FAIL_OR(bind, EACCES, -1)
    return (int)syscall(SYS_bind, fd, address, nbytes);
}

STANDS_BEFORE int listen(int fd, int backlog)
{
    FAIL_OR(listen, EADDRINUSE, -1)
    return (int)syscall(SYS_listen, fd, backlog);
}

STANDS_BEFORE int accept4(int fd, void *address, unsigned *nbytes, int flags)
{
    FAIL_OR(accept4, EMFILE, -1)
    return (int)syscall(SYS_accept4, fd, address, nbytes, flags);
}

STANDS_BEFORE int memfd_create(const char *name, unsigned flags)
{
    FAIL_OR(memfd_create, EMFILE, -1)
    return (int)syscall(SYS_memfd_create, name, flags);
}

STANDS_BEFORE void *mmap(void *at, size_t nbytes, int rights, int flags, int fd, off_t off)
{
    /* Without the stacks of the emulated CUDA threads, which are many and all alike. */
    if (rights == PROT_NONE || !(flags & MAP_PRIVATE))
        FAIL_OR(mmap, ENOMEM, MAP_FAILED)
    return (void *)(uintptr_t)syscall(SYS_mmap, at, nbytes, rights, flags, fd, off);
}

/* Threads that a rank starts do its work. */
struct start {
    void *(*fn)(void *);
    void *arg;
    int rank;
};

static void *start_as_rank(void *arg)
{
    const struct start start = *(struct start *)arg;
    free(arg);
    my_rank = start.rank;
    return start.fn(start.arg);
}

STANDS_BEFORE int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
                                 void *arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    FAIL_OR(pthread_create, EAGAIN, EAGAIN)
    struct start *start = malloc(sizeof *start);
    if (!start)
        return EAGAIN;
    *start = (struct start){fn, arg, my_rank};
    const int result = real(thread, attr, start_as_rank, start);
    if (result != 0)
        free(start);
    return result;
}

/* ---- One life ---- */

enum phase { CREATE, ALLOC, REGISTER, GROUP, LAUNCH, TRIM, DESTROY_GROUP, DESTROY, NPHASES };

static const char *const phase_names[NPHASES] = {"create",        "alloc",          "register",
                                                 "group_create",  "launch",         "trim",
                                                 "group_destroy", "context_destroy"};

/* Notes the status of a phase, counted from 1 so that 0 means that it was not reached. */
static symm_status note(struct rank *self, enum phase phase, symm_status st)
{
    self->report->value[phase] = 1 - (int64_t)st;
    return rank_note(self, st);
}

static void live(struct rank *self, void *arg)
{
    static const int order[] = {3, 1, 0, 2};
    symm_context *ctx = NULL;
    symm_group *g = NULL;
    symm_status st;
    struct their_memory theirs = {.ctx = NULL};
    void *x = NULL, *theirs_too = NULL;
    (void)arg;
    my_rank = self->rank;
    if (note(self, CREATE, rank_join(self, &ctx)) != SYMM_OK)
        goto out;
    if (note(self, ALLOC, symm_alloc(symm_context_world(ctx), 600000, &x)) != SYMM_OK)
        goto out;
    their_memory_make(ctx, 2 << 20, true, &theirs); /* a rank without it registers NULL */
    if (note(self, REGISTER,
             symm_register(symm_context_world(ctx), theirs.at, 1000, &theirs_too)) != SYMM_OK)
        goto out;
    if (note(self, GROUP, symm_group_create(symm_context_world(ctx), NRANKS, order, &g)) != SYMM_OK)
        goto out;
    st = exercise_all_reduce(self, ctx, g, SYMM_ALGO_AUTO, SYMM_FLOAT32, 1000, 1);
    if (st == SYMM_OK)
        st = exercise_all_reduce(self, ctx, g, SYMM_ALGO_TWO_SHOT, SYMM_BFLOAT16, 1000, 2);
    if (note(self, LAUNCH, st) != SYMM_OK) {
        symm_abort(g, "my launch failed"); /* do not leave the others waiting */
        symm_abort(symm_context_world(ctx), "my launch failed");
        goto out;
    }
    if (rank_note(self, symm_free(symm_context_world(ctx), theirs_too)) != SYMM_OK)
        goto out;
    if (note(self, TRIM, symm_trim(symm_context_world(ctx))) != SYMM_OK)
        goto out;
out:
    their_memory_free(&theirs);
    if (g)
        note(self, DESTROY_GROUP, symm_group_destroy(g));
    if (ctx)
        note(self, DESTROY, symm_context_destroy(ctx));
    my_rank = -1;
}

static enum phase reached(const struct rank_report *p)
{
    enum phase last = CREATE;
    for (int phase = CREATE; phase <= TRIM; phase++)
        if (p->value[phase])
            last = (enum phase)phase;
    return last;
}

/* What a rank ended with, in the step it came to. */
static symm_status outcome(const struct rank_report *p)
{
    return (symm_status)(1 - p->value[reached(p)]);
}

/*
 * All ranks came equally far, and in a collective step to the same status. Launches are each
 * rank's own: when one fails, the others hear of it in theirs or in the step that follows.
 */
static void assert_one_verdict(const struct rank_report reports[NRANKS], bool any_status,
                               const char *what)
{
    const struct rank_report *one = &reports[0];
    bool launch = false;
    for (int r = 0; r < NRANKS; r++)
        launch = launch || (reached(&reports[r]) == LAUNCH && outcome(&reports[r]) != SYMM_OK);
    for (int r = 0; r < NRANKS; r++) {
        const struct rank_report *p = &reports[r];
        const bool same_step =
            launch ? reached(p) == LAUNCH || reached(p) == TRIM : reached(p) == reached(one);
        const bool same_status = launch || any_status
                                     ? (outcome(p) == SYMM_OK) == (outcome(one) == SYMM_OK)
                                     : outcome(p) == outcome(one);
        ck_assert_msg(same_step && same_status, "%s: rank 0: %s: %s (%s); rank %d: %s: %s (%s)",
                      what, phase_names[reached(one)], symm_status_name(outcome(one)), one->text, r,
                      phase_names[reached(p)], symm_status_name(outcome(p)), p->text);
        ck_assert_msg(p->wrong == 0, "%s: rank %d: %lld wrong elements", what, r,
                      (long long)p->wrong);
    }
}

static struct leaks before;

static void assert_nothing_left(const char *what)
{
    char text[512];
    ck_assert_msg(leaks_none_since(&before, text, sizeof text), "%s: left behind: %s", what, text);
}

/* A life without faults; the first one also loads what stays loaded. */
static void assert_works(const char *after)
{
    struct rank_report reports[NRANKS];
    ranks_run(NRANKS, RANKS_AS_THREADS, live, NULL, reports, 30);
    for (int r = 0; r < NRANKS; r++)
        for (int phase = 0; phase < NPHASES; phase++)
            ck_assert_msg(reports[r].value[phase] == 1 && reports[r].wrong == 0,
                          "after %s: rank %d: %s: %s", after, r, phase_names[phase],
                          reports[r].text);
}

/* ---- Driver calls ---- */

static uint64_t (*calls_of)(int);

static void load_driver(void)
{
    *(void **)&calls_of = emulated_symbol("symm_emulated_calls");
    ck_assert(calls_of);
}

/* The calls for each of the library's kernels, hundreds of them one after the other. */
static bool loads_a_kernel(const char *call)
{
    return strcmp(call, "cuModuleGetFunction") == 0 || strcmp(call, "cuFuncLoad") == 0 ||
           strcmp(call, "cuFuncGetAttribute") == 0;
}

/*
 * How far to the next call that fails. Of the calls that load kernels a few are enough, the three
 * of them alternately; after those every call again, so that none behind them is missed.
 */
static int64_t step_after(const char *call, int64_t step, int *nloads)
{
    enum { FEW = 9, STRIDE = 49 };

    if (loads_a_kernel(call))
        return ++*nloads == FEW || step == STRIDE ? STRIDE : 1;
    return step == STRIDE ? 1 - STRIDE : 1;
}

TEST_GROUP(driver, 280, .uncounted = true); /* what failed to be given back stays */

/* On the first rank, whose part is the largest; on the others, which are alike, each a third. */
TEST_LOOP(driver, every_driver_call_fails_once, 0, NRANKS)
{
    struct rank_report reports[NRANKS];
    const int rank = _i;
    char fault[64], what[128] = "";
    int npoints = 0, nfailed = 0, ngiving = 0, nloads = 0;
    int64_t step = 1;
    setenv("SYMM_EMULATED_LEAKS", "off", 1); /* looked at here after each life */
    load_driver();
    assert_works("nothing");
    ck_assert(emulated_set_fault(NULL));
    assert_works("nothing");
    const uint64_t ncalls = calls_of(rank);
    leaks_take(&before);
    for (uint64_t k = 1; k <= ncalls; k += (uint64_t)step) {
        if (rank > 0 && step == 1 && k % (NRANKS - 1) != (uint64_t)rank - 1)
            continue;
        snprintf(fault, sizeof fault, "any@%d#%llu=%d", rank, (unsigned long long)k,
                 k % 2 ? 2 : 999);
        ck_assert(emulated_set_fault(fault));
        ranks_run(NRANKS, RANKS_AS_THREADS, live, NULL, reports, 30);
        const char *call = emulated_last_fault();
        ck_assert(emulated_set_fault(NULL));
        if (!call) /* a few calls more or less are made from run to run */
            continue;
        step = step_after(call, step, &nloads);
        snprintf(what, sizeof what, "driver call %llu of %llu on rank %d, %s",
                 (unsigned long long)k, (unsigned long long)ncalls, rank, call);
        assert_one_verdict(reports, false, what);
        if (leaks_gives_back(call)) {
            ngiving++;
            leaks_take(&before);
        } else {
            assert_nothing_left(what);
        }
        npoints++;
        nfailed += reports[0].value[reached(&reports[0])] != 1;
        if (k % 16 == 0)
            assert_works(what);
    }
    assert_works(what);
    printf(
        "# rank %d: %d driver calls failed once each, %d of them while giving back; %d failed the "
        "ranks, alike\n",
        rank, npoints, ngiving, nfailed);
    ck_assert_int_ge(npoints, rank == 0 ? 200 : 80);
}

TEST_GROUP(operating_system, 280);

/* ---- Operating system calls ---- */

TEST_LOOP(operating_system, every_socket_memfd_and_mapping_fails_once, 0, NRANKS)
{
    struct rank_report reports[NRANKS];
    const int rank = _i;
    char what[96] = "";
    int npoints = 0, nbeyond = 0;
    setenv("SYMM_TIMEOUT_MS", "1000", 1); /* who cannot even reach the others cannot tell them */
    assert_works("nothing");
    os.rank = rank;
    os.at = -1;
    assert_works("nothing");
    leaks_take(&before);
    /* On a busy machine a life may run out of time and make few calls: that is not the end. */
    for (long k = 1; nbeyond < 3; k++) {
        if (rank > 0 && k % (NRANKS - 1) != rank - 1)
            continue;
        os.at = k;
        os.calls = 0;
        os.last = NULL;
        ranks_run(NRANKS, RANKS_AS_THREADS, live, NULL, reports, 30);
        nbeyond = os.last ? 0 : nbeyond + 1;
        if (!os.last)
            continue;
        snprintf(what, sizeof what, "%s, call %ld of rank %d", os.last, k, rank);
        assert_one_verdict(reports, true, what);
        assert_nothing_left(what);
        npoints++;
    }
    os.rank = -1;
    assert_works(what);
    printf("# rank %d: %d calls for sockets, memfds, mappings and threads failed once each\n", rank,
           npoints);
    ck_assert_int_ge(npoints, rank == 0 ? 60 : 15);
}

/* Small, since thousands of worlds are made: every byte of new memory is filled with garbage. */
void test_setup(void)
{
    setenv("SYMM_SEGMENT_BYTES", "256K", 0);
    setenv("SYMM_STAGING_BYTES", "64K", 0);
    setenv("SYMM_EMULATED_MEMORY", "64M", 0);
    setenv("SYMM_CHECK", "0", 0);
}
