/*
 * The memory layer by itself: heap, exchange, segments and multicast objects on the emulated
 * driver, without contexts and kernels. Every driver call of it fails once on one rank; ranks
 * agree, undo, and can do it again.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/memory/heap.h"
#include "runtime/memory/memory.h"
#include "runtime/memory/segment.h"
#include "emulated.h"
#include "leaks.h"
#include "ranks.h"
#include "reference.h"
#include "test.h"

#define MIB ((size_t)1 << 20)

enum { WINDOW_MIB = 256, SEGMENT_MIB = 4, COMMS = 3 };

/* One rank's memory, and a few comms over all ranks. */
struct fixture {
    struct rank *self;
    const struct symm_driver *drv;
    struct symm_log log;
    struct symm_join join;
    struct symm_heap *heap;
    struct symm_exchange *exchange;
    struct symm_host_comm *comm[COMMS];
    struct symm_memory *memory;
    CUdevice device;
    bool has_context, keeps_status;
    int timeout_ms;
    int (*objects)(struct symm_emulated_objects *);
};

static const struct symm_host_comm_events no_events;

static symm_status open_device(struct fixture *f, int rank)
{
    symm_status st = SYMM_OK;
    CUcontext ctx;

    TRY(symm__driver_open("emulated", &f->drv));
    TRY_CU(f->drv, cuDeviceGet, &f->device, rank);
    TRY_CU(f->drv, cuDevicePrimaryCtxRetain, &ctx, f->device);
    f->has_context = true;
    TRY_CU(f->drv, cuCtxSetCurrent, ctx);
    *(void **)&f->objects = symm__driver_symbol(f->drv, "symm_emulated_objects");
    if (!f->objects)
        st = symm__fail(SYMM_ERROR_DRIVER, "no entries of the emulated driver");
out:
    return st;
}

static symm_status open_exchange(struct fixture *f, const struct rank *self)
{
    symm_status st = SYMM_OK;
    symm_config config = rank_config(self);
    CUuuid uuid;

    TRY_CU(f->drv, cuDeviceGetUuid, &uuid, f->device);
    TRY(symm__join_resolve(&config, NULL, &f->join));
    if (self->rank == 0)
        TRY(symm__heap_create(&f->heap));
    struct symm_exchange_config exchange = {.join = &f->join,
                                            .log = &f->log,
                                            .arbiter = f->heap ? symm__heap_arbiter(f->heap)
                                                               : (struct symm_arbiter){0},
                                            .timeout_ms = f->timeout_ms,
                                            .device_uuid = uuid.bytes};
    TRY(symm__exchange_open(&exchange, &f->exchange));
    symm__join_done(&f->join);
    TRY(symm__host_comm_world(f->exchange, &no_events, &f->comm[0]));
out:
    return st;
}

static symm_status vote(const struct fixture *f, struct symm_vote v)
{
    return symm__host_comm_vote(f->comm[0], &v, symm__deadline_in(f->timeout_ms));
}

static symm_status barrier(const struct fixture *f)
{
    return vote(f, (struct symm_vote){.text = "barrier"});
}

static symm_status open_memory(struct fixture *f, const struct rank *self)
{
    symm_status st = SYMM_OK;
    CUmemAllocationProp prop;
    size_t granularity;

    TRY(symm__segment_properties(f->drv, f->device, &prop));
    TRY_CU(f->drv, cuMemGetAllocationGranularity, &granularity, &prop,
           CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    TRY(vote(f, (struct symm_vote){.text = "configure",
                                   .op = SYMM_HEAP_CONFIGURE,
                                   .args = {WINDOW_MIB * MIB, granularity, SEGMENT_MIB * MIB}}));
    struct symm_memory_config config = {.drv = f->drv,
                                        .log = &f->log,
                                        .exchange = f->exchange,
                                        .device = f->device,
                                        .rank = self->rank,
                                        .nranks = self->nranks,
                                        .window_nbytes = WINDOW_MIB * MIB,
                                        .granularity = granularity,
                                        .alignment = granularity,
                                        .segment_nbytes = SEGMENT_MIB * MIB,
                                        .timeout_ms = f->timeout_ms};
    TRY(symm__memory_open(&config, &f->memory));
    TRY(barrier(f));
out:
    return st;
}

static symm_status fixture_open(struct rank *self, struct fixture *f)
{
    symm_status st = SYMM_OK;
    int everyone[RANKS_MAX];

    f->self = self;
    f->log.rank = self->rank;
    f->timeout_ms = 20000;
    TRY(open_device(f, self->rank));
    TRY(open_exchange(f, self));
    TRY(open_memory(f, self));
    for (int r = 0; r < self->nranks; r++)
        everyone[r] = r;
    for (int i = 1; i < COMMS; i++) {
        struct symm_vote made = {.text = "comm"};
        TRY(symm__host_comm_create(f->comm[0], self->nranks, everyone, &no_events, &made,
                                   symm__deadline_in(f->timeout_ms), &f->comm[i]));
    }
out:
    return rank_note(self, st);
}

/* Its status is the rank's, unless that is kept. */
static void fixture_close(struct fixture *f)
{
    symm_status st = symm__memory_close(f->memory);

    for (int i = COMMS - 1; i >= 0; i--)
        symm__host_comm_close(f->comm[i]);
    symm__exchange_close(f->exchange);
    symm__heap_destroy(f->heap);
    if (f->has_context) {
        f->drv->cuCtxSetCurrent(NULL);
        f->drv->cuDevicePrimaryCtxRelease(f->device);
    }
    if (f->drv)
        symm__driver_close(f->drv);
    if (!f->self->report->failed[0] && f->memory && !f->keeps_status)
        rank_note(f->self, st);
}

#define FIXTURE_TEST(group, name, ...)                                                             \
    RANKS_TEST_WITH(group, name, struct fixture, f, fixture_open, fixture_close, __VA_ARGS__)

static symm_status alloc(struct fixture *f, size_t nbytes, void **out)
{
    char what[64];
    snprintf(what, sizeof what, "symm_alloc(%zu bytes)", nbytes);
    return symm__memory_alloc(f->memory, f->comm[0], f, SYMM_BLOCK_USER, nbytes, what, out);
}

static struct symm_emulated_objects objects(const struct fixture *f)
{
    struct symm_emulated_objects now;
    memset(&now, 0, sizeof now);
    f->objects(&now);
    return now;
}

static bool same_objects(const struct fixture *f, const struct symm_emulated_objects *before)
{
    const struct symm_emulated_objects now = objects(f);
    return now.handles == before->handles && now.mappings == before->mappings &&
           now.reservations == before->reservations && now.binds == before->binds &&
           now.fds == before->fds;
}

TEST_GROUP(memory, 120);

FIXTURE_TEST(memory, bad_pointers_are_told_apart, 3)
{
    struct symm_rank_set all = {{7}}, more = {{15}};
    void *x = NULL, *y = NULL;
    uint64_t off;
    char *other;
    RANK_TRY(self, alloc(f, 5000, &x));
    RANK_TRY(self, alloc(f, 100, &y));
    char *c = x;
    CHECK_RANK(self, symm__memory_find(f->memory, c, 5000, all, &off) && off == 0);
    CHECK_RANK(self, symm__memory_find(f->memory, c + 4999, 1, all, &off) && off == 4999);

#define REFUSED(part, call)                                                                        \
    CHECK_RANK(self, !(call));                                                                     \
    CHECK_RANK_MSG(self, strstr(symm__failure_text(), part), "no \"%s\" in: %s", part,             \
                   symm__failure_text())

    REFUSED("it has 5000 bytes", symm__memory_find(f->memory, c, 5001, all, &off));
    REFUSED("begins 4096 bytes into", symm__memory_find(f->memory, c + 4096, SIZE_MAX, all, &off));
    REFUSED("not in any allocation", symm__memory_find(f->memory, c + MIB, 1, all, &off));
    REFUSED("rank 3 does not have", symm__memory_find(f->memory, c, 1, more, &off));
    REFUSED("not symmetric", symm__memory_find(f->memory, f, 1, all, &off));
    REFUSED("not symmetric", symm__memory_find(f->memory, NULL, 1, all, &off));
    other = symm__memory_window(f->memory, (self->rank + 1) % self->nranks);
    REFUSED("own address", symm__memory_find(f->memory, other, 1, all, &off));

    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "64 bytes into",
                     symm__memory_free(f->memory, f, c + 64, NULL));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "another group",
                     symm__memory_free(f->memory, &off, c, NULL));
    RANK_TRY(self, symm__memory_free(f->memory, f, x, NULL));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "freed memory",
                     symm__memory_free(f->memory, f, x, NULL));
    REFUSED("freed memory, of an allocation of 5000 bytes",
            symm__memory_find(f->memory, c + 10, 1, all, &off));
    RANK_TRY(self, alloc(f, 1024, &x)); /* in the same place */
    CHECK_RANK(self, x == c);
    CHECK_RANK(self, symm__memory_find(f->memory, c, 1024, all, &off));
    symm__memory_free_owner(f->memory, f);
    REFUSED("freed memory", symm__memory_find(f->memory, y, 1, all, &off));
#undef REFUSED
out:;
}

/* Allocates a new segment, makes an object, allocates one more, gives all back. */
static symm_status go_through(struct fixture *f, const char **off)
{
    struct symm_multicast *mc = NULL;
    void *x = NULL, *y = NULL;
    symm_status st;

    TRY(alloc(f, 3 * MIB, &x));
    TRY(symm__multicast_obtain(f->memory, f->comm[0], "test", &mc, off));
    TRY(alloc(f, 3 * MIB, &y));
out:
    if (x)
        symm__memory_free(f->memory, f, x, NULL);
    if (y)
        symm__memory_free(f->memory, f, y, NULL);
    symm__multicast_put_back(f->memory, mc);
    return st;
}

struct outcome {
    int32_t status;
    char off[124];
};

/* Whether all ranks came to the same; it has to be asked with a vote that no fault touches. */
static symm_status compare(struct fixture *f, symm_status st, const char *off, bool *same)
{
    struct outcome mine = {.status = st}, all[RANKS_MAX];

    snprintf(mine.off, sizeof mine.off, "%s", st == SYMM_OK && off ? off : "");
    struct symm_vote vote = {.text = "compare", .mine = &mine, .nbytes = sizeof mine, .all = all};
    symm_status voted = symm__host_comm_vote(f->comm[1], &vote, symm__deadline_in(f->timeout_ms));
    *same = true;
    for (int r = 0; voted == SYMM_OK && r < symm__host_comm_nranks(f->comm[1]); r++)
        *same = *same && memcmp(&all[r], &mine, sizeof mine) == 0;
    return voted;
}

static const char *const calls[] = {
    "cuMemCreate",
    "cuMemMap",
    "cuMemSetAccess",
    "cuMemAddressReserve",
    "cuMemExportToShareableHandle",
    "cuMemImportFromShareableHandle",
    "cuMemRelease",
    "cuMemUnmap",
#if SYMM_MULTICAST
    "cuMulticastCreate",
    "cuMulticastAddDevice",
    "cuMulticastBindMem",
    "cuMulticastUnbind",
#endif
};

/* Each call fails on one rank, the nth time. Counts verdicts that are no plain success. */
RANK_WITH(fail_each_call, struct fixture, f, fixture_open, fixture_close)
{
    int odd = *(int *)arg;
    const struct symm_emulated_objects before = objects(f);
    const char *off = NULL;
    bool same;

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        for (int nth = 1; nth <= 7; nth++) {
            char fault[96];
            symm_status st;
            snprintf(fault, sizeof fault, "%s@%d#%d=1", calls[i], odd, nth);
            CHECK_RANK(self, emulated_set_fault(fault));
            RANK_TRY(self, barrier(f));
            st = go_through(f, &off);
            CHECK_RANK_MSG(self, st == SYMM_OK || st == SYMM_ERROR_DRIVER, "%s: %s: %s", fault,
                           symm__status_name(st), symm__failure_text());
            char odd_rank[16];
            snprintf(odd_rank, sizeof odd_rank, "rank %d", odd);
            CHECK_RANK_MSG(self, st == SYMM_OK || strstr(symm__failure_text(), odd_rank), "%s: %s",
                           fault, symm__failure_text());
            RANK_TRY(self, compare(f, st, off, &same));
            CHECK_RANK_MSG(self, same, "%s: I came to %s, %s", fault, symm__status_name(st),
                           off ? off : "multicast");
            RANK_TRY(self, symm__memory_trim(f->memory, f->comm[0]));
            CHECK_RANK(self, emulated_set_fault(""));
            CHECK_RANK_MSG(self, same_objects(f, &before), "%s: something is left", fault);
            self->report->value[0] += st != SYMM_OK || off;
        }
    RANK_TRY(self, go_through(f, &off)); /* and it still works */
    CHECK_RANK_MSG(self, !off || !SYMM_MULTICAST, "%s", off);
out:
    f->keeps_status = true; /* closing reports what could not be given back the first time */
}

TEST_LOOP(memory, each_driver_call_that_fails_is_agreed_on_and_undone, 0, 3)
{
    struct rank_report reports[3];
    int odd = _i;
    ranks_run(3, RANKS_AS_PROCESSES, fail_each_call, &odd, reports, 100);
    ranks_assert_ok(reports, 3);
    ck_assert_int_ge(reports[0].value[0], 10);
}

#if SYMM_MULTICAST

FIXTURE_TEST(memory, objects_are_shared_and_counted, 3)
{
    struct symm_multicast *one = NULL, *two = NULL;
    const char *off = NULL;
    void *x, *y;
    RANK_TRY(self, alloc(f, 3 * MIB, &x));
    const struct symm_emulated_objects none = objects(f);
    RANK_TRY(self, symm__multicast_obtain(f->memory, f->comm[0], "test", &one, &off));
    RANK_TRY(self, symm__multicast_obtain(f->memory, f->comm[1], "test", &two, &off));
    CHECK_RANK(self, one && one == two && !off);
    const struct symm_emulated_objects now = objects(f);
    CHECK_RANK(self, now.binds == none.binds + 1 && now.handles == none.handles + 1);
    CHECK_RANK(self, symm__multicast_covers(one, 0, 4 * MIB));
    CHECK_RANK(self, !symm__multicast_covers(one, 0, 4 * MIB + 1));
    CHECK_RANK(self, !symm__multicast_covers(one, 4 * MIB, 1));
    CHECK_RANK(self, !symm__multicast_covers(NULL, 0, 1));
    RANK_TRY(self, alloc(f, 3 * MIB, &y)); /* a new segment is bound with its allocation */
    CHECK_RANK(self, symm__multicast_covers(one, 4 * MIB, 3 * MIB));
    RANK_TRY(self, symm__memory_free(f->memory, f, y, NULL));
    RANK_TRY(self, symm__memory_trim(f->memory, f->comm[0])); /* and unbound when it goes */
    CHECK_RANK(self, !symm__multicast_covers(one, 4 * MIB, 1));
    symm__multicast_put_back(f->memory, one);
    CHECK_RANK(self, symm__multicast_covers(two, 0, 1));
    symm__multicast_put_back(f->memory, two);
    CHECK_RANK(self, same_objects(f, &none));
    RANK_TRY(self, symm__multicast_obtain(f->memory, f->comm[2], "test", &one,
                                          &off)); /* left to the end */
    CHECK_RANK(self, one && !off);
out:;
}

RANK_WITH(fail_to_unbind, struct fixture, f, fixture_open, fixture_close)
{
    struct symm_multicast *mc = NULL;
    const char *off = NULL;
    void *x;
    RANK_TRY(self, alloc(f, 3 * MIB, &x));
    RANK_TRY(self, symm__multicast_obtain(f->memory, f->comm[0], "test", &mc, &off));
    CHECK_RANK(self, mc && emulated_set_fault("cuMulticastUnbind@1#1=400"));
    symm__multicast_put_back(f->memory, mc);
    RANK_TRY(self, barrier(f));
out:;
}

TEST(memory, a_failed_unbind_is_reported_by_closing)
{
    struct rank_report reports[2];
    ranks_run(2, RANKS_AS_PROCESSES, fail_to_unbind, NULL, reports, 30);
    ranks_assert_clean(reports, 2);
    ck_assert_int_eq(reports[0].status, SYMM_OK);
    ck_assert_int_eq(reports[1].status, SYMM_ERROR_DRIVER);
    ck_assert_msg(strstr(reports[1].text, "cuMulticastUnbind"), "%s", reports[1].text);
}

#endif

/* A thread of a rank with its own comm; threads share the table, the heap and the objects. */
struct worker {
    struct fixture *f;
    int comm, rounds;
    symm_status st;
    char text[256];
};

static symm_status work_round(struct worker *w, uint64_t random, void **slot,
                              struct symm_multicast **mc)
{
    struct symm_memory *m = w->f->memory;
    struct symm_host_comm *comm = w->f->comm[w->comm];
    const char *off;
    uint64_t at;

    if (random % 16 == 0)
        return symm__memory_trim(m, comm);
    if (random % 16 == 1 && !*mc)
        return symm__multicast_obtain(m, comm, "test", mc, &off);
    if (random % 16 == 2) {
        symm__multicast_put_back(m, *mc);
        *mc = NULL;
        return SYMM_OK;
    }
    if (*slot) {
        if (!symm__memory_find(m, *slot, 1, symm__host_comm_members(comm), &at))
            return SYMM_ERROR_STATE;
        void *ptr = *slot;
        *slot = NULL;
        return symm__memory_free(m, w, ptr, NULL);
    }
    return symm__memory_alloc(m, comm, w, SYMM_BLOCK_USER,
                              1 + (size_t)((random >> 8) % (random & 32 ? 6 * MIB : MIB)), "alloc",
                              slot);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct symm_multicast *mc = NULL;
    void *slots[6] = {NULL};

    w->st = SYMM_OK;
    for (int i = 0; i < w->rounds && w->st == SYMM_OK; i++) {
        uint64_t random = reference_random((uint64_t)w->comm, (uint64_t)i);
        w->st = work_round(w, random, &slots[(random >> 40) % 6], &mc);
        if (w->st != SYMM_OK)
            snprintf(w->text, sizeof w->text, "round %d: %s", i, symm__failure_text());
    }
    symm__multicast_put_back(w->f->memory, mc);
    symm__memory_free_owner(w->f->memory, w);
    return NULL;
}

FIXTURE_TEST(memory, threads_with_comms_of_their_own_do_not_meet, 3)
{
    struct worker workers[COMMS];
    pthread_t threads[COMMS];
    const struct symm_emulated_objects before = objects(f);
    symm_usage usage;
    for (int i = 0; i < COMMS; i++) {
        workers[i] = (struct worker){.f = f, .comm = i, .rounds = 400};
        CHECK_RANK(self, pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < COMMS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < COMMS; i++)
        CHECK_RANK_MSG(self, workers[i].st == SYMM_OK, "comm %d: %s", i, workers[i].text);
    RANK_TRY(self, barrier(f));
    symm__memory_usage(f->memory, &usage);
    CHECK_RANK(self, usage.allocated == 0 && usage.pending == 0);
    RANK_TRY(self, symm__memory_trim(f->memory, f->comm[0]));
    RANK_TRY(self, barrier(f));
    symm__memory_usage(f->memory, &usage);
    CHECK_RANK(self, usage.nsegments == 0 && usage.segments == 0);
    CHECK_RANK(self, same_objects(f, &before));
out:;
}

void test_setup(void)
{
    setenv("SYMM_DRIVER", "emulated", 1);
}
