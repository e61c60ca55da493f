/*
 * Proves that one knows a key without sending it: SipHash-2-4 with 128 bits, a keyed hash of short
 * messages (Aumasson and Bernstein, 2012).
 */
#ifndef SYMM_PROOF_H
#define SYMM_PROOF_H

#include <stddef.h>
#include <stdint.h>

void symm__proof(const uint8_t key[16], const void *bytes, size_t nbytes, uint8_t out[16]);

#endif
