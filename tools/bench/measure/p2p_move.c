/* One row of symm-bench p2p. */
#include "p2p_move.h"

#include <stdio.h>
#include <string.h>

extern const symm_image p2p_kernels;

enum { POISON = 0xff, BULK_THREADS = 32 /* one of them drives the copy unit */ };

const struct p2p_how p2p_hows[P2P_NHOWS] = {
    {"store", P2P_BY_KERNEL, P2P_STORE, false, "p2p_move"},
    {"load", P2P_BY_KERNEL, P2P_LOAD, true, "p2p_move"},
    {"bulk_put", P2P_BY_KERNEL, P2P_BULK_PUT, false, "p2p_move"},
    {"bulk_get", P2P_BY_KERNEL, P2P_BULK_GET, true, "p2p_move"},
    {"put", P2P_BY_COPY_ENGINE, 0, false, NULL},
    {"get", P2P_BY_COPY_ENGINE, 0, true, NULL},
    {"signal", P2P_BY_PING, 0, false, "p2p_ping_signal"},
    {"packet", P2P_BY_PING, 0, false, "p2p_ping_packet"},
};

enum { RING_BOTH = 3, ALL = 4 };
const struct p2p_pattern p2p_patterns[P2P_NPATTERNS] = {
    {"pair", 1, 2},        [P2P_PAIR_BOTH] = {"pair_both", 2, 2},
    {"ring", 0, 3},        [RING_BOTH] = {"ring_both", 0, 3},
    [ALL] = {"all", 0, 3},
};

static symm_status load(struct p2p_room *room)
{
    symm_context *ctx = room->s->ctx;
    symm_status st;

    TRY(symm_kernel_load(ctx, &p2p_kernels, "p2p_fill", &room->fill));
    TRY(symm_kernel_load(ctx, &p2p_kernels, "p2p_check", &room->check));
    for (int i = 0; i < P2P_NHOWS; i++) {
        if (p2p_hows[i].kernel)
            TRY(symm_kernel_load(ctx, &p2p_kernels, p2p_hows[i].kernel, &room->kernel[i]));
    }
out:
    return st;
}

symm_status p2p_room_create(struct p2p_room *room, uint64_t most)
{
    const struct session *s = room->s;
    const size_t slots = room->rounds * sizeof *room->slots;
    symm_status st;

    TRY(load(room));
    TRY(symm_alloc(s->group, most, (void **)&room->src));
    TRY(symm_alloc(s->group, most, (void **)&room->dst));
    TRY(symm_alloc(s->group, slots, (void **)&room->slots));
    TRY(symm_fill(room->slots, 0, slots, s->stream));
    TRY(symm_signal_pad_alloc(s->group, 2, &room->pad));
    TRY(symm_device_alloc(s->ctx, sizeof *room->wrong, (void **)&room->wrong));
    TRY(symm_barrier(s->group, s->stream));
    TRY(symm_synchronize(s->group, s->stream));
out:
    return st;
}

void p2p_room_destroy(struct p2p_room *room)
{
    if (room->wrong)
        symm_device_free(room->s->ctx, room->wrong);
}

/* The ranks that a rank moves with, in the order of the slices. Returns their number. */
static int partners(const struct p2p_pattern *p, int rank, int nranks, int32_t out[SYMM_MAX_RANKS])
{
    const int n = p == &p2p_patterns[ALL] ? nranks - 1 : p == &p2p_patterns[RING_BOTH] ? 2 : 1;

    if (p->movers && rank >= p->movers)
        return 0;
    if (p->movers) { /* rank 0 with rank 1 */
        out[0] = 1 - rank;
        return 1;
    }
    for (int i = 0; i < n; i++)
        out[i] = (rank + (n == 2 && i == 1 ? nranks - 1 : 1 + i)) % nranks;
    return n;
}

/* Looks for the rank that pushes to this one, and the slice. */
static void find_origins(struct p2p_move *m, int rank, int nranks)
{
    int32_t theirs[SYMM_MAX_RANKS];

    for (int r = 0; r < nranks; r++) {
        const int n = partners(m->pattern, r, nranks, theirs);

        for (int i = 0; i < n; i++) {
            if (theirs[i] == rank) {
                m->found.rank[i] = r;
                m->found.nslices = n;
            }
        }
    }
    /* Of a pair in one direction only one rank gets bytes. */
    if (m->pattern->movers == 1)
        m->found.nslices = rank == 1;
}

void p2p_plan(struct p2p_move *m)
{
    const struct p2p_room *room = m->room;
    const struct session *s = room->s;

    symm_group_view(s->group, &m->args.view);
    m->args.pad = room->pad;
    m->args.src = room->src;
    m->args.dst = room->dst;
    m->args.slots = strcmp(m->how->name, "packet") == 0 ? room->slots : NULL;
    m->args.wrong = room->wrong;
    m->args.nbytes = m->nbytes;
    m->args.rounds = room->rounds;
    m->args.mode = m->how->mode;
    m->args.nslices = partners(m->pattern, s->rank, s->nranks, m->args.rank);
    m->found = m->args;
    if (!m->how->pulls)
        find_origins(m, s->rank, s->nranks);
}

static symm_status launch(const struct p2p_room *room, symm_kernel *kernel, uint32_t blocks,
                          uint32_t threads, const p2p_args *args)
{
    return symm_launch(room->s->group, kernel, &(symm_grid){.blocks = blocks, .threads = threads},
                       args, sizeof *args, room->s->stream);
}

static symm_status copy_slice(const struct p2p_move *m, int i)
{
    const uint64_t packs = m->nbytes / 16, n = (uint64_t)m->args.nslices;
    const uint64_t begin = packs * (uint64_t)i / n * 16, end = packs * (uint64_t)(i + 1) / n * 16;
    const struct session *s = m->room->s;
    char *src = m->room->src + begin, *dst = m->room->dst + begin;

    if (begin == end)
        return SYMM_OK;
    return m->how->pulls ? symm_get(s->group, dst, src, end - begin, m->args.rank[i], s->stream)
                         : symm_put(s->group, dst, src, end - begin, m->args.rank[i], s->stream);
}

static symm_status enqueue(const void *what, int nops)
{
    const struct p2p_move *m = what;
    const struct p2p_room *room = m->room;
    const uint32_t threads = m->how->by == P2P_BY_PING      ? 1
                             : m->how->mode >= P2P_BULK_PUT ? BULK_THREADS
                                                            : room->threads;
    symm_status st = SYMM_OK;

    for (int op = 0; op < nops && st == SYMM_OK; op++) {
        if (m->how->by != P2P_BY_COPY_ENGINE)
            st = launch(room, room->kernel[m->how - p2p_hows], m->blocks, threads, &m->args);
        else
            for (int i = 0; i < m->args.nslices && st == SYMM_OK; i++)
                st = copy_slice(m, i);
    }
    return st;
}

static uint32_t helper_blocks(const struct p2p_room *room)
{
    return room->s->emulated ? 2 : 128;
}

static symm_status offer(void *what, uint64_t seed)
{
    struct p2p_move *m = what;
    const struct p2p_room *room = m->room;
    symm_status st;

    m->args.seed = m->found.seed = (uint32_t)seed;
    TRY(symm_fill(room->wrong, 0, sizeof *room->wrong, room->s->stream));
    if (m->nbytes == 0)
        return SYMM_OK;
    TRY(launch(room, room->fill, helper_blocks(room), room->threads, &m->args));
    TRY(symm_fill(room->dst, POISON, m->nbytes, room->s->stream));
out:
    return st;
}

/* Pings count their wrong words themselves. */
static symm_status judge(void *what, int nops, uint64_t *wrong)
{
    const struct p2p_move *m = what;
    const struct p2p_room *room = m->room;
    struct session *s = room->s;
    uint32_t mine = 0;
    symm_status st;

    (void)nops;
    TRY(symm_barrier(s->group, s->stream));
    if (m->nbytes > 0 && m->found.nslices > 0)
        TRY(launch(room, room->check, helper_blocks(room), room->threads, &m->found));
    TRY(symm_copy(&mine, room->wrong, sizeof mine, s->stream));
    TRY(symm_synchronize(s->group, s->stream));
    if (mine > 0)
        fprintf(stderr, "# rank %d: %u wrong words\n", s->rank, mine);
    *wrong = mine;
out:
    return st;
}

const struct subject_kind p2p_kind = {enqueue, NULL, offer, judge};
