/* What a context and the library tell of themselves: devices, settings, statuses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "test.h"
#include "world.h"

typedef int (*device_text_fn)(char *, int, int);
typedef int (*current_fn)(void **);

TEST_GROUP(getters, 60);

RANKS_TEST(getters, a_device_is_chosen_by_ordinal_or_bus_id, 2)
{
    symm_context *ctx = NULL;
    symm_config config = rank_config(self);
    device_text_fn bus_id;
    char text[64];
    config.device = self->rank == 0 ? "5" : "2";
    RANK_TRY(self, symm_context_create(&config, &ctx));
    CHECK_RANK(self, strcmp(symm_context_driver(ctx), "emulated") == 0);
    *(void **)&bus_id = symm_context_driver_symbol(ctx, "cuDeviceGetPCIBusId");
    CHECK_RANK(self, symm_context_device(ctx) == (self->rank == 0 ? 5 : 2));
    CHECK_RANK(self, bus_id && bus_id(text, sizeof text, symm_context_device(ctx) + 1) == 0);
    CHECK_RANK(self, symm_context_driver_symbol(ctx, "cuNoSuchThing") == NULL);
    RANK_TRY(self, symm_context_destroy(ctx));
    ctx = NULL;
    config.device = text;
    RANK_TRY(self, symm_context_create(&config, &ctx));
    CHECK_RANK_MSG(self, symm_context_device(ctx) == (self->rank == 0 ? 6 : 3), "%d for %s",
                   symm_context_device(ctx), text);
out:
    symm_context_destroy(ctx);
}

WORLD_TEST(getters, calls_leave_the_callers_current_context_alone, 2)
{
    current_fn get;
    int (*set)(void *);
    void *mine = NULL, *now = NULL, *x = NULL;
    *(void **)&get = symm_context_driver_symbol(ctx, "cuCtxGetCurrent");
    *(void **)&set = symm_context_driver_symbol(ctx, "cuCtxSetCurrent");
    CHECK_RANK(self, get && set && get(&mine) == 0 && mine);
    CHECK_RANK(self, set(NULL) == 0);
    RANK_TRY(self, symm_alloc(world, 4096, &x));
    RANK_TRY(self, symm_barrier(world, NULL));
    RANK_TRY(self, symm_synchronize(world, NULL));
    RANK_TRY(self, symm_free(world, x));
    CHECK_RANK(self, get(&now) == 0 && !now);
    CHECK_RANK(self, set(mine) == 0);
out:;
}

WORLD_TEST(getters, a_group_tells_its_context_and_world_ranks, 4)
{
    const int ranks[] = {3, 1, 2};
    symm_group *group = NULL;
    CHECK_RANK(self, symm_group_context(world) == ctx && !symm_group_context(NULL));
    CHECK_RANK(self, symm_world_rank(world, 3) == 3 && symm_world_rank(world, 4) == -1);
    CHECK_RANK(self, symm_world_rank(world, -1) == -1 && symm_world_rank(NULL, 0) == -1);
    if (self->rank == 0)
        goto out;
    RANK_TRY(self, symm_group_create(world, 3, ranks, &group));
    for (int r = 0; r < 3; r++)
        CHECK_RANK(self, symm_world_rank(group, r) == ranks[r]);
    CHECK_RANK(self, symm_world_rank(group, 3) == -1);
    CHECK_RANK(self, symm_group_context(group) == ctx);
    RANK_TRY(self, symm_group_destroy(group));
out:;
}

WORLD_TEST(getters, a_context_tells_its_device, 2)
{
    current_fn get;
    void *now = NULL;
    *(void **)&get = symm_context_driver_symbol(ctx, "cuCtxGetCurrent");
    CHECK_RANK(self, get && get(&now) == 0 && now);
    CHECK_RANK(self, (void *)symm_context_primary(ctx) == now);
    CHECK_RANK(self, !symm_context_primary(NULL) && symm_context_device(NULL) == -1);
out:;
}

WORLD_TEST(getters, allocations_have_a_size, 3)
{
    const int two[] = {0, 1};
    symm_group *pair = NULL;
    char *x = NULL, *y = NULL, *plain = NULL;
    RANK_TRY(self, symm_alloc(world, 5000, (void **)&x));
    RANK_TRY(self, symm_device_alloc(ctx, 64, (void **)&plain));
    CHECK_RANK(self, symm_alloc_nbytes(world, x) == 5000);
    CHECK_RANK(self, symm_alloc_nbytes(world, x + 4999) == 1);
    CHECK_RANK(self, symm_alloc_nbytes(world, x + 5000) == 0);
    CHECK_RANK(self, symm_alloc_nbytes(world, plain) == 0);
    CHECK_RANK(self, strstr(symm_error_text(), "symm_alloc_nbytes: local: "));
    CHECK_RANK(self, symm_alloc_nbytes(NULL, x) == 0 && symm_alloc_nbytes(world, NULL) == 0);
    if (self->rank < 2) {
        RANK_TRY(self, symm_group_create(world, 2, two, &pair));
        RANK_TRY(self, symm_alloc(pair, 77, (void **)&y));
        CHECK_RANK(self, symm_alloc_nbytes(pair, y) == 77 && symm_alloc_nbytes(pair, x) == 5000);
        CHECK_RANK(self, symm_alloc_nbytes(world, y) == 0);
        CHECK_RANK(self, strstr(symm_error_text(), "that rank 2 does not have"));
        RANK_TRY(self, symm_group_destroy(pair));
    }
    RANK_TRY(self, symm_free(world, x));
    CHECK_RANK(self, symm_alloc_nbytes(world, x) == 0);
out:
    symm_device_free(ctx, plain);
}

TEST(getters, settings_are_listed_with_their_values)
{
    symm_setting s;
    int found = 0, n = 0;
    setenv("SYMM_SLOW_MS", "1234", 1);
    for (; symm_setting_at(n, &s); n++) {
        ck_assert(s.name && s.type && s.fallback && s.help);
        if (strcmp(s.name, "SYMM_SLOW_MS") == 0) {
            ck_assert_str_eq(s.value, "1234");
            ck_assert_str_eq(s.fallback, "10000");
            found = 1;
        }
    }
    ck_assert(found);
    ck_assert_int_gt(n, 20);
    ck_assert_int_eq(symm_setting_at(-1, &s), 0);
}

static void keep_warning(void *user, int level, const char *line)
{
    if (level == 2)
        snprintf(user, 200, "%s", line);
}

TEST(getters, an_unknown_variable_is_a_warning)
{
    char warning[200] = "";
    const symm_config config = {.log = keep_warning, .user = warning};
    symm_context *ctx = NULL;

    setenv("SYMM_TIMEOUT", "5", 1);
    ck_assert_int_eq(symm_context_create(&config, &ctx), SYMM_OK);
    ck_assert_int_eq(symm_context_destroy(ctx), SYMM_OK);
    ck_assert_ptr_nonnull(strstr(warning, "SYMM_TIMEOUT=5 is no setting of symm"));
    ck_assert_str_eq(symm_setting_unknown(0), "SYMM_TIMEOUT=5");
    ck_assert_ptr_null(symm_setting_unknown(1));
    ck_assert_ptr_null(symm_setting_unknown(-1));
}

TEST(getters, statuses_have_names)
{
    ck_assert_str_eq(symm_status_name(SYMM_OK), "SYMM_OK");
    ck_assert_str_eq(symm_status_name(SYMM_ERROR_VERSION), "SYMM_ERROR_VERSION");
    ck_assert_ptr_nonnull(symm_status_name((symm_status)-4711));
    ck_assert_ptr_nonnull(symm_error_text());
}
