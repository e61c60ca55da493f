/*
 * The first bytes of both ends of a wire: who speaks, and the proof that it knows the key. Pure
 * apart from the random numbers.
 *
 * Each end begins with a magic, its version and 16 random bytes. The connecting end then proves the
 * key, and the listening end answers with its own proof. A proof is a keyed hash of the prover's
 * role and both challenges, so it fits no other connection, and cannot be sent back to its sender.
 */
#ifndef SYMM_HANDSHAKE_H
#define SYMM_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/status.h"

enum {
    SYMM_CHALLENGE_BYTES = 16,
    SYMM_PROOF_BYTES = 16,
    SYMM_PREFACE_BYTES = 8 + 4 + SYMM_CHALLENGE_BYTES,            /* magic, version, challenge */
    SYMM_HANDSHAKE_BYTES = SYMM_PREFACE_BYTES + SYMM_PROOF_BYTES, /* all bytes of one end */
};

/* The first byte of a proof's text. */
enum symm_handshake_role { SYMM_HANDSHAKE_LISTENS = 'L', SYMM_HANDSHAKE_CONNECTS = 'C' };

struct symm_handshake {
    enum symm_handshake_role role; /* of this end */
    uint8_t key[16];
    uint8_t out[SYMM_HANDSHAKE_BYTES]; /* what this end sends, out[0] to out[nout - 1] so far */
    size_t nout;
    uint8_t in[SYMM_HANDSHAKE_BYTES]; /* what the other end has sent */
    size_t nin;
};

/* Draws the challenge and begins `out`. Errors: ERROR_SYSTEM */
symm_status symm__handshake_begin(struct symm_handshake *h, enum symm_handshake_role role,
                                  const uint8_t key[16]);

/*
 * Takes n more bytes, which lie behind the first nin of `in`; they may add to `out`. Texts are
 * about the other end.
 * Errors: ERROR_VERSION; ERROR_ARGUMENT: it is no symm, or does not know the key
 */
symm_status symm__handshake_take(struct symm_handshake *h, size_t n);
bool symm__handshake_done(const struct symm_handshake *h); /* after OK only: the key is proved */

#endif
