/* A rank's group, memory and kernels. */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "stage.h"

#include "exercise.h"

enum {
    CELLS_NBYTES = 16 * (PROOF_BLOCKS + 1) * 2 * PROOF_RANKS * PROOF_PACKS,
    SLOTS_NBYTES =
        (PROOF_BLOCKS * 2 * PROOF_RANKS * PROOF_PACKS + PROOF_BLOCKS) * (int)sizeof(symm_packet),
    OWN_NBYTES = 3 * STAGE_DATA_NBYTES,
};

void stage_fail(struct stage *st, const char *fmt, ...)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    char text[1024];
    va_list args;
    if (atomic_flag_test_and_set(&said))
        for (;;)
            pause(); /* another rank says it and ends the process */
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    printf("# failed: %s after %llu runs: seed %llu, %d ranks, blocks of %u: rank %d: %s%s%s\n",
           st->hall->protocol, (unsigned long long)st->hall->runs,
           (unsigned long long)st->hall->seed, st->self->nranks, st->hall->block, st->self->rank,
           st->inside ? st->inside : "", st->inside ? ": " : "", text);
    fflush(stdout);
    _exit(1);
}

bool stage_ok(struct stage *st, symm_status status, const char *what)
{
    st->status = status;
    if (status == SYMM_OK)
        return true;
    if (status != st->expected)
        stage_fail(st, "%s: %s: %s", what, symm_status_name(status), symm_error_text());
    return false;
}

#define OK(call) stage_ok(st, (call), #call)

/*
 * Few SMs, so that a block has several tiles. On five, each of two clusters may take one of two
 * tiles in the last wave; more ranks have three, since the stacks of all threads are mapped.
 * ThreadSanitizer counts threads, up to 8128.
 */
static const char *sms_of(int nranks, uint32_t block)
{
    if (TEST_TSAN || (block >= STAGE_WIDE && nranks > 3))
        return "3";
    return block >= STAGE_WIDE ? "5" : "8";
}

void stage_environment(int nranks, uint32_t block, uint64_t seed)
{
    static const char *const starts[] = {"4294967280", "4294967293", "4294967040", "2147483640"};
    /* From these on copy engines send rows: for some products, and for none. */
    static const char *const engines[] = {TEST_TSAN ? "96" : "3K", "2M"};
    char text[24];
    snprintf(text, sizeof text, "%u", block);
    setenv("SYMM_EMULATED_BLOCK", text, 1);
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    setenv("SYMM_EMULATED_SEED", text, 1);
    setenv("SYMM_EMULATED_WEAK", TEST_TSAN ? "0" : "1", 1);
    setenv("SYMM_EMULATED_SMS", sms_of(nranks, block), 1);
    setenv("SYMM_EMULATED_EARLY", block >= STAGE_WIDE ? "1" : "0", 1);
    setenv("SYMM_EMULATED_MEMORY", "64M", 1);
    setenv("SYMM_EMULATED_GRANULARITY", "64K", 0);
    setenv("SYMM_DRIVER", "emulated", 1);
    setenv("SYMM_TIMEOUT_MS", "20000", 0);
    setenv("SYMM_EPOCH_START", starts[seed / 1000 % 4], 1);
    setenv("SYMM_MATMUL_ENGINE_BYTES", engines[seed / 1000 % 2], 1);
    setenv("SYMM_STAGING_BYTES", "1K", 1); /* a call takes several chunks */
    setenv("SYMM_SEGMENT_BYTES", "256K", 1);
    setenv("SYMM_MATMUL_SPLIT", "1", 1); /* a protocol may set it, while no other thread reads */
    setenv("SYMM_CHECK", "0", 1);        /* the hosts must not order the kernels */
}

bool stage_open(struct stage *st, struct rank *self, struct hall *hall)
{
    *st = (struct stage){.self = self, .hall = hall};
    if (!OK(rank_join(self, &st->ctx)) || !OK(symm_stream_create(st->ctx, &st->stream)) ||
        !OK(symm_device_alloc(st->ctx, OWN_NBYTES, (void **)&st->own)) ||
        !OK(symm_device_alloc(st->ctx, STAGE_ROOM_NBYTES, (void **)&st->room)) ||
        !OK(symm_device_alloc(st->ctx, sizeof st->salts[0], (void **)&st->salt)) ||
        !OK(symm_device_alloc(st->ctx, sizeof st->counts, (void **)&st->result)))
        return false;
    if (self->rank == 0)
        *(void **)&hall->set_seed = symm_context_driver_symbol(st->ctx, "symm_emulated_set_seed");
    return stage_renew(st);
}

bool stage_renew(struct stage *st)
{
    /* The old group's work must be done before its memory goes. */
    if (!OK(symm_synchronize(symm_context_world(st->ctx), st->stream)))
        return false;
    symm_group_destroy(st->group);
    st->group = NULL;
    if (!OK(group_of_all(symm_context_world(st->ctx), &st->group)))
        return false;
    symm_group *g = st->group;
    for (int p = 0; p < STAGE_PADS; p++)
        if (!OK(symm_signal_pad_alloc(g, PROOF_CHANNELS, &st->pads[p])))
            return false;
    return OK(symm_alloc(g, CELLS_NBYTES, (void **)&st->cells)) &&
           OK(symm_alloc(g, SLOTS_NBYTES, (void **)&st->slots)) &&
           OK(symm_alloc(g, 3 * STAGE_DATA_NBYTES, (void **)&st->data)) &&
           OK(symm_fill(st->slots, 0, SLOTS_NBYTES, st->stream)) &&
           OK(symm_fill(st->result, 0, sizeof st->counts, st->stream)) &&
           OK(symm_synchronize(g, st->stream)) && OK(symm_group_view(g, &st->view)) &&
           OK(symm_exchange(g, NULL, 0, NULL));
}

void stage_close(struct stage *st)
{
    symm_group_destroy(st->group);
    for (int k = 0; k < STAGE_KERNELS; k++)
        symm_kernel_unload(st->kernels[k].kernel);
    symm_device_free(st->ctx, st->own);
    symm_device_free(st->ctx, st->room);
    symm_device_free(st->ctx, st->salt);
    symm_device_free(st->ctx, st->result);
    symm_stream_destroy(st->stream);
    symm_context_destroy(st->ctx);
}

int stage_neighbour(const struct stage *st, int by)
{
    const int n = st->self->nranks;
    return (st->self->rank + by + n) % n;
}

symm_kernel *stage_kernel(struct stage *st, const char *name)
{
    int k = 0;
    while (st->kernels[k].name && strcmp(st->kernels[k].name, name) != 0)
        k++;
    if (!st->kernels[k].name) {
        if (!OK(symm_kernel_load(st->ctx, &protocol_kernels, name, &st->kernels[k].kernel)))
            return NULL;
        st->kernels[k].name = name;
    }
    return st->kernels[k].kernel;
}

proof_args stage_args(const struct stage *st, int pad)
{
    return (proof_args){.view = st->view,
                        .pad = st->pads[pad],
                        .cells = st->cells,
                        .slots = st->slots,
                        .own = st->own,
                        .salt = st->salt,
                        .result = st->result,
                        .ends = st->expected != SYMM_OK};
}

bool stage_launch(struct stage *st, const char *kernel, uint32_t blocks, const void *args,
                  size_t nbytes, symm_stream stream)
{
    const uint32_t block = st->hall->block;
    const symm_grid grid = {.blocks = blocks,
                            .threads = block < STAGE_THREADS ? block : STAGE_THREADS};
    symm_kernel *k = stage_kernel(st, kernel);
    return k && stage_ok(st, symm_launch(st->group, k, &grid, args, nbytes, stream), kernel);
}

bool stage_data(struct stage *st, enum proof_deed deed, void *x, size_t first, size_t count,
                symm_dtype dtype, int from, int ranks, symm_redop op)
{
    const proof_data_args a = {.view = st->view,
                               .x = x,
                               .salt = st->salt,
                               .result = st->result,
                               .count = count,
                               .first = first,
                               .dtype = (uint32_t)dtype,
                               .deed = (uint32_t)deed,
                               .from = (uint32_t)from,
                               .ranks = deed == PROOF_SPOIL ? 0 : (uint32_t)ranks,
                               .op = (uint32_t)op,
                               .ends = st->expected != SYMM_OK};
    return stage_launch(st, "proof_data", 1, &a, sizeof a, st->stream);
}

bool stage_norm(struct stage *st, void *x, size_t rows, size_t hidden, symm_dtype dtype, int from,
                int ranks)
{
    const proof_data_args a = {.view = st->view,
                               .x = x,
                               .salt = st->salt,
                               .result = st->result,
                               .count = rows * hidden,
                               .hidden = hidden,
                               .dtype = (uint32_t)dtype,
                               .deed = PROOF_CHECK_NORM,
                               .from = (uint32_t)from,
                               .ranks = (uint32_t)ranks,
                               .op = SYMM_SUM,
                               .ends = st->expected != SYMM_OK};
    return stage_launch(st, "proof_data", 1, &a, sizeof a, st->stream);
}

static bool once(struct stage *st, symm_graph graph, struct draw *draw,
                 bool (*enqueue)(struct stage *, void *), void *arg)
{
    uint32_t *salt = &st->salts[st->nsalts++ % 8];
    *salt = draw_below(draw, UINT32_MAX);
    if (!OK(symm_copy(st->salt, salt, sizeof *salt, st->stream)))
        return false;
    return graph ? OK(symm_graph_launch(graph, st->stream)) : enqueue(st, arg);
}

static bool look_at_counts(struct stage *st)
{
    if (!OK(symm_copy(st->counts, st->result, sizeof st->counts, st->stream)) ||
        !OK(symm_fill(st->result, 0, sizeof st->counts, st->stream)) ||
        !OK(symm_synchronize(st->group, st->stream)))
        return false;
    if (st->counts[0] > 0 || st->counts[1] == 0)
        stage_fail(st, "%u of %u wrong", st->counts[0], st->counts[1]);
    return true;
}

bool stage_repeat(struct stage *st, struct draw *draw, bool (*enqueue)(struct stage *, void *),
                  void *arg)
{
    const bool captured = draw_below(draw, 3) == 0;
    symm_graph graph = NULL;
    bool ok = true;
    if (captured) {
        ok = OK(symm_graph_begin(st->stream)) && enqueue(st, arg);
        ok = symm_graph_end(st->stream, &graph) == SYMM_OK && ok;
    }
    for (uint32_t n = 1 + draw_below(draw, 2); ok && n > 0; n--)
        ok = once(st, graph, draw, enqueue, arg);
    ok = ok && look_at_counts(st);
    symm_graph_destroy(graph);
    return ok;
}
