/* SipHash-2-4 with 128 bits, after the definition in the paper and its authors' longer variant. */
#include "proof.h"

#include <endian.h>
#include <string.h>

struct state {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void mix_rounds(struct state *s, int n)
{
    for (int i = 0; i < n; i++) {
        s->v0 += s->v1;
        s->v2 += s->v3;
        s->v1 = rotate(s->v1, 13) ^ s->v0;
        s->v3 = rotate(s->v3, 16) ^ s->v2;
        s->v0 = rotate(s->v0, 32);
        s->v2 += s->v1;
        s->v0 += s->v3;
        s->v1 = rotate(s->v1, 17) ^ s->v2;
        s->v3 = rotate(s->v3, 21) ^ s->v0;
        s->v2 = rotate(s->v2, 32);
    }
}

static void mix_word(struct state *s, uint64_t word)
{
    s->v3 ^= word;
    mix_rounds(s, 2);
    s->v0 ^= word;
}

/* At most 8 little-endian bytes; the missing ones are 0. */
static uint64_t load(const uint8_t *bytes, size_t nbytes)
{
    uint64_t word = 0;

    memcpy(&word, bytes, nbytes);
    return le64toh(word);
}

static void store_end(struct state *s, uint8_t out[8])
{
    uint64_t word;

    mix_rounds(s, 4);
    word = htole64(s->v0 ^ s->v1 ^ s->v2 ^ s->v3);
    memcpy(out, &word, sizeof word);
}

void symm__proof(const uint8_t key[16], const void *bytes, size_t nbytes, uint8_t out[16])
{
    const uint64_t k0 = load(key, 8), k1 = load(key + 8, 8);
    const size_t tail = nbytes % 8;
    const uint8_t *at = bytes, *end = at + (nbytes - tail);
    /* "somepseudorandomlygeneratedbytes"; 0xee marks the variant of 128 bits. */
    struct state s = {k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
                      k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573)};

    for (; at < end; at += 8)
        mix_word(&s, load(at, 8));
    mix_word(&s, (uint64_t)nbytes << 56 | load(at, tail));
    s.v2 ^= 0xee;
    store_end(&s, out);
    s.v1 ^= 0xdd;
    store_end(&s, out + 8);
}
