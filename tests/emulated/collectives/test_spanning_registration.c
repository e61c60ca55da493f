/*
 * Staging memory of groups of several domains is registered with NCCL: on all ranks or on none, and
 * until the communicator ends. NCCL's calls are read from the record of the stand-in.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/collectives.h>
#include <symm/stream.h>
#include <unistd.h>
#include "collective.h"
#include "folder.h"
#include "hosts.h"
#include "standin.h"
#include "test.h"

enum { HOSTS = 2, SIZE = 2, RANKS = HOSTS * SIZE, COUNT = 1000 };

struct scene {
    struct hosts hosts;
    const char *fault; /* of rank 2; NULL: none */
    bool missing;      /* on all ranks */
    bool aborts;       /* the group ends by an abort */
};

static void note(void *user, int level, const char *line)
{
    if (level == 4 && strstr(line, "staging memory is not registered"))
        (*(int *)user)++;
}

/* Every operation, also those whose blocks are exchanged. */
static void call_all(struct rank *self, symm_context *ctx, symm_group *world)
{
    const size_t nbytes = 2 * COUNT * RANKS * sizeof(int32_t);
    char *device = NULL, *host = malloc(nbytes);
    symm_stream s = NULL;

    CHECK_RANK(self, host);
    RANK_TRY(self, symm_stream_create(ctx, &s));
    RANK_TRY(self, symm_device_alloc(ctx, nbytes, (void **)&device));
    for (int i = 0; i < 2 * COLLECTIVE_OPERATIONS; i++) {
        const struct collective c = {.operation = (enum collective_operation)(i / 2),
                                     .dtype = SYMM_INT32,
                                     .op = SYMM_SUM,
                                     .count = COUNT,
                                     .flags = i % 2 ? SYMM_DETERMINISTIC : 0};
        collective_fill(&c, self->rank, RANKS, host);
        RANK_TRY(self, symm_copy(device, host, collective_in_nbytes(&c, RANKS), s));
        RANK_TRY(self, collective_call(&c, world, device, device + nbytes / 2, s));
        RANK_TRY(self, symm_copy(host, device + nbytes / 2, collective_out_nbytes(&c, RANKS), s));
        RANK_TRY(self, symm_synchronize(world, s));
        CHECK_RANK(self, collective_wrong(&c, self->rank, RANKS, host) == 0);
    }
    RANK_TRY(self, symm_barrier(world, s));
    RANK_TRY(self, symm_synchronize(world, s));
out:
    symm_stream_destroy(s);
    symm_device_free(ctx, device);
    free(host);
}

static void live(struct rank *self, void *arg)
{
    const struct scene *scene = arg;
    symm_config config = hosts_config(self, &scene->hosts);
    symm_context *ctx = NULL, *last;
    int lines = 0;

    if (self->rank == 2 && scene->fault)
        setenv("NCCL_STANDIN_FAULT", scene->fault, 1);
    config.log = note;
    config.user = &lines;
    RANK_TRY(self, symm_context_create(&config, &ctx));
    call_all(self, ctx, symm_context_world(ctx));
    self->report->value[0] = lines;
    RANK_TRY(self, symm_exchange(symm_context_world(ctx), NULL, 0, NULL));
    if (scene->aborts) {
        symm_abort(self->rank == 0 ? symm_context_world(ctx) : NULL, "enough");
        while (symm_check(symm_context_world(ctx)) == SYMM_OK)
            usleep(1000);
        goto out;
    }
    last = ctx;
    ctx = NULL;
    RANK_TRY(self, symm_context_destroy(last));
out:
    symm_context_destroy(ctx);
}

/* ---- The record ---- */

enum { RECORDS = 2 * RANKS, RECORD_MOST = 1 << 15 };

/* Of a rank of a communicator: where its calls stand in it; -1: nowhere. */
struct record {
    long registers, deregisters, calls /* the first operation */, ends;
};

static long find(const char *text, const char *part)
{
    const char *at = strstr(text, part);

    return at ? at - text : -1;
}

static struct record read_record(const char *path)
{
    static char text[RECORD_MOST];
    FILE *file = fopen(path, "r");
    struct record r;

    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    unlink(path);
    r = (struct record){find(text, "ncclCommRegister "), find(text, "ncclCommDeregister\n"),
                        find(text, "ncclAllReduce"), find(text, "ncclCommDestroy\n")};
    if (r.ends < 0)
        r.ends = find(text, "ncclCommAbort\n");
    ck_assert_int_ge(r.ends, 0);
    return r;
}

/* Runs the scene. Reads the records of the rails, which are those that reduce. */
static int run_scene(const struct scene *given, struct record rails[RECORDS])
{
    struct rank_report reports[RANKS_MAX];
    struct scene scene = *given;
    char prefix[80], pattern[96];
    glob_t found = {0};
    int n = 0;

    snprintf(prefix, sizeof prefix, "%s/record", folder);
    snprintf(pattern, sizeof pattern, "%s.*", prefix);
    setenv("NCCL_STANDIN_RECORD", prefix, 1);
    setenv("SYMM_SPAN_ALGO", "hierarchical", 1);
    scene.hosts = (struct hosts){HOSTS, {SIZE, SIZE}, false, ""};
    hosts_address(&scene.hosts);
    ranks_run(RANKS, RANKS_AS_PROCESSES, live, &scene, reports, 50);
    ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const struct record r = read_record(found.gl_pathv[i]);
        if (r.calls >= 0 && n < RECORDS)
            rails[n++] = r;
    }
    globfree(&found);
    ranks_assert_ok(reports, RANKS);
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_eq(reports[r].value[0], scene.missing || (scene.fault && r == 2));
    ck_assert_int_eq(n, RANKS);
    return n;
}

TEST_GROUP(registration, 120, IN_A_FOLDER);

TEST_LOOP(registration, staging_is_registered_until_the_end, 0, 2)
{
    struct record rails[RECORDS];

    standin_use();
    const int n = run_scene(&(struct scene){.aborts = _i}, rails);
    for (int i = 0; i < n; i++) {
        ck_assert_int_ge(rails[i].registers, 0);
        ck_assert_int_lt(rails[i].registers, rails[i].calls);
        ck_assert_int_lt(rails[i].calls, rails[i].deregisters);
        ck_assert_int_lt(rails[i].deregisters, rails[i].ends);
    }
}

/* The other ranks give theirs up before the first call. */
TEST(registration, a_failure_on_one_rank_ends_that_of_all)
{
    struct record rails[RECORDS];

    standin_use();
    const int n = run_scene(&(struct scene){.fault = "ncclCommRegister@-1#1=1"}, rails);
    for (int i = 0; i < n; i++) {
        ck_assert_int_ge(rails[i].registers, 0);
        ck_assert_int_lt(rails[i].deregisters, rails[i].calls);
    }
}

TEST(registration, a_library_without_it_is_no_error)
{
    struct record rails[RECORDS];

    standin_use_old();
    const int n = run_scene(&(struct scene){.missing = true}, rails);
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(rails[i].registers, -1);
}
