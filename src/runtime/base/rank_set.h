/* A set of world ranks, such as the ranks that have a segment or share a multicast object. */
#ifndef SYMM_RANK_SET_H
#define SYMM_RANK_SET_H

#include <stdbool.h>
#include <stdint.h>
#include <symm/types.h>

struct symm_rank_set {
    uint64_t bits[(SYMM_MAX_RANKS + 63) / 64];
};

static inline void symm__rank_set_add(struct symm_rank_set *s, int rank)
{
    s->bits[rank / 64] |= UINT64_C(1) << (rank % 64);
}

static inline struct symm_rank_set symm__rank_set(int n, const int *ranks)
{
    struct symm_rank_set s = {{0}};
    for (int i = 0; i < n; i++)
        symm__rank_set_add(&s, ranks[i]);
    return s;
}

static inline bool symm__rank_set_has(struct symm_rank_set s, int rank)
{
    return s.bits[rank / 64] >> (rank % 64) & 1;
}

static inline bool symm__rank_set_empty(struct symm_rank_set s)
{
    return !s.bits[0] && !s.bits[1];
}

static inline void symm__rank_set_clear(struct symm_rank_set *s)
{
    *s = (struct symm_rank_set){{0}};
}

/* Removes the rank. Returns whether the set is then empty. */
static inline bool symm__rank_set_remove(struct symm_rank_set *s, int rank)
{
    s->bits[rank / 64] &= ~(UINT64_C(1) << (rank % 64));
    return symm__rank_set_empty(*s);
}

/* Whether every rank of `few` is in `many`. */
static inline bool symm__rank_set_within(struct symm_rank_set few, struct symm_rank_set many)
{
    return !(few.bits[0] & ~many.bits[0]) && !(few.bits[1] & ~many.bits[1]);
}

static inline bool symm__rank_set_equal(struct symm_rank_set a, struct symm_rank_set b)
{
    return a.bits[0] == b.bits[0] && a.bits[1] == b.bits[1];
}

#endif
