/* The arbiter of memory, driven as the hub drives it. */
#include <stdlib.h>
#include <string.h>
#include "runtime/memory/heap.h"
#include "reference.h"
#include "test.h"

#define MIB (UINT64_C(1) << 20)
#define GRANULARITY (2 * MIB)
#define LEAST (64 * MIB)
#define WINDOW (1024 * MIB)

struct grant {
    uint64_t block, segment, nbytes, is_new;
};

static struct symm_heap *heap;
static struct symm_arbiter arbiter;

static struct symm_rank_set set(int first, int last)
{
    struct symm_rank_set s = {{0}};
    for (int r = first; r <= last; r++)
        symm__rank_set_add(&s, r);
    return s;
}

static void open_heap(void)
{
    const uint64_t args[4] = {WINDOW, GRANULARITY, LEAST};
    uint64_t answer[4];
    ck_assert_int_eq(symm__heap_create(&heap), SYMM_OK);
    arbiter = symm__heap_arbiter(heap);
    ck_assert_int_eq(
        arbiter.decide(arbiter.self, SYMM_HEAP_CONFIGURE, set(0, 3), SYMM_OK, args, answer),
        SYMM_OK);
}

static void close_heap(void)
{
    symm__heap_destroy(heap);
}

static symm_status ask(uint32_t op, struct symm_rank_set members, symm_status status, uint64_t arg0,
                       uint64_t arg1, struct grant *out)
{
    const uint64_t args[4] = {arg0, arg1};
    uint64_t answer[4] = {0};
    symm_status st = arbiter.decide(arbiter.self, op, members, status, args, answer);
    if (out)
        *out = (struct grant){answer[0], answer[1], answer[2], answer[3]};
    return st;
}

static symm_status try_alloc(struct symm_rank_set members, uint64_t nbytes, uint64_t flags,
                             struct grant *out)
{
    return ask(SYMM_HEAP_ALLOC, members, SYMM_OK, nbytes, flags, out);
}

static symm_status commit(struct symm_rank_set members, uint64_t segment)
{
    return ask(SYMM_HEAP_COMMIT, members, SYMM_OK, segment, 0, NULL);
}

/* Allocates and, if that made a segment, commits it. */
static struct grant alloc(struct symm_rank_set members, uint64_t nbytes, uint64_t flags)
{
    struct grant g;
    ck_assert_int_eq(try_alloc(members, nbytes, flags, &g), SYMM_OK);
    if (g.is_new)
        ck_assert_int_eq(commit(members, g.segment), SYMM_OK);
    return g;
}

static void free_on(int first, int last, uint64_t off)
{
    for (int r = first; r <= last; r++)
        arbiter.freed(arbiter.self, r, off);
}

/* The segment to give back, or UINT64_MAX for none. */
static uint64_t trim(struct symm_rank_set members)
{
    struct grant g; /* here an offset, and whether there is one */
    ck_assert_int_eq(ask(SYMM_HEAP_TRIM, members, SYMM_OK, 0, 0, &g), SYMM_OK);
    return g.segment ? g.block : UINT64_MAX;
}

TEST_GROUP(heap, 60, .setup = open_heap, .teardown = close_heap);

TEST(heap, ten_thousand_small_blocks_share_one_segment)
{
    enum { MANY = 10000 };
    static uint64_t off[MANY];
    for (int i = 0; i < MANY; i++) {
        struct grant g = alloc(set(0, 3), 4096, 0);
        ck_assert_int_eq(g.is_new, i == 0);
        ck_assert_uint_eq(g.segment, 0);
        ck_assert_uint_eq(g.nbytes, LEAST);
        ck_assert_uint_eq(g.block % SYMM_HEAP_ALIGNMENT, 0);
        ck_assert(i == 0 || g.block >= off[i - 1] + 4096);
        off[i] = g.block;
    }
    ck_assert(trim(set(0, 3)) == UINT64_MAX);
    for (int i = 0; i < MANY; i++)
        free_on(0, 3, off[i]);
    ck_assert(trim(set(0, 3)) == 0);
}

TEST(heap, a_block_is_reused_only_when_all_have_freed_it)
{
    struct grant a = alloc(set(0, 3), 1024, 0), b;
    free_on(0, 2, a.block);
    b = alloc(set(0, 3), 1024, 0);
    ck_assert(b.block != a.block);
    free_on(2, 2, a.block); /* once more the same rank, and one that never had it */
    free_on(7, 7, a.block);
    b = alloc(set(0, 3), 1024, 0);
    ck_assert(b.block != a.block);
    free_on(3, 3, a.block);
    b = alloc(set(0, 3), 1024, 0);
    ck_assert_uint_eq(b.block, a.block);
}

TEST(heap, nonsense_from_a_rank_changes_nothing)
{
    struct grant a = alloc(set(0, 3), 4096, 0), b;
    for (int r = -1; r <= SYMM_MAX_RANKS; r++) {
        arbiter.freed(arbiter.self, r, a.block + 1024);
        arbiter.freed(arbiter.self, r, UINT64_MAX);
    }
    arbiter.freed(arbiter.self, -1, a.block);
    arbiter.freed(arbiter.self, SYMM_MAX_RANKS, a.block);
    b = alloc(set(0, 3), 4096, 0);
    ck_assert(b.block != a.block);
}

TEST(heap, segments_belong_to_their_ranks)
{
    struct grant world = alloc(set(0, 3), 4096, 0), pair, other, own;
    pair = alloc(set(0, 1), 4096, 0);
    ck_assert(pair.is_new && pair.segment != world.segment);
    other = alloc(set(2, 3), 4096, 0);
    ck_assert(other.is_new && other.segment != world.segment && other.segment != pair.segment);
    own = alloc(set(0, 1), 4096, SYMM_HEAP_ANY_SEGMENT); /* an equal set comes first */
    ck_assert_uint_eq(own.segment, pair.segment);
    own = alloc(set(1, 2), 4096, SYMM_HEAP_ANY_SEGMENT); /* then one that covers it */
    ck_assert(!own.is_new);
    ck_assert_uint_eq(own.segment, world.segment);
    own = alloc(set(3, 4), 4096, SYMM_HEAP_ANY_SEGMENT);
    ck_assert(own.is_new);
}

TEST(heap, a_block_of_few_in_a_segment_of_many_waits_for_the_few_only)
{
    alloc(set(0, 3), 1024, 0);
    struct grant a = alloc(set(0, 1), 1024, SYMM_HEAP_ANY_SEGMENT), b;
    free_on(0, 1, a.block);
    b = alloc(set(0, 3), 1024, 0);
    ck_assert_uint_eq(b.block, a.block);
}

TEST(heap, a_pending_segment_is_nobody_elses)
{
    struct grant first, second, third;
    ck_assert_int_eq(try_alloc(set(0, 3), 4096, 0, &first), SYMM_OK);
    ck_assert(first.is_new);
    ck_assert_int_eq(try_alloc(set(0, 3), 4096, SYMM_HEAP_ANY_SEGMENT, &second), SYMM_OK);
    ck_assert(second.is_new && second.segment != first.segment);
    ck_assert(trim(set(0, 3)) == UINT64_MAX);
    ck_assert_int_eq(commit(set(0, 3), first.segment), SYMM_OK);
    third = alloc(set(0, 3), 4096, 0);
    ck_assert_uint_eq(third.segment, first.segment);
}

TEST(heap, a_segment_that_failed_is_forgotten_when_all_have_undone_it)
{
    struct grant first, second, third;
    ck_assert_int_eq(try_alloc(set(0, 3), 4096, 0, &first), SYMM_OK);
    ck_assert_int_eq(ask(SYMM_HEAP_COMMIT, set(0, 3), SYMM_ERROR_DRIVER, first.segment, 0, NULL),
                     SYMM_ERROR_DRIVER);
    free_on(0, 2, first.block);
    second = alloc(set(4, 5), 4096, 0);
    ck_assert(second.segment != first.segment); /* rank 3 may still have it mapped */
    free_on(3, 3, first.block);
    ck_assert_int_eq(commit(set(0, 3), first.segment), SYMM_ERROR_STATE);
    third = alloc(set(0, 3), 4096, 0);
    ck_assert(third.is_new);
    ck_assert_uint_eq(third.segment, first.segment);
}

TEST(heap, a_commit_is_of_a_pending_segment_of_those_ranks)
{
    struct grant g;
    ck_assert_int_eq(try_alloc(set(0, 3), 4096, 0, &g), SYMM_OK);
    ck_assert_int_eq(commit(set(0, 1), g.segment), SYMM_ERROR_STATE);
    ck_assert_int_eq(commit(set(0, 3), g.segment + GRANULARITY), SYMM_ERROR_STATE);
    ck_assert_int_eq(commit(set(0, 3), g.segment), SYMM_OK);
    ck_assert_int_eq(commit(set(0, 3), g.segment), SYMM_ERROR_STATE);
}

TEST(heap, trimming_takes_empty_segments_of_exactly_these_ranks)
{
    struct grant small = alloc(set(0, 3), 4096, 0), big = alloc(set(0, 3), 100 * MIB, 0);
    struct grant pair = alloc(set(0, 1), 4096, 0), again;
    ck_assert_uint_eq(big.nbytes, 100 * MIB);
    free_on(0, 3, big.block);
    free_on(0, 1, pair.block);
    ck_assert_uint_eq(trim(set(0, 3)), big.segment);
    ck_assert(trim(set(0, 3)) == UINT64_MAX);
    again = alloc(set(0, 3), 100 * MIB, 0);
    ck_assert(again.segment != big.segment); /* not all ranks have released it */
    free_on(0, 3, big.segment);
    ck_assert_uint_eq(trim(set(0, 1)), pair.segment);
    free_on(0, 1, pair.segment);
    free_on(0, 3, again.block);
    ck_assert_uint_eq(trim(set(0, 3)), again.segment);
    free_on(0, 3, again.segment);
    again = alloc(set(0, 3), 100 * MIB, 0);
    ck_assert(again.is_new && again.segment < big.segment + big.nbytes);
    ck_assert(small.segment != again.segment);
}

TEST(heap, a_segment_for_one_block_has_no_other_and_ends_with_it)
{
    struct grant own = alloc(set(0, 3), 3 * MIB, SYMM_HEAP_NEW_SEGMENT), b;
    ck_assert(own.is_new && own.block == own.segment && own.nbytes == 4 * MIB);
    b = alloc(set(0, 3), MIB, 0); /* which would fit behind it */
    ck_assert(b.is_new && b.segment >= own.segment + own.nbytes);
    ck_assert_uint_eq(alloc(set(0, 3), MIB, SYMM_HEAP_NEW_SEGMENT).is_new, 1);
    free_on(0, 2, own.block);
    ck_assert(trim(set(0, 3)) == UINT64_MAX);
    ck_assert(alloc(set(0, 3), 4 * MIB, SYMM_HEAP_NEW_SEGMENT).segment != own.segment);
    free_on(3, 3, own.block); /* and its place may be another's */
    ck_assert_uint_eq(alloc(set(1, 2), 4 * MIB, SYMM_HEAP_NEW_SEGMENT).segment, own.segment);
}

TEST(heap, settled_means_that_no_block_is_freed_by_some_only)
{
    struct grant a = alloc(set(0, 3), 5000, 0), b = alloc(set(0, 1), 1, 0),
                 one = alloc(set(2, 2), 1, 0);
    ck_assert(arbiter.settled(arbiter.self));
    free_on(4, 4, a.block); /* which this rank does not have */
    ck_assert(arbiter.settled(arbiter.self));
    free_on(2, 2, one.block);
    ck_assert(arbiter.settled(arbiter.self));
    free_on(0, 2, a.block);
    free_on(1, 1, b.block);
    ck_assert(!arbiter.settled(arbiter.self));
    free_on(3, 3, a.block);
    free_on(1, 1, b.block);
    ck_assert(!arbiter.settled(arbiter.self));
    free_on(0, 0, b.block);
    ck_assert(arbiter.settled(arbiter.self));
}

TEST(heap, sizes_that_do_not_fit_are_refused)
{
    struct grant g, rest;
    ck_assert_int_eq(try_alloc(set(0, 3), 0, 0, &g), SYMM_ERROR_ARGUMENT);
    ck_assert_int_eq(try_alloc(set(0, 3), WINDOW + 1, 0, &g), SYMM_ERROR_ARGUMENT);
    ck_assert_int_eq(try_alloc(set(0, 3), UINT64_MAX, 0, &g), SYMM_ERROR_ARGUMENT);
    g = alloc(set(0, 3), WINDOW - 2 * GRANULARITY, 0);
    ck_assert_int_eq(try_alloc(set(0, 3), 3 * GRANULARITY, 0, &rest), SYMM_ERROR_MEMORY);
    rest =
        alloc(set(0, 3), 2 * GRANULARITY, 0); /* less than the least segment, but there is room */
    ck_assert_uint_eq(rest.nbytes, 2 * GRANULARITY);
    ck_assert_int_eq(try_alloc(set(0, 3), 1, 0, &g), SYMM_ERROR_MEMORY);
}

TEST(heap, nothing_is_decided_when_a_rank_has_failed)
{
    struct grant g;
    ck_assert_int_eq(ask(SYMM_HEAP_ALLOC, set(0, 3), SYMM_ERROR_PEER, 4096, 0, &g),
                     SYMM_ERROR_PEER);
    g = alloc(set(0, 3), 4096, 0);
    ck_assert(g.is_new);
    ck_assert_uint_eq(g.block, 0);
    free_on(0, 3, g.block);
    ck_assert_int_eq(ask(SYMM_HEAP_TRIM, set(0, 3), SYMM_ERROR_DRIVER, 0, 0, NULL),
                     SYMM_ERROR_DRIVER);
    ck_assert_uint_eq(trim(set(0, 3)), g.segment);
    ck_assert_int_eq(ask(99, set(0, 3), SYMM_OK, 0, 0, NULL), SYMM_ERROR_ARGUMENT);
}

TEST(heap, a_heap_is_configured_once_and_sensibly)
{
    const uint64_t good[4] = {WINDOW, GRANULARITY, LEAST},
                   bad[][4] = {{0, GRANULARITY, LEAST},
                               {WINDOW, 0, LEAST},
                               {WINDOW + 1, GRANULARITY, LEAST},
                               {WINDOW, 512, LEAST},
                               {WINDOW, GRANULARITY, WINDOW + 1}};
    uint64_t answer[4];
    struct symm_heap *h;
    ck_assert_int_eq(symm__heap_create(&h), SYMM_OK);
    struct symm_arbiter a = symm__heap_arbiter(h);
    ck_assert_int_eq(a.decide(a.self, SYMM_HEAP_ALLOC, set(0, 1), SYMM_OK, good, answer),
                     SYMM_ERROR_STATE);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_int_eq(a.decide(a.self, SYMM_HEAP_CONFIGURE, set(0, 1), SYMM_OK, bad[i], answer),
                         SYMM_ERROR_ARGUMENT);
    ck_assert_int_eq(a.decide(a.self, SYMM_HEAP_CONFIGURE, set(0, 1), SYMM_OK, good, answer),
                     SYMM_OK);
    ck_assert_int_eq(a.decide(a.self, SYMM_HEAP_CONFIGURE, set(0, 1), SYMM_OK, good, answer),
                     SYMM_ERROR_STATE);
    symm__heap_destroy(h);
    symm__heap_destroy(NULL);
}

/* Blocks that ranks still have: no two may overlap. */
enum { LIVE = 64 };

struct live {
    struct grant g;
    uint64_t nbytes;
    int first, last; /* ranks that have it */
    struct symm_rank_set holders;
    bool used;
};

static void check_apart(const struct live *live, const struct live *one)
{
    ck_assert(one->g.block >= one->g.segment);
    ck_assert(one->g.block + one->nbytes <= one->g.segment + one->g.nbytes);
    for (int i = 0; i < LIVE; i++) {
        const struct live *b = &live[i];
        if (!b->used || b == one)
            continue;
        ck_assert(one->g.block + one->nbytes <= b->g.block ||
                  b->g.block + b->nbytes <= one->g.block);
        ck_assert(b->g.segment == one->g.segment || b->g.segment + b->g.nbytes <= one->g.segment ||
                  one->g.segment + one->g.nbytes <= b->g.segment);
    }
}

TEST_LOOP(heap, random_use_never_hands_out_bytes_in_use, 1, 4)
{
    static const int sets[][2] = {{0, 3}, {0, 1}, {2, 3}, {1, 2}, {0, 3}, {3, 3}};
    static struct live live[LIVE];
    memset(live, 0, sizeof live);
    for (uint64_t round = 0; round < 100000; round++) {
        uint64_t random = reference_random((uint64_t)_i, round);
        struct live *b = &live[random % LIVE];
        if (b->used) { /* one of its ranks frees it */
            int r = b->first + (int)((random >> 20) % (uint64_t)(b->last - b->first + 1));
            arbiter.freed(arbiter.self, r, b->g.block);
            if (symm__rank_set_remove(&b->holders, r))
                b->used = false;
            continue;
        }
        const int *ranks = sets[(random >> 8) % 6];
        struct symm_rank_set members = set(ranks[0], ranks[1]);
        if ((random >> 40) % 16 == 0) {
            uint64_t s = trim(members);
            if (s != UINT64_MAX)
                free_on(ranks[0], ranks[1], s);
            continue;
        }
        *b = (struct live){.first = ranks[0], .last = ranks[1], .holders = members};
        b->nbytes = 1 + (random >> 24) % (UINT64_C(1) << (random >> 16) % 24);
        if (try_alloc(members, b->nbytes, (random >> 12) & 1, &b->g) != SYMM_OK)
            continue;
        bool fails = b->g.is_new && (random >> 48) % 4 == 0;
        if (b->g.is_new && !fails)
            ck_assert_int_eq(commit(members, b->g.segment), SYMM_OK);
        b->used = true;
        check_apart(live, b);
    }
    for (int i = 0; i < LIVE; i++)
        if (live[i].used)
            free_on(live[i].first, live[i].last, live[i].g.block);
    int ntrimmed = 0;
    for (int i = 0; i < 6; i++)
        for (uint64_t s; (s = trim(set(sets[i][0], sets[i][1]))) != UINT64_MAX; ntrimmed++) {
            ck_assert_uint_lt((uint64_t)ntrimmed, WINDOW / GRANULARITY);
            free_on(sets[i][0], sets[i][1], s);
        }
    struct grant all = alloc(set(0, 3), WINDOW, 0);
    ck_assert(all.is_new);
    ck_assert_uint_eq(all.block, 0);
}
