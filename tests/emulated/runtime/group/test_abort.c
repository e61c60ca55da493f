/*
 * Ranks that die or give up. Every survivor learns it within a second from its own call, lets go of
 * everything, makes a new world of the rest in the same process and computes right; and a result
 * that was said to be right is right.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "exercise.h"
#include "kernels.h"
#include "reference.h"
#include "test.h"
#include "world.h"

/* ---- A death at each message sent ---- */

static long messages_left = -1; /* this process is killed at the message that makes it 0 */

/* Stands before the C library's: libsymm.so's own calls come here. */
__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *message,
                                                       int flags)
{
    if (__atomic_load_n(&messages_left, __ATOMIC_RELAXED) > 0 &&
        __atomic_sub_fetch(&messages_left, 1, __ATOMIC_RELAXED) == 0)
        kill(getpid(), SIGKILL);
    return syscall(SYS_sendmsg, fd, message, flags);
}

/* ---- Life and death ---- */

enum op {
    OP_EXCHANGE,
    OP_ALLOC,
    OP_TENSOR,
    OP_PAD,
    OP_TRIM,
    OP_GROUP,
    OP_MAX_BLOCKS,
    OP_BARRIER,
    OP_WAIT,
    OP_ONE_SHOT,
    OP_TWO_SHOT,
    OP_MULTIMEM,
    OP_MULTIMEM_ONE_SHOT,
    OP_GROUP_DESTROY,
    OP_CONTEXT_DESTROY,
    NOPS
};

static const char *const op_names[NOPS] = {"exchange",          "alloc",         "tensor_alloc",
                                           "signal_pad_alloc",  "trim",          "group_create",
                                           "kernel_max_blocks", "barrier",       "wait",
                                           "one_shot",          "two_shot",      "multimem",
                                           "multimem_one_shot", "group_destroy", "context_destroy"};

struct death {
    int victim;
    enum op op;        /* killed instead of taking part in the second one */
    const char *fault; /* or by the driver, in this call */
    long message;      /* or when it sends its message of this number */
    bool outside;      /* or by somebody else, at any time */
    bool may_be_late;  /* the others may have been done already */
};

struct life {
    struct rank *self;
    symm_context *ctx;
    symm_group *world, *group;
    symm_kernel *kernel;
    symm_signal_pad *pad;
    symm_stream s;
    float *x;
};

enum { COUNT = 3000 };

static symm_status all_reduce(struct life *l, symm_algo algo)
{
    const symm_options options = {.algo = algo};
    symm_status st =
        symm_all_reduce(l->world, l->x, l->x, COUNT, SYMM_FLOAT32, SYMM_SUM, &options, l->s);
    return st == SYMM_OK ? symm_synchronize(l->world, l->s) : st;
}

static symm_status do_op(struct life *l, enum op op)
{
    static const int64_t shape[] = {100};
    void *p;
    symm_tensor t;
    symm_signal_pad *pad;
    symm_group *g;
    uint32_t blocks;
    symm_status st;
    const int n = l->self->nranks;

    switch (op) {
    case OP_EXCHANGE:
        return symm_exchange(l->world, NULL, 0, NULL);
    case OP_ALLOC:
        return symm_alloc(l->world, 3u << 20, &p);
    case OP_TENSOR:
        return symm_tensor_alloc(l->world, SYMM_FLOAT32, 1, shape, &t);
    case OP_PAD:
        return symm_signal_pad_alloc(l->world, 10, &pad);
    case OP_TRIM:
        return symm_trim(l->world);
    case OP_GROUP:
        return group_of_all(l->world, &g);
    case OP_MAX_BLOCKS:
        return symm_kernel_max_blocks(l->world, l->kernel, 64, 0, &blocks);
    case OP_BARRIER:
        st = symm_barrier(l->world, l->s);
        return st == SYMM_OK ? symm_synchronize(l->world, l->s) : st;
    case OP_WAIT: /* every rank of every other */
        for (int r = 0; r < n; r++) {
            st = symm_signal(l->world, l->pad, 0, r, 1, l->s);
            if (st != SYMM_OK)
                return st;
        }
        for (int r = 0; r < n; r++) {
            st = symm_wait(l->world, l->pad, 0, r, 1, l->s);
            if (st != SYMM_OK)
                return st;
        }
        return symm_synchronize(l->world, l->s);
    case OP_ONE_SHOT:
        return all_reduce(l, SYMM_ALGO_ONE_SHOT);
    case OP_TWO_SHOT:
        return all_reduce(l, SYMM_ALGO_TWO_SHOT);
    case OP_MULTIMEM:
        return all_reduce(l, symm_multicast_off(l->world) ? SYMM_ALGO_AUTO : SYMM_ALGO_MULTIMEM);
    case OP_MULTIMEM_ONE_SHOT:
        return all_reduce(l, symm_multicast_off(l->world) ? SYMM_ALGO_AUTO
                                                          : SYMM_ALGO_MULTIMEM_ONE_SHOT);
    case OP_GROUP_DESTROY:
        g = l->group;
        l->group = NULL;
        return symm_group_destroy(g);
    default:
        return SYMM_OK;
    }
}

static symm_status be_born(struct life *l)
{
    struct rank *self = l->self;
    symm_status st;
#define TRY(call)                                                                                  \
    do {                                                                                           \
        st = rank_note(self, (call));                                                              \
        if (st != SYMM_OK)                                                                         \
            return st;                                                                             \
    } while (0)
    TRY(rank_join(self, &l->ctx));
    l->world = symm_context_world(l->ctx);
    TRY(symm_kernel_load(l->ctx, &test_kernels, "test_ring", &l->kernel));
    TRY(symm_alloc(l->world, COUNT * sizeof *l->x, (void **)&l->x));
    TRY(symm_signal_pad_alloc(l->world, 1, &l->pad));
    TRY(group_of_all(l->world, &l->group));
    TRY(symm_stream_create(l->ctx, &l->s));
    TRY(symm_fill(l->x, 0, COUNT * sizeof *l->x, l->s));
    return SYMM_OK;
}

/* Lives until somebody dies: born, the operation once by all, and again by all but the victim. */
static symm_status live(struct life *l, const struct death *d)
{
    struct rank *self = l->self;
    symm_status st = be_born(l);
    if (st != SYMM_OK)
        return st;
    if (d->fault || d->message || d->outside) {
        for (int round = 0; round < (d->outside ? 100000 : 3); round++) {
            for (int op = 0; op < OP_GROUP_DESTROY; op++)
                if (op != OP_GROUP)
                    TRY(do_op(l, (enum op)op));
            self->report->value[1]++;
            TRY(symm_trim(l->world));
        }
    } else {
        if (d->op != OP_GROUP_DESTROY)
            TRY(do_op(l, d->op));
        TRY(symm_exchange(l->world, NULL, 0, NULL));
        if (self->rank == d->victim)
            kill(getpid(), SIGKILL);
        TRY(do_op(l, d->op));
    }
#undef TRY
    return SYMM_OK;
}

static void die_in_the_end(struct life *l)
{
    symm_kernel_unload(l->kernel);
    symm_stream_destroy(l->s);
    const symm_status st = symm_context_destroy(l->ctx);
    if (l->self->report->status == SYMM_OK)
        rank_note(l->self, st);
}

static void start_again(struct rank *self, int victim)
{
    symm_context *ctx = NULL;
    unsetenv("SYMM_TEST_ABORT_DELAY_MS");
    RANK_TRY(self, rank_join_without(self, victim, "rest", &ctx));
    CHECK_RANK(self, symm_nranks(symm_context_world(ctx)) == self->nranks - 1);
    RANK_TRY(self, exercise_all_reduce(self, ctx, symm_context_world(ctx), SYMM_ALGO_AUTO,
                                       SYMM_FLOAT32, COUNT, 11));
    RANK_TRY(self, symm_context_destroy(ctx));
    return;
out:
    symm_context_destroy(ctx);
}

static void live_and_survive(struct rank *self, void *arg)
{
    const struct death *d = arg;
    struct life l = {.self = self};
    char who[32];
    if (d->fault)
        setenv("SYMM_EMULATED_FAULT", d->fault, 1);
    if (d->message && self->rank == d->victim)
        messages_left = d->message;
    live(&l, d);
    self->report->value[0] = now_ms();
    if (!l.ctx && self->report->status == SYMM_OK)
        rank_fail(self, RANK_HERE_, "no context");
    die_in_the_end(&l);
    if (d->op == OP_CONTEXT_DESTROY)
        self->report->value[0] = now_ms();
    snprintf(who, sizeof who, "rank %d", d->victim);
    if (!(d->may_be_late && self->report->status == SYMM_OK)) {
        CHECK_RANK_MSG(self, self->report->status == SYMM_ERROR_PEER, "%s: %s",
                       symm_status_name(self->report->status), self->report->text);
        CHECK_RANK_MSG(self, strstr(self->report->text, who), "no %s in: %s", who,
                       self->report->text);
        self->report->value[2] = 1; /* has noticed */
    }
    if (self->rank != d->victim)
        start_again(self, d->victim);
out:
    return;
}

enum { NRANKS = 4 };

/* Every survivor must notice the death in time and go on. Returns whether the victim died. */
static bool die(const struct death *d)
{
    struct rank_report reports[NRANKS];
    struct ranks *run =
        ranks_start(NRANKS, RANKS_AS_PROCESSES, live_and_survive, (void *)(uintptr_t)d);
    siginfo_t info;
    const char *how = d->fault ? d->fault : op_names[d->op];
    if (d->outside) {
        ranks_await(run, d->victim, 1, 1);
        pause_ms((int)(reference_random(77, (uint64_t)now_ms()) % 60));
        kill(ranks_pid(run, d->victim), SIGKILL);
    }
    waitid(P_PID, (id_t)ranks_pid(run, d->victim), &info, WEXITED | WNOWAIT);
    const int64_t death = now_ms();
    const char *missing = ranks_finish(run, reports, 30);
    ck_assert_msg(!missing, "%s, message %ld: %s", how, d->message, missing);
    if (reports[d->victim].end != RANK_KILLED)
        return false;
    for (int r = 0; r < NRANKS; r++) {
        if (r == d->victim)
            continue;
        const struct rank_report *p = &reports[r];
        ck_assert_msg(!p->failed[0], "%s, message %ld, victim %d: rank %d: %s", how, d->message,
                      d->victim, r, p->failed);
        ck_assert_msg(p->end == RANK_RETURNED && !p->leaks[0],
                      "%s, message %ld, victim %d: rank %d left behind: %s (%d)", how, d->message,
                      d->victim, r, p->leaks, p->code);
        ck_assert_msg(p->status == SYMM_OK && p->wrong == 0, "%s: rank %d: %s, %lld wrong", how, r,
                      p->text, (long long)p->wrong);
        ck_assert_msg(!p->value[2] || p->value[0] - death < 1000,
                      "%s, message %ld: rank %d noticed after %lld ms", how, d->message, r,
                      (long long)(p->value[0] - death));
    }
    return true;
}

TEST_GROUP(deaths, 150);

TEST_LOOP(deaths, a_rank_killed_in_a_collective_is_survived, 0, NOPS)
{
    setenv("SYMM_CHECK", "0", 1); /* so that stream-ordered calls meet in kernels only */
    for (int victim = 0; victim < 3; victim += 2)
        ck_assert(die(&(struct death){.victim = victim, .op = (enum op)_i}));
}

static const char *const calls[] = {
    "cuMemAddressReserve",
    "cuMemCreate",
    "cuMemExportToShareableHandle",
    "cuMemImportFromShareableHandle",
    "cuMemMap",
    "cuMemSetAccess",
    "cuMemsetD32Async",
    "cuMemsetD8Async",
    "cuMemRelease",
    "cuLaunchKernelEx",
#if SYMM_MULTICAST
    "cuMulticastAddDevice",
    "cuMulticastBindMem",
#endif
};

enum { NCALLS = sizeof calls / sizeof calls[0] };

TEST_LOOP(deaths, a_rank_killed_in_a_driver_call_is_survived, 0, NCALLS)
{
    char fault[96];
    for (int victim = 0; victim < 4; victim += 3) {
        snprintf(fault, sizeof fault, "%s@%d=kill", calls[_i], victim);
        ck_assert_msg(die(&(struct death){.victim = victim, .fault = fault, .may_be_late = true}),
                      "%s: still alive", fault);
    }
}

TEST(deaths, a_rank_killed_at_each_message_is_survived)
{
    int ndeaths = 0;
    /* The first one says who it is: before that nobody can know who is gone. */
    for (long message = 2; message <= 26; message += 2)
        for (int victim = 0; victim < 2; victim++)
            ndeaths += die(&(struct death){
                .victim = victim == 0 ? 0 : 3, .message = message + victim, .may_be_late = true});
    printf("# killed at %d different messages\n", ndeaths);
    ck_assert_int_ge(ndeaths, 20);
}

TEST(deaths, a_rank_killed_at_any_time_is_survived)
{
    for (int round = 0; round < 8; round++)
        ck_assert(die(&(struct death){.victim = round % NRANKS, .outside = true}));
}

static void *abort_soon(void *group)
{
    pause_ms(100);
    symm_abort(group, "the disk is full");
    return NULL;
}

TEST_GROUP(giving_up, 60);

WORLD_TEST(giving_up, an_abort_from_another_thread_ends_every_wait, 3,
           _i / 2 ? RANKS_AS_THREADS : RANKS_AS_PROCESSES, .arg = &(int){_i % 2}, .loop = {0, 4})
{
    symm_signal_pad *pad = NULL;
    pthread_t thread;
    bool started = false;
    const bool on_device = *(int *)arg;
    RANK_TRY(self, symm_signal_pad_alloc(world, 1, &pad));
    const int64_t start = now_ms();
    if (self->rank == 1)
        started = pthread_create(&thread, NULL, abort_soon, world) == 0;
    if (on_device) {
        RANK_TRY(self, symm_wait(world, pad, 0, (self->rank + 1) % self->nranks, 1,
                                 NULL)); /* that never comes */
        RANK_EXPECT(self, SYMM_ERROR_PEER, symm_synchronize(world, NULL));
    } else if (self->rank != 2) {
        RANK_EXPECT(self, SYMM_ERROR_PEER,
                    symm_exchange(world, NULL, 0, NULL)); /* rank 2 never comes */
    } else {
        while (symm_check(world) == SYMM_OK && now_ms() < start + 5000)
            pause_ms(5);
        RANK_EXPECT(self, SYMM_ERROR_PEER, symm_check(world));
    }
    CHECK_RANK_MSG(self, now_ms() - start < 1100, "%lld ms", (long long)(now_ms() - start));
    CHECK_RANK_MSG(self,
                   strstr(self->report->text, "rank 1") &&
                       strstr(self->report->text, "the disk is full"),
                   "%s", self->report->text);
out:
    if (started)
        pthread_join(thread, NULL);
}

WORLD_TEST(giving_up, an_abort_ends_its_group_and_no_other, 3)
{
    static const int pair[] = {0, 1};
    symm_group *few = NULL, *other = NULL;
    if (self->rank < 2)
        RANK_TRY(self, symm_group_create(world, 2, pair, &few));
    RANK_TRY(self, group_of_all(world, &other));
    if (self->rank == 1)
        symm_abort(few, "only this one");
    for (int i = 0; few && i < 200 && symm_check(few) == SYMM_OK; i++)
        pause_ms(5);
    CHECK_RANK(self, !few || symm_check(few) == SYMM_ERROR_PEER);
    RANK_TRY(self, exercise_group(self, ctx, world, 1));
    RANK_TRY(self, exercise_group(self, ctx, other, 2));
    symm_group_destroy(few);
    few = NULL;
    if (self->rank < 2) { /* the same ranks again */
        RANK_TRY(self, symm_group_create(world, 2, pair, &few));
        RANK_TRY(self, exercise_group(self, ctx, few, 3));
    }
    RANK_TRY(self, symm_check(world));
out:
    symm_group_destroy(few);
    symm_group_destroy(other);
}

WORLD_TEST(deaths, a_death_ends_the_groups_of_the_dead_and_no_other, 4, .lost = 1u << 3)
{
    static const int rest[] = {0, 1, 2};
    symm_group *few = NULL;
    if (self->rank < 3)
        RANK_TRY(self, symm_group_create(world, 3, rest, &few));
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    if (self->rank == 3)
        kill(getpid(), SIGKILL);
    for (int i = 0; i < 200 && symm_check(world) == SYMM_OK; i++)
        pause_ms(5);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "rank 3", symm_check(world));
    RANK_TRY(self, symm_check(few));
    RANK_TRY(self, exercise_group(self, ctx, few, 4));
out:
    symm_group_destroy(few);
}
