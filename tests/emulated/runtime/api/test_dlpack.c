/* Tensors to DLPack and back: contents, ownership, and deleters that run late. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <symm/collectives.h>
#include <symm/dlpack.h>
#include <symm/stream.h>
#include "dlpack_tensors.h"
#include "exercise.h"
#include "reference.h"
#include "test.h"
#include "world.h"

static const struct {
    symm_dtype dtype;
    int code, bits; /* as the format numbers them */
} types[] = {
    {SYMM_FLOAT32, 2, 32}, {SYMM_FLOAT16, 2, 16},     {SYMM_BFLOAT16, 4, 16},
    {SYMM_FLOAT64, 2, 64}, {SYMM_INT32, 0, 32},       {SYMM_INT64, 0, 64},
    {SYMM_UINT8, 1, 8},    {SYMM_FLOAT8_E4M3, 10, 8}, {SYMM_FLOAT8_E5M2, 12, 8},
};
enum { NTYPES = sizeof types / sizeof types[0] };

TEST_GROUP(contents, 60);

/* Lends the tensor and takes it back, unchanged. The caller drops *managed. */
static symm_status lend_and_take(struct rank *self, symm_group *group, const symm_tensor *t,
                                 DLManagedTensor **managed)
{
    symm_tensor back;
    memset(&back, 0x5a, sizeof back);
    RANK_TRY(self, symm_tensor_to_dlpack(group, t, SYMM_DLPACK_LEND, managed));
    RANK_TRY(self, symm_tensor_from_dlpack(group, *managed, &back));
    CHECK_RANK(self, memcmp(&back, t, sizeof back) == 0);
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

WORLD_TEST(contents, every_element_type_goes_out_and_comes_back, 2)
{
    static const int64_t shape[] = {3, 4, 5};
    DLManagedTensor *managed = NULL;
    for (int i = 0; i < NTYPES; i++) {
        symm_tensor t = {0};
        RANK_TRY(self, symm_tensor_alloc(world, types[i].dtype, 3, shape, &t));
        RANK_TRY(self, lend_and_take(self, world, &t, &managed));
        const DLTensor *d = &managed->dl_tensor;
        CHECK_RANK(self, d->data == t.data && d->byte_offset == 0 && d->ndim == 3);
        CHECK_RANK(self, d->device.device_type == kDLCPU && d->device.device_id == 0);
        CHECK_RANK_MSG(self, d->dtype.code == types[i].code && d->dtype.bits == types[i].bits,
                       "dtype %d: code %d, bits %d", (int)types[i].dtype, d->dtype.code,
                       d->dtype.bits);
        CHECK_RANK(self, d->dtype.lanes == 1);
        CHECK_RANK(self, memcmp(d->shape, shape, sizeof shape) == 0);
        CHECK_RANK(self, d->strides[0] == 20 && d->strides[1] == 5 && d->strides[2] == 1);
        drop(&managed);
        RANK_TRY(self, symm_free(world, t.data));
    }
out:
    drop(&managed);
}

WORLD_TEST(contents, slices_scalars_and_empty_tensors_keep_their_shape, 2)
{
    static const int64_t shape[] = {6, 10}, many[] = {2, 3, 1, 4, 5}, none[] = {3, 0, 2};
    symm_tensor t = {0}, back;
    DLManagedTensor *managed = NULL;
    struct theirs theirs;
    float x[60];
    RANK_TRY(self, symm_tensor_alloc(world, SYMM_FLOAT32, 2, shape, &t));

    /* A slice, turned upside down: every other row from the last, columns 3 to 7. */
    symm_tensor slice = {.data = (float *)t.data + 53,
                         .dtype = SYMM_FLOAT32,
                         .ndim = 2,
                         .shape = {3, 5},
                         .strides = {-20, 1}};
    RANK_TRY(self, lend_and_take(self, world, &slice, &managed));
    drop(&managed);

    /* One number, and no number. */
    symm_tensor scalar = {.data = t.data, .dtype = SYMM_FLOAT32};
    RANK_TRY(self, lend_and_take(self, world, &scalar, &managed));
    CHECK_RANK(self, managed->dl_tensor.ndim == 0 && managed->dl_tensor.data == t.data);
    drop(&managed);
    symm_tensor empty = {.dtype = SYMM_INT64, .ndim = 2, .shape = {4, 0}, .strides = {0, 1}};
    RANK_TRY(self, lend_and_take(self, world, &empty, &managed));
    CHECK_RANK(self, !managed->dl_tensor.data && managed->dl_tensor.shape[1] == 0);
    drop(&managed);

    /* Without strides; with an offset; an empty one with and without data. */
    RANK_TRY(self, symm_tensor_from_dlpack(world, &theirs_of(&theirs, x, 5, many)->managed, &back));
    CHECK_RANK(self, back.data == x && memcmp(back.shape, many, sizeof many) == 0);
    CHECK_RANK(self, back.strides[0] == 60 && back.strides[1] == 20 && back.strides[2] == 20 &&
                         back.strides[3] == 5 && back.strides[4] == 1);
    theirs_of(&theirs, x, 2, shape)->managed.dl_tensor.byte_offset = 12;
    RANK_TRY(self, symm_tensor_from_dlpack(world, &theirs.managed, &back));
    CHECK_RANK(self, back.data == x + 3);
    RANK_TRY(self, symm_tensor_from_dlpack(world, &theirs_of(&theirs, x, 3, none)->managed, &back));
    CHECK_RANK(self, back.ndim == 3 && back.shape[1] == 0 && back.data == x);
    RANK_TRY(self, symm_tensor_from_dlpack(world, &theirs_of(&theirs, 0, 3, none)->managed, &back));
    CHECK_RANK(self, back.ndim == 3 && !back.data);
out:
    drop(&managed);
}

WORLD_TEST(contents, both_sides_see_the_same_bytes, 3)
{
    enum { COUNT = 1000 };
    const int64_t shape[] = {COUNT};
    symm_tensor t = {0}, copy, in;
    DLManagedTensor *mine = NULL, *peers = NULL, *plain = NULL;
    struct theirs theirs;
    float x[COUNT];
    void *p = NULL;
    RANK_TRY(self, symm_tensor_alloc(world, SYMM_FLOAT32, 1, shape, &t));
    RANK_TRY(self, symm_tensor_to_dlpack(world, &t, SYMM_DLPACK_LEND, &mine));
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(reference_random((uint64_t)self->rank, (uint64_t)i) % 1000);

    /* Their tensor is summed into the symmetric one, which the reader sees, here and there. */
    RANK_TRY(self, symm_device_alloc(ctx, sizeof x, &p));
    RANK_TRY(self, symm_copy(p, x, sizeof x, s));
    theirs_of(&theirs, p, 1, shape);
    RANK_TRY(self, symm_tensor_from_dlpack(world, &theirs.managed, &in));
    RANK_TRY(self, symm_all_reduce(world, in.data, t.data, COUNT, in.dtype, SYMM_SUM, NULL, s));
    RANK_TRY(self, symm_synchronize(world, s));
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    copy = t;
    copy.data = symm_peer(world, t.data, (self->rank + 1) % self->nranks);
    CHECK_RANK(self, copy.data && copy.data != t.data);
    RANK_TRY(self, symm_tensor_to_dlpack(world, &copy, SYMM_DLPACK_LEND, &peers));
    const float *here = mine->dl_tensor.data, *there = peers->dl_tensor.data;
    for (int i = 0; i < COUNT; i++) {
        double sum = 0;
        for (int r = 0; r < self->nranks; r++)
            sum += (double)(reference_random((uint64_t)r, (uint64_t)i) % 1000);
        self->report->wrong += (double)here[i] != sum;
        self->report->wrong += (double)there[i] != sum;
    }
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));

    /* Plain device memory can be lent, but is nobody's to give. */
    copy.data = p;
    RANK_TRY(self, symm_tensor_to_dlpack(world, &copy, SYMM_DLPACK_LEND, &plain));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "is not symmetric memory of this context",
                     symm_tensor_to_dlpack(world, &copy, SYMM_DLPACK_GIVE, &plain));
out:
    drop(&mine);
    drop(&peers);
    drop(&plain);
    symm_device_free(ctx, p);
}

TEST_GROUP(ownership, 60);

WORLD_TEST(ownership, a_view_frees_nothing_and_an_owner_frees_once, 2)
{
    static const int64_t shape[] = {1000};
    symm_tensor t = {0};
    DLManagedTensor *view = NULL, *other = NULL, *owner = NULL, *untouched = NULL;
    const uint64_t before = requested(ctx);

    /* Views free nothing, and the memory may go before them. */
    RANK_TRY(self, symm_tensor_alloc(world, SYMM_FLOAT32, 1, shape, &t));
    RANK_TRY(self, symm_tensor_to_dlpack(world, &t, SYMM_DLPACK_LEND, &view));
    RANK_TRY(self, symm_tensor_to_dlpack(world, &t, SYMM_DLPACK_LEND, &other));
    CHECK_RANK(self, view != other);
    drop(&other);
    CHECK_RANK(self, requested(ctx) == before + 4000);
    RANK_TRY(self, symm_free(world, t.data));
    CHECK_RANK(self, requested(ctx) == before);
    drop(&view);
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));

    /* What was given is the deleter's alone, but stays symmetric and may be looked at. */
    RANK_TRY(self, symm_tensor_alloc(world, SYMM_FLOAT32, 1, shape, &t));
    RANK_TRY(self, symm_tensor_to_dlpack(world, &t, SYMM_DLPACK_GIVE, &owner));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "has been given to a DLPack tensor",
                     symm_free(world, t.data));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "has been given to a DLPack tensor",
                     symm_tensor_to_dlpack(world, &t, SYMM_DLPACK_GIVE, &untouched));
    CHECK_RANK(self, !untouched);
    RANK_TRY(self, symm_tensor_to_dlpack(world, &t, SYMM_DLPACK_LEND, &view));
    CHECK_RANK(self, symm_peer(world, t.data, (self->rank + 1) % self->nranks));
    CHECK_RANK(self, requested(ctx) == before + 4000);
    drop(&owner);
    CHECK_RANK(self, requested(ctx) == before && pending(ctx) >= 4000);
    drop(&view);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "is freed memory", symm_free(world, t.data));
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    CHECK_RANK(self, pending(ctx) == 0);
    RANK_TRY(self, exercise_group(self, ctx, world, 1));
out:
    drop(&view);
    drop(&other);
    drop(&owner);
}

/* As of symm_free(), whatever way each rank frees by. */
WORLD_TEST(ownership, bytes_are_used_again_only_when_every_rank_has_let_go, 3)
{
    static const int64_t shape[] = {3000};
    symm_tensor a = {0}, b = {0}, c = {0};
    DLManagedTensor *owner = NULL;
    RANK_TRY(self, symm_tensor_alloc(world, SYMM_UINT8, 1, shape, &a));
    if (self->rank == 2)
        RANK_TRY(self, symm_free(world, a.data));
    else
        RANK_TRY(self, symm_tensor_to_dlpack(world, &a, SYMM_DLPACK_GIVE, &owner));
    if (self->rank == 0)
        drop(&owner);
    RANK_TRY(self, symm_tensor_alloc(world, SYMM_UINT8, 1, shape, &b));
    CHECK_RANK(self, b.data != a.data); /* rank 1 still has it */
    drop(&owner);
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    RANK_TRY(self, symm_tensor_alloc(world, SYMM_UINT8, 1, shape, &c));
    CHECK_RANK(self, c.data == a.data);
    CHECK_RANK(self, pending(ctx) == 0);
    RANK_TRY(self, symm_free(world, c.data)); /* the new one is nobody's but the group's */
out:
    drop(&owner);
}

static void *drop_later(void *arg)
{
    DLManagedTensor **all = arg;
    pause_ms(20);
    for (int i = 0; all[i]; i++)
        drop(&all[i]);
    return NULL;
}

/* Deleters in another thread, in another order, while this thread gives, frees and waits. */
WORLD_TEST(ownership, deleters_run_in_any_thread, 2, _i, .loop = {0, 2})
{
    enum { MANY = 100, ROUNDS = 5 };
    static const int64_t shape[] = {77};
    DLManagedTensor *all[MANY + 1] = {NULL};
    pthread_t thread;
    const uint64_t before = requested(ctx);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < MANY; i++) {
            symm_tensor t;
            RANK_TRY(self, symm_tensor_alloc(world, SYMM_INT32, 1, shape, &t));
            RANK_TRY(self, symm_tensor_to_dlpack(world, &t, SYMM_DLPACK_GIVE,
                                                 &all[(i * 37 + self->rank) % MANY]));
        }
        CHECK_RANK(self, pthread_create(&thread, NULL, drop_later, all) == 0);
        symm_status st = SYMM_OK;
        for (int i = 0; i < MANY && st == SYMM_OK; i++) {
            symm_tensor t;
            DLManagedTensor *owner;
            st = symm_tensor_alloc(world, SYMM_INT32, 1, shape, &t);
            if (st == SYMM_OK)
                st = symm_tensor_to_dlpack(world, &t, SYMM_DLPACK_GIVE, &owner);
            if (st == SYMM_OK)
                drop(&owner);
        }
        pthread_join(thread, NULL);
        RANK_TRY(self, st);
        CHECK_RANK(self, requested(ctx) == before);
    }
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    CHECK_RANK(self, pending(ctx) == 0);
out:;
}

TEST_GROUP(late_deleters, 60);

RANKS_TEST(late_deleters, a_deleter_after_group_or_context_have_gone_is_harmless, 2)
{
    static const int64_t shape[] = {4096};
    symm_context *ctx = NULL;
    symm_group *g = NULL;
    symm_tensor t = {0}, next = {0};
    DLManagedTensor *owner[4] = {NULL}, *view = NULL;
    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *world = symm_context_world(ctx);
    const uint64_t before = requested(ctx);
    RANK_TRY(self, group_of_all(world, &g));
    for (int i = 0; i < 2; i++) {
        RANK_TRY(self, symm_tensor_alloc(g, SYMM_FLOAT32, 1, shape, &t));
        RANK_TRY(self, symm_tensor_to_dlpack(g, &t, SYMM_DLPACK_GIVE, &owner[i]));
    }
    RANK_TRY(self, symm_group_destroy(g));
    g = NULL;
    CHECK_RANK(self, requested(ctx) == before);

    /* Where it was something else lies now. */
    RANK_TRY(self, symm_tensor_alloc(world, SYMM_FLOAT32, 1, shape, &t));
    RANK_TRY(self, symm_tensor_alloc(world, SYMM_FLOAT32, 1, shape, &next));
    RANK_TRY(self, symm_tensor_to_dlpack(world, &next, SYMM_DLPACK_GIVE, &owner[2]));
    const uint64_t now = requested(ctx);
    drop(&owner[0]);
    CHECK_RANK(self, requested(ctx) == now);

    /* Then the context goes. */
    RANK_TRY(self, symm_tensor_alloc(world, SYMM_FLOAT32, 1, shape, &t));
    RANK_TRY(self, symm_tensor_to_dlpack(world, &t, SYMM_DLPACK_GIVE, &owner[3]));
    RANK_TRY(self, symm_tensor_to_dlpack(world, &t, SYMM_DLPACK_LEND, &view));
    symm_status st = symm_context_destroy(ctx);
    ctx = NULL;
    RANK_TRY(self, st);
    CHECK_RANK(self, view->dl_tensor.shape[0] == 4096);
    drop(&owner[1]);
    drop(&view);
    drop(&owner[2]);
    RANK_TRY(self, rank_join(self, &ctx)); /* and a new one knows nothing of it */
    const uint64_t fresh = requested(ctx);
    drop(&owner[3]);
    CHECK_RANK(self, requested(ctx) == fresh);
    RANK_TRY(self, exercise_group(self, ctx, symm_context_world(ctx), 2));
out:
    for (int i = 0; i < 4; i++)
        drop(&owner[i]);
    drop(&view);
    symm_group_destroy(g);
    symm_context_destroy(ctx);
}

/* Many deleters against the destruction of what they belong to: each frees once or not at all. */
WORLD_TEST(late_deleters, deleters_run_while_the_group_goes, 2)
{
    enum { MANY = 200, ROUNDS = 10 };
    static const int64_t shape[] = {9};
    symm_group *g = NULL;
    DLManagedTensor *owners[MANY + 1] = {NULL};
    pthread_t thread;
    const uint64_t before = requested(ctx);
    for (int round = 0; round < ROUNDS; round++) {
        RANK_TRY(self, group_of_all(world, &g));
        for (int i = 0; i < MANY; i++) {
            symm_tensor t;
            RANK_TRY(self, symm_tensor_alloc(g, SYMM_FLOAT64, 1, shape, &t));
            RANK_TRY(self, symm_tensor_to_dlpack(g, &t, SYMM_DLPACK_GIVE, &owners[i]));
        }
        CHECK_RANK(self, pthread_create(&thread, NULL, drop_later, owners) == 0);
        pause_ms(20 - round % 3);
        symm_status st = symm_group_destroy(g);
        g = NULL;
        pthread_join(thread, NULL);
        RANK_TRY(self, st);
        CHECK_RANK(self, requested(ctx) == before);
    }
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    CHECK_RANK(self, pending(ctx) == 0);
out:
    symm_group_destroy(g);
}

struct lender {
    symm_group *group;
    const symm_tensor *tensor;
    atomic_bool stop;
    symm_status status;
};

/* Keeps what deleters need busy, so that some child is forked in the middle of it. */
static void *lend_all_the_time(void *arg)
{
    struct lender *l = arg;
    DLManagedTensor *view = NULL;
    while (!atomic_load(&l->stop) && l->status == SYMM_OK) {
        l->status = symm_tensor_to_dlpack(l->group, l->tensor, SYMM_DLPACK_LEND, &view);
        drop(&view);
    }
    return NULL;
}

static int drop_in_child(symm_group *group, const symm_tensor *t, DLManagedTensor *owner,
                         DLManagedTensor *view)
{
    DLManagedTensor *more = NULL;
    symm_tensor u;
    int code = -1;
    const pid_t child = fork();
    if (child == 0) {
        int bad = symm_tensor_to_dlpack(group, t, SYMM_DLPACK_LEND, &more) != SYMM_ERROR_STATE;
        bad += symm_tensor_from_dlpack(group, view, &u) != SYMM_ERROR_STATE;
        drop(&owner);
        drop(&view);
        _exit(bad);
    }
    for (int ms = 0; child > 0 && waitpid(child, &code, WNOHANG) == 0; ms++) {
        if (ms == 5000)
            kill(child, SIGKILL); /* it hangs in a lock */
        pause_ms(1);
    }
    return child > 0 ? code : -1;
}

WORLD_TEST(late_deleters, in_a_forked_child_a_deleter_leaves_the_memory_alone, 2)
{
    enum { CHILDREN = 50 };
    static const int64_t shape[] = {100};
    symm_tensor t = {0};
    DLManagedTensor *owner = NULL, *view = NULL;
    struct lender lender = {.tensor = &t};
    pthread_t thread;
    int code = 0;
    RANK_TRY(self, symm_tensor_alloc(world, SYMM_FLOAT32, 1, shape, &t));
    RANK_TRY(self, symm_tensor_to_dlpack(world, &t, SYMM_DLPACK_GIVE, &owner));
    RANK_TRY(self, symm_tensor_to_dlpack(world, &t, SYMM_DLPACK_LEND, &view));
    const uint64_t before = requested(ctx);
    lender.group = world;
    CHECK_RANK(self, pthread_create(&thread, NULL, lend_all_the_time, &lender) == 0);
    for (int i = 0; i < CHILDREN && code == 0; i++)
        code = drop_in_child(world, &t, owner, view);
    atomic_store(&lender.stop, true);
    pthread_join(thread, NULL);
    RANK_TRY(self, lender.status);
    CHECK_RANK_MSG(self, code == 0, "a child: %#x", code);
    CHECK_RANK(self, requested(ctx) == before);
    drop(&owner);
    CHECK_RANK(self, requested(ctx) == before - 400);
    RANK_TRY(self, exercise_group(self, ctx, world, 3));
out:
    drop(&owner);
    drop(&view);
}
