/* symm_config.hold: kernels of an ended group wait until this rank aborts or destroys the group. */
#include <signal.h>
#include <symm/collectives.h>
#include <unistd.h>
#include "exercise.h"
#include "test.h"
#include "world.h"

enum { RANKS = 3, VICTIM = 2, N = 1000, HOLD_MS = 300, SOON_MS = 2000 };

struct scene {
    symm_context *ctx;
    symm_group *group; /* of all ranks */
    symm_stream stream;
    symm_event done;
    void *x;
};

static symm_status open_scene(struct rank *self, int hold, struct scene *x)
{
    symm_config config = rank_config(self);

    *x = (struct scene){0};
    config.hold = hold;
    RANK_TRY(self, symm_context_create(&config, &x->ctx));
    RANK_TRY(self, symm_stream_create(x->ctx, &x->stream));
    RANK_TRY(self, symm_event_create(x->ctx, &x->done));
    RANK_TRY(self, symm_device_alloc(x->ctx, N * sizeof(float), &x->x));
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

static void close_scene(struct scene *x)
{
    symm_event_destroy(x->done);
    symm_stream_destroy(x->stream);
    symm_group_destroy(x->group);
    symm_context_destroy(x->ctx);
}

/* Enqueues an all-reduce in which the last rank takes no part, as it dies instead. */
static bool lose_a_rank(struct rank *self, int hold, struct scene *x)
{
    static const int ranks[RANKS] = {0, 1, 2};
    symm_group *world;

    RANK_TRY(self, open_scene(self, hold, x));
    world = symm_context_world(x->ctx);
    RANK_TRY(self, symm_group_create(world, RANKS, ranks, &x->group));
    if (self->rank != VICTIM) {
        RANK_TRY(self,
                 symm_all_reduce(x->group, x->x, x->x, N, SYMM_FLOAT32, SYMM_SUM, NULL, x->stream));
        RANK_TRY(self, symm_event_record(x->done, x->stream));
    }
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    if (self->rank == VICTIM)
        raise(SIGKILL);
    for (int64_t until = now_ms() + SOON_MS; symm_check(x->group) == SYMM_OK && now_ms() < until;)
        pause_ms(1);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "rank 2", symm_check(x->group));
    return true;
out:
    return false;
}

/* Whether the stream's work is over within a time. */
static bool ends_within(const struct scene *x, int ms)
{
    int done = 0;

    for (int64_t until = now_ms() + ms; now_ms() < until && !done;) {
        symm_event_query(x->done, &done);
        pause_ms(1);
    }
    return done;
}

#define ENV                                                                                        \
    {                                                                                              \
        {"SYMM_CHECK", "0"},                                                                       \
        {                                                                                          \
            "SYMM_TIMEOUT_MS", "30000"                                                             \
        }                                                                                          \
    }

TEST_GROUP(hold, 60);

RANKS_TEST(hold, without_it_a_death_ends_the_kernels, RANKS, .lost = 1u << VICTIM, .env = ENV)
{
    struct scene x;

    if (lose_a_rank(self, 0, &x))
        CHECK_RANK(self, ends_within(&x, SOON_MS));
out:
    close_scene(&x);
}

RANKS_TEST(hold, an_abort_ends_the_kernels, RANKS, .lost = 1u << VICTIM, .env = ENV)
{
    struct scene x;

    if (!lose_a_rank(self, 1, &x))
        goto out;
    CHECK_RANK(self, !ends_within(&x, HOLD_MS));
    symm_abort(x.group, "enough");
    CHECK_RANK(self, ends_within(&x, SOON_MS));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "rank 2", symm_synchronize(x.group, x.stream));
out:
    close_scene(&x);
}

RANKS_TEST(hold, only_this_ranks_own_abort_ends_them, 2, .env = ENV)
{
    struct scene x;

    RANK_TRY(self, open_scene(self, 1, &x));
    symm_group *world = symm_context_world(x.ctx);
    if (self->rank == 0) {
        RANK_TRY(self, symm_barrier(world, x.stream));
        RANK_TRY(self, symm_event_record(x.done, x.stream));
        CHECK_RANK(self, !ends_within(&x, HOLD_MS));
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "enough", symm_check(world));
        symm_abort(world, "enough");
        CHECK_RANK(self, ends_within(&x, SOON_MS));
    } else {
        pause_ms(HOLD_MS / 3);
        symm_abort(world, "enough");
    }
out:
    close_scene(&x);
}

RANKS_TEST(hold, the_destruction_of_the_group_ends_the_kernels, RANKS, .lost = 1u << VICTIM,
           .env = ENV)
{
    struct scene x;

    if (!lose_a_rank(self, 1, &x))
        goto out;
    CHECK_RANK(self, !ends_within(&x, HOLD_MS));
    symm_group_destroy(x.group);
    x.group = NULL;
    CHECK_RANK(self, ends_within(&x, SOON_MS));
out:
    close_scene(&x);
}

RANKS_TEST(hold, the_destruction_of_the_context_ends_the_kernels, RANKS, .lost = 1u << VICTIM,
           .env = ENV)
{
    struct scene x;

    if (!lose_a_rank(self, 1, &x))
        goto out;
    CHECK_RANK(self, !ends_within(&x, HOLD_MS));
    const int64_t began = now_ms();
    symm_event_destroy(x.done);
    symm_stream_destroy(x.stream);
    symm_context_destroy(x.ctx);
    x = (struct scene){0};
    CHECK_RANK(self, now_ms() - began < SOON_MS);
out:
    close_scene(&x);
}

RANKS_TEST(hold, other_values_are_refused, 1)
{
    symm_config config = rank_config(self);
    symm_context *ctx = NULL;

    config.hold = 2;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "config.hold is 2",
                     symm_context_create(&config, &ctx));
out:;
}
