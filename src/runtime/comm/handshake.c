/* Magic, version, challenges and proofs. */
#include "handshake.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include "proof.h"

enum { MAGIC_BYTES = 8, CHALLENGE_AT = MAGIC_BYTES + 4 };

static const uint8_t magic[MAGIC_BYTES] = {'s', 'y', 'm', 'm', '-', 't', 'c', 'p'};

symm_status symm__handshake_begin(struct symm_handshake *h, enum symm_handshake_role role,
                                  const uint8_t key[16])
{
    const uint32_t version = htole32(SYMM_VERSION);

    *h = (struct symm_handshake){.role = role, .nout = SYMM_PREFACE_BYTES};
    memcpy(h->key, key, sizeof h->key);
    memcpy(h->out, magic, MAGIC_BYTES);
    memcpy(h->out + MAGIC_BYTES, &version, sizeof version);
    if (getrandom(h->out + CHALLENGE_AT, SYMM_CHALLENGE_BYTES, 0) != SYMM_CHALLENGE_BYTES)
        return symm__fail_errno(errno, "getrandom");
    return SYMM_OK;
}

/* The proof of the end with this role. */
static void compute_proof(const struct symm_handshake *h, enum symm_handshake_role role,
                          uint8_t proof[SYMM_PROOF_BYTES])
{
    const bool listens = h->role == SYMM_HANDSHAKE_LISTENS;
    uint8_t text[1 + 2 * SYMM_CHALLENGE_BYTES] = {(uint8_t)role};

    memcpy(text + 1, (listens ? h->out : h->in) + CHALLENGE_AT, SYMM_CHALLENGE_BYTES);
    memcpy(text + 1 + SYMM_CHALLENGE_BYTES, (listens ? h->in : h->out) + CHALLENGE_AT,
           SYMM_CHALLENGE_BYTES);
    symm__proof(h->key, text, sizeof text, proof);
}

static void add_proof(struct symm_handshake *h)
{
    compute_proof(h, h->role, h->out + h->nout);
    h->nout += SYMM_PROOF_BYTES;
}

/* Compares in constant time. */
static bool is_proved(const struct symm_handshake *h)
{
    const uint8_t *theirs = h->in + SYMM_PREFACE_BYTES;
    uint8_t expected[SYMM_PROOF_BYTES];
    unsigned differ = 0;

    compute_proof(
        h, h->role == SYMM_HANDSHAKE_LISTENS ? SYMM_HANDSHAKE_CONNECTS : SYMM_HANDSHAKE_LISTENS,
        expected);
    for (int i = 0; i < SYMM_PROOF_BYTES; i++)
        differ |= (unsigned)(expected[i] ^ theirs[i]);
    return !differ;
}

symm_status symm__handshake_take(struct symm_handshake *h, size_t n)
{
    const size_t before = h->nin;
    uint32_t version;

    h->nin += n;
    if (memcmp(h->in, magic, h->nin < MAGIC_BYTES ? h->nin : MAGIC_BYTES))
        return symm__fail(SYMM_ERROR_ARGUMENT, "is no symm");
    if (h->nin < CHALLENGE_AT)
        return SYMM_OK;
    memcpy(&version, h->in + MAGIC_BYTES, sizeof version);
    version = le32toh(version);
    if (version != SYMM_VERSION)
        return symm__fail(SYMM_ERROR_VERSION, "is symm %u, this is %u", version, SYMM_VERSION);
    if (h->role == SYMM_HANDSHAKE_CONNECTS && before < SYMM_PREFACE_BYTES &&
        h->nin >= SYMM_PREFACE_BYTES)
        add_proof(h);
    if (!symm__handshake_done(h))
        return SYMM_OK;
    if (!is_proved(h))
        return symm__fail(SYMM_ERROR_ARGUMENT, "has not proved that it knows the token");
    /* A process without the key has learnt no proof by now. */
    if (h->role == SYMM_HANDSHAKE_LISTENS)
        add_proof(h);
    return SYMM_OK;
}

bool symm__handshake_done(const struct symm_handshake *h)
{
    return h->nin == SYMM_HANDSHAKE_BYTES;
}
